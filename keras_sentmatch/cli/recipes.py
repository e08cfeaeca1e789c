"""The recipe that the options of `train`, `tune` and `audit` make."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from keras_sentmatch.cli.options import option
from keras_sentmatch.errors import InputError

if TYPE_CHECKING:
    from keras_sentmatch.training.recipe import RecipeDraft


@dataclass
class RecipeOptions:
    """The options that change a model's recipe."""

    recipe: Annotated[
        Path | None, option("A TOML file with values that replace those of the model's recipe.")
    ] = None
    setting: Annotated[
        list[str] | None,
        option(
            "Change the recipe: training.learning_rate=1e-4, model.units=50, … Repeatable.",
            "--set",
            metavar="KEY=VALUE",
        ),
    ] = None
    epochs: Annotated[int | None, option("Maximum number of epochs. Default: the recipe's.")] = None
    seed: Annotated[int | None, option("Random seed. Default: the recipe's.")] = None

    def draft(self, name: str, **values: Any) -> "RecipeDraft":
        """Return the recipe; `values` are `vectors`, `backbone` and `teacher`, if they were given."""
        from keras_sentmatch.applications import get_model_class
        from keras_sentmatch.applications.backbone import BackboneModel
        from keras_sentmatch.training.recipe import known_spelling, read_recipe

        model: str = known_spelling(name)
        backbone, teacher = values.get("backbone"), values.get("teacher")
        if backbone is not None and not issubclass(get_model_class(model), BackboneModel):
            raise InputError(f"--backbone is {backbone}, but {model} has no pretrained backbone.")
        keys: dict[str, Any] = {
            "vectors.source": values.get("vectors"),
            "training.epochs": self.epochs,
            "training.seed": self.seed,
            "model.backbone": backbone and json.dumps(_absolute(backbone)),
            "training.teacher": teacher and json.dumps([_absolute(run) for run in teacher]),
        }
        given = [f"{key}={value}" for key, value in keys.items() if value is not None]
        return read_recipe(model, file=self.recipe, overrides=[*(self.setting or []), *given])


def default_folder(parent: str, model: str, data: str) -> Path:
    """Return the folder of a run or a search without `--out`."""
    return Path(parent) / f"{model}-{data}-{time.strftime('%Y%m%d-%H%M%S')}"


def _absolute(name: str) -> str:
    """Return the absolute path of a file or folder, so that the recipe works everywhere."""
    path = Path(name).expanduser()
    return str(path.resolve()) if path.exists() else name
