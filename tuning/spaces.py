"""The search space of each application: which of its arguments to try, at which values.

Values go from the smallest model to the largest, so that the last ones together are the largest configuration. Aliases are
the papers' letters. Feature attention stands last: what it may be depends on the widths before it (eq 9).
"""

import copy
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

from keras_sentmatch.errors import InputError
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.tuning.space import Around, Choice, Parameter, Space

FLAG = (False, True)
DROPOUT = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
BETAS = (1.0, 5.0, 10.0, 50.0, 100.0)

_TRAINING: list[Parameter] = [
    Around("training.learning_rate"),
    Choice(
        "training.schedule",
        ("constant", "exponential", "linear_warm_up_decay", "cosine_warm_up_decay"),
    ),
    Choice(
        "training.plateau_factor",
        (0.5, 0.85, 1.0),
        when={"training.schedule": ["constant"]},
        otherwise=1.0,
    ),
    Choice(
        "training.warm_up",
        (0.05, 0.1, 0.2),
        when={"training.schedule": ["linear_warm_up_decay", "cosine_warm_up_decay"]},
        otherwise=0.05,
    ),
]
OF_WORDS: list[Parameter] = [
    *_TRAINING,
    Choice("training.batch_size", (16, 32, 64, 128)),
    Choice("model.dropout", DROPOUT),
]
LENGTHS = Choice("encoder.max_length", (16, 24, 32, 48, 64))
OF_BACKBONES: list[Parameter] = [
    *_TRAINING,
    Choice("training.batch_size", (8, 16, 32, 64)),
    Choice("training.weight_decay", (0.0, 0.01, 0.1)),
    Choice("model.dropout", (0.0, 0.1, 0.2, 0.3)),
    Choice("encoder.max_length", (32, 48, 64, 96, 128)),
]
_ON = ["fa", "sfa"]
FEATURE_ATTENTION: list[Parameter] = [
    Choice("model.feature_attention", {"none": None, "fa": "fa", "sfa": "sfa"}),
    Choice(
        "model.feature_attention_config.reduction",
        (8.0, 4.0, 2.0, 1.0),
        aliases=["r"],
        when={"model.feature_attention": ["fa"]},
    ),
    Choice(
        "model.feature_attention_config.r1",
        (5.0, 3.75, 3.0, 2.0, 1.5),
        aliases=["r1"],
        when={"model.feature_attention": ["sfa"]},
    ),
    Choice(
        "model.feature_attention_config.r2",
        (8.0, 5.0, 4.0, 2.0, 1.0),
        aliases=["r2"],
        when={"model.feature_attention": ["sfa"]},
    ),
    Choice(
        "model.feature_attention_config.branches",
        (1, 2, 3, 4),
        aliases=["N"],
        when={"model.feature_attention": ["sfa"]},
    ),
]
PLACEMENT = Choice(
    "model.placement",
    ("fused", "attended"),
    when={"model.feature_attention": _ON},
)


def _units(*values: int) -> Choice:
    return Choice("model.units", values)


