"""A search space: the configurations of a recipe that a search may try. Plain Python, no KerasTuner."""

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from keras_sentmatch.applications import Choice, LogUniform, Parameter
from keras_sentmatch.errors import InputError
from keras_sentmatch.training.config import did_you_mean
from keras_sentmatch.training.recipe import Recipe

MAX_COMBINATIONS = 20_000  # to try in search of one that is allowed

Configuration = dict[str, Any]  # labels by the names of the parameters that matter
Rule = Callable[[Recipe], str | None]  # returns what is wrong with a recipe, or None


class Space:
    """The configurations of one recipe that a search may try.

    A configuration is a dict of labels by the names of the parameters, without those that don't
    matter in it.

    Args:
        recipe: Everything that is not searched, and the default configuration. Its values are added
            to parameters that don't list them.
        parameters: Each after those that it depends on. One for which neither the recipe nor
            `defaults` has a value is left out.
        rules: Functions of a `Recipe` that return what is wrong with it, or None.
        defaults: The model's own defaults by key, for what the recipe leaves out.
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
        self._here: Configuration = {}  # the recipe's own
        for parameter in parameters:
            self._declare(parameter)
        self.parameters = {n: p for n, p in self.declared.items() if self._possible(p)}

    def _declare(self, parameter: Parameter) -> None:
        name, here = parameter.name, get(self.base, parameter.name)
        if here == "auto":  # follows from data that is not known yet
            here = {"batch_size": 64, "epochs": 30, "patience": 5}.get(name.rpartition(".")[2])
        if here is None:
            here = self.defaults.get(name)
        if isinstance(parameter, LogUniform):
            if here:
                self.declared[name] = replace(parameter, center=float(here))
                self._here[name] = float(here)
            return
        if here is None and parameter.label(None) is None:
            return
        if parameter.label(here) is None:
            parameter = parameter.with_value(here)
        self.declared[name] = parameter
        self._here[name] = parameter.label(here)

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
        listed = ", ".join(f"{n} ({a})" if a else n for n, a in aliases.items())
        raise InputError(
            f"{self.base.name} has no {name!r} to search here; there is {listed}."
            f"{did_you_mean(name, known)}"
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
                f"{parameter.name} matters only where {' and '.join(needs)}: search or fix that as "
                "well."
            )

    def fixed(self, values: Mapping[str, Any]) -> "Space":
        """The space where some parameters, by any of their names, have one value.

        Raises:
            InputError: An unknown name, a value that it can't have, or one that could never matter.
        """
        tables, pinned = self.base.tables(), {}
        for name, text in values.items():
            full = self.find(name)
            parameter, chosen = self.parameters[full].parse(text)
            pinned[full] = chosen
            for key in (full, *parameter.also):
                put(tables, key, parameter.value(chosen))
        recipe = Recipe.from_tables(self.base.name, **tables)
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
            names: Names; or a mapping from names to what `Choice.only` takes, or None for all values.

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

    def matters(self, parameter: Parameter, chosen: Mapping[str, Any]) -> bool:
        """Whether a parameter matters in a configuration."""
        return all(
            (chosen.get(name) if name in self.parameters else self._here.get(name)) in wanted
            for name, wanted in parameter.when.items()
        )

    def recipe(self, chosen: Mapping[str, Any]) -> Recipe:
        """The recipe of a configuration.

        Raises:
            InputError: Values that exclude each other.
        """
        tables = self.base.tables()
        for name, declared in self.declared.items():
            parameter = self.parameters.get(name, declared)
            if not self.matters(parameter, chosen):
                value = parameter.otherwise
            elif name in self.parameters:
                value = parameter.value(chosen[name])
            else:
                continue
            for key in (name, *parameter.also):
                put(tables, key, value)
        if tables["model"].get("feature_attention") is None:
            tables["model"].pop("feature_attention_config", None)
        return Recipe.from_tables(self.base.name, **tables)

    def conflict(self, chosen: Mapping[str, Any]) -> str | None:
        """What is wrong with a configuration, if anything is."""
        try:
            recipe = self.recipe(chosen)
        except InputError as error:
            return str(error)
        return next((found for rule in self.rules if (found := rule(recipe))), None)

    def default(self) -> Configuration:
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

    def largest(self) -> Configuration:
        """The configuration of the largest values, as far as it is allowed.

        Raises:
            InputError: As `default`.
        """
        return self._first(lambda _, p: list(p.values)[-1] if isinstance(p, Choice) else p.high)

    def _first(self, preferred: Callable[[str, Parameter], Any]) -> Configuration:
        """The first allowed configuration: it departs from the preferred values in the last ones."""
        lists = []
        for name, parameter in self.parameters.items():
            best = preferred(name, parameter)
            others = list(parameter.values)[::-1] if isinstance(parameter, Choice) else []
            lists.append([best, *(value for value in others if value != best)])
        conflict: str | None = None
        for values in itertools.islice(itertools.product(*lists), MAX_COMBINATIONS):
            chosen: Configuration = {}
            for (name, parameter), value in zip(self.parameters.items(), values):
                if self.matters(parameter, chosen):
                    chosen[name] = value
            found = self.conflict(chosen)
            if found is None:
                return chosen
            conflict = conflict or found
        raise InputError(f"No configuration to search is allowed; of the first: {conflict}")

    def size(self) -> float:
        """How many configurations there are at most; infinite where a parameter is a range."""
        if any(isinstance(p, LogUniform) for p in self.parameters.values()):
            return math.inf
        return math.prod(len(p.values) for p in self.parameters.values() if isinstance(p, Choice))

    def format(self, chosen: Configuration) -> str:
        """A configuration in one line."""
        return " ".join(
            f"{self.short(name)}={format(label, '.3g') if isinstance(label, float) else label}"
            for name, label in chosen.items()
        )

    def short(self, name: str) -> str:
        """A short name of a parameter."""
        aliases = self.declared[name].aliases
        return aliases[0] if aliases else name.rpartition(".")[2]

    def description(self) -> dict[str, Any]:
        """The space as plain data, by which a search is known again."""
        return {
            name: [p.low, p.high] if isinstance(p, LogUniform) else list(p.values)
            for name, p in self.parameters.items()
        }


def get(recipe: Recipe, key: str) -> Any:
    """What a recipe says of a key; None where it says nothing."""
    table, *path = key.split(".")
    found: Any = recipe.tables()[table]
    for part in path:
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def put(tables: dict[str, Any], key: str, value: Any) -> None:
    """Sets a key of a recipe's tables; None takes it out, and a table in which nothing is left."""
    table, *path = key.split(".")
    inner = tables[table]
    if len(path) == 2:
        whole = {**(inner.get(path[0]) or {}), path[1]: value}
        value = {n: v for n, v in whole.items() if v is not None} or None
    inner.pop(path[0], None)
    if value is not None:
        inner[path[0]] = value
