"""Recipes: what to train and how, as TOML.

A recipe has four tables: `[model]` (arguments of the model), `[encoder]`, `[vectors]` and
`[training]`. `[for.DATA.TABLE]` has values for one data set. Later values win, in this order: the
defaults, the model's packaged recipe, its `[for.DATA]`, the user's file, its `[for.DATA]`, the
overrides (`--set`).
"""

import contextlib
import importlib.resources
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import tomli_w

from keras_sentmatch.data.formats import FORMATS, OWN
from keras_sentmatch.errors import InputError, wording
from keras_sentmatch.safety import check_depth, read_bytes
from keras_sentmatch.training.config import (
    CONFIGS,
    EncoderConfig,
    TrainingConfig,
    VectorsConfig,
    did_you_mean,
)

TABLES = ("model", *CONFIGS)
# Settings of packaged recipes that are chosen by the number of pairs for a user's own data.
AUTO = dict.fromkeys(("epochs", "patience", "batch_size", "folds", "init"), "auto")
Tables = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Recipe:
    """What to train and how.

    Args:
        name: Name of the model, as in `keras_sentmatch.applications.build_model`.
        model: Arguments of the model, without those that follow from the data.
        encoder: How sentences are read.
        vectors: Where the word vectors come from.
        training: How the model is trained.

    Raises:
        InputError: Two values exclude each other.

    Example:

    ```python
    from keras_sentmatch.training import Recipe

    Recipe.from_tables("drcn", training={"epochs": 3}).training.learning_rate  # 0.001
    ```
    """

    name: str
    model: dict[str, Any] = field(default_factory=dict)
    encoder: EncoderConfig = EncoderConfig()
    vectors: VectorsConfig = VectorsConfig()
    training: TrainingConfig = TrainingConfig()

    def __post_init__(self) -> None:
        for conflict in self._conflicts():
            raise InputError(f"recipe {self.name!r}: {conflict}")

    @classmethod
    def from_tables(cls, name: str, **tables: Mapping[str, Any]) -> "Recipe":
        """Make a recipe from plain mappings, as TOML has them: any of the four tables.

        Raises:
            InputError: A key is unknown, a value is not allowed, or two values exclude each other.
        """
        configs: dict[str, Any] = {}
        for table, config in CONFIGS.items():
            values = tables.get(table, {})
            for key, value in values.items():
                config.check(key, value, f"recipe {name!r}")
            configs[table] = config(**values)
        return cls(name, dict(tables.get("model", {})), **configs)

    def tables(self) -> dict[str, dict[str, Any]]:
        """Return the four tables as plain mappings, with every default that is not None."""
        configs = {table: getattr(self, table).values() for table in CONFIGS}
        return {"model": dict(self.model), **configs}

    def to_toml(self) -> str:
        """Return the recipe as TOML, with every default; `load_recipe(name, file=…)` reads it back."""
        tables = {table: values for table, values in self.tables().items() if values}
        try:
            return tomli_w.dumps({"name": self.name, **tables})
        except TypeError as error:
            raise InputError(
                f"TOML cannot hold a value of {self.model!r}. Expected strings, numbers, true/false, "
                "and lists or tables of these. Leave an argument out for its default."
            ) from error

    def with_training(self, **values: Any) -> "Recipe":
        """Return a copy with other values in `[training]`."""
        return replace(self, training=replace(self.training, **values))

    def _conflicts(self) -> Iterator[str]:
        training, backbone = self.training, self.model.get("backbone")
        if training.schedule != "constant" and training.plateau_factor < 1:
            yield (
                f"training.plateau_factor is {training.plateau_factor}, but training.schedule "
                f"{training.schedule!r} sets the learning rate too. Set training.plateau_factor=1 or "
                'training.schedule="constant".'
            )
        if training.clipnorm and training.global_clipnorm:
            yield "training.clipnorm and training.global_clipnorm exclude each other. Set one to 0."
        for key in ("weight_decay", "backbone_learning_rate"):
            if getattr(training, key) and training.optimizer != "adamw":
                yield (
                    f"the optimizer {training.optimizer!r} does not support training.{key}. Set "
                    f'training.optimizer="adamw", or training.{key}=0.'
                )
        if backbone is None:
            if training.backbone_learning_rate:
                yield (
                    "training.backbone_learning_rate needs a model with a pretrained backbone "
                    "(model.backbone). Set it to 0."
                )
            return
        if unused := [f"encoder.{key}" for key in self.encoder.values() if key != "max_length"]:
            yield (
                f"{', '.join(unused)} cannot be set: a model with a pretrained backbone reads the "
                "backbone's word pieces. Set only encoder.max_length."
            )
        if self.vectors.source not in ("auto", "none"):
            yield (
                f"vectors.source is {self.vectors.source!r}, but a model with a pretrained backbone "
                f"({backbone}) uses no word vectors. Leave out --vectors (vectors.source)."
            )


