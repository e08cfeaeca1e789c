"""What `train` and `tune` share: options that make a recipe, its checks, and the parts to learn from."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_sentmatch.cli.catalog import has_backbone
from keras_sentmatch.cli.console import say
from keras_sentmatch.cli.sources import Source
from keras_sentmatch.errors import InputError

TrainingDataOption = Annotated[
    str, typer.Option(help="A name of `keras-sentmatch datasets`, a folder, or a file of pairs.")
]
RecipeOption = Annotated[
    Path | None, typer.Option(help="A TOML file whose values replace the model's recipe.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change the recipe: training.learning_rate=1e-4, …"
    ),
]
VectorsOption = Annotated[
    str | None,
    typer.Option(help="Word vectors: a file, encoder:NAME, or none. Default: the recipe's."),
]
BackboneOption = Annotated[
    str | None,
    typer.Option(
        help="The pretrained encoder of a model that has one: a KerasHub preset, or a folder with "
        "a KerasHub or Hugging Face BERT or RoBERTa. Default: the recipe's."
    ),
]
LimitOption = Annotated[int | None, typer.Option(help="Use only so many training pairs.")]


def overrides_of(
    setting: list[str] | None,
    values: dict[str, Any],
    backbone: str | None = None,
    teacher: list[str] | None = None,
) -> list[str]:
    """What the options change in a recipe: `--set`, then `values` by key, of which None changes nothing."""
    values = dict(values)
    if backbone is not None:
        values["model.backbone"] = json.dumps(_absolute(backbone))
    if teacher:
        values["training.teacher"] = json.dumps([_absolute(run) for run in teacher])
    return [*(setting or []), *(f"{k}={v}" for k, v in values.items() if v is not None)]


def checked_recipe(
    model: str, file: Path | None, overrides: list[str], backbone: str | None
) -> Any:
    """The recipe before the data are known; what is wrong with it stops here, before any reading."""
    from keras_sentmatch.applications import get_model_class
    from keras_sentmatch.data.hub import encoder_name
    from keras_sentmatch.inference.run_folder import members_of, read_card
    from keras_sentmatch.training import read_recipe

    if backbone is not None and not has_backbone(get_model_class(model)):
        raise InputError(f"--backbone {backbone}: {model} reads words, not with an encoder.")
    draft = read_recipe(model, file=file, overrides=overrides)
    chosen = draft.for_data(None)
    if "backbone" in chosen.model:
        encoder_name(chosen.model["backbone"])
    for run in chosen.training.teacher:
        for folder in members_of(Path(run)):
            read_card(folder)
    return draft


def training_splits(source: Source, limit: int | None) -> dict[str, Any]:
    """The parts of a source, of which one must be there to learn from; `limit` cuts that one."""
    splits = source.splits()
    if "train" not in splits:
        raise InputError(
            f"{source.data} has no train part to learn from; it has {', '.join(splits)}."
        )
    if limit is not None:
        splits["train"] = splits["train"].limit(limit)
        say(f"limited to {len(splits['train']):,} training pairs")
    return splits


def _absolute(name: str) -> str:
    """The whole path of what is a folder here, so that a recipe can be used elsewhere; else the name."""
    path = Path(name).expanduser()
    return str(path.resolve()) if path.exists() else name
