"""The search space of a recipe: plain data and rules, without KerasTuner."""

import copy
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from keras_sentmatch.applications import get_model_class, list_models
from keras_sentmatch.applications.feature_blocks import FeatureHost
from keras_sentmatch.applications.hyperparameters import Choice, LogUniform, Parameter
from keras_sentmatch.errors import InputError
from keras_sentmatch.training.config import did_you_mean
from keras_sentmatch.training.recipe import Recipe

MAX_COMBINATIONS = 20_000  # tried in search of an allowed configuration
GRID_POINTS = 9  # of a range in a grid
# "auto" before the data are known.
UNKNOWN = {"batch_size": 64, "epochs": 30, "patience": 5, "learning_rate": 2e-3}

Configuration = dict[str, Any]  # labels by parameter name, for the parameters that matter
Rule = Callable[[Recipe], str | None]  # returns what is wrong with a recipe, or None


class SearchSpace:
    """The configurations of one recipe that a search may try.

    A configuration maps parameter names to labels. Parameters that do not matter in it, because
    of the value of another parameter, are left out.

    Args:
        recipe: The default configuration, and all settings that are not searched. Its values are
            added to parameters that do not list them.
        parameters: `Choice` and `LogUniform` parameters, each after those it depends on. A
            parameter is left out if neither the recipe nor `defaults` has a value for it.
            Defaults to the `search_space` of the recipe's model.
        rules: Functions of a `Recipe` that return what is wrong with it, or None.
        defaults: Values by key for keys that the recipe leaves out.

    Raises:
        InputError: `parameters` is not given and the model declares no search space.

    Example:

    ```python
    from keras_sentmatch.training import load_recipe
    from keras_sentmatch.tuning import SearchSpace

    space = SearchSpace(load_recipe("drr_net", "sick")).narrowed(["T"])
    space.recipe({"model.steps": 8}).model["steps"]  # 8
    ```
    """

    def __init__(
        self,
        recipe: Recipe,
        parameters: Iterable[Parameter] | None = None,
        rules: Sequence[Rule] = (),
        defaults: Mapping[str, Any] | None = None,
    ):
        self.base = recipe
        if parameters is None:
            parameters, rules, defaults = _declared_by_model(recipe)
        self.rules = tuple(rules)
        self.defaults = dict(defaults or {})
        self.declared: dict[str, Parameter] = {}
        self._here: Configuration = {}  # the recipe's own labels
        for parameter in parameters:
            self._declare(parameter)
        self.parameters = {n: p for n, p in self.declared.items() if self._possible(p)}

    def _declare(self, parameter: Parameter) -> None:
        name, here = parameter.name, get(self.base, parameter.name)
        if here == "auto":
            here = UNKNOWN.get(name.rpartition(".")[2])
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
        """Return the full name of a parameter, given that name, its last part or an alias."""
        for full, parameter in self.parameters.items():
            if name in (full, full.rpartition(".")[2], *parameter.aliases):
                return full
        aliases = {n: ", ".join(p.aliases) for n, p in self.parameters.items()}
        known = [*aliases, *(full.rpartition(".")[2] for full in aliases)]
        listed = ", ".join(f"{n} ({a})" if a else n for n, a in aliases.items())
        raise InputError(
            f"The search space of {self.base.name} has no {name!r}. It has {listed}."
            f"{did_you_mean(name, known)}"
        )

    def _possible(self, parameter: Parameter) -> bool:
        """Whether the parameter matters in any configuration."""
        for name, wanted in parameter.when.items():
            parent = getattr(self, "parameters", self.declared).get(name)
            values = parent.values if isinstance(parent, Choice) else [self._here.get(name)]
            if not set(values) & set(wanted):
                return False
        return True

    def narrowed(self, names: Iterable[str] | Mapping[str, Any]) -> "SearchSpace":
        """Return a space of some parameters only. All others keep the recipe's values.

        Args:
            names: Parameter names; or a mapping from names to the values to search, as in
                `{"T": "1:8", "d_k": None}`: a range, a list, or None for all values.

        Raises:
            InputError: An unknown name or value, or a parameter that can never matter.
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
            if not space._possible(parameter):
                needs = (f"{n} is {' or '.join(map(str, w))}" for n, w in parameter.when.items())
                raise InputError(
                    f"{parameter.name} matters only if {' and '.join(needs)}. Search that parameter "
                    "too, or set it in the recipe."
                )
        return space

    def matters(self, parameter: Parameter, chosen: Mapping[str, Any]) -> bool:
        """Whether the parameter matters in a configuration."""
        return all(
            (chosen.get(name) if name in self.parameters else self._here.get(name)) in wanted
            for name, wanted in parameter.when.items()
        )

    def recipe(self, chosen: Mapping[str, Any]) -> Recipe:
        """Return the recipe of a configuration.

        Raises:
            InputError: Two of its values exclude each other.
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
        """Return what is wrong with a configuration, or None."""
        try:
            recipe = self.recipe(chosen)
        except InputError as error:
            return str(error)
        return next((found for rule in self.rules if (found := rule(recipe))), None)

    def default(self) -> Configuration:
        """Return the recipe's own configuration, or the nearest one that is allowed.

        Raises:
            InputError: No configuration is allowed.
        """
        first: str | None = None
        for chosen in itertools.islice(self._combinations(backwards=True), MAX_COMBINATIONS):
            found = self.conflict(chosen)
            if found is None:
                return chosen
            first = first or found
        raise InputError(f"No configuration of the search space is allowed. The first one: {first}")

    def grid(self) -> Iterator[Configuration]:
        """Yield all allowed configurations once, the default first. A range has nine values."""
        seen = set()
        for chosen in self._combinations():
            key = tuple(chosen.items())
            if key not in seen and self.conflict(chosen) is None:
                seen.add(key)
                yield chosen

    def _combinations(self, backwards: bool = False) -> Iterator[Configuration]:
        """All configurations, allowed or not, the default first. The last parameters change first."""
        lists = []
        for name, parameter in self.parameters.items():
            if isinstance(parameter, LogUniform):
                points = np.geomspace(parameter.low, parameter.high, GRID_POINTS).tolist()
                lists.append(
                    [parameter.center, *points[: GRID_POINTS // 2], *points[-(GRID_POINTS // 2) :]]
                )
                continue
            values, best = list(parameter.values), self._here[name]
            if best not in values:  # narrowed away
                best = values[0]
            others = [value for value in values if value != best]
            lists.append([best, *(others[::-1] if backwards else others)])
        for combination in itertools.product(*lists):
            chosen: Configuration = {}
            for (name, parameter), value in zip(self.parameters.items(), combination):
                if self.matters(parameter, chosen):
                    chosen[name] = value
            yield chosen

    def format(self, chosen: Configuration) -> str:
        """Return a configuration in one line."""
        return " ".join(
            f"{self.short(name)}={format(label, '.3g') if isinstance(label, float) else label}"
            for name, label in chosen.items()
        )

    def short(self, name: str) -> str:
        """Return the short name of a parameter: its first alias, or its last part."""
        aliases = self.declared[name].aliases
        return aliases[0] if aliases else name.rpartition(".")[2]

    def description(self) -> dict[str, Any]:
        """Return the space as plain data: the labels of each choice, both ends of each range."""
        return {
            name: [p.low, p.high] if isinstance(p, LogUniform) else list(p.values)
            for name, p in self.parameters.items()
        }


def get(recipe: Recipe, key: str) -> Any:
    """Return a recipe's value for a key, or None."""
    table, *path = key.split(".")
    found: Any = recipe.tables()[table]
    for part in path:
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def put(tables: dict[str, Any], key: str, value: Any) -> None:
    """Set a key of a recipe's tables. None removes the key, and a table that it leaves empty."""
    table, *path = key.split(".")
    inner = tables[table]
    if len(path) == 2:
        whole = {**(inner.get(path[0]) or {}), path[1]: value}
        value = {n: v for n, v in whole.items() if v is not None} or None
    inner.pop(path[0], None)
    if value is not None:
        inner[path[0]] = value


# The model's own space, and the rules that models have in common.


def _declared_by_model(recipe: Recipe) -> tuple[list[Parameter], Sequence[Rule], dict[str, Any]]:
    """The parameters that the recipe's model declares, their rules, and the model's defaults."""
    found = get_model_class(recipe.name).search_space if recipe.name in list_models() else []
    if not found:
        known = (name for name in list_models() if get_model_class(name).search_space)
        raise InputError(
            f"{recipe.name!r} declares no search space. Models that do: {', '.join(known)}. "
            "In Python, pass your own: search(…, space=SearchSpace(recipe, [Choice(…), …]))."
        )
    defaults = {f"model.{name}": value for name, value in arguments_of(recipe).items()}
    cls = get_model_class(recipe.name)
    for kind in ("fa", "sfa") if issubclass(cls, FeatureHost) else ():
        for name, value in cls.block_defaults(kind).items():
            defaults.setdefault(f"model.feature_attention_config.{name}", value)
    return found, (conflict_rule,), defaults


def arguments_of(recipe: Recipe) -> dict[str, Any]:
    """Return all arguments of the recipe's model: the recipe's values, else the defaults."""
    parameters = get_model_class(recipe.name).arguments().values()
    return {p.name: p.default for p in parameters if p.default is not p.empty} | recipe.model


def conflict_rule(recipe: Recipe) -> str | None:
    """Return what the model says against its arguments, or None."""
    if recipe.name not in list_models():
        return None
    return get_model_class(recipe.name).conflict(arguments_of(recipe))