SPACES: dict[str, list[Parameter]] = {
    "bimpm": [
        *OF_WORDS,
        LENGTHS,
        _units(50, 100, 150),
        Choice("model.aggregation_units", (50, 100, 150)),
        Choice("model.hidden_units", (100, 200, 300)),
        Choice("model.perspectives", (5, 10, 20, 30)),
        *FEATURE_ATTENTION,
    ],
    "cafe": [
        *OF_WORDS,
        LENGTHS,
        _units(100, 200, 300),
        Choice("model.highway_layers", (1, 2, 3)),
        Choice("model.factors", (5, 10, 20)),
        Choice("model.meta_factors", (0, 4)),
        Choice("model.append_intra", FLAG),
        Choice("model.bidirectional", FLAG),
        *FEATURE_ATTENTION,
    ],
    "cross_encoder": [*OF_BACKBONES, Choice("model.pooling", ("cls", "mean"))],
    "dabert": [
        *OF_BACKBONES,
        Choice("training.global_clipnorm", (7.5, 10.0, 15.0)),
        Choice("model.dual_layers", {"0": [0], "0+1": [0, 1]}),
        Choice("model.distance", ("l2_squared", "l2", "l1")),
        Choice("model.cross", FLAG),
        Choice("model.attention_units", (64, 128, 256)),
        Choice("model.output_mode", ("replace", "residual")),
    ],
    "diin": [
        *OF_WORDS,
        Choice("encoder.max_length", (16, 24, 32, 48), also=["model.max_length"]),
        Choice("model.highway_layers", (1, 2, 3)),
        Choice("model.first_scale", (0.2, 0.3, 0.4)),
        Choice("model.blocks", (1, 2, 3)),
        Choice("model.layers_per_block", (3, 5, 8)),
        Choice("model.growth_rate", (10, 20, 30)),
        *FEATURE_ATTENTION,
    ],
    "din": [
        *OF_WORDS,
        LENGTHS,
        Choice("model.units", {n: n * n for n in (8, 12, 16, 18, 20)}, aliases=["n"]),
        Choice("model.variant", ("static", "din1", "din2")),
        Choice("model.concat", ("sum", "split"), when={"model.variant": ["din1"]}),
        Choice("model.use_bias", FLAG, when={"model.variant": ["din1", "din2"]}),
        Choice("model.encode_hypothesis", FLAG),
        Choice("model.hidden_layers", (0, 1, 2)),
    ],
    "drcn": [
        *OF_WORDS,
        LENGTHS,
        Choice("model.depth", (1, 2, 3, 4, 5)),
        _units(50, 100, 150),
        Choice("model.hidden_units", (250, 500, 1000)),
        Choice("model.autoencoder_units", (100, 200, 300)),
        Choice("model.embedding_dropout", DROPOUT),
        Choice("model.autoencoder_dropout", DROPOUT),
        Choice("model.temperature", FLAG),
        *FEATURE_ATTENTION,
    ],
    "drr_net": [
        *OF_WORDS,
        LENGTHS,
        Choice("model.steps", range(1, 11), aliases=["T"]),
        Choice("model.depth", (1, 2, 3, 4), aliases=["l_s"]),
        Choice("model.beta", BETAS, aliases=["beta", "β"]),
        Choice("model.selection", ("soft", "straight_through")),
        _units(64, 128, 256),
        Choice("model.bidirectional", FLAG),
        Choice("model.attention_units", (50, 100, 200)),
        Choice("model.hidden_units", (64, 128, 256)),
        Choice("model.aux_loss_weight", (0.0, 0.5, 1.0)),
    ],
    "esim": [
        *OF_WORDS,
        LENGTHS,
        _units(100, 200, 300),
        Choice("model.cell", ("gru", "lstm")),
        *FEATURE_ATTENTION[:1],
        PLACEMENT,
        *FEATURE_ATTENTION[1:],
    ],
    "hyper_lstm": [
        *OF_WORDS,
        LENGTHS,
        _units(100, 200, 300),
        Choice("model.hyper_units", (32, 64, 128)),
        Choice("model.embedding_units", (4, 8, 16)),
        Choice("model.layer_norm", FLAG),
        Choice("model.shared_encoder", {"true": True, "false": False}),
    ],
    "ladra_net": [
        *OF_BACKBONES,
        Around("training.backbone_learning_rate"),
        Choice(
            "model.widths",
            {
                "none": [],
                "1": [1],
                "2": [2],
                "3": [3],
                "1+2": [1, 2],
                "1+3": [1, 3],
                "2+3": [2, 3],
                "1+2+3": [1, 2, 3],
            },
            aliases=["d_k"],
        ),
        Choice(
            "model.hidden_filters",
            (125, 250, 500),
            when={"model.widths": ["1", "2", "3", "1+2", "1+3", "2+3", "1+2+3"]},
        ),
        Choice("model.steps", range(1, 9), aliases=["T"]),
        Choice("model.beta", BETAS, aliases=["beta", "β"]),
        Choice("model.coverage", ("off", "multiply", "log")),
        Choice(
            "model.coverage_update",
            ("probability", "score"),
            when={"model.coverage": ["multiply", "log"]},
        ),
        Choice("model.fusion", ("mean", "max")),
        Choice("model.attention_units", (50, 100, 200)),
        Choice("model.encoder", ("stack_gru", "transformer")),
        Choice("model.depth", (1, 2, 3, 4), aliases=["l_s"], when={"model.encoder": ["stack_gru"]}),
        Choice("model.units", (128, 256), when={"model.encoder": ["stack_gru"]}),
    ],
    "re2": [
        *OF_WORDS,
        LENGTHS,
        _units(100, 150, 200),
        Choice("model.blocks", (1, 2, 3)),
        Choice("model.encoder_layers", (1, 2, 3)),
        Choice("model.alignment", ("identity", "linear")),
        Choice("model.fusion", ("simple", "full")),
        Choice("model.connection", ("none", "residual", "augmented")),
        Choice("model.prediction", ("simple", "symmetric", "full")),
        *FEATURE_ATTENTION,
    ],
    "rlstm": [
        *OF_WORDS,
        LENGTHS,
        _units(100, 200, 300),
        Choice("model.tanh", FLAG),
        Choice("model.first_attention", ("uniform", "learned")),
    ],
}

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
    return kinds * len(model["alignment_features"]) + (1 if model["meta_factors"] else 0)


