"""What `train` and `tune` share: the recipe that their options make."""

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
        typer.Option(help="A TOML file whose values replace those of the model's recipe."),
    ] = None
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Change the recipe: training.learning_rate=1e-4, …"
        ),
    ] = None
    vectors: Annotated[
        str | None,
        typer.Option(
            help="Word vectors: a file, encoder:NAME, table, auto or none. Default: the recipe's."
        ),
    ] = None
    backbone: Annotated[
        str | None,
        typer.Option(
            help="The pretrained encoder of a model that has one: a KerasHub preset, a folder with "
            "a KerasHub or Hugging Face encoder (BERT, RoBERTa, XLM-RoBERTa, ALBERT, DistilBERT, "
            "ELECTRA, DeBERTa-v3), or hf://USER/NAME. Default: the recipe's."
        ),
    ] = None
    init: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Begin with the weights of this run, of the same model; `similarity`, for RE2 and "
            "hybrid: of the package's matcher; `none`: new ones. Default: the recipe's.",
        ),
    ] = None
    epochs: Annotated[
        int | None, typer.Option(help="The largest number of epochs. Default: the recipe's.")
    ] = None
    seed: Annotated[
        int | None, typer.Option(help="Seed of the training or the search. Default: the recipe's.")
    ] = None

    def draft(
        self,
        model: str,
        batch_size: int | None = None,
        teacher: list[str] | None = None,
        augment: list[str] | None = None,
        lexicon: list[str] | None = None,
    ) -> "RecipeDraft":
        """The recipe, checked as far as it can be before the data is read."""
        from keras_sentmatch.applications import BackboneModel, get_model_class
        from keras_sentmatch.inference.run_folder import is_packaged, members_of, read_card
        from keras_sentmatch.text.backbones import backbone_name
        from keras_sentmatch.training.recipe import known_spelling, read_recipe

        if ".py:" in model:
            model = own_model(model)
        model = known_spelling(model)
        if self.backbone is not None and not issubclass(get_model_class(model), BackboneModel):
            raise InputError(f"--backbone {self.backbone}: {model} has no pretrained encoder.")
        values: dict[str, Any] = {
            "vectors.source": self.vectors,
            "training.epochs": self.epochs,
            "training.batch_size": batch_size,
            "training.seed": self.seed,
            "model.backbone": self.backbone and json.dumps(_absolute(self.backbone)),
            "training.init": self.init and json.dumps(_absolute(self.init)),
            "training.teacher": teacher and json.dumps([_absolute(run) for run in teacher]),
            "training.augment": augment and json.dumps(augment),
            "training.lexicon": lexicon and json.dumps(lexicon),
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
    """The name of the model that FILE.py:CLASS names; further processes know the file, too."""
    from keras_sentmatch.applications import get_model_class, load_models

    file, _, name = text.rpartition(":")
    found = {get_model_class(model).__name__: model for model in load_models(file)}
    if name not in found:
        raise InputError(f"{text}: {file} has no model {name!r}; it has {', '.join(found)}.")
    name_code([file])
    return found[name]


def default_folder(parent: str, model: str, data: str) -> Path:
    """Where a run or a search goes if `--out` does not say."""
    return Path(parent) / f"{model}-{data}-{time.strftime('%Y%m%d-%H%M%S')}"


def _absolute(name: str) -> str:
    """The absolute path, if this is a path, so that the recipe works in any folder."""
    path = Path(name).expanduser()
    return str(path.resolve()) if path.exists() else name
