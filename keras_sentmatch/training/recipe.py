"""Recipes: what to train and how, as TOML.

A recipe has four tables: `[model]` (arguments of the model), `[encoder]`, `[vectors]` and
`[training]`, and may have `[for.DATA.…]` tables with the values that differ on one data set. Later
ones win: the defaults below, the recipe that comes with the model, its `[for.DATA]`, the tables of
one's own file, its `[for.DATA]`, `--set` on the command line.
"""

import difflib
import importlib.resources
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keras_sentmatch.errors import InputError
from keras_sentmatch.safety import check_depth, read_bytes
from keras_sentmatch.training.toml_text import to_toml

OPTIMIZERS = ("adadelta", "adagrad", "adam", "adamw", "rmsprop", "sgd")
POLICIES = ("float32", "mixed_float16", "mixed_bfloat16")
FEATURES = ("word", "char", "pos", "antonym")
SCHEDULES = ("constant", "cosine_warm_up_decay", "linear_warm_up_decay", "exponential")
POOLINGS = ("mean", "first", "cls")
MONITORS = ("accuracy", "macro_f1", "f1", "map", "mrr", "pearson", "spearman", "loss")


@dataclass(frozen=True)
class Key:
    """One key of a table: its default (None: leave it to the class it goes to), and what is
    allowed."""

    default: Any
    allowed: str
    test: Callable[[Any], bool]


