"""What every model shares: arguments, inputs, graph, explainer, word vectors, registry."""

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import inspect
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_sentmatch.applications.pictures import PictureSpec
from keras_sentmatch.applications.search_space import Parameter
from keras_sentmatch.errors import InputError
from keras_sentmatch.layers import FeatureAttention, SelectiveFeatureAttention, WordRepresentation
from keras_sentmatch.layers.base import refuse_unknown
from keras_sentmatch.ops import dot_matrix, split_pair, stack_pair

FEATURE_ATTENTION = {"fa": FeatureAttention, "sfa": SelectiveFeatureAttention}
# Of every host: both blocks, the rows of the paper's Fig 3, and a control without gates.
FEATURE_PRESETS: dict[str, dict[str, Any]] = {
    "fa": {"feature_attention": "fa"},
    "sfa": {"feature_attention": "sfa"},
    **{
        f"sfa_no_{part}": {
            "feature_attention": "sfa",
            "feature_attention_config": {part: False},
        }
        for part in ("autoencoder", "max_pooling", "mean_pooling", "selection")
    },
    "residual_bigru": {
        "feature_attention": "sfa",
        "feature_attention_config": {"gates": False, "residual": True},
    },
}
FEATURES = ("word_ids", "char_ids", "pos", "antonym")  # what the encoder gives of a sentence
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
_MODELS: dict[str, type["PairModel"]] = {}
CODE = "SENTMATCH_CODE"  # the environment variable that names Python files with models
log = logging.getLogger(__name__)


class Sentence(SimpleNamespace):
    """Tensors of one sentence by name: `sentence.word_ids`, `sentence.mask`, ..."""

    def having(self, **tensors) -> "Sentence":
        """The same sentence with more tensors, or others."""
        return Sentence(**{**vars(self), **tensors})


