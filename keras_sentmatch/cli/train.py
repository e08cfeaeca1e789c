"""`train`: from a data source and a recipe to a run folder, and the figures beside a baseline's."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_sentmatch.cli.backend import BackendOption, use_backend
from keras_sentmatch.cli.console import print_table
from keras_sentmatch.cli.plans import (
    BackboneOption,
    LimitOption,
    RecipeOption,
    SetOption,
    TrainingDataOption,
    VectorsOption,
    checked_recipe,
    overrides_of,
    training_splits,
)
from keras_sentmatch.cli.sources import (
    ColumnsOption,
    FormatOption,
    OnError,
    OnErrorOption,
    Source,
)
from keras_sentmatch.errors import InputError


def train(
    model: Annotated[str, typer.Argument(help="A name of `keras-sentmatch models`.")] = "drcn",
    data: TrainingDataOption = "embedded",
    recipe: RecipeOption = None,
    setting: SetOption = None,
    vectors: VectorsOption = None,
    backbone: BackboneOption = None,
    teacher: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RUN",
            help="Learn from the answers of this run too; of several the mean counts.",
        ),
    ] = None,
    unlabelled: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Further pairs, which only the teacher answers."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Most epochs. Default: the recipe's.")] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Pairs a batch. Default: the recipe's.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed. Default: the recipe's.")] = None,
    seeds: Annotated[
        int, typer.Option(help="Train so many models, and answer with their mean probability.")
    ] = 1,
    limit: LimitOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Run folder. Default: runs/MODEL-DATA-TIME.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with the unfinished run in --out; all else as it was begun."
        ),
    ] = False,
    format: FormatOption = None,
    columns: ColumnsOption = None,
    on_error: OnErrorOption = OnError.RAISE,
    backend: BackendOption = None,
) -> None:
    """Trains a matcher. Without arguments: a small one on generated pairs, in about two minutes."""
    for option, number in (("--seeds", seeds), ("--limit", limit)):
        if number is not None and number < 1:
            raise InputError(f"{option} {number}: at least 1 is needed.")
    if resume and out is None:
        raise InputError("--resume needs --out: the folder of the run to go on with.")
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

    # Wrong ones stop here, before any reading.
    draft = checked_recipe(model, recipe, overrides, backbone)
    if unlabelled and not draft.for_data(None).training.teacher:
        raise InputError(f"--unlabelled {unlabelled}: only a --teacher can answer these pairs.")
    source = Source(data, format, columns, on_error)
    splits = training_splits(source, limit)
    further: dict[str, Any] = {"resume": resume, "info": {"source": source.facts()}}
    if unlabelled:
        two = ",".join(columns.split(",")[:2]) if columns else None
        further["unlabelled"] = Source(unlabelled, columns=two, on_error=on_error).rows()
    name = splits["train"].name or "pairs"
    out = out or Path("runs") / f"{model}-{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    plan = draft.for_data(name)
    first = plan.training.seed
    numbers = range(first, first + seeds)
    try:
        if seeds == 1:
            metrics = training.train(plan, splits, out, **further).metrics
            interrupted, table = metrics["interrupted"], _figures(metrics)
        else:
            report = training.train_ensemble(plan, splits, out, numbers, **further)[1]
            first_run = out / f"seed-{report['seeds'][0]}"
            metrics = read_json(first_run / "metrics.json")
            interrupted, table = report["interrupted"], _ensemble_figures(report, metrics)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    print_table(*table, f"{model} on {name} ({metrics['backend']})")
    without = metrics["parameters_without_word_embeddings"]
    print(f"{metrics['parameters']:,} parameters, {without:,} of them not word embeddings")
    print(f"run folder: {out}")
    if interrupted:
        raise typer.Exit(130)


Table = tuple[list[str], list[list[Any]]]


def _figures(metrics: dict[str, Any]) -> Table:
    """Each figure on validation and test pairs, beside the bag-of-words baseline's."""
    baseline = metrics.get("baseline", {})
    columns = {}
    for split in ("validation", "test"):
        for name, figures in ((split, metrics), (f"{split}, bag of words", baseline)):
            if split in figures:
                columns[name] = figures[split]
    names = [name for name in columns["validation"] if name != "primary"]
    rows = [[name, *(column.get(name) for column in columns.values())] for name in names]
    return ["figure", *columns], rows


def _ensemble_figures(report: dict[str, Any], metrics: dict[str, Any]) -> Table:
    """Each figure's mean and standard deviation over the seeds, the ensemble's, the baseline's."""
    rows = []
    for split in ("validation", "test"):
        part = report.get(split, {})
        baseline = metrics.get("baseline", {}).get(split, {})
        for name, mean in part.get("mean", {}).items():
            together = part["ensemble"].get(name)
            sd = part.get("sd", {}).get(name)  # one seed, after Ctrl-C, has none
            rows.append([f"{split} {name}", mean, sd, together, baseline.get(name)])
    return ["figure", "mean of seeds", "sd", "ensemble", "bag of words"], rows