def _integer(default: int | None, low: int) -> Key:
    def test(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and value >= low

    return Key(default, f"an integer of at least {low}", test)


def _number(default: float, allowed: str, test: Callable[[float], bool]) -> Key:
    def check(value: Any) -> bool:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and math.isfinite(value) and test(value)

    return Key(default, allowed, check)


def _one_of(default: Any, *values: Any) -> Key:
    names = ", ".join(str(v).lower() if isinstance(v, bool) else f'"{v}"' for v in values)
    return Key(
        default, f"one of {names}", lambda v: any(type(v) is type(a) and v == a for a in values)
    )


def _text(default: str | None, allowed: str) -> Key:
    return Key(default, allowed, lambda value: isinstance(value, str) and bool(value))


_FEATURE_LIST = Key(
    None,
    f"a list of some of {', '.join(FEATURES)}",
    lambda v: isinstance(v, list | tuple) and bool(v) and all(item in FEATURES for item in v),
)
_FOLDERS = Key(
    [],
    "a list of run folders",
    lambda v: isinstance(v, list | tuple) and all(isinstance(item, str) and item for item in v),
)
KEYS: dict[str, dict[str, Key]] = {
    "encoder": {
        "tokenizer": _text(None, 'the name of a tokenizer, such as "words"'),
        "lowercase": _one_of(None, True, False),
        "max_length": _integer(None, 1),
        "max_word_length": _integer(None, 1),
        "features": _FEATURE_LIST,
        "antonyms": _text(None, '"auto", "wordnet", or the path of a file of word pairs'),
        "tagger": _text(None, '"auto" or "spacy:PIPELINE"'),
        "min_count": _integer(None, 1),
        "max_size": _integer(None, 1),
    },
    "vectors": {
        "source": _text("none", '"none", the path of a vector file, or "encoder:NAME"'),
        "dim": _integer(300, 1),
        "layer": Key(
            -1, 'the number of a layer, or "mean"', lambda v: v == "mean" or type(v) is int
        ),
        "pooling": _one_of("mean", *POOLINGS),
        "center": _one_of(True, True, False),
        "scale": _number(5.0, "a number of at least 0 (0: as long as they are)", lambda v: v >= 0),
        "frequency_weighting": _one_of(False, True, False),
        "sif": _number(0.0, "a number of at least 0 (0: off)", lambda v: v >= 0),
    },
    "training": {
        "optimizer": _one_of("adam", *OPTIMIZERS),
        "learning_rate": _number(1e-3, "a number above 0", lambda v: v > 0),
        "batch_size": _integer(64, 1),
        "epochs": _integer(30, 1),
        "patience": _integer(5, 1),
        "monitor": _one_of("auto", "auto", *(f"val_{name}" for name in MONITORS)),
        "plateau_factor": _number(1.0, "a number above 0, at most 1", lambda v: 0 < v <= 1),
        "schedule": _one_of("constant", *SCHEDULES),
        "warm_up": _number(0.05, "a number of at least 0, below 1", lambda v: 0 <= v < 1),
        "decay_rate": _number(0.95, "a number above 0, at most 1", lambda v: 0 < v <= 1),
        "decay_steps": _integer(1000, 1),
        "clipnorm": _number(0.0, "a number of at least 0 (0: no clipping)", lambda v: v >= 0),
        "global_clipnorm": _number(
            0.0, "a number of at least 0 (0: no clipping)", lambda v: v >= 0
        ),
        "weight_decay": _number(0.0, "a number of at least 0", lambda v: v >= 0),
        "backbone_learning_rate": _number(
            0.0, "a number of at least 0 (0: the learning_rate)", lambda v: v >= 0
        ),
        "accumulate": _integer(1, 1),
        "teacher": _FOLDERS,
        "distil_weight": _number(0.5, "a number from 0 to 1", lambda v: 0 <= v <= 1),
        "distil_temperature": _number(2.0, "a number above 0", lambda v: v > 0),
        "dtype_policy": _one_of("float32", *POLICIES),
        "seed": Key(
            0, "an integer from 0 to 4294967295", lambda v: type(v) is int and 0 <= v < 2**32
        ),
        "jit_compile": _one_of("auto", "auto", True, False),
        "devices": _integer(1, 1),
    },
}
TABLES = ("model", *KEYS)
# What a preset may say, but the data and the vectors decide
FROM_DATA = (
    "vocabulary_size",
    "num_classes",
    "embedding_dim",
    "char_vocabulary_size",
    "max_word_length",
    "pos_tags",
    "antonym",
)


@dataclass
class Recipe:
    """What to train and how.

    Args:
        name: Name of the model, as `keras_sentmatch.applications.build_model` takes it.
        model: Further arguments of the model. In a file or an override `preset = "NAME"` stands for
            the values of that preset; what follows from the data is left out.
        encoder: Arguments of `PairEncoder.fit`.
        vectors: `source` and `dim` of the word vectors; of extracted ones `layer`, `pooling`,
            `center`, `scale`, `frequency_weighting` and `sif`, as `extract_vectors` takes them.
        training: `optimizer`, `learning_rate`, `batch_size`, `epochs`, `patience` (epochs without a
            better monitored value before training stops), `monitor` ("auto": val_accuracy, val_map
            or val_pearson by task), `plateau_factor` (times the learning rate after each epoch
            without a better value; 1 never), `schedule` of the learning rate ("constant";
            "cosine_warm_up_decay" and "linear_warm_up_decay", which warm up over the share
            `warm_up` of all batches; "exponential", times `decay_rate` every `decay_steps`
            batches), `clipnorm` (of each variable's gradient, as in Keras; 0 none) or
            `global_clipnorm` (of all together), `weight_decay` of AdamW (not of biases and norms),
            `backbone_learning_rate` (of what came from a pretrained encoder; 0 the same),
            `accumulate` (batches an update), `dtype_policy`, `seed`, `jit_compile`, `devices` (that
            a batch is shared out among); `teacher` (run folders), `distil_weight` (share of the
            teacher in the loss), `distil_temperature`.

    Raises:
        InputError: An unknown key, a value that is not allowed, or values that exclude each other.

    Example:

    ```python
    from keras_sentmatch.training import Recipe

    Recipe("drcn", training={"epochs": 3}).training["learning_rate"]  # 0.001
    ```
    """

    name: str
    model: dict[str, Any] = field(default_factory=dict)
    encoder: dict[str, Any] = field(default_factory=dict)
    vectors: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for table, keys in KEYS.items():
            values = getattr(self, table)
            for key, value in values.items():
                _check(table, key, value, f"recipe {self.name!r}")
            defaults = {key: k.default for key, k in keys.items() if k.default is not None}
            setattr(self, table, {**defaults, **values})
        for complaint in self._complaints():
            raise InputError(f"recipe {self.name!r}: {complaint}")

    def _complaints(self) -> Iterator[str]:
        """What does not go together."""
        settings, backbone = self.training, self.model.get("backbone")
        schedule, factor = settings["schedule"], settings["plateau_factor"]
        if schedule != "constant" and factor < 1:
            yield (
                f"training.schedule is {schedule!r} and training.plateau_factor is {factor}: both would set the learning "
                'rate. Set training.plateau_factor=1 or training.schedule="constant".'
            )
        if settings["clipnorm"] and settings["global_clipnorm"]:
            yield (
                f"training.clipnorm is {settings['clipnorm']} and training.global_clipnorm is "
                f"{settings['global_clipnorm']}: set one of them to 0."
            )
        for key in ("weight_decay", "backbone_learning_rate"):
            if settings[key] and settings["optimizer"] != "adamw":
                yield (
                    f"training.{key} is {settings[key]}, which training.optimizer {settings['optimizer']!r} does not "
                    f'have: set training.optimizer="adamw" (without weight_decay it is Adam), or training.{key}=0.'
                )
        if backbone is None:
            if settings["backbone_learning_rate"]:
                yield (
                    f"training.backbone_learning_rate is {settings['backbone_learning_rate']}, but the model has no "
                    "pretrained encoder (model.backbone): set it to 0."
                )
            return
        of_words = [f"encoder.{key}" for key in self.encoder if key != "max_length"]
        if of_words:
            yield (
                f"{', '.join(of_words)}: a model with a pretrained encoder reads the encoder's own word pieces, so of "
                "[encoder] it takes max_length only. Leave the others out."
            )
        if self.vectors["source"] != "none":
            yield (
                f"vectors.source is {self.vectors['source']!r}, but a model with a pretrained encoder "
                f"({backbone}) takes no word vectors: leave --vectors out."
            )

    def to_toml(self) -> str:
        """The recipe as TOML, every default written out; `load_recipe(name, file=…)` reads it
        back."""
        tables = {table: getattr(self, table) for table in TABLES}
        return to_toml({"name": self.name, **{k: v for k, v in tables.items() if v}})


def list_recipes() -> list[str]:
    """Names of the recipes that come with the library."""
    return sorted(path.name[:-5] for path in _folder().iterdir() if path.name.endswith(".toml"))


def load_recipe(
    model: str,
    data_name: str | None = None,
    *,
    file: str | Path | None = None,
    overrides: Sequence[str] = (),
) -> Recipe:
    """The recipe of a model for a data set.

    Args:
        model: Name of the model. One without a recipe of its own starts from the defaults if `file`
            is given.
        data_name: Name of the data; its `[for.NAME]` tables apply, if there are any.
        file: A TOML file whose values replace the recipe's.
        overrides: `"TABLE.KEY=VALUE"`, VALUE as in TOML; quotes around a string may be left out.

    Returns:
        A checked `Recipe`.

    Raises:
        InputError: No such recipe, bad TOML (with file and line), an unknown key, a value that is
            not allowed.

    Example:

    ```python
    from keras_sentmatch.training import load_recipe

    load_recipe("drcn", "snli", overrides=["training.epochs=2"]).training["epochs"]  # 2
    ```
    """
    merged: dict[str, dict[str, Any]] = {table: {} for table in TABLES}
    if model in list_recipes():
        packaged = _folder() / f"{model}.toml"
        _merge(merged, packaged.read_text("utf-8"), packaged.name, model, data_name)
    elif file is None:
        raise InputError(
            f"There is no recipe for {model!r}; there are recipes for {', '.join(list_recipes())}."
            f"{_near(model, list_recipes())} Or give one of your own by file=… (--recipe FILE)."
        )
    if file is not None:
        try:
            text = read_bytes(Path(file), "JSON_BYTES").decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"Cannot read the recipe {file}: {error}.") from error
        _merge(merged, text, str(file), model, data_name)
    own: dict[str, dict[str, Any]] = {table: {} for table in TABLES}
    for override in overrides:
        table, key, value = _override(override)
        own[table][key] = value
    _update(merged, own, model)
    return Recipe(model, **merged)


