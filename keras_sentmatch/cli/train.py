"""`train`: from data and a recipe to a run folder, with metrics beside those of a baseline."""

from pathlib import Path
from typing import Annotated, Any

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.backend import use_backend
from keras_sentmatch.cli.console import print_table
from keras_sentmatch.cli.recipes import checked_recipe, default_folder, overrides_of
from keras_sentmatch.cli.sources import Source
from keras_sentmatch.errors import InputError


def train(
    model: options.Model = "drcn",
    data: options.TrainingData = "embedded",
    recipe: options.Recipe = None,
    setting: options.Set = None,
    vectors: options.Vectors = None,
    backbone: options.Backbone = None,
    teacher: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RUN",
            help="Learn from the answers of this run too; repeat to learn from the mean of several.",
        ),
    ] = None,
    unlabeled: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="More pairs, which only the teacher answers."),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="The largest number of epochs. Default: the recipe's.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Pairs per batch. Default: the recipe's.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Default: the recipe's.")] = None,
    seeds: Annotated[
        int, typer.Option(help="Train this many models, and answer with their mean probability.")
    ] = 1,
    limit: options.Limit = None,
    out: Annotated[
        Path | None, typer.Option(help="Run folder. Default: runs/MODEL-DATA-TIME.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Continue the unfinished run in --out; give all else as at its start."
        ),
    ] = False,
    format: options.Format = None,
    columns: options.Columns = None,
    on_error: options.OnBadRow = options.OnError.RAISE,
    backend: options.Backend = None,
) -> None:
    """Trains a matcher. Without arguments: a small one on generated pairs, in about two minutes."""
    for option, number in (("--seeds", seeds), ("--limit", limit)):
        if number is not None and number < 1:
            raise InputError(f"{option} {number}: must be at least 1.")
    if resume and out is None:
        raise InputError("--resume needs --out: the folder of the run to continue.")
    values = {
        "vectors.source": vectors,
        "training.epochs": epochs,
        "training.batch_size": batch_size,
        "training.seed": seed,
    }
    overrides = overrides_of(setting, values, backbone, teacher)
    use_backend(backend)
    from keras_sentmatch import training
    from keras_sentmatch.inference.run_folder import read_json

    draft = checked_recipe(model, recipe, overrides, backbone)
    if unlabeled and not draft.for_data(None).training.teacher:
        raise InputError(f"--unlabeled {unlabeled}: only a --teacher can answer these pairs.")
    source = Source(data, format, columns, on_error)
    splits = source.training_splits(limit)
    further: dict[str, Any] = {"resume": resume, "info": {"source": source.facts()}}
    if unlabeled:
        two = ",".join(columns.split(",")[:2]) if columns else None
        further["unlabeled"] = Source(unlabeled, columns=two, on_error=on_error).rows()
    name = splits["train"].name or "pairs"
    out = out or default_folder("runs", model, name)
    plan = draft.for_data(name)
    first = plan.training.seed
    try:
        if seeds == 1:
            metrics = training.train(plan, splits, out, **further).metrics
            interrupted, table = metrics["interrupted"], _metrics(metrics)
        else:
            numbers = range(first, first + seeds)
            report = training.train_ensemble(plan, splits, out, numbers, **further)[1]
            metrics = read_json(out / f"seed-{report['seeds'][0]}" / "metrics.json")
            interrupted, table = report["interrupted"], _ensemble_metrics(report, metrics)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    print_table(*table, f"{model} on {name} ({metrics['backend']})")
    without = metrics["parameters_without_word_embeddings"]
    print(f"{metrics['parameters']:,} parameters, {without:,} of them not word embeddings")
    print(f"run folder: {out}")
    if interrupted:
        raise typer.Exit(130)


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
