"""`train`: from data and a recipe to a run folder, with metrics next to those of a baseline."""

from pathlib import Path
from typing import Annotated, Any

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.backend import use_backend
from keras_sentmatch.cli.console import next_step, print_table, say
from keras_sentmatch.cli.recipes import RecipeOptions, default_folder
from keras_sentmatch.cli.sources import TrainingData
from keras_sentmatch.errors import InputError


def train(
    recipe: RecipeOptions,
    source: TrainingData,
    model: options.Model = "hybrid",
    vectors: Annotated[
        str | None,
        typer.Option(
            help="Word vectors: a file, encoder:NAME, table, auto or none. Default: the recipe's."
        ),
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option(
            help="Pretrained backbone: a KerasHub preset, a folder of KerasHub or Hugging Face, or "
            "hf://USER/NAME. Default: the recipe's."
        ),
    ] = None,
    positives: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Pairs that all match, instead of --data. Pairs that do not match are made from "
            "their sentences.",
        ),
    ] = None,
    teacher: Annotated[
        list[str] | None,
        typer.Option(metavar="RUN", help="Also learn from this run's predictions. Repeatable."),
    ] = None,
    seeds: Annotated[
        int, typer.Option(help="Number of models to train; the ensemble predicts their mean.")
    ] = 1,
    crossval: Annotated[
        int | None,
        typer.Option(
            metavar="FOLDS",
            help="Cross-validate instead: train without each fold, and measure on that fold.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Run folder. Default: runs/MODEL-DATA-TIME; of --crossval crossval/MODEL-DATA-TIME."
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Continue the unfinished run in --out, with the same options."
        ),
    ] = False,
    backend: options.Backend = None,
) -> None:
    """Train a matcher. Without options: a small one on generated pairs, in about two minutes."""
    options.check_at_least(1, seeds=seeds)
    options.check_at_least(2, crossval=crossval)
    if resume and out is None:
        raise InputError("--resume needs --out, the folder of the run to continue.")
    if crossval is not None and (positives is not None or seeds > 1):
        raise InputError("--crossval cannot be combined with --positives or --seeds.")
    use_backend(backend)
    from keras_sentmatch import training
    from keras_sentmatch.inference.run_folder import read_json

    draft = recipe.draft(model, vectors, backbone, teacher)
    model = draft.model
    if crossval is not None:
        _cross_validate(draft, source, crossval, out, resume)
        return
    splits, name, facts = source.read(positives)
    further: dict[str, Any] = {"resume": resume, "info": facts}
    out = out or default_folder("runs", model, name)
    plan = draft.for_data(name)
    first = plan.training.seed
    if seeds == 1:
        metrics = training.train(plan, splits, out, **further).metrics
        interrupted, table = metrics["interrupted"], _metrics(metrics)
    else:
        numbers = range(first, first + seeds)
        report = training.train_ensemble(plan, splits, out, numbers, **further)[1]
        metrics = read_json(out / f"seed-{report['seeds'][0]}" / "metrics.json")
        interrupted, table = report["interrupted"], _ensemble_metrics(report, metrics)
    print_table(*table, f"{model} on {name} ({metrics['backend']})")
    for split, classes in (metrics.get("classes", {}) if metrics.get("rare") else {}).items():
        names = [name for name in classes[0] if name != "answers"]
        rows = [[row[name] for name in names] for row in classes]
        print_table(names, rows, f"each class, {split}")
    without = metrics["parameters_without_word_embeddings"]
    say(f"{metrics['parameters']:,} parameters, {without:,} of them not word embeddings")
    say(f"run folder: {out}")
    for note in metrics["notes"]:
        say(note)
    if interrupted:
        raise typer.Exit(130)
    sentences = "--sentence1", "A dog runs.", "--sentence2", "An animal moves."
    next_step("predict", out, *sentences, why="predict a pair")


def _cross_validate(
    draft: Any, source: TrainingData, folds: int, out: Path | None, resume: bool
) -> None:
    from keras_sentmatch.training import cross_validate

    pairs = source.read_all()
    name = pairs.name or "pairs"
    out = out or default_folder("crossval", draft.model, name)
    report = cross_validate(draft.for_data(name), pairs, out, folds=folds, resume=resume)
    test, baseline = report["test"], report.get("baseline", {}).get("mean", {})
    rows = [
        [name, mean, test["sd"][name], test["standard_error"][name], baseline.get(name)]
        for name, mean in test["mean"].items()
    ]
    columns = ["metric", "mean", "sd", "standard error", "bag of words"]
    print_table(columns, rows, f"{draft.model} on {name}, {folds} folds ({report['backend']})")
    say(f"written: {out / 'crossval.json'}")
    given = (part for pair in source.given_reading().items() for part in pair)
    next_step("train", draft.model, "--data", source.data, *given, why="train on all pairs")


Table = tuple[list[str], list[list[Any]]]


def _metrics(metrics: dict[str, Any]) -> Table:
    """Each metric on validation and test pairs, next to that of the bag-of-words baseline."""
    baseline = metrics.get("baseline", {})
    columns = {}
    for split in ("validation", "test"):
        for name, found in ((split, metrics), (f"{split}, bag of words", baseline)):
            if split in found:
                columns[name] = found[split]
    names = [name for name in columns["validation"] if name != "primary"]
    rows = [[name, *(column.get(name) for column in columns.values())] for name in names]
    return ["metric", *columns], rows


def _ensemble_metrics(report: dict[str, Any], metrics: dict[str, Any]) -> Table:
    """Mean and standard deviation of each metric over the seeds, and the ensemble's own value."""
    rows = []
    for split in ("validation", "test"):
        part = report.get(split, {})
        baseline = metrics.get("baseline", {}).get(split, {})
        for name, mean in part.get("mean", {}).items():
            sd = part.get("sd", {}).get(name)  # a single seed, after Ctrl-C, has none
            rows.append(
                [f"{split} {name}", mean, sd, part["ensemble"].get(name), baseline.get(name)]
            )
    return ["metric", "mean of seeds", "sd", "ensemble", "bag of words"], rows
