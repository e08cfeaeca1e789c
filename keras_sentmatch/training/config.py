"""The tables `[encoder]`, `[vectors]` and `[training]` of a recipe, as checked dataclasses."""

import difflib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

from keras_sentmatch.errors import InputError

OPTIMIZERS = ("adadelta", "adagrad", "adam", "adamw", "rmsprop", "sgd")
POLICIES = ("float32", "mixed_float16", "mixed_bfloat16")
FEATURES = ("word", "char", "pos", "antonym")
SCHEDULES = (
    "constant",
    "cosine_warm_up_decay",
    "released_warm_up_decay",
    "linear_warm_up_decay",
    "exponential",
)
CLASS_F1 = "val_f1:"  # and the name of a label
MONITORS = {  # by task, the default first
    "classification": ("val_accuracy", "val_macro_f1", "val_loss"),
    "ranking": ("val_map", "val_mrr", "val_accuracy", "val_loss"),
    "regression": ("val_pearson", "val_spearman", "val_loss"),
}


def _setting(default: Any, allowed: str, test: Callable[[Any], bool]) -> Any:
    """Return a field with the values it allows, in words and as a test. It may also be None."""
    return field(default=default, metadata={"allowed": allowed, "test": test})


def _integer(default: int | None, low: int, high: float = math.inf, auto: bool = False) -> Any:
    allowed = f"an integer of at least {low}"
    if high < math.inf:
        allowed = f"an integer from {low} to {high}"
    allowed += ', or "auto"' if auto else ""

    def check(value: Any) -> bool:
        return (type(value) is int and low <= value <= high) or (auto and value == "auto")

    return _setting(default, allowed, check)


def _number(default: float, allowed: str, test: Callable[[float], bool], auto: bool = False) -> Any:
    def check(value: Any) -> bool:
        is_good = type(value) in (int, float) and math.isfinite(value) and test(value)
        return is_good or (auto and value == "auto")

    return _setting(default, f"a number {allowed}" + (', or "auto"' if auto else ""), check)


def _one_of(default: Any, *values: Any) -> Any:
    names = ", ".join(str(v).lower() if isinstance(v, bool) else f'"{v}"' for v in values)
    allowed = [(type(value), value) for value in values]
    return _setting(default, f"one of {names}", lambda v: (type(v), v) in allowed)


def _text(default: str | None, allowed: str) -> Any:
    return _setting(default, allowed, lambda v: isinstance(v, str) and bool(v))


def _is_class_weight(value: Any) -> bool:
    if isinstance(value, dict):
        weights = [type(v) in (int, float) and math.isfinite(v) and v >= 0 for v in value.values()]
        return bool(value) and all(weights)
    return value in ("none", "balanced")


_MONITORS = ("auto", *dict.fromkeys(name for names in MONITORS.values() for name in names))


