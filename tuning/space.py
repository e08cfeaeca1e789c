"""What a search may choose: recipe keys, the values of each, and what depends on what. Plain Python, no KerasTuner."""

import copy
import difflib
import itertools
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

from keras_sentmatch.errors import InputError
from keras_sentmatch.training.recipe import Recipe

MOST_COMBINATIONS = 20_000  # that are looked through for one that is allowed

Written = dict[
    str, Any
]  # a configuration: what is written by the parameters' names, of those that matter
Rule = Callable[[Recipe], str | None]  # says what is wrong with a recipe, if anything is


@dataclass(frozen=True)
class Choice:
    """A recipe key and the values it may take.

    Args:
        name: The key, `TABLE.KEY`, or `TABLE.KEY.ARGUMENT` where the key holds a table.
        values: From the smallest model to the largest. Numbers or names; a mapping where what is written is not what the
            key gets: `{"none": None, "2+3": [2, 3]}`. A None leaves the key out.
        aliases: Short names, such as the papers'.
        when: Other parameters by name, and the values (as written) that they must have for this one to matter.
        otherwise: What the key gets where it does not matter.
        also: Further keys that get the same value.

    Example:

    ```python
    from keras_sentmatch.tuning import Choice

    Choice("model.steps", range(1, 11), aliases=["T"])
    ```
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
            values = {_as_written(value): value for value in values}
        object.__setattr__(self, "values", dict(values))

    def written(self, value: Any) -> Any:
        """How a value of the recipe is written; None for one that is not among the values."""
        value = list(value) if isinstance(value, tuple) else value
        return next((w for w, v in self.values.items() if v == value), None)

    def value(self, written: Any) -> Any:
        """What the key gets."""
        return self.values[written]

    def with_value(self, value: Any) -> "Choice":
        """The same with one more value: a number in its place, anything else first."""
        rest = list(self.values.values())
        values = {_as_written(value): value, **self.values}
        if all(_is_number(v) for v in values.values()):
            falling = len(rest) > 1 and rest[0] > rest[-1]
            values = dict(sorted(values.items(), key=lambda item: item[1], reverse=falling))
        return replace(self, values=values)

    def only(self, wanted: Any) -> "Choice":
        """The same with some values: `"LOW:HIGH"`, `"A/B/C"`, or a list of them as written."""
        if isinstance(wanted, str) and ":" in wanted:
            low, high = (self.parse(end)[1] for end in wanted.split(":", 1))
            if not (_is_number(low) and _is_number(high)):
                raise InputError(f"{self.name}={wanted}: names have no range.")
            chosen = {w: v for w, v in self.values.items() if low <= w <= high}
        else:
            listed = wanted.split("/") if isinstance(wanted, str) else list(wanted)
            parameter = self
            for text in listed:
                parameter, _ = parameter.parse(text)
            names = [parameter.parse(text)[1] for text in listed]
            chosen = {w: v for w, v in parameter.values.items() if w in names}
        if not chosen:
            raise InputError(f"{self.name}={wanted}: it is {self.listed()}.")
        return replace(self, values=chosen)

    def parse(self, text: Any) -> tuple["Choice", Any]:
        """What is written, from the command line or from Python; and the parameter that has it among its values.

        Raises:
            InputError: None of the values; where these are plain numbers, any other number will do.
        """
        for written in self.values:
            if str(text) == str(written):
                return self, written
        found = text
        if isinstance(text, str):
            try:
                found = tomllib.loads(f"value = {text}")["value"]
            except tomllib.TOMLDecodeError:
                pass
        known = self.written(found)
        if known is not None:
            return self, known
        if _is_number(found) and all(_is_number(w) and w == v for w, v in self.values.items()):
            return self.with_value(found), found
        raise InputError(f"{self.name} can't be {text!r}; it is {self.listed()}.")

    def listed(self) -> str:
        """The values in words."""
        return "one of " + ", ".join(map(str, self.values))


@dataclass(frozen=True)
class Around:
    """A recipe key that may be anything from the recipe's own value divided by `factor` to that times `factor`.

    Ratios are equally likely. What the recipe leaves out or sets to 0 is not searched.

    Args:
        name: The key, `TABLE.KEY`.
        factor: Above 1.
        aliases: Short names.
        centre: The recipe's value; `Space` fills it in.

    Example:

    ```python
    from keras_sentmatch.tuning import Around

    Around("training.learning_rate", factor=10)
    ```
    """

    name: str
    factor: float = 5.0
    aliases: Sequence[str] = ()
    centre: float = 0.0
    when: ClassVar[Mapping[str, Sequence[Any]]] = {}  # it always matters
    otherwise: ClassVar[Any] = None
    also: ClassVar[Sequence[str]] = ()

    @property
    def low(self) -> float:
        """The least value."""
        return self.centre / self.factor

    @property
    def high(self) -> float:
        """The greatest value."""
        return self.centre * self.factor

    def value(self, written: Any) -> Any:
        """What the key gets."""
        return written

    def only(self, wanted: Any) -> "Around":
        """Refuses: values can't be listed."""
        raise InputError(f"{self.name}={wanted}: it is {self.listed()}; list none, or --fix it.")

    def parse(self, text: Any) -> tuple["Around", float]:
        """A number, from the command line or from Python, and the parameter that it belongs to."""
        try:
            return self, float(text)
        except (TypeError, ValueError):
            raise InputError(f"{self.name} can't be {text!r}; it is {self.listed()}.") from None

    def listed(self) -> str:
        """The values in words."""
        return f"a number from {self.low:.3g} to {self.high:.3g}"


