"""What every application model shares: its registry, word vectors, parameter counts."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import keras
from keras import ops

from keras_sentmatch.applications.pictures import PictureSpec
from keras_sentmatch.applications.search_space import Parameter
from keras_sentmatch.errors import InputError
from keras_sentmatch.layers import (
    FeatureAttention,
    SelectiveFeatureAttention,
    WordRepresentation,
)
from keras_sentmatch.ops import dot_matrix, split_pair, stack_pair

Encoding = dict[str, Any]  # a sentence's tensors by name

_MODELS: dict[str, type["PairModel"]] = {}

# Arguments of a model that follow from the data and the word vectors: no recipe or preset sets them.
DATA_ARGUMENTS = (
    "vocabulary_size",
    "num_classes",
    "embedding_dim",
    "char_vocabulary_size",
    "max_word_length",
    "pos_tags",
    "antonym",
)


class PairModel(keras.Model):
    """A functional Keras model of sentence pairs.

    A subclass's `__init__` builds layers, then the graph with `super().__init__(inputs, outputs)`, then calls
    `self._keep_config(locals())`. Inputs are a dict by name (`word_ids_1`, `char_ids_1`, ..., and the same with `_2`); the
    output is `[B, num_classes]` probabilities, or `[B, 1]` scores when `num_classes=1`, in float32 under every policy.
    """

    paper: ClassVar[str] = ""
    summary_line: ClassVar[str] = ""
    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    search_space: ClassVar[list[Parameter]] = []
    pictures: ClassVar[tuple[PictureSpec, ...]] = ()
    _undivided = "it was not made of two halves"

    def _keep_config(self, values: dict[str, Any]) -> None:
        names = [
            n
            for n in inspect.signature(type(self).__init__).parameters
            if n not in ("self", "kwargs")
        ]
        # A layer among them is kept as its serialised config: the model has its own copies of it.
        self._config = {
            name: keras.saving.serialize_keras_object(value)
            if isinstance(value, keras.layers.Layer)
            else value
            for name, value in ((name, values[name]) for name in names)
        }
        for name, value in self._config.items():
            setattr(self, name, value)
        # A functional model does not keep it.
        self.dtype_policy = keras.dtype_policies.get(values["kwargs"].get("dtype"))

    def get_config(self) -> dict[str, Any]:
        return {
            **self._config,
            "name": self.name,
            "trainable": self.trainable,
            "dtype": self.dtype_policy,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> "PairModel":
        return cls(**config)

    @classmethod
    def from_preset(cls, preset: str, **config: Any) -> "PairModel":
        """The model with one of the configurations in `presets`; `config` adds to it and overrides it."""
        if preset not in cls.presets:
            raise InputError(
                f"{cls.__name__} has no preset {preset!r}. Use one of: {', '.join(cls.presets)}."
            )
        return cls(**{**cls.presets[preset], **config})

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs, in order: the features an encoder must make."""
        return list(self._inputs_struct)

    def _word_representations(self) -> list[WordRepresentation]:
        return [layer for layer in self.layers if isinstance(layer, WordRepresentation)]

    def set_word_vectors(self, matrix: Any) -> None:
        """Put `matrix`, `[vocabulary_size, embedding_dim]`, into every word embedding of the model."""
        for layer in self._word_representations():
            layer.set_word_vectors(matrix)

    def count_params_without_word_embeddings(self) -> int:
        """The papers' count: all parameters but the word-embedding matrices (character embeddings do count)."""
        words = sum(
            e.count_params()
            for layer in self._word_representations()
            for e in layer.word_embeddings
        )
        return self.count_params() - words

    def explainer(self) -> keras.Model:
        """A functional model on the same weights and inputs that returns the tensors worth looking at, by name."""
        raise NotImplementedError

    def _keep_halves(
        self, encode: Callable[..., Encoding], interact: Callable[..., Any], undivided: str = ""
    ) -> None:
        """Keep the functions the graph was made of, for `split`; `undivided` says why it can't be."""
        self._halves, self._undivided = (encode, interact), undivided

    @property
    def can_split(self) -> bool:
        """Whether one sentence can be encoded without the other."""
        return not self._undivided

    def split(self) -> tuple[keras.Model, keras.Model, keras.Model]:
        """Encoders of sentence 1 and of sentence 2, and the interaction: functional models on the same weights.

        An encoder takes the inputs of one sentence by name without a number (`word_ids`, `char_ids`, ...) and gives a dict
        of tensors. The interaction takes both dicts in one, `_1` and `_2` added to each name, and gives the model's output.
        So the encodings of a corpus can be kept.

        Raises:
            InputError: if the model looks at both sentences from the start.
        """
        if self._undivided:
            raise InputError(
                f"This {type(self).__name__} can't encode a sentence alone: {self._undivided}."
            )
        encode, interact = self._halves
        encoders = []
        for side in ("1", "2"):
            inputs = {
                name: keras.Input(x.shape[1:], dtype=x.dtype, name=name)
                for name, x in side_inputs(self._inputs_struct, side).items()
                if name != "other_word_ids"
            }
            encoders.append(
                keras.Model(inputs, encode(inputs, side), name=f"{self.name}_encoder_{side}")
            )
        sides = []
        for side, encoder in zip(("1", "2"), encoders):
            sides.append(
                {
                    name: keras.Input(x.shape[1:], dtype=x.dtype, name=f"{name}_{side}")
                    for name, x in encoder.output.items()
                }
            )
        inputs = {x.name: x for encoding in sides for x in encoding.values()}
        interaction = keras.Model(inputs, interact(*sides), name=f"{self.name}_interaction")
        return encoders[0], encoders[1], interaction