def _is_monitor(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    of_label = value.startswith(CLASS_F1) and value != CLASS_F1
    return of_label or value in _MONITORS


def _are_names(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(v, str) and v for v in value)


def _names(allowed: str, default: tuple[str, ...] = ()) -> Any:
    return _setting(default, allowed, _are_names)


@dataclass(frozen=True)
class _Table:
    table: ClassVar[str]

    def __post_init__(self) -> None:
        for name, value in vars(self).copy().items():
            if isinstance(value, list):
                object.__setattr__(self, name, tuple(value))
            if value is not None:
                self.check(name, value)

    @classmethod
    def check(cls, key: str, value: Any, place: str = "") -> None:
        """Refuse an unknown key or a value that is not allowed; `place` starts the message."""
        known = {setting.name: setting.metadata for setting in fields(cls)}
        place = f"{place}: " if place else ""
        if key not in known:
            raise InputError(
                f"{place}unknown key {cls.table}.{key}.{did_you_mean(key, known)} The keys of "
                f"[{cls.table}] are {', '.join(known)}."
            )
        if not known[key]["test"](value):
            allowed = known[key]["allowed"]
            raise InputError(f"{place}{cls.table}.{key} is {value!r}; expected {allowed}.")

    @classmethod
    def keys(cls) -> list[str]:
        """Return the names of all settings."""
        return [setting.name for setting in fields(cls)]

    def values(self) -> dict[str, Any]:
        """Return the settings that are not None, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class EncoderConfig(_Table):
    """The table `[encoder]` of a recipe: arguments of `PairEncoder.fit`, None for its default.

    A model with a pretrained backbone accepts `max_length` only.
    """

    table = "encoder"

    tokenizer: str | None = _text(None, 'the name of a tokenizer, such as "words"')
    lowercase: bool | None = _one_of(None, True, False)
    max_length: int | None = _integer(None, 1)
    max_word_length: int | None = _integer(None, 1)
    features: tuple[str, ...] | None = _setting(
        None,
        f"a list of some of {', '.join(FEATURES)}",
        lambda v: isinstance(v, list | tuple) and bool(v) and all(item in FEATURES for item in v),
    )
    antonyms: str | None = _text(None, '"auto" or the path of a file of word pairs')
    tagger: str | None = _text(None, '"auto" or "spacy:PIPELINE"')


@dataclass(frozen=True)
class VectorsConfig(_Table):
    """The table `[vectors]` of a recipe: where the word vectors come from."""

    table = "vectors"

    source: str = _text(
        "auto", '"auto", "table", "none", the path of a vector file, or "encoder:NAME"'
    )
    dim: int = _integer(300, 1)


@dataclass(frozen=True)
class TrainingConfig(_Table):
    """The table `[training]` of a recipe.

    `docs/training.md` explains the keys. `train` chooses a value for each `"auto"` by the data.
    """

    table = "training"

    optimizer: str = _one_of("adam", *OPTIMIZERS)
    learning_rate: float = _number(1e-3, "above 0", lambda v: v > 0, auto=True)
    batch_size: int = _integer(64, 1, auto=True)
    epochs: int = _integer(30, 1, auto=True)
    length_buckets: int = _integer(5, 1)
    patience: int = _integer(5, 1, auto=True)
    patience_batches: int = _integer(0, 0)
    folds: int | Literal["auto"] = _setting(
        0,
        '0, an integer of at least 2, or "auto"',
        lambda v: v == "auto" or type(v) is int and v != 1 and v >= 0,
    )
    monitor: str = _setting("auto", f"one of {', '.join(_MONITORS)}, or val_f1:LABEL", _is_monitor)
    plateau_factor: float = _number(1.0, "above 0, at most 1", lambda v: 0 < v <= 1)
    schedule: str = _one_of("constant", *SCHEDULES, "auto")
    warm_up: float = _number(0.05, "of at least 0, below 1", lambda v: 0 <= v < 1)
    decay_rate: float = _number(0.95, "above 0, at most 1", lambda v: 0 < v <= 1)
    decay_steps: int = _integer(1000, 1)
    clipnorm: float = _number(0.0, "of at least 0 (0: no clipping)", lambda v: v >= 0)
    global_clipnorm: float = _number(0.0, "of at least 0 (0: no clipping)", lambda v: v >= 0)
    weight_decay: float = _number(0.0, "of at least 0", lambda v: v >= 0)
    backbone_learning_rate: float = _number(
        0.0, "of at least 0 (0: the learning_rate)", lambda v: v >= 0
    )
    class_weight: str | dict[str, float] = _setting(
        "none",
        '"none", "balanced", or a table of weights by label, of at least 0',
        _is_class_weight,
    )
    init: str = _text("none", '"none", "auto", or the folder of a run')
    teacher: tuple[str, ...] = _names("a list of run folders")
    distillation_weight: float = _number(0.5, "from 0 to 1", lambda v: 0 <= v <= 1)
    distillation_temperature: float = _number(2.0, "above 0", lambda v: v > 0)
    augment: tuple[str, ...] = _names("a list of transformations")
    augment_labels: tuple[str, ...] = _setting(
        (), "a list of two labels", lambda v: _are_names(v) and len(v) in (0, 2)
    )
    lexicon: tuple[str, ...] = _names("a list of files", ("wordnet",))
    dtype_policy: str = _one_of("float32", *POLICIES)
    seed: int = _integer(0, 0, 2**32 - 1)

    @property
    def falls_to_zero(self) -> bool:
        """Whether the learning rate ends at zero, so that the last epoch is expected to be the best."""
        return self.schedule.endswith("_decay")

    @property
    def first_run(self) -> str | None:
        """The folder of the run that training begins with, if `init` names one."""
        return None if self.init in ("none", "auto") else self.init


CONFIGS: dict[str, type[_Table]] = {
    "encoder": EncoderConfig,
    "vectors": VectorsConfig,
    "training": TrainingConfig,
}


def f1_label(monitor: str) -> str | None:
    """Return the label whose F1 is monitored; None if the monitor is another metric."""
    return monitor.removeprefix(CLASS_F1) if monitor.startswith(CLASS_F1) else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean …?" with the known names closest to a misspelled one, or an empty string."""
    close = difflib.get_close_matches(name, list(known), n=2)
    return f" Did you mean {' or '.join(close)}?" if close else ""