class PairModel(keras.Model):
    """A functional Keras model of sentence pairs.

    A subclass makes its layers in `__init__`, in the order of its paper, and ends with
    `super().__init__(**kwargs)`, which makes the graph from two methods that read like the paper's
    equations:

    - `encode(sentence)` returns what is known of one sentence without the other, as a `Sentence`;
    - `interact(one, two)` returns the output from both.

    What is worth looking at is named where it is computed, with `show`; `explainer` returns it.

    Every argument is an attribute of the same name before `__init__` runs, and is what `get_config`
    returns.

    Args:
        vocabulary_size: number of word ids; 0 is padding, 1 the unknown word.
        num_classes: width of the output; 1 gives a score instead of probabilities.
        embedding_dim: width of a word vector.
        trainable_embedding: whether the word vectors are trained.
        char_vocabulary_size: number of character ids; 0 leaves the characters out.
        char_dim: width of a character embedding.
        char_filters: width of the character feature of a word.
        char_kernel_size: characters in a window of the character CNN.
        max_word_length: characters a word is padded to.
        exact_match: whether to flag words that occur in the other sentence.
        pos_tags: number of part-of-speech ids (`pos_1`, `pos_2`); 0 leaves them out.
        antonym: whether there is an antonym flag (`antonym_1`, `antonym_2`).
        feature_attention: blocks that gate the features of each sentence: `"fa"`, `"sfa"`, a layer
            to copy, or `None`.
        feature_attention_config: arguments of the blocks, and `share` for one block for both
            sentences. What it leaves out has the host's `feature_attention_defaults`, else the
            layer's own.
        **kwargs: `name`, `dtype` and `trainable`.

    Inputs:
        A dict of int32, right-padded with 0: `word_ids_1` `[B, L1]`, `word_ids_2` `[B, L2]`; with
        characters `char_ids_1` `[B, L1, max_word_length]`, `char_ids_2`; with those features
        `pos_1`, `pos_2`, `antonym_1`, `antonym_2`.

    Output:
        `[B, num_classes]` probabilities, or `[B, 1]` scores when `num_classes=1`, in float32 under
        every dtype policy.

    Masking:
        Padding changes nothing and is never read; an empty sentence gives a finite answer.

    Raises:
        InputError: for an argument that the model does not have.
    """

    paper: ClassVar[str] = ""
    summary_line: ClassVar[str] = ""
    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    search_space: ClassVar[list[Parameter]] = []
    pictures: ClassVar[tuple[PictureSpec, ...]] = ()
    # Arguments of a host's "fa" and "sfa" where they differ from the layer's.
    feature_attention_defaults: ClassVar[dict[str, dict[str, Any]]] = {}

    # === Arguments ===

    def __new__(cls, *args, **kwargs) -> "PairModel":
        model = super().__new__(cls)
        if args or kwargs:  # Keras calls __new__ once more, without arguments
            given = inspect.signature(cls.__init__).bind(model, *args, **kwargs)
            given.apply_defaults()
            arguments = dict(given.arguments)
            arguments.pop("self")
            check_arguments(cls, arguments.pop("kwargs", {}))
            policy = keras.dtype_policies.get(kwargs.get("dtype"))
            model.__dict__.update(arguments, arguments=arguments, policy=policy, _in_init=True)
        return model

    def __setattr__(self, name: str, value) -> None:
        # A module of PyTorch takes no layers before its __init__; they all are in the graph.
        if self.__dict__.get("_in_init"):
            object.__setattr__(self, name, value)
        else:
            super().__setattr__(name, value)

    def __init__(self, **kwargs):
        self._shown: list[Any] | None = []
        inputs = self.make_inputs()
        output = self.connect(inputs)
        self._explained, self._shown = self._shown, None  # from here on `show` does nothing
        self._in_init = False
        super().__init__(inputs=inputs, outputs=output, **kwargs)
        self.dtype_policy = self.policy  # a functional model does not keep it

    def fit(self, *args, **kwargs):
        """`keras.Model.fit`, which on PyTorch flushes denormal numbers to zero while it runs.

        TensorFlow and JAX always do. Such numbers (float32 below 1e-38) occur in the gradients of
        answers that are almost certain, and make a CPU many times slower.
        """
        with _denormals_flushed():
            return super().fit(*args, **kwargs)

    def get_config(self) -> dict[str, Any]:
        arguments = {
            name: keras.saving.serialize_keras_object(value)
            if isinstance(value, keras.layers.Layer)
            else value
            for name, value in self.arguments.items()
        }
        return {
            **arguments,
            "name": self.name,
            "trainable": self.trainable,
            "dtype": self.dtype_policy,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects=None) -> "PairModel":
        return cls(**config)

    @classmethod
    def from_preset(cls, preset: str, **config) -> "PairModel":
        """The model with one of its `presets`; `config` adds to it and overrides it."""
        if preset not in cls.presets:
            raise InputError(
                f"{cls.__name__} has no preset {preset!r}. Use one of: {', '.join(cls.presets)}."
            )
        return cls(**{**cls.presets[preset], **config})

    # === Searching ===

    @classmethod
    def conflict(cls, arguments: Mapping[str, Any]) -> str | None:
        """Why these arguments can't go together, if they can't; a search passes over them."""
        return None

    @classmethod
    def attended_width(cls, arguments: Mapping[str, Any], word_width: int) -> int | None:
        """The width of what feature attention reads, from the width of a word; None without it."""
        return None

    # === Graph ===

    def encode(self, sentence: Sentence) -> Sentence:
        """What is known of a sentence without the other one.

        `sentence` has `side` (`"1"` or `"2"`; `None` if both share the encoder), `mask` (boolean
        `[B, L]`), `other_word_ids`, and the encoder's features `word_ids`, `char_ids`, `pos` and
        `antonym`; those that the model has no input for are `None`.
        """
        raise NotImplementedError

    def interact(self, one: Sentence, two: Sentence):
        """The output from what `encode` returned for both sentences."""
        raise NotImplementedError

    def make_inputs(self) -> dict[str, Any]:
        """The symbolic int32 inputs by name."""
        shapes: dict[str, tuple[int | None, ...]] = {"word_ids": (None,)}
        if getattr(self, "char_vocabulary_size", 0):
            shapes["char_ids"] = (None, self.max_word_length)
        if getattr(self, "pos_tags", 0):
            shapes["pos"] = (None,)
        if getattr(self, "antonym", False):
            shapes["antonym"] = (None,)
        return {
            f"{name}_{side}": keras.Input(shape, dtype="int32", name=f"{name}_{side}")
            for side in "12"
            for name, shape in shapes.items()
        }

    def connect(self, inputs: Mapping[str, Any]):
        """The output from the symbolic inputs."""
        one = self.make_sentence("1", inputs, inputs["word_ids_2"])
        two = self.make_sentence("2", inputs, inputs["word_ids_1"])
        if self.shares_encoder:
            one, two = self.both(self.encode, one, two)
        else:
            one, two = self.encode(one), self.encode(two)
        return self.interact(one, two)

    def make_sentence(self, side: str, inputs: Mapping[str, Any], other_word_ids) -> Sentence:
        """What `encode` gets of a sentence."""
        features = {name: inputs.get(f"{name}_{side}") for name in FEATURES}
        mask = ops.not_equal(features["word_ids"], 0)
        return Sentence(**features, other_word_ids=other_word_ids, mask=mask, side=side)

    @property
    def shares_encoder(self) -> bool:
        """Whether `encode` is the same for both sentences; it then runs once, on both stacked."""
        return True

    def both(
        self, function: Callable[[Sentence], Sentence], one: Sentence, two: Sentence
    ) -> tuple[Sentence, Sentence]:
        """`function(one), function(two)`, as one call on both sentences stacked along the batch.

        Layers with shared weights run once, which is 4 to 13% faster for recurrent ones
        (TensorFlow, JAX). `function` takes and returns a `Sentence` of tensors `[B, L, ...]`, masks
        `[B, L]` and vectors `[B, D]`; its `side` is None.
        """
        given = {
            name: None if x is None or name == "side" else _StackPair()(x, getattr(two, name))
            for name, x in vars(one).items()
        }
        halves = {
            name: _SplitPair()(x, one.mask, two.mask)
            for name, x in vars(function(Sentence(**given))).items()
        }
        first, second = ({name: x[i] for name, x in halves.items()} for i in (0, 1))
        return Sentence(**first), Sentence(**second)

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs, in order: the features an encoder must make."""
        return list(self._inputs_struct)

    # === Parts that most models have ===

    def make(self, cls: Any, name: str, **options):
        """A layer of the model's dtype policy, from those of the model's arguments that it takes.

        `options` are its other arguments, or override them.
        """
        takes = inspect.signature(cls.__init__).parameters
        given = {n: value for n, value in self.arguments.items() if n in takes}
        return cls(**{**given, **options}, dtype=self.policy, name=name)

    def make_word_representation(self, **options) -> WordRepresentation:
        """`WordRepresentation` from the model's arguments; `options` override them."""
        given = {"exact_match": False, "fixed_embedding": not self.trainable_embedding}
        given |= {name: self.arguments[name] for name in given if name in self.arguments}
        return self.make(WordRepresentation, "word_representation", **{**given, **options})

    def represent_words(self, sentence: Sentence):
        """`[B, L, D]`: what `self.word_representation` makes of a sentence's words."""
        return self.word_representation(
            sentence.word_ids,
            sentence.other_word_ids,
            sentence.char_ids,
            sentence.pos,
            sentence.antonym,
        )

    def make_dropout(self, name: str) -> keras.layers.Layer:
        """Dropout at the model's rate."""
        return keras.layers.Dropout(self.dropout, dtype=self.policy, name=name)

    def make_classifier(
        self, dense: Callable[..., Any] = keras.layers.Dense, **options
    ) -> Callable[[Any], Any]:
        """The last layers: a function from `[B, D]` to probabilities `[B, num_classes]`, or a score.

        Both are float32 under every policy. `dense` makes the layer that gives the logits, with
        `options`.
        """
        self.logits = dense(self.num_classes, dtype="float32", name="logits", **options)
        self.probabilities = keras.layers.Activation(
            "softmax" if self.num_classes > 1 else "linear", dtype="float32", name="probabilities"
        )
        return lambda v: self.probabilities(self.logits(v))

    def make_feature_attention(
        self, name: str = "feature_attention", **defaults
    ) -> tuple[keras.layers.Layer, ...]:
        """`make_feature_blocks` from the model's arguments and the host's defaults."""
        kind = self.feature_attention
        if isinstance(kind, str):
            defaults |= self.feature_attention_defaults.get(kind, {})
        return make_feature_blocks(
            kind, self.feature_attention_config, name, self.policy, **defaults
        )

    def attend_features(
        self, blocks: tuple[keras.layers.Layer, ...], x1, mask_1, x2, mask_2, each: bool = False
    ) -> tuple[Any, Any]:
        """Feature attention of both sentences; without any `blocks`, `x1` and `x2`.

        Shows `feature_map_base` `[B, L1, L2]`, the mean over the features of `x1_i * x2_j` (the
        paper's Fig 5). With blocks `feature_map_before` and `feature_map`, the same of what they
        take and return; `gates_1` and `gates_2`, `[B, D]` of FA, `[B, N, W]` of SFA; and of SFA
        `selection_1` and `selection_2` `[B, N, W]`, the weights of the branches.
        """
        if not blocks:
            self.show(lambda: {"feature_map_base": dot_matrix(x1, x2) / x1.shape[-1]}, each=each)
            return x1, x2
        u1, *seen_1 = blocks[0](x1, mask_1, return_gates=True)
        u2, *seen_2 = blocks[1](x2, mask_2, return_gates=True)
        for side, seen in (("1", seen_1), ("2", seen_2)):
            gates = {f"{name}_{side}": x for name, x in zip(("gates", "selection"), seen)}
            self.show(each=each, **gates)
        self.show(
            lambda: {
                "feature_map_before": dot_matrix(x1, x2) / x1.shape[-1],
                "feature_map": dot_matrix(u1, u2) / u1.shape[-1],
            },
            each=each,
        )
        return u1, u2

    # === Explaining ===

    def show(
        self, later: Callable[[], Mapping[str, Any]] | None = None, *, each: bool = False, **tensors
    ) -> None:
        """Names tensors for `explainer`, while the graph is made.

        Args:
            later: a function that returns tensors by name, called only for an explainer.
            each: whether layers show theirs under one name, stacked along an axis after the batch.
                (What is shown again without it is concatenated along axis 1.)
            **tensors: tensors by name.
        """
        if self._shown is not None:
            self._shown.append((later or (lambda: tensors), each))

    def explainer(self) -> keras.Model:
        """A functional model on the same weights and inputs.

        Its output is a dict: `probabilities` `[B, C]`, and what the model names with `show`.
        """
        found: dict[str, list[Any]] = {}
        for show, each in self._explained:
            for name, x in show().items():
                found.setdefault(name, []).append(ops.expand_dims(x, 1) if each else x)
        if not found:
            raise NotImplementedError(f"{type(self).__name__} has nothing to show.")
        outputs = {n: ops.concatenate(xs, axis=1) if xs[1:] else xs[0] for n, xs in found.items()}
        return keras.Model(
            self.input, {"probabilities": self.output, **outputs}, name=f"{self.name}_explainer"
        )

    # === Splitting ===

    @property
    def why_not_splittable(self) -> str:
        """Why a sentence can't be encoded without the other; empty if it can."""
        switches = [name for name in ("exact_match", "antonym") if getattr(self, name, False)]
        off = ", ".join(f"{name}=False" for name in switches)
        return f"it flags words by the other sentence; make it with {off}" if off else ""

    @property
    def can_split(self) -> bool:
        """Whether one sentence can be encoded without the other."""
        return not self.why_not_splittable

    def split(self) -> tuple[keras.Model, keras.Model, keras.Model]:
        """Encoders of sentence 1 and of 2, and the interaction, on the same weights.

        An encoder takes the inputs of one sentence by name without a number and returns a dict of
        tensors. The interaction takes both dicts in one, with `_1` and `_2` added to each name, and
        returns the model's output. So the encodings of a corpus can be cached.

        Raises:
            InputError: if the model looks at both sentences from the start.
        """
        if self.why_not_splittable:
            raise InputError(
                f"This {type(self).__name__} can't encode a sentence alone: {self.why_not_splittable}."
            )
        encoders, sides = [], []
        inputs: dict[str, keras.KerasTensor] = {}
        for side in "12":
            of_side = {
                name.removesuffix(f"_{side}"): keras.Input(
                    x.shape[1:], dtype=x.dtype, name=name.removesuffix(f"_{side}")
                )
                for name, x in self._inputs_struct.items()
                if name.endswith(f"_{side}")
            }
            sentence = self.make_sentence(
                side, {f"{n}_{side}": x for n, x in of_side.items()}, None
            )
            tensors = vars(self.encode(sentence))
            encoders.append(keras.Model(of_side, tensors, name=f"{self.name}_encoder_{side}"))
            cached = {
                name: keras.Input(x.shape[1:], dtype=x.dtype, name=f"{name}_{side}")
                for name, x in tensors.items()
            }
            inputs |= {f"{name}_{side}": x for name, x in cached.items()}
            sides.append(Sentence(**cached))
        interaction = keras.Model(inputs, self.interact(*sides), name=f"{self.name}_interaction")
        return encoders[0], encoders[1], interaction

    # === Word vectors ===

    def _word_representations(self) -> list[WordRepresentation]:
        return [layer for layer in self.layers if isinstance(layer, WordRepresentation)]

    def set_word_vectors(self, matrix) -> None:
        """Put `matrix`, `[vocabulary_size, embedding_dim]`, into every word embedding."""
        for layer in self._word_representations():
            layer.set_word_vectors(matrix)

    def count_params_without_word_embeddings(self) -> int:
        """The papers' count: all parameters but the word embeddings."""
        words = sum(
            e.count_params()
            for layer in self._word_representations()
            for e in layer.word_embeddings
        )
        return self.count_params() - words