@dataclass(frozen=True)
class RecipeDraft:
    """A recipe that is read and checked, for a data set that is not known yet."""

    model: str
    # The tables of each source and those of its `[for.DATA]`, in rising priority.
    layers: tuple[tuple[Tables, Mapping[str, Tables]], ...]
    packaged: bool  # whether the first layer comes with the library: its sizes suit known data

    def for_data(self, data_name: str | None) -> Recipe:
        """Return the recipe for a data set, with its `[for.DATA]` tables if there are any."""
        merged: dict[str, dict[str, Any]] = {table: {} for table in TABLES}
        known_names = set(FORMATS) - set(OWN) | {"embedded", None}
        own = data_name not in known_names
        for number, (tables, for_data) in enumerate(self.layers):
            for part in (tables, for_data.get(data_name or "", {})):
                for table, values in part.items():
                    known = values if table != "model" else _with_preset(self.model, values)
                    merged[table].update(known)
                if number == 0 and part is tables and own and "backbone" not in merged["model"]:
                    merged["training"].update(AUTO if self.packaged else {})
        return Recipe.from_tables(self.model, **merged)


def list_recipes() -> list[str]:
    """Return the names of the recipes that come with the library."""
    return sorted(path.name[:-5] for path in _folder().iterdir() if path.name.endswith(".toml"))


def load_recipe(
    model: str,
    data_name: str | None = None,
    *,
    file: str | Path | None = None,
    overrides: Sequence[str] = (),
) -> Recipe:
    """Load the recipe of a model for a data set.

    Args:
        model: Name of the model. A model without a packaged recipe starts from the defaults if
            `file` is given.
        data_name: Name of the data. Its `[for.NAME]` tables apply, if there are any.
        file: TOML file whose values replace the recipe's. In its `[model]`, `preset = "NAME"`
            stands for the values of that preset.
        overrides: `"TABLE.KEY=VALUE"`, with VALUE as in TOML; a string needs no quotes.

    Returns:
        A checked `Recipe`.

    Raises:
        InputError: The recipe does not exist, its TOML is invalid, a key is unknown, or a value is
            not allowed.

    Example:

    ```python
    from keras_sentmatch.training import load_recipe

    load_recipe("drcn", "snli", overrides=["training.epochs=2"]).training.epochs  # 2
    ```
    """
    return read_recipe(model, file=file, overrides=overrides).for_data(data_name)


def read_recipe(
    model: str, *, file: str | Path | None = None, overrides: Sequence[str] = ()
) -> RecipeDraft:
    """Load a recipe as `load_recipe` does, before the data set is known."""
    model = known_spelling(model)
    layers = []
    if model in list_recipes():
        packaged = _folder() / f"{model}.toml"
        layers.append(_parse(packaged.read_text("utf-8"), packaged.name, model))
    elif file is None:
        layers.append(_parse(_default_recipe(model), "the default recipe", model))
    if file is not None:
        try:
            text = read_bytes(Path(file), "JSON_BYTES").decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"Cannot read the recipe {file}: {error}.") from error
        layers.append(_parse(text, str(file), model))
    changes: dict[str, dict[str, Any]] = {}
    for override in overrides:
        table, key, value = _parse_override(override)
        changes.setdefault(table, {})[key] = value
    ours = file is None or model in list_recipes()
    return RecipeDraft(model, (*layers, (changes, {})), ours)