def space_of(recipe: Recipe) -> Space:
    """What of a recipe may be searched: its model's space, with the recipe's own values as the default.

    Args:
        recipe: What `load_recipe` gives.

    Returns:
        A `Space`; `fixed` and `narrowed` make smaller ones of it.

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
    if recipe.name not in SPACES:
        raise InputError(
            f"There is no search space for {recipe.name!r}; there is one for {', '.join(SPACES)}. In Python, "
            "search(…, space=Space(recipe, [Choice(…), …])) takes one of your own."
        )
    defaults = {f"model.{name}": value for name, value in arguments_of(recipe).items()}
    for block in ("fa", "sfa"):
        for name, value in _block_arguments(block).items():
            defaults.setdefault(f"model.feature_attention_config.{name}", value)
    return Space(recipe, SPACES[recipe.name], (width_rule, autoencoder_rule, grid_rule), defaults)


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
    from keras_sentmatch.applications import get_model_class

    return {**_defaults(get_model_class(recipe.name)), **recipe.model}


def _block_arguments(kind: str) -> dict[str, Any]:
    from keras_sentmatch.applications.base import FEATURE_ATTENTION as BLOCKS

    return _defaults(BLOCKS[kind])


def _defaults(cls: type) -> dict[str, Any]:
    parameters = inspect.signature(cls.__init__).parameters.values()  # type: ignore[misc]
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def width_rule(recipe: Recipe) -> str | None:
    """Eq 9 of the SFA paper: the narrow widths of feature attention must exceed 8.33 ln L."""
    kind = recipe.model.get("feature_attention")
    if not isinstance(kind, str) or recipe.name not in ATTENDED:
        return None
    from keras_sentmatch.layers.feature_attention import LEAST

    model = arguments_of(recipe)
    config = {**_block_arguments(kind), **(model["feature_attention_config"] or {})}
    if config["raise_widths"]:
        return None
    width = ATTENDED[recipe.name](model, word_features(recipe, model))
    length = recipe.encoder.get("max_length", 64)
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
    features = recipe.encoder.get("features", ())
    characters = model["char_filters"] if "char" in features and "char_filters" in model else 0
    return recipe.vectors["dim"] + characters + bool(model.get("exact_match"))


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