@contextlib.contextmanager
def _denormals_flushed():
    already = np.float32(1e-30) * np.float32(1e-10) == 0
    if already or keras.config.backend() != "torch":
        yield
        return
    import torch

    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


class CallWith(keras.layers.Layer):
    """Calls `layer` with options that change what it returns, on the layer's own weights.

    In one graph Keras takes all calls of a layer to return as many tensors as the first; this is a
    call of its own: `CallWith(attention, return_norms=True)(x1, x2, mask_1, mask_2)`.
    """

    def __init__(self, layer: keras.layers.Layer, **options):
        super().__init__(dtype=layer.dtype_policy)
        self.layer = layer
        self.options = options
        self.built = True

    def call(self, *args):
        return self.layer(*args, **self.options)

    def compute_output_spec(self, *args):
        return self.layer.compute_output_spec(*args, **self.options)


class _StackPair(keras.layers.Layer):
    """Both sentences in one batch: `stack_pair` in a graph, where lengths are not known yet."""

    def __init__(self) -> None:
        super().__init__(autocast=False)

    def call(self, x1, x2):
        return stack_pair(x1, x2)

    def compute_output_spec(self, x1, x2):
        known = None not in (x1.shape[1], x2.shape[1])
        length = max(x1.shape[1], x2.shape[1]) if known else None
        return keras.KerasTensor((None, length, *x1.shape[2:]), dtype=x1.dtype)


