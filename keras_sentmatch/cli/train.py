"""`train`: from data and a recipe to a run folder, with metrics beside those of a baseline."""

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
    teacher: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RUN",
            help="Learn from the answers of this run too; repeat to learn from the mean of several.",
        ),
    ] = None,
    augment: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Make further training pairs by a transformation of `report`, with the label "
            "that they have; repeat for more, such as SwapAnt, NumWord and AppendIrr.",
        ),
    ] = None,
    lexicon: options.Lexicon = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Pairs per batch. Default: the recipe's.")
    ] = None,
    seeds: Annotated[
        int, typer.Option(help="Train this many models, and answer with their mean probability.")
    ] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Run folder. Default: runs/MODEL-DATA-TIME.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Continue the unfinished run in --out; give all else as at its start."
        ),
    ] = False,
    backend: options.Backend = None,
) -> None:
    """Trains a matcher. Without arguments: a small one on generated pairs, in about two minutes."""
    options.check_at_least(1, seeds=seeds)
    if resume and out is None:
        raise InputError("--resume needs --out: the folder of the run to continue.")
    use_backend(backend)
    from keras_sentmatch import training
    from keras_sentmatch.inference.run_folder import read_json

    draft = recipe.draft(model, batch_size, teacher, augment, lexicon)
    model = draft.model
    splits, name, facts = source.read()
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
    next_step("predict", out, *sentences, why="answer a pair")


Table = tuple[list[str], list[list[Any]]]


def _metrics(metrics: dict[str, Any]) -> Table:
    """Each metric on validation and test pairs, beside that of the bag-of-words baseline."""
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