def pair_inputs(
    char_vocabulary_size: int = 0,
    max_word_length: int = 16,
    pos_tags: int = 0,
    antonym: bool = False,
) -> dict[str, Any]:
    """The symbolic int32 inputs of both sentences, by name; the features that are off have none."""
    shapes: dict[str, tuple[int | None, ...]] = {"word_ids": (None,)}
    if char_vocabulary_size:
        shapes["char_ids"] = (None, max_word_length)
    if pos_tags:
        shapes["pos"] = (None,)
    if antonym:
        shapes["antonym"] = (None,)
    return {
        f"{name}_{side}": keras.Input(shape, dtype="int32", name=f"{name}_{side}")
        for side in ("1", "2")
        for name, shape in shapes.items()
    }


def side_inputs(inputs: Mapping[str, Any], side: str) -> dict[str, Any]:
    """The inputs of one sentence without its number, and `other_word_ids`, those of the other."""
    mine = {n.removesuffix(f"_{side}"): x for n, x in inputs.items() if n.endswith(f"_{side}")}
    return {**mine, "other_word_ids": inputs["word_ids_2" if side == "1" else "word_ids_1"]}


def apply_to_both(
    function: Callable[..., Encoding], one: Encoding, two: Encoding, dtype: Any = None
) -> tuple[Encoding, Encoding]:
    """`function` run once over both sentences, stacked along the batch, for weights that both share.

    Args:
        function: takes a dict of tensors by name and gives one: `[B, L, ...]`, of float rank 2 only if they are one vector a
            sentence.
        one, two: its dicts for sentence 1 and 2; the first tensor of each has the sentence's length.
        dtype: the model's dtype policy.

    Returns:
        The dicts it gives for sentence 1 and for sentence 2.
    """
    first = next(iter(one))
    done = function({name: _StackPair(dtype=dtype)(one[name], two[name]) for name in one})
    halves = {n: _SplitPair(dtype=dtype)(x, one[first], two[first]) for n, x in done.items()}
    return {n: h[0] for n, h in halves.items()}, {n: h[1] for n, h in halves.items()}


def encode_both(
    encode: Callable[..., Encoding], inputs: Mapping[str, Any], dtype: Any = None
) -> tuple[Encoding, Encoding]:
    """`apply_to_both` of the inputs of `pair_inputs`."""
    return apply_to_both(encode, side_inputs(inputs, "1"), side_inputs(inputs, "2"), dtype)


def classifier(num_classes: int, **dense: Any) -> Callable[[Any], Any]:
    """Makes the last layers, once: a function from `[B, D]` to class probabilities `[B, num_classes]`.

    With one class it gives a score instead. Both are float32 under every policy. `dense` are arguments of the Dense layer.
    """
    logits = keras.layers.Dense(num_classes, dtype="float32", name="logits", **dense)
    activation = keras.layers.Activation(
        "softmax" if num_classes > 1 else "linear", dtype="float32", name="probabilities"
    )
    return lambda v: activation(logits(v))