class _SplitPair(keras.layers.Layer):
    """Undoes `_StackPair` for a sequence `[2B, L, ...]`, a mask `[2B, L]` or vectors `[2B, D]`."""

    def __init__(self) -> None:
        super().__init__(autocast=False)

    def call(self, x, mask_1, mask_2):
        if _is_sequence(x):
            return split_pair(x, ops.shape(mask_1)[1], ops.shape(mask_2)[1])
        half = ops.shape(x)[0] // 2
        return x[:half], x[half:]

    def compute_output_spec(self, x, mask_1, mask_2):
        return tuple(
            keras.KerasTensor(
                (
                    mask.shape[0],
                    *((mask.shape[1], *x.shape[2:]) if _is_sequence(x) else x.shape[1:]),
                ),
                dtype=x.dtype,
            )
            for mask in (mask_1, mask_2)
        )


def _is_sequence(x) -> bool:
    return len(x.shape) > 2 or keras.backend.standardize_dtype(x.dtype) == "bool"


def make_feature_blocks(
    kind, config: Mapping[str, Any] | None, name: str, dtype, **defaults
) -> tuple[keras.layers.Layer, ...]:
    """The feature attention of a host: a block for each sentence, or none.

    Args:
        kind: None for no blocks, `"fa"`, `"sfa"`, a layer to copy, or the serialized config of one.
        config: arguments of the block, and `share`: whether both sentences share one block instead
            of having one each, as the paper has it (which makes a symmetric host tell the first
            sentence from the second).
        name: of the blocks; `_1` and `_2` are added.
        dtype: the model's dtype policy.
        **defaults: arguments of the block that `config` may override.

    Raises:
        InputError: for what is no feature attention.

    References:
        Zang, Liu, 2024.
    """
    options = {**defaults, **(config or {})}
    share = options.pop("share", False)
    if kind is None:
        if config:
            raise InputError(
                f"feature_attention_config={dict(config)} configures nothing: set feature_attention to 'fa' or 'sfa'."
            )
        return ()

    def block(side: str) -> keras.layers.Layer:
        here = {"name": f"{name}_{side}", "dtype": dtype}
        if isinstance(kind, str):
            return FEATURE_ATTENTION[kind](**options, **here)
        saved = keras.saving.serialize_keras_object(kind)  # leaves a serialized one as it is
        return keras.saving.deserialize_keras_object(
            {**saved, "config": {**saved["config"], **(config or {}), **here}}
        )

    try:
        return (block("both"),) * 2 if share else (block("1"), block("2"))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"No feature attention from feature_attention={kind!r}, feature_attention_config={config!r}: {error}. "
            f"Expected None, {', '.join(map(repr, FEATURE_ATTENTION))}, or a layer, and the layer's arguments."
        ) from error


