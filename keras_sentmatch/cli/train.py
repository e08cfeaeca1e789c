"""`train`: from a data source and a recipe to a run folder, and the figures beside a baseline's."""

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_sentmatch.cli.backend import BackendOption, use_backend
from keras_sentmatch.cli.catalog import has_backbone
from keras_sentmatch.cli.console import print_table, say
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
    data: Annotated[
        str,
        typer.Option(help="A name of `keras-sentmatch datasets`, a folder, or a file of pairs."),
    ] = "embedded",
    recipe: Annotated[
        Path | None, typer.Option(help="A TOML file whose values replace the model's recipe.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Change the recipe: training.learning_rate=1e-4, …"
        ),
    ] = None,
    vectors: Annotated[
        str | None,
        typer.Option(help="Word vectors: a file, distil:ENCODER, or none. Default: the recipe's."),
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option(
            help="The pretrained encoder of a model that has one: a KerasHub preset, or a folder with "
            "a KerasHub or Hugging Face BERT or RoBERTa. Default: the recipe's."
        ),
    ] = None,
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
    limit: Annotated[int | None, typer.Option(help="Use only so many training pairs.")] = None,
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
    overrides = list(setting or [])
    for key, value in (
        ("vectors.source", vectors),
        ("model.backbone", None if backbone is None else json.dumps(absolute_name(backbone))),
        (
            "training.teacher",
            json.dumps([absolute_name(run) for run in teacher]) if teacher else None,
        ),
        ("training.epochs", epochs),
        ("training.batch_size", batch_size),
        ("training.seed", seed),
    ):
        if value is not None:
            overrides.append(f"{key}={value}")
    use_backend(backend)
    from keras_sentmatch import training
    from keras_sentmatch.applications import get_model_class
    from keras_sentmatch.data.hub import encoder_name
    from keras_sentmatch.run_folder import members_of, read_card
    from keras_sentmatch.training import load_recipe

    if backbone is not None and not has_backbone(get_model_class(model)):
        raise InputError(f"--backbone {backbone}: {model} reads words, not with an encoder.")
    # Wrong ones stop here, before any reading.
    chosen = load_recipe(model, file=recipe, overrides=overrides)
    if "backbone" in chosen.model:
        encoder_name(chosen.model["backbone"])
    for run in chosen.training["teacher"]:
        for folder in members_of(Path(run)):
            read_card(folder)
    if unlabelled and not chosen.training["teacher"]:
        raise InputError(f"--unlabelled {unlabelled}: only a --teacher can answer these pairs.")
    source = Source(data, format, columns, on_error)
    splits = source.splits()
    if "train" not in splits:
        raise InputError(f"{data} has no train part to learn from; it has {', '.join(splits)}.")
    if limit is not None:
        splits["train"] = splits["train"].limit(limit)
        say(f"limited to {len(splits['train']):,} training pairs")
    further: dict[str, Any] = {"resume": resume, "info": {"source": source.facts()}}
    if unlabelled:
        two = ",".join(columns.split(",")[:2]) if columns else None
        further["unlabelled"] = Source(unlabelled, columns=two, on_error=on_error).rows()
    name = splits["train"].name or "pairs"
    out = out or Path("runs") / f"{model}-{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    plan = load_recipe(model, name, file=recipe, overrides=overrides)
    first = plan.training["seed"]
    numbers = range(first, first + seeds)
    try:
        if seeds == 1:
            metrics = training.train(plan, splits, out, **further).metrics
            interrupted, table = metrics["interrupted"], _figures(metrics)
        else:
            report = training.train_ensemble(plan, splits, out, numbers, **further)[1]
            first_run = out / f"seed-{report['seeds'][0]}"
            metrics = json.loads((first_run / "metrics.json").read_text(encoding="utf-8"))
            interrupted, table = report["interrupted"], _ensemble_figures(report, metrics)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    print_table(*table, f"{model} on {name} ({metrics['backend']})")
    without = metrics["parameters_without_word_embeddings"]
    print(f"{metrics['parameters']:,} parameters, {without:,} of them not word embeddings")
    print(f"run folder: {out}")
    if interrupted:
        raise typer.Exit(130)


def absolute_name(name: str) -> str:
    """The whole path of what is a folder here, so that a recipe can be used elsewhere; else the name."""
    path = Path(name).expanduser()
    return str(path.resolve()) if path.exists() else name


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