Parameter = Choice | Around


class Space:
    """The configurations of one recipe that a search may try.

    A configuration is a dict of what is written by the names of the parameters, without those that don't matter in it.

    Args:
        recipe: What holds where the search has no say. Its values are the default configuration; those that a parameter
            does not list join it.
        parameters: Each after those it depends on. One of which neither recipe nor `defaults` say anything is left out.
        rules: What configurations must fulfil beside being recipes: functions of a `Recipe` that say what is wrong, or None.
        defaults: What the model does, by key, where the recipe does not say.

    Attributes:
        parameters: Those that are searched, by name.
    """

    def __init__(
        self,
        recipe: Recipe,
        parameters: Iterable[Parameter],
        rules: Sequence[Rule] = (),
        defaults: Mapping[str, Any] | None = None,
    ):
        self.base = recipe
        self.rules = tuple(rules)
        self.defaults = dict(defaults or {})
        self.declared: dict[str, Parameter] = {}
        self._here: Written = {}  # what the recipe says
        for parameter in parameters:
            self._declare(parameter)
        self.parameters = {n: p for n, p in self.declared.items() if self._possible(p)}

    def _declare(self, parameter: Parameter) -> None:
        name, here = parameter.name, get(self.base, parameter.name)
        if here is None:
            here = self.defaults.get(name)
        if isinstance(parameter, Around):
            if here:
                self.declared[name] = replace(parameter, centre=float(here))
                self._here[name] = float(here)
            return
        if here is None and parameter.written(None) is None:
            return
        if parameter.written(here) is None:
            parameter = parameter.with_value(here)
        self.declared[name] = parameter
        self._here[name] = parameter.written(here)

    def find(self, name: str) -> str:
        """The name of a parameter of the space, from that, its last part, or an alias.

        Raises:
            InputError: There is none; with all that there are.
        """
        for full, parameter in self.parameters.items():
            if name in (full, full.rpartition(".")[2], *parameter.aliases):
                return full
        aliases = {n: ", ".join(p.aliases) for n, p in self.parameters.items()}
        known = [*aliases, *(full.rpartition(".")[2] for full in aliases)]
        close = difflib.get_close_matches(name, known, n=2)
        raise InputError(
            f"{self.base.name} has no {name!r} to search here; there is "
            + ", ".join(f"{n} ({a})" if a else n for n, a in aliases.items())
            + "."
            + (f" Did you mean {' or '.join(close)}?" if close else "")
        )

    def _possible(self, parameter: Parameter) -> bool:
        """Whether it matters in any configuration."""
        for name, wanted in parameter.when.items():
            parent = getattr(self, "parameters", self.declared).get(name)
            values = parent.values if isinstance(parent, Choice) else [self._here.get(name)]
            if not set(values) & set(wanted):
                return False
        return True

    def _check_possible(self, parameter: Parameter) -> None:
        if not self._possible(parameter):
            needs = (f"{n} is {' or '.join(map(str, w))}" for n, w in parameter.when.items())
            raise InputError(
                f"{parameter.name} matters only where {' and '.join(needs)}: search or fix that as well."
            )

    def fixed(self, values: Mapping[str, Any]) -> "Space":
        """The space where some parameters, by any of their names, have one value.

        Raises:
            InputError: An unknown name, a value that it can't have, or one that could never matter.
        """
        tables, pinned = _tables(self.base), {}
        for name, text in values.items():
            full = self.find(name)
            parameter, written = self.parameters[full].parse(text)
            pinned[full] = written
            for key in (full, *parameter.also):
                put(tables, key, parameter.value(written))
        recipe = Recipe(self.base.name, **tables)
        space = Space(recipe, self.declared.values(), self.rules, self.defaults)
        kept = {n: p for n, p in space.parameters.items() if n in self.parameters}
        space.parameters = {n: p for n, p in kept.items() if n not in pinned}
        for name in pinned:
            parameter = space.declared[name]
            space._check_possible(parameter)
            if set(parameter.when) & set(space.parameters):  # fixed where it matters
                space.parameters[name] = parameter.only([pinned[name]])
        space.parameters = {
            n: space.parameters[n]
            for n in kept
            if n in space.parameters and space._possible(space.parameters[n])
        }
        return space

    def narrowed(self, names: Iterable[str] | Mapping[str, Any]) -> "Space":
        """The space of some parameters only; everything else is as in the recipe.

        Args:
            names: Names; or a mapping from names to what `Choice.only` takes, or to None for all values.

        Raises:
            InputError: An unknown name or value, or a parameter that could never matter.
        """
        wanted = dict(names) if isinstance(names, Mapping) else dict.fromkeys(names)
        chosen = {self.find(name): values for name, values in wanted.items()}
        space = copy.copy(self)
        space.parameters = {
            name: parameter if chosen[name] is None else parameter.only(chosen[name])
            for name, parameter in self.parameters.items()
            if name in chosen
        }
        for parameter in space.parameters.values():
            space._check_possible(parameter)
        return space

    def matters(self, parameter: Parameter, written: Mapping[str, Any]) -> bool:
        """Whether a parameter matters in a configuration."""
        return all(
            (written.get(name) if name in self.parameters else self._here.get(name)) in wanted
            for name, wanted in parameter.when.items()
        )

    def recipe(self, written: Mapping[str, Any]) -> Recipe:
        """The recipe of a configuration.

        Raises:
            InputError: Values that exclude each other.
        """
        tables = _tables(self.base)
        for name, declared in self.declared.items():
            parameter = self.parameters.get(name, declared)
            if not self.matters(parameter, written):
                value = parameter.otherwise
            elif name in self.parameters:
                value = parameter.value(written[name])
            else:
                continue
            for key in (name, *parameter.also):
                put(tables, key, value)
        if tables["model"].get("feature_attention") is None:
            tables["model"].pop("feature_attention_config", None)
        return Recipe(self.base.name, **tables)

    def complaint(self, written: Mapping[str, Any]) -> str | None:
        """What is wrong with a configuration, if anything is."""
        try:
            recipe = self.recipe(written)
        except InputError as error:
            return str(error)
        return next((found for rule in self.rules if (found := rule(recipe))), None)

    def default(self) -> Written:
        """The recipe's own configuration; where that is not allowed, or narrowed away, one near it.

        Raises:
            InputError: None is allowed; with what is wrong with the first.
        """

        def preferred(name: str, parameter: Parameter) -> Any:
            here = self._here[name]
            if isinstance(parameter, Choice) and here not in parameter.values:
                return next(iter(parameter.values))
            return here

        return self._first(preferred)

    def largest(self) -> Written:
        """The configuration of the largest values, as far as it is allowed.

        Raises:
            InputError: As `default`.
        """
        return self._first(lambda _, p: list(p.values)[-1] if isinstance(p, Choice) else p.high)

    def _first(self, preferred: Callable[[str, Parameter], Any]) -> Written:
        """The allowed configuration that departs from the preferred values only in the last parameters."""
        lists = []
        for name, parameter in self.parameters.items():
            best = preferred(name, parameter)
            others = list(parameter.values)[::-1] if isinstance(parameter, Choice) else []
            lists.append([best, *(value for value in others if value != best)])
        complaint: str | None = None
        for values in itertools.islice(itertools.product(*lists), MOST_COMBINATIONS):
            written: Written = {}
            for (name, parameter), value in zip(self.parameters.items(), values):
                if self.matters(parameter, written):
                    written[name] = value
            found = self.complaint(written)
            if found is None:
                return written
            complaint = complaint or found
        raise InputError(f"No configuration to search is allowed; of the first: {complaint}")

    def size(self) -> float:
        """How many configurations there are at most; infinite where a parameter is a range."""
        if any(isinstance(p, Around) for p in self.parameters.values()):
            return math.inf
        return math.prod(len(p.values) for p in self.parameters.values() if isinstance(p, Choice))

    def short(self, name: str) -> str:
        """A short name of a parameter."""
        aliases = self.declared[name].aliases
        return aliases[0] if aliases else name.rpartition(".")[2]

    def description(self) -> dict[str, Any]:
        """The space as plain data, by which a search is known again."""
        return {
            name: [p.low, p.high] if isinstance(p, Around) else list(p.values)
            for name, p in self.parameters.items()
        }