def model_arguments(cls: type[PairModel]) -> dict[str, inspect.Parameter]:
    """The arguments of a model by name, without those of every Keras model."""
    parameters = inspect.signature(cls.__init__).parameters
    return {name: p for name, p in parameters.items() if name not in ("self", "kwargs")}


def check_arguments(cls: type[PairModel], names, *more: str) -> None:
    """Raise an `InputError` for names that the model, Keras and `more` do not have."""
    refuse_unknown(cls.__name__, [n for n in names if n not in more], list(model_arguments(cls)))


def check_choice(name: str, value, allowed) -> None:
    """Raises an `InputError` for an argument that is not one of the values allowed."""
    if value not in allowed:
        raise InputError(f"{name} must be one of {tuple(allowed)}. Received: {name}={value!r}")


def register_model(name: str) -> Callable[[type[PairModel]], type[PairModel]]:
    """Class decorator: makes the model known to `build_model` and to `keras.saving`."""

    def register(cls: type[PairModel]) -> type[PairModel]:
        _MODELS[name] = cls
        return keras.saving.register_keras_serializable(package="keras_sentmatch")(cls)

    return register


def load_models(file: str | Path) -> list[str]:
    """Imports a Python file of yours, and registers the models in it; returns their names.

    A model without `register_model` is registered under its class's name: `MyMatcher` becomes
    `my_matcher`.
    """
    path = Path(file).expanduser().resolve()
    name = f"keras_sentmatch_code_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if not path.is_file() or spec is None or spec.loader is None:
            raise InputError(f"{file}: no such Python file; expected one that ends in .py.")
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[name]
            what = f"{type(error).__name__}: {error}"
            raise InputError(f"{file} cannot be imported ({what}).") from error
    classes = [c for c in vars(sys.modules[name]).values() if _is_own(c, name)]
    for cls in classes:
        own = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
        if own not in _MODELS and cls not in _MODELS.values():
            register_model(own)(cls)
    found = [name for name, cls in _MODELS.items() if cls in classes]
    if not found:
        raise InputError(f"{file} defines no subclass of keras_sentmatch.applications.PairModel.")
    return found


