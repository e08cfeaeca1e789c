"""The recipe that the options of `train`, `tune` and `audit` make."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keras_sentmatch.cli.options import name_code
from keras_sentmatch.errors import InputError

if TYPE_CHECKING:
    from keras_sentmatch.training.recipe import RecipeDraft


@dataclass
class RecipeOptions:
    """The options that change a model's recipe."""

    recipe: Annotated[
        Path | None,
        typer.Option(help="A TOML file with values that replace those of the model's recipe."),
    ] = None
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change the recipe: training.learning_rate=1e-4, model.units=50, … Repeatable.",
        ),
    ] = None
    epochs: Annotated[
        int | None, typer.Option(help="Maximum number of epochs. Default: the recipe's.")
    ] = None
    seed: Annotated[int | None, typer.Option(help="Random seed. Default: the recipe's.")] = None

    def draft(
        self,
        model: str,
        vectors: str | None = None,
        backbone: str | None = None,
        teacher: list[str] | None = None,
    ) -> "RecipeDraft":
        """Return the recipe, checked as far as possible before the data is read."""
        from keras_sentmatch.applications import get_model_class
        from keras_sentmatch.applications.backbone import BackboneModel
        from keras_sentmatch.inference.run_folder import is_packaged, members_of, read_card
        from keras_sentmatch.text.backbones import backbone_name
        from keras_sentmatch.training.recipe import known_spelling, read_recipe

        if ".py:" in model:
            model = own_model(model)
        model = known_spelling(model)
        if backbone is not None and not issubclass(get_model_class(model), BackboneModel):
            raise InputError(f"--backbone is {backbone}, but {model} has no pretrained backbone.")
        values: dict[str, Any] = {
            "vectors.source": vectors,
            "training.epochs": self.epochs,
            "training.seed": self.seed,
            "model.backbone": backbone and json.dumps(_absolute(backbone)),
            "training.teacher": teacher and json.dumps([_absolute(run) for run in teacher]),
        }
        given = [f"{key}={value}" for key, value in values.items() if value is not None]
        draft = read_recipe(model, file=self.recipe, overrides=[*(self.setting or []), *given])
        chosen = draft.for_data(None)
        get_model_class(chosen.name).check_arguments(chosen.model)
        if "backbone" in chosen.model:
            backbone_name(chosen.model["backbone"])
        for run in (chosen.training.first_run, *chosen.training.teacher):
            for folder in members_of(Path(run)) if run else ():
                if not is_packaged(folder):
                    read_card(folder)
        return draft


def own_model(text: str) -> str:
    """Return the name of the model FILE.py:CLASS. Further processes also load the file."""
    from keras_sentmatch.applications import get_model_class
    from keras_sentmatch.applications.registry import load_models

    file, _, name = text.rpartition(":")
    found = {get_model_class(model).__name__: model for model in load_models(file)}
    if name not in found:
        raise InputError(f"{text}: {file} has no model {name!r}. It has {', '.join(found)}.")
    name_code([file])
    return found[name]


def default_folder(parent: str, model: str, data: str) -> Path:
    """Return the folder of a run or a search without `--out`."""
    return Path(parent) / f"{model}-{data}-{time.strftime('%Y%m%d-%H%M%S')}"


def _absolute(name: str) -> str:
    """Return the absolute path of a file or folder, so that the recipe works everywhere."""
    path = Path(name).expanduser()
    return str(path.resolve()) if path.exists() else name
