"""The search space that a model declares: recipe keys and their values.

Plain data, without KerasTuner. A model's `search_space` lists `Choice` and `LogUniform` parameters;
values go from the smallest model to the largest, so that the last ones together are the largest
configuration. Aliases are the papers' letters.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from keras_sentmatch.errors import InputError

# Arguments that follow from the data and the word vectors: no recipe or preset sets them.
DATA_ARGUMENTS = (
    "vocabulary_size",
    "num_classes",
    "embedding_dim",
    "char_vocabulary_size",
    "max_word_length",
    "pos_tags",
    "antonym",
)


@dataclass(frozen=True)
class Choice:
    """A recipe key and the values it may have: `Choice("model.steps", range(1, 11), ["T"])`.

    Args:
        name: The key, `TABLE.KEY`, or `TABLE.KEY.ARGUMENT` if the key holds a table.
        values: From the smallest model to the largest: numbers or names, or a mapping from labels
            to values if a value needs another label: `{"none": None, "2+3": [2, 3]}`. None leaves
            the key out of the recipe.
        aliases: Short names, such as the paper's.
        when: Other parameters by name, and the labels that they must have for this one to matter.
        otherwise: The value of the key if the parameter does not matter.
        also: Other keys that get the same value.
    """

    name: str
    values: Any
    aliases: Sequence[str] = ()
    when: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    otherwise: Any = None
    also: Sequence[str] = ()

    def __post_init__(self) -> None:
        values = self.values
        if not isinstance(values, Mapping):
            values = {_default_label(value): value for value in values}
        object.__setattr__(self, "values", dict(values))

    def label(self, value: Any) -> Any:
        """The label of a value; None if it is not among the values."""
        value = list(value) if isinstance(value, tuple) else value
        return next((label for label, known in self.values.items() if known == value), None)

    def value(self, label: Any) -> Any:
        """The value with a label."""
        return self.values[label]

    def with_value(self, value) -> "Choice":
        """A copy with one more value: numbers stay sorted, anything else comes first."""
        rest = list(self.values.values())
        values = {_default_label(value): value, **self.values}
        if all(_is_number(v) for v in values.values()):
            falling = len(rest) > 1 and rest[0] > rest[-1]
            values = dict(sorted(values.items(), key=lambda item: item[1], reverse=falling))
        return replace(self, values=values)

    def only(self, wanted) -> "Choice":
        """A copy with some of the values: `"LOW:HIGH"`, `"A/B/C"`, or a list of labels."""
        parameter = self
        if isinstance(wanted, str) and ":" in wanted:
            low, high = (self.parse(end)[1] for end in wanted.split(":", 1))
            if not (_is_number(low) and _is_number(high)):
                raise InputError(f"{self.name}={wanted}: names have no range.")
            labels = [label for label in self.values if low <= label <= high]
        else:
            labels = []
            for text in wanted.split("/") if isinstance(wanted, str) else wanted:
                parameter, label = parameter.parse(text)
                labels.append(label)
        if not labels:
            raise InputError(f"{self.name}={wanted}: it must be {self.describe()}.")
        chosen = {label: value for label, value in parameter.values.items() if label in labels}
        return replace(self, values=chosen)

    def parse(self, text) -> tuple["Choice", Any]:
        """The label that `text` names, and the parameter that has it.

        Raises:
            InputError: There is no such value. Plain numbers accept any other number.
        """
        for label in self.values:
            if str(text) == str(label):
                return self, label
        try:
            found = tomllib.loads(f"value = {text}")["value"] if isinstance(text, str) else text
        except tomllib.TOMLDecodeError:
            found = text
        known = self.label(found)
        if known is not None:
            return self, known
        if _is_number(found) and all(_is_number(k) and k == v for k, v in self.values.items()):
            return self.with_value(found), found
        raise InputError(f"{self.name} can't be {text!r}; it must be {self.describe()}.")

    def describe(self) -> str:
        """The values, for messages."""
        return "one of " + ", ".join(map(str, self.values))


@dataclass(frozen=True)
class LogUniform:
    """A recipe key searched on a logarithmic scale around the recipe's own value.

    It ranges from the recipe's value divided by `factor` to that value times `factor`. A key that
    the recipe leaves out or sets to 0 is not searched.

    Args:
        name: The key, `TABLE.KEY`.
        factor: Greater than 1.
        aliases: Short names.
        center: The recipe's value; the search space fills it in.
    """

    name: str
    factor: float = 5.0
    aliases: Sequence[str] = ()
    center: float = 0.0
    when: ClassVar[Mapping[str, Sequence[Any]]] = {}  # it always matters
    otherwise: ClassVar[Any] = None
    also: ClassVar[Sequence[str]] = ()

    @property
    def low(self) -> float:
        """The smallest value."""
        return self.center / self.factor

    @property
    def high(self) -> float:
        """The largest value."""
        return self.center * self.factor

    def value(self, label: Any) -> Any:
        """The value with a label: itself."""
        return label

    def only(self, wanted) -> "LogUniform":
        """Refuse: a range has no list of values."""
        raise InputError(f"{self.name}={wanted}: it is {self.describe()}; name it without values.")

    def parse(self, text) -> tuple["LogUniform", float]:
        """The number that `text` means, and the parameter."""
        try:
            return self, float(text)
        except (TypeError, ValueError):
            message = f"{self.name} can't be {text!r}; it must be {self.describe()}."
            raise InputError(message) from None

    def describe(self) -> str:
        """The values, for messages."""
        return f"a number from {self.low:.3g} to {self.high:.3g}"


Parameter = Choice | LogUniform


def _default_label(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, int | float | str) else str(value)


def _is_number(value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# What models share.

FLAG = (False, True)
BETAS = (1.0, 5.0, 10.0, 50.0, 100.0)
_WARM_UP = ["linear_warm_up_decay", "cosine_warm_up_decay"]
_TRAINING: list[Parameter] = [
    LogUniform("training.learning_rate"),
    Choice("training.schedule", ("constant", "exponential", *_WARM_UP)),
    Choice(
        "training.plateau_factor",
        (0.5, 0.85, 1.0),
        when={"training.schedule": ["constant"]},
        otherwise=1.0,
    ),
    Choice(
        "training.warm_up", (0.05, 0.1, 0.2), when={"training.schedule": _WARM_UP}, otherwise=0.05
    ),
]
WORD_MODELS: list[Parameter] = [
    *_TRAINING,
    Choice("training.batch_size", (16, 32, 64, 128)),
    Choice("model.dropout", (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)),
    Choice("encoder.max_length", (16, 24, 32, 48, 64)),
]
BACKBONES: list[Parameter] = [
    *_TRAINING,
    Choice("training.batch_size", (8, 16, 32, 64)),
    Choice("training.weight_decay", (0.0, 0.01, 0.1)),
    Choice("model.dropout", (0.0, 0.1, 0.2, 0.3)),
    Choice("encoder.max_length", (32, 48, 64, 96, 128)),
]
_FA = {"model.feature_attention": ["fa"]}
_SFA = {"model.feature_attention": ["sfa"]}
FEATURE_ATTENTION: list[Parameter] = [
    Choice("model.feature_attention", {"none": None, "fa": "fa", "sfa": "sfa"}),
    Choice(
        "model.feature_attention_config.reduction", (8.0, 4.0, 2.0, 1.0), aliases=["r"], when=_FA
    ),
    Choice(
        "model.feature_attention_config.r1", (5.0, 3.75, 3.0, 2.0, 1.5), aliases=["r1"], when=_SFA
    ),
    Choice(
        "model.feature_attention_config.r2", (8.0, 5.0, 4.0, 2.0, 1.0), aliases=["r2"], when=_SFA
    ),
    Choice("model.feature_attention_config.branches", (1, 2, 3, 4), aliases=["N"], when=_SFA),
    Choice(
        "model.feature_attention_config.branch_kind",
        ("bigru", "birnn", "bilstm", "transformer", "cnn", "dilated_cnn3", "dilated_cnn5"),
        aliases=["branch"],
        when=_SFA,
    ),
]
