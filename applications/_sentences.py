"""The tensors of a sentence, and both sentences through one function at once."""

from collections.abc import Callable
from types import SimpleNamespace

import keras
from keras import ops

from keras_sentmatch.ops.sequence import split_pair, stack_pair


class Sentence(SimpleNamespace):
    """The tensors of one sentence by name: `sentence.word_ids`, `sentence.mask`, ..."""


def both(
    function: Callable[[Sentence], Sentence], one: Sentence, two: Sentence
) -> tuple[Sentence, Sentence]:
    """Return `function(one), function(two)`, from one call on both stacked along the batch.

    Layers with shared weights run once, which is 4 to 13% faster for recurrent ones (TensorFlow,
    JAX). `function` accepts and returns a `Sentence` of tensors `[B, L, ...]`, masks `[B, L]` and
    vectors `[B, D]`; its `side` is None. What it returns as it came is not split.
    """
    stacked = {
        name: None if x is None or name == "side" else _stacked(x, getattr(two, name))
        for name, x in vars(one).items()
    }
    first, second = {}, {}
    for name, x in vars(function(Sentence(**stacked))).items():
        if x is stacked.get(name):
            first[name], second[name] = getattr(one, name), getattr(two, name)
        else:
            first[name], second[name] = _SplitPair()(x, one.mask, two.mask)
    return Sentence(**first), Sentence(**second)


def _stacked(x1, x2):
    """Return what an earlier `both` split into these tensors, or stack them."""
    one, two = x1._keras_history, x2._keras_history
    split = one.operation
    if isinstance(split, _SplitPair) and two.operation is split:
        if (one.tensor_index, two.tensor_index) == (0, 1):
            return split.input[0]
    return _StackPair()(x1, x2)


@keras.saving.register_keras_serializable(package="keras_sentmatch", name="StackPair")
class _StackPair(keras.layers.Layer):
    """Stack both sentences in one batch with `stack_pair`; in a graph the lengths are unknown."""

    def __init__(self, **kwargs):
        super().__init__(**{**kwargs, "autocast": False})

    def call(self, x1, x2):
        return stack_pair(x1, x2)

    def compute_output_spec(self, x1, x2):
        known = None not in (x1.shape[1], x2.shape[1])
        length = max(x1.shape[1], x2.shape[1]) if known else None
        return keras.KerasTensor((None, length, *x1.shape[2:]), dtype=x1.dtype)


@keras.saving.register_keras_serializable(package="keras_sentmatch", name="SplitPair")
class _SplitPair(keras.layers.Layer):
    """Undo `_StackPair` for a sequence `[2B, L, ...]`, a mask `[2B, L]` or vectors `[2B, D]`."""

    def __init__(self, **kwargs):
        super().__init__(**{**kwargs, "autocast": False})

    def call(self, x, mask_1, mask_2):
        if _is_sequence(x):
            return split_pair(x, ops.shape(mask_1)[1], ops.shape(mask_2)[1])
        half = ops.shape(x)[0] // 2
        return x[:half], x[half:]

    def compute_output_spec(self, x, mask_1, mask_2):
        def half(mask):
            shape = (mask.shape[1], *x.shape[2:]) if _is_sequence(x) else x.shape[1:]
            return keras.KerasTensor((mask.shape[0], *shape), dtype=x.dtype)

        return half(mask_1), half(mask_2)


def _is_sequence(x) -> bool:
    return len(x.shape) > 2 or keras.backend.standardize_dtype(x.dtype) == "bool"