def _folder() -> Any:
    return importlib.resources.files("keras_sentmatch.training") / "recipes"


def _merge(
    merged: dict[str, dict[str, Any]], text: str, where: str, model: str, data_name: str | None
) -> None:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at line (\d+), column \d+\)", str(error))
        line = place[1] if place else str(text.count("\n") + 1)
        reason = re.sub(r" \(at .*\)", "", str(error))
        raise InputError(f"{where}:{line}: not valid TOML: {reason}.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not valid TOML: {error}.") from error
    check_depth(content, where)
    name = content.pop("name", model)
    if name != model:
        raise InputError(f"{where} is a recipe of {name!r}, but the model asked for is {model!r}.")
    special = content.pop("for", {})
    if not isinstance(special, dict):
        raise InputError(f"{where}: `for` must hold tables, such as [for.snli.encoder].")
    found = {"": content, **{f"for.{data}.": tables for data, tables in special.items()}}
    for prefix, tables in found.items():  # every table is checked, also those of other data
        _check_tables(tables, prefix, text, where)
    for tables in (content, special.get(data_name, {})):
        _update(merged, tables, model)


def _update(
    merged: dict[str, dict[str, Any]], tables: dict[str, dict[str, Any]], model: str
) -> None:
    """Puts `tables` over `merged`; a preset of the model stands for its values, under those beside it."""
    for table, values in tables.items():
        if table == "model" and "preset" in values:
            from keras_sentmatch.applications import get_model_class

            presets = get_model_class(model).presets
            name = values["preset"]
            if name not in presets:
                raise InputError(
                    f"{model} has no preset {name!r}; it has {', '.join(presets)}.{_near(str(name), presets)}"
                )
            rest = {k: v for k, v in values.items() if k != "preset"}
            values = {k: v for k, v in presets[name].items() if k not in FROM_DATA} | rest
        merged[table].update(values)