def _is_own(value: object, module: str) -> bool:
    ours = isinstance(value, type) and issubclass(value, PairModel)
    return ours and value.__module__ == module


def load_own_models() -> None:
    """Loads the models of entry points, and of the files that $SENTMATCH_CODE names."""
    for entry in importlib.metadata.entry_points(group="keras_sentmatch.models"):
        try:
            found = entry.load()
        except Exception as error:
            log.warning(f"The models of the entry point {entry.value} cannot be loaded: {error}")
            continue
        if isinstance(found, type) and found not in _MODELS.values():
            register_model(entry.name)(found)
    for file in filter(None, os.environ.get(CODE, "").split(os.pathsep)):
        load_models(file)


def list_models() -> list[str]:
    """Names that `build_model` takes."""
    return sorted(_MODELS)


def get_model_class(name: str) -> type[PairModel]:
    """The class behind a name of `list_models()`."""
    if name not in _MODELS:
        raise InputError(f"There is no model {name!r}. Use one of: {', '.join(list_models())}.")
    return _MODELS[name]


def build_model(name: str, **config) -> PairModel:
    """Build a model by name; `config` are its arguments, and `preset=` one of its presets.

    Raises:
        InputError: unknown model, preset or argument.
    """
    cls = get_model_class(name)
    check_arguments(cls, config, "preset")
    preset = config.pop("preset", None)
    return cls.from_preset(preset, **config) if preset else cls(**config)