def parse_names(text: str) -> dict[str, str | None]:
    """`--space T=1:8,d_k` as a mapping for `Space.narrowed`."""
    found: dict[str, str | None] = {}
    for part in text.split(","):
        name, equals, values = (piece.strip() for piece in part.partition("="))
        if not name or (equals and not values):
            raise InputError(
                f"--space {text!r}: expected names separated by commas, each alone or as NAME=LOW:HIGH or NAME=A/B/C."
            )
        found[name] = values or None
    return found


def parse_fixed(settings: Iterable[str]) -> dict[str, str]:
    """`--fix NAME=VALUE`, any number of times, as a mapping for `Space.fixed`."""
    found = {}
    for setting in settings:
        name, _, value = (piece.strip() for piece in setting.partition("="))
        if not (name and value):
            raise InputError(f"--fix {setting!r}: expected NAME=VALUE.")
        found[name] = value
    return found


def get(recipe: Recipe, key: str) -> Any:
    """What a recipe says of a key; None where it says nothing."""
    table, *path = key.split(".")
    found: Any = getattr(recipe, table)
    for part in path:
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def put(tables: dict[str, Any], key: str, value: Any) -> None:
    """Sets a key of a recipe's tables; None takes it out, and the table that held it if nothing is left there."""
    table, *path = key.split(".")
    inner = tables[table]
    if len(path) == 2:
        whole = {**(inner.get(path[0]) or {}), path[1]: value}
        value = {n: v for n, v in whole.items() if v is not None} or None
    inner.pop(path[0], None)
    if value is not None:
        inner[path[0]] = value


def _tables(recipe: Recipe) -> dict[str, Any]:
    tables = asdict(recipe)
    del tables["name"]
    return tables


def _as_written(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, int | float | str) else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