FEATURE_ATTENTION = {"fa": FeatureAttention, "sfa": SelectiveFeatureAttention}


class FeatureBlocks:
    """The feature-attention blocks of a host's two branches: `u1, u2 = blocks(x1, mask_1, x2, mask_2)`.

    Without blocks it hands on `x1` and `x2`. Made by `feature_blocks`. With `shown=False` there is nothing to explain.
    """

    def __init__(self, *layers: keras.layers.Layer, shown: bool = True):
        self.layers = layers
        self.shown = shown
        self._given: dict[str, tuple[Any, Any]] = {}  # in the first call: the model's own

    def one(self, side: str, x: Any, mask: Any) -> Any:
        """The block of sentence `side`, `"1"` or `"2"`, on that sentence alone."""
        self._given.setdefault(side, (x, mask))
        return self.layers[int(side) - 1](x, mask) if self.layers else x

    def __call__(self, x1: Any, mask_1: Any, x2: Any, mask_2: Any) -> tuple[Any, Any]:
        return self.one("1", x1, mask_1), self.one("2", x2, mask_2)

    def explain(self) -> dict[str, Any]:
        """What an explainer shows of the blocks, from what they were given first.

        Without blocks `feature_map_base` `[B, L1, L2]`, the mean over the features of `x1_i * x2_j` (paper Fig 5). With them
        `gates_1` and `gates_2`: `[B, D]` of FA, `[B, N, W]` of SFA; of SFA `selection_1` and `selection_2` `[B, N, W]`, the
        weights of the branches; `feature_map`, the same mean of what the blocks give, and `feature_map_before`, of what
        they were given.
        """
        if not self.shown:
            return {}
        shown, outputs = {}, []
        given = [self._given[side][0] for side in "12"]
        if not self.layers:
            return {"feature_map_base": dot_matrix(*given) / given[0].shape[-1]}
        for layer, side in zip(self.layers, "12"):
            u, *found = _CallWith(layer, return_gates=True)(*self._given[side])
            outputs.append(u)
            shown.update({f"{n}_{side}": x for n, x in zip(("gates", "selection"), found)})
        for name, pair in (("feature_map_before", given), ("feature_map", outputs)):
            shown[name] = dot_matrix(*pair) / pair[0].shape[-1]
        return shown


def feature_blocks(
    feature_attention: Any,
    config: Mapping[str, Any] | None = None,
    name: str = "feature_attention",
    dtype: Any = None,
    **defaults: Any,
) -> FeatureBlocks:
    """The blocks that a host's arguments ask for.

    Args:
        feature_attention: None for no blocks, `"fa"`, `"sfa"`, a layer to copy, or the serialised config of one.
        config: arguments of the block, and `share`: whether both sentences share one block instead of having one each, as
            the paper has it (which makes a symmetric host tell the first sentence from the second).
        name: of the blocks; `_1` and `_2` are added.
        dtype: the model's dtype policy.
        **defaults: arguments that `config` may override.

    Raises:
        InputError: for anything else.

    Example:
        >>> from keras_sentmatch.applications.base import feature_blocks
        >>> [layer.name for layer in feature_blocks("sfa", {"branches": 2}).layers]
        ['feature_attention_1', 'feature_attention_2']

    References:
        Zang, Liu, 2024.
    """
    options = {**defaults, **(config or {})}
    share = options.pop("share", False)
    if feature_attention is None:
        if config:
            raise InputError(
                f"feature_attention_config={dict(config)} configures nothing: set feature_attention to 'fa' or 'sfa'."
            )
        return FeatureBlocks()

    def block(side: str) -> keras.layers.Layer:
        here = {"name": f"{name}_{side}", "dtype": dtype}
        if isinstance(feature_attention, str):
            return FEATURE_ATTENTION[feature_attention](**options, **here)
        saved = keras.saving.serialize_keras_object(feature_attention)  # leaves a serialised one
        return keras.saving.deserialize_keras_object(
            {**saved, "config": {**saved["config"], **(config or {}), **here}}
        )

    try:
        if share:
            return FeatureBlocks(*[block("both")] * 2)
        return FeatureBlocks(block("1"), block("2"))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"No feature attention from feature_attention={feature_attention!r}, feature_attention_config={config!r}: "
            f"{error}. Expected None, {', '.join(map(repr, FEATURE_ATTENTION))}, or a layer, and the layer's arguments."
        ) from error


