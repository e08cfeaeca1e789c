"""`train`: from data and a recipe to a run folder, with metrics next to those of a baseline."""

from pathlib import Path
from typing import Annotated, Any

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.backend import use_backend
from keras_sentmatch.cli.catalog import check_model
from keras_sentmatch.cli.console import next_step, print_table, say
from keras_sentmatch.cli.options import option
from keras_sentmatch.cli.recipes import RecipeOptions, default_folder
from keras_sentmatch.cli.sources import TrainingData, example_of
from keras_sentmatch.errors import InputError

Table = tuple[list[str], list[list[Any]]]


def train(
    recipe: RecipeOptions,
    source: TrainingData,
    model: options.Model = "hybrid",
    vectors: Annotated[
        str | None,
        option("Word vectors: a file, encoder:NAME, table, auto or none. Default: the recipe's."),
    ] = None,
    backbone: Annotated[
        str | None, option("Pretrained backbone: a KerasHub preset, a folder, or hf://USER/NAME.")
    ] = None,
    teacher: Annotated[
        list[str] | None,
        option("Also learn from this run's predictions. Repeatable.", metavar="RUN"),
    ] = None,
    seeds: Annotated[
        int, option("Number of models to train; the ensemble predicts their mean.", min=1)
    ] = 1,
    crossval: Annotated[
        int | None,
        option(
            "Cross-validate instead: train without each fold, and measure on that fold.",
            metavar="FOLDS",
            min=2,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        option(
            "Run folder. Default: runs/MODEL-DATA-TIME; with --crossval crossval/MODEL-DATA-TIME."
        ),
    ] = None,
    resume: Annotated[
        bool, option("Continue the unfinished run in --out, with the same options.", "--resume")
    ] = False,
    backend: options.Backend = None,
) -> None:
    """Train a matcher. Without options: a small one on generated pairs, in about a minute."""
    if resume and out is None:
        raise InputError("--resume needs --out, the folder of the run to continue.")
    if crossval is not None and seeds > 1:
        raise InputError("--crossval cannot be combined with --seeds.")
    if out is not None and not resume and (out / "matcher.json").is_file():
        raise InputError(f"{out} already holds a finished run. Name another folder, or delete it.")
    check_model(model, recipe.recipe)
    read: Any = source.read() if crossval is None else source.read_all()
    use_backend(backend)
    draft = recipe.draft(model, vectors=vectors, backbone=backbone, teacher=teacher)
    if crossval is not None:
        _cross_validate(draft, source, read, crossval, out, resume)
        return
    from keras_sentmatch import training
    from keras_sentmatch.inference.run_folder import read_json

    splits, name = read
    further: dict[str, Any] = {"resume": resume, "info": {"source": source.source.facts()}}
    model, plan = draft.model, draft.for_data(name)
    out = out or default_folder("runs", model, name)
    if seeds == 1:
        metrics = training.train(plan, splits, out, **further).metrics
        interrupted, table = metrics["interrupted"], _metrics(metrics)
    else:
        numbers = range(plan.training.seed, plan.training.seed + seeds)
        _, report = training.train_ensemble(plan, splits, out, numbers, **further)
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
    one, two = example_of(splits["train"])
    sentences = "--sentence1", one, "--sentence2", two
    next_step("predict", out, *sentences, why="predict a pair")


def _cross_validate(
    draft: Any, source: TrainingData, parts: Any, folds: int, out: Path | None, resume: bool
) -> None:
    from keras_sentmatch.training import cross_validate
    from keras_sentmatch.training.training_data import joined

    pairs = source.limited(parts[0] if len(parts) == 1 else joined(*parts))
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
    how = "--data", source.data, *source.given()
    next_step("train", draft.model, *how, why="train on all pairs")


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