def _check_tables(tables: Any, prefix: str, text: str, where: str) -> None:
    if not isinstance(tables, dict):
        raise InputError(f"{where}: [{prefix.rstrip('.')}] must hold tables.")
    for table, values in tables.items():
        if table not in TABLES:
            raise InputError(
                f"{where}{_line(text, prefix.rstrip('.'), table)}: unknown {prefix}{table}; "
                f"a recipe has the tables {', '.join(TABLES)} and for.DATA.TABLE."
                f"{_near(table, TABLES)}"
            )
        if not isinstance(values, dict):
            raise InputError(f"{where}: {prefix}{table} must be a table: write [{prefix}{table}].")
        for key, value in values.items():
            _check(table, key, value, f"{where}{_line(text, prefix + table, key)}")


def _check(table: str, key: str, value: Any, where: str) -> None:
    keys = KEYS.get(table)
    if keys is None:  # [model]: the model's own arguments, checked when it is built
        return
    if key not in keys:
        raise InputError(
            f"{where}: unknown key {table}.{key}; allowed: {', '.join(keys)}.{_near(key, keys)}"
        )
    if not keys[key].test(value):
        raise InputError(f"{where}: {table}.{key} is {value!r}; expected {keys[key].allowed}.")


def _override(override: str) -> tuple[str, str, Any]:
    name, equals, text = override.partition("=")
    table, dot, key = name.strip().partition(".")
    if not (equals and dot and key and table in TABLES):
        homes = [f"{t}.{table}" for t, keys in KEYS.items() if table in keys]
        hint = f" Did you mean {homes[0]}={text}?" if homes else ""
        raise InputError(
            f"Cannot set {override!r}; expected TABLE.KEY=VALUE with TABLE one of "
            f"{', '.join(TABLES)}, such as training.learning_rate=1e-4.{hint}"
        )
    text = text.strip()
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        value = text  # a string without quotes
    _check(table, key, value, f"{override!r}")
    return table, key, value


def _line(text: str, header: str, key: str) -> str:
    """ ":LINE" of a key (or a table) of the file, where it stands in the plain form; else
    nothing."""
    current = ""
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line):
            current = match[1]
            if current == f"{header}.{key}".lstrip("."):
                return f":{number}"
        elif current == header and re.match(rf"\s*\"?{re.escape(key)}\"?\s*=", line):
            return f":{number}"
    return ""


def _near(name: str, known: Any) -> str:
    close = difflib.get_close_matches(name, list(known), n=2)
    return f" Did you mean {' or '.join(close)}?" if close else ""