class _StackPair(keras.layers.Layer):
    """Both sentences in one batch: `stack_pair` in a graph, where lengths are not known yet."""

    def __init__(self, **kwargs: Any):
        super().__init__(autocast=False, **kwargs)

    def call(self, x1: Any, x2: Any) -> Any:
        return stack_pair(x1, x2)

    def compute_output_spec(self, x1: Any, x2: Any) -> Any:
        known = None not in (x1.shape[1], x2.shape[1])
        length = max(x1.shape[1], x2.shape[1]) if known else None
        return keras.KerasTensor((None, length, *x1.shape[2:]), dtype=x1.dtype)


class _SplitPair(keras.layers.Layer):
    """Undoes `_StackPair` for a sequence `[2B, L, ...]`, a mask `[2B, L]` or vectors `[2B, D]`."""

    def __init__(self, **kwargs: Any):
        super().__init__(autocast=False, **kwargs)

    def call(self, x: Any, like_1: Any, like_2: Any) -> Any:
        if _is_sequence(x):
            return split_pair(x, ops.shape(like_1)[1], ops.shape(like_2)[1])
        half = ops.shape(x)[0] // 2
        return x[:half], x[half:]

    def compute_output_spec(self, x: Any, like_1: Any, like_2: Any) -> Any:
        def spec(like: Any) -> Any:
            rest = (like.shape[1], *x.shape[2:]) if _is_sequence(x) else x.shape[1:]
            return keras.KerasTensor((like.shape[0], *rest), dtype=x.dtype)

        return spec(like_1), spec(like_2)


def _is_sequence(x: Any) -> bool:
    return len(x.shape) > 2 or keras.backend.standardize_dtype(x.dtype) == "bool"


class _CallWith(keras.layers.Layer):
    """Calls `layer` with options that change what it returns, on the layer's own weights.

    A graph can't call one layer twice with different numbers of outputs (Keras checks all calls against the first), so an
    explainer wraps the layer: `_CallWith(attention, return_attention=True)(x1, x2, mask_1, mask_2)`.
    """

    def __init__(self, layer: keras.layers.Layer, **options: Any):
        super().__init__(dtype=layer.dtype_policy)
        self.layer = layer
        self.options = options
        self.built = True

    def call(self, *args: Any) -> Any:
        return self.layer(*args, **self.options)

    def compute_output_spec(self, *args: Any) -> Any:
        return self.layer.compute_output_spec(*args, **self.options)


def register_model(name: str) -> Callable[[type[PairModel]], type[PairModel]]:
    """Class decorator: makes the model known to `build_model` and to `keras.saving`."""

    def register(cls: type[PairModel]) -> type[PairModel]:
        _MODELS[name] = cls
        return keras.saving.register_keras_serializable(package="keras_sentmatch")(cls)

    return register


def list_models() -> list[str]:
    """Names that `build_model` takes."""
    return sorted(_MODELS)


def get_model_class(name: str) -> type[PairModel]:
    """The class behind a name of `list_models()`."""
    if name not in _MODELS:
        raise InputError(f"There is no model {name!r}. Use one of: {', '.join(list_models())}.")
    return _MODELS[name]


def build_model(name: str, **config: Any) -> PairModel:
    """Build a model by name; `config` are its arguments, and `preset=` one of its presets.

    Raises:
        InputError: unknown model, preset or argument.
    """
    cls = get_model_class(name)
    allowed = [n for n in inspect.signature(cls.__init__).parameters if n not in ("self", "kwargs")]
    unknown = [
        key for key in config if key not in (*allowed, "preset", "name", "dtype", "trainable")
    ]
    if unknown:
        raise InputError(
            f"{cls.__name__} has no argument {', '.join(map(repr, unknown))}. It has: {', '.join(allowed)}."
        )
    preset = config.pop("preset", None)
    return cls.from_preset(preset, **config) if preset else cls(**config)
