"""The space of a recipe: what its model declares, and the rules that models have in common."""

import copy
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

from keras_sentmatch.applications import get_model_class, list_models
from keras_sentmatch.applications.base import FEATURE_ATTENTION
from keras_sentmatch.errors import InputError
from keras_sentmatch.layers.feature_attention import LEAST
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.tuning.space import Space

# The width of what a host's feature attention reads, from the model's arguments and the width of its word features.
Width = Callable[[Mapping[str, Any], int], int]
ATTENDED: dict[str, Width] = {
    "bimpm": lambda model, _: 2 * len(model["strategies"]) * model["perspectives"],
    "cafe": lambda model, _: model["units"] * (2 if model["append_intra"] else 1) + _scalars(model),
    "diin": lambda model, words: words,
    "drcn": lambda model, _: model["autoencoder_units"],
    "esim": lambda model, _: model["units"] * (2 if model["placement"] == "attended" else 1),
    "re2": lambda model, _: model["units"],
}


def _scalars(model: Mapping[str, Any]) -> int:
    kinds = model["inter_attention"] + model["intra_attention"]
    return int(kinds * len(model["alignment_features"]) + (1 if model["meta_factors"] else 0))


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
            f"There is no search space for {recipe.name!r}; there is one for {', '.join(known)}. In Python, "
            "search(…, space=Space(recipe, [Choice(…), …])) takes your own."
        )
    defaults = {f"model.{name}": value for name, value in arguments_of(recipe).items()}
    for block in ("fa", "sfa"):
        for name, value in _block_arguments(block).items():
            defaults.setdefault(f"model.feature_attention_config.{name}", value)
    return Space(recipe, found, (width_rule, autoencoder_rule, grid_rule), defaults)


def narrowed_space(recipe: Recipe, space: Any, fix: Mapping[str, Any] | None) -> Space:
    """What `search` searches.

    Args:
        recipe: The default configuration, and all that is not searched.
        space: As for `search`.
        fix: As for `search`.

    Raises:
        InputError: An unknown name or value, or nothing that is left to search.
    """
    found = space if isinstance(space, Space) else space_of(recipe)
    if isinstance(space, Space):
        found = copy.copy(space)
        found.base = recipe  # with the seed and the objective of the search
    found = found.fixed(fix) if fix else found
    if space is not None and not isinstance(space, Space):
        found = found.narrowed(space)
    if not found.parameters:
        raise InputError("There is nothing left to search: every parameter is fixed.")
    return found


def arguments_of(recipe: Recipe) -> dict[str, Any]:
    """All arguments of the recipe's model: what the recipe says, else their defaults."""
    return {**_defaults(get_model_class(recipe.name)), **recipe.model}


def _block_arguments(kind: str) -> dict[str, Any]:
    return _defaults(FEATURE_ATTENTION[kind])


def _defaults(cls: type) -> dict[str, Any]:
    parameters = inspect.signature(cls.__init__).parameters.values()  # type: ignore[misc]
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def width_rule(recipe: Recipe) -> str | None:
    """Eq 9 of the SFA paper: the narrow widths of feature attention must exceed 8.33 ln L."""
    kind = recipe.model.get("feature_attention")
    if not isinstance(kind, str) or recipe.name not in ATTENDED:
        return None
    model = arguments_of(recipe)
    config = {**_block_arguments(kind), **(model["feature_attention_config"] or {})}
    if config["raise_widths"]:
        return None
    width = ATTENDED[recipe.name](model, word_features(recipe, model))
    length = recipe.encoder.max_length or 64
    if kind == "fa":
        widths = {"D/r": width / config["reduction"]}
    else:
        r1 = config["r1"] if config["autoencoder"] else 1
        widths = {"2D/r1": 2 * width / r1, "2D/(r1 r2)": 2 * width / (r1 * config["r2"])}
    least = LEAST * math.log(length)
    narrow = [f"{name} = {value:.4g}" for name, value in widths.items() if value <= least]
    if not narrow:
        return None
    return (
        f"{', '.join(narrow)} must exceed 8.33 ln({length}) = {least:.4g} (eq 9 of the SFA paper; D = {width}, "
        f"sentences of {length} tokens): reduce less, or make the model wider."
    )


def word_features(recipe: Recipe, model: Mapping[str, Any]) -> int:
    """The width of a word's features where the words have all those that the recipe names, but no tags."""
    features = recipe.encoder.features or ()
    characters = model["char_filters"] if "char" in features and "char_filters" in model else 0
    return recipe.vectors.dim + characters + bool(model.get("exact_match"))


def autoencoder_rule(recipe: Recipe) -> str | None:
    """DRCN's feature attention follows its autoencoders, which need layers to follow."""
    if recipe.name != "drcn" or recipe.model.get("feature_attention") is None:
        return None
    model = arguments_of(recipe)
    after = model["autoencoder_after"]
    if after is None:
        after = [layer for layer in (3, 5) if layer <= model["depth"]]
    if after and max(after) <= model["depth"]:
        return None
    return f"model.depth = {model['depth']} leaves no autoencoder for feature attention to follow."


def grid_rule(recipe: Recipe) -> str | None:
    """DIIN halves its grid after each block."""
    if recipe.name != "diin":
        return None
    model = arguments_of(recipe)
    if model["max_length"] >= 2 ** model["blocks"]:
        return None
    return f"model.max_length = {model['max_length']} is too short for {model['blocks']} blocks."
