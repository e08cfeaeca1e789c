"""The space of a recipe: what its model declares, and the rules that models have in common."""

import copy
import inspect
from collections.abc import Mapping
from typing import Any

from keras_sentmatch.applications import (
    FeatureHost,
    get_model_class,
    list_models,
    make_feature_blocks,
)
from keras_sentmatch.errors import InputError
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.tuning.space import Space


def space_of(recipe: Recipe) -> Space:
    """The search space of a recipe's model, with the recipe's own values as the default.

    Args:
        recipe: What `load_recipe` returns.

    Returns:
        A `Space`, which `fixed` and `narrowed` make smaller.

    Raises:
        InputError: The model has no space.

    Example:

    ```python
    from keras_sentmatch.training import load_recipe
    from keras_sentmatch.tuning import space_of

    space = space_of(load_recipe("drr_net", "sick")).narrowed(["T"])
    space.recipe({"model.steps": 8}).model["steps"]  # 8
    ```
    """
    found = get_model_class(recipe.name).search_space if recipe.name in list_models() else []
    if not found:
        known = (name for name in list_models() if get_model_class(name).search_space)
        raise InputError(
            f"There is no search space for {recipe.name!r}; there is one for {', '.join(known)}. "
            "In Python, search(…, space=Space(recipe, [Choice(…), …])) takes your own."
        )
    defaults = {f"model.{name}": value for name, value in arguments_of(recipe).items()}
    cls = get_model_class(recipe.name)
    for kind in ("fa", "sfa") if issubclass(cls, FeatureHost) else ():
        for name, value in cls.block_defaults(kind).items():
            defaults.setdefault(f"model.feature_attention_config.{name}", value)
    return Space(recipe, found, (width_rule, conflict_rule), defaults)


def narrowed_space(recipe: Recipe, space: Any, fix: Mapping[str, Any] | None) -> Space:
    """What `search` searches, from its arguments."""
    own = isinstance(space, Space)
    found = copy.copy(space) if own else space_of(recipe)
    found.base = recipe  # with the seed and the objective of the search
    found = found.fixed(fix) if fix else found
    if space is not None and not own:
        found = found.narrowed(space)
    if not found.parameters:
        raise InputError("There is nothing left to search: every parameter is fixed.")
    return found


def arguments_of(recipe: Recipe) -> dict[str, Any]:
    """All arguments of the recipe's model: what the recipe says, else their defaults."""
    return {**_defaults(get_model_class(recipe.name)), **recipe.model}


def _defaults(cls: type) -> dict[str, Any]:
    parameters = inspect.signature(cls.__init__).parameters.values()  # type: ignore[misc]
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def width_rule(recipe: Recipe) -> str | None:
    """Eq 9 of the SFA paper: the narrow widths of feature attention must exceed 8.33 ln L."""
    kind = recipe.model.get("feature_attention")
    if not isinstance(kind, str) or recipe.name not in list_models():
        return None
    model, cls = arguments_of(recipe), get_model_class(recipe.name)
    assert issubclass(cls, FeatureHost)  # no other model has the argument
    width = cls.attended_width(model, word_features(recipe, model))
    if width is None:
        return None
    own = cls.block_defaults(kind) | (model["feature_attention_config"] or {})
    block = make_feature_blocks(kind, own, kind, None)[0]
    narrow = block.too_narrow(width, recipe.encoder.max_length or 64)
    return f"{narrow} Reduce less, or make the model wider." if narrow else None


def word_features(recipe: Recipe, model: Mapping[str, Any]) -> int:
    """The width of a word's features, with all those that the recipe names but tags."""
    features = recipe.encoder.features or ()
    characters = model["char_filters"] if "char" in features and "char_filters" in model else 0
    return recipe.vectors.dim + characters + bool(model.get("exact_match"))


def conflict_rule(recipe: Recipe) -> str | None:
    """What the model itself says against its arguments."""
    if recipe.name not in list_models():
        return None
    return get_model_class(recipe.name).conflict(arguments_of(recipe))