def known_spelling(model: str) -> str:
    """Return the name of a recipe or model that is spelled in another way: "RE2", "DRr-Net"."""
    from keras_sentmatch.applications import list_models

    def plain(name: str) -> str:
        return re.sub("[-_ ]", "", name).lower()

    known: dict[str, str] = {plain(name): name for name in (*list_models(), *list_recipes())}
    return known.get(plain(model), model)


def _default_recipe(model: str) -> str:
    """Return the recipe of a model without a packaged one."""
    from keras_sentmatch.applications import get_model_class, list_models

    if model not in list_models():
        raise InputError(
            f"There is no model {model!r}.{did_you_mean(model, list_models())} Use one of "
            f"{', '.join(list_models())}, or give a recipe with "
            f"{wording('file=…', '--recipe FILE')}."
        )
    if "backbone" in get_model_class(model).arguments():
        return ""
    return '[encoder]\nfeatures = ["word"]\n'


def _folder() -> Traversable:
    return importlib.resources.files("keras_sentmatch.training") / "recipes"


def _parse(text: str, place: str, model: str) -> tuple[Tables, Mapping[str, Tables]]:
    """Return the tables of a TOML text and those under `[for]`, all checked."""
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: not valid TOML: {error}.") from error
    check_depth(content, place)
    name = content.pop("name", model)
    if name != model:
        raise InputError(
            f"{place} is a recipe of {name!r}, but the model is {model!r}. Name the model {name!r}."
        )
    for_data = content.pop("for", {})
    if not isinstance(for_data, dict):
        raise InputError(
            f"{place}: `for` holds no tables. Expected tables such as [for.snli.encoder]."
        )
    _check_tables(content, "", place)
    for data, tables in for_data.items():
        _check_tables(tables, f"for.{data}.", place)
    return content, for_data


def _check_tables(tables: Any, prefix: str, place: str) -> None:
    if not isinstance(tables, dict):
        raise InputError(f"{place}: [{prefix.rstrip('.')}] must hold tables.")
    for table, values in tables.items():
        if table not in TABLES:
            raise InputError(
                f"{place}: unknown table {prefix}{table}.{did_you_mean(table, TABLES)} The tables "
                f"of a recipe are {', '.join(TABLES)} and for.DATA.TABLE."
            )
        if not isinstance(values, dict):
            raise InputError(f"{place}: {prefix}{table} is no table. Write [{prefix}{table}].")
        if table != "model":  # the model checks its own arguments when it is built
            for key, value in values.items():
                CONFIGS[table].check(key, value, f"{place} [{prefix}{table}]")


def _with_preset(model: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `[model]` with the values of its `preset`; values next to it win."""
    if "preset" not in values:
        return values
    from keras_sentmatch.applications import get_model_class
    from keras_sentmatch.applications.hyperparameters import DATA_ARGUMENTS

    presets, name = get_model_class(model).presets, values["preset"]
    if name not in presets:
        raise InputError(
            f"{model} has no preset {name!r}.{did_you_mean(str(name), presets)} Its presets are "
            f"{', '.join(presets)}."
        )
    preset = {key: value for key, value in presets[name].items() if key not in DATA_ARGUMENTS}
    return preset | {key: value for key, value in values.items() if key != "preset"}


def _parse_override(override: str) -> tuple[str, str, Any]:
    name, equals, text = override.partition("=")
    table, dot, key = name.strip().partition(".")
    if not (equals and dot and key and table in TABLES):
        owners = [c.table for c in CONFIGS.values() if table in c.keys()]
        hint = f" Did you mean {owners[0]}.{table}={text}?" if owners else ""
        raise InputError(
            f"Cannot set {override!r}.{hint} Expected TABLE.KEY=VALUE with TABLE one of "
            f"{', '.join(TABLES)}, such as training.learning_rate=1e-4."
        )
    value: Any = text.strip()
    with contextlib.suppress(ValueError, RecursionError):  # else a string without quotes
        value = tomllib.loads(f"value = {value}")["value"]
    if table != "model":
        CONFIGS[table].check(key, value, f"{override!r}")
    return table, key, value
