"""What `train` and `tune` share: the recipe that their options make."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_sentmatch.errors import InputError

if TYPE_CHECKING:
    from keras_sentmatch.training.recipe import RecipeDraft


def overrides_of(
    setting: list[str] | None,
    values: dict[str, Any],
    backbone: str | None = None,
    teacher: list[str] | None = None,
) -> list[str]:
    """What the options change in a recipe: `--set`, then the `values` that are not None."""
    values = dict(values)
    if backbone is not None:
        values["model.backbone"] = json.dumps(_absolute(backbone))
    if teacher:
        values["training.teacher"] = json.dumps([_absolute(run) for run in teacher])
    return [*(setting or []), *(f"{k}={v}" for k, v in values.items() if v is not None)]


def checked_recipe(
    model: str, file: Path | None, overrides: list[str], backbone: str | None
) -> "RecipeDraft":
    """The recipe, checked as far as it can be before the data is read."""
    from keras_sentmatch.applications import BackboneModel, get_model_class
    from keras_sentmatch.data.hub import encoder_name
    from keras_sentmatch.inference.run_folder import members_of, read_card
    from keras_sentmatch.training import read_recipe

    if backbone is not None and not issubclass(get_model_class(model), BackboneModel):
        raise InputError(f"--backbone {backbone}: {model} has no pretrained encoder.")
    draft = read_recipe(model, file=file, overrides=overrides)
    chosen = draft.for_data(None)
    if "backbone" in chosen.model:
        encoder_name(chosen.model["backbone"])
    for run in chosen.training.teacher:
        for folder in members_of(Path(run)):
            read_card(folder)
    return draft


def default_folder(parent: str, model: str, data: str) -> Path:
    """Where a run or a search goes if `--out` does not say."""
    return Path(parent) / f"{model}-{data}-{time.strftime('%Y%m%d-%H%M%S')}"


def _absolute(name: str) -> str:
    """The absolute path, if this is a path, so that the recipe works in any folder."""
    path = Path(name).expanduser()
    return str(path.resolve()) if path.exists() else name
