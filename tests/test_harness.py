"""The harness must pass a sound layer and reject each of these broken ones, by the right check."""

from functools import partial

import keras
import numpy as np
import pytest
from keras import ops

from tests import harness, oracles
from tests.case import Case, lengths_mask, name_of, noise, value
from tests.harness import CHECKS, check_option

# length 1 is one of the checks
pytestmark = pytest.mark.filterwarnings("ignore:You are using a softmax over axis")


@keras.saving.register_keras_serializable(package="tests")
class Attend(keras.layers.Layer):
    """Each token of one sentence gets a masked-softmax average of the other: two outputs."""

    def __init__(self, units, scale=1.0, note="", **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.scale = scale
        self.note = note  # an option that does nothing
        self.dense = keras.layers.Dense(units, dtype=self.sublayer_policy())

    def sublayer_policy(self):
        return self.dtype_policy

    def build(self, x1_shape, x2_shape):
        self.dense.build(x1_shape)

    def averages(self, h1, h2, mask_2):
        scores = ops.cast(ops.matmul(h1, ops.transpose(h2, (0, 2, 1))), "float32") * self.scale
        valid = mask_2[:, None, :]
        weights = ops.softmax(ops.where(valid, scores, -1e9), axis=-1)
        weights = ops.where(valid, weights, 0.0)
        h2 = ops.where(mask_2[..., None], h2, ops.zeros_like(h2))
        return ops.matmul(ops.cast(weights, h1.dtype), h2)

    def call(self, x1, x2, mask_1=None, mask_2=None):
        h1, h2 = self.dense(x1), self.dense(x2)
        y1, y2 = self.averages(h1, h2, mask_2), self.averages(h2, h1, mask_1)
        y1 = ops.where(mask_1[..., None], y1, ops.zeros_like(y1))
        return y1, ops.where(mask_2[..., None], y2, ops.zeros_like(y2))

    def get_config(self):
        config = {"units": self.units, "scale": self.scale, "note": self.note}
        return {**super().get_config(), **config}


def attend_oracle(layer, x1, x2, mask_1, mask_2):
    kernel, bias = value(layer.dense.kernel), value(layer.dense.bias)
    h1, h2 = x1 @ kernel + bias, x2 @ kernel + bias
    scores = h1 @ h2.transpose(0, 2, 1) * layer.scale
    both = oracles.pair_mask(mask_1, mask_2)
    alpha_1 = oracles.masked_softmax(scores, both, axis=2)
    alpha_2 = oracles.masked_softmax(scores, both, axis=1).transpose(0, 2, 1)
    return alpha_1 @ h2, alpha_2 @ h1


@keras.saving.register_keras_serializable(package="tests")
class ReadWords(keras.layers.Layer):
    """Ids -> the masked mean of their vectors `[B, D]`, the mask taken from the ids."""

    def __init__(self, dim, **kwargs):
        super().__init__(**kwargs)
        self.dim = dim
        self.embedding = keras.layers.Embedding(10, dim, dtype=self.dtype_policy)

    def build(self, ids_shape):
        self.embedding.build(ids_shape)

    def call(self, ids):
        real = ops.cast(ids != 0, self.compute_dtype)[..., None]
        return ops.sum(self.embedding(ids) * real, 1) / ops.maximum(ops.sum(real, 1), 1)

    def get_config(self):
        return {**super().get_config(), "dim": self.dim}


def words_oracle(layer, ids):
    return oracles.masked_mean(value(layer.embedding.embeddings)[ids], ids != 0)


PAIR = {
    "x1": noise(3, 4, 5),
    "x2": noise(3, 6, 5, seed=1),
    "mask_1": lengths_mask([4, 2, 1], 4),
    "mask_2": lengths_mask([3, 6, 2], 6),
}
IDS = np.array([[3, 4, 5, 0], [6, 0, 0, 0], [2, 9, 0, 0]], "int32")

CASES = [
    Case(partial(Attend, units=3), PAIR, (18, 0), attend_oracle),
    Case(partial(ReadWords, dim=3), {"ids": IDS}, (30, 0), words_oracle),
]


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_sound_layers_pass(case, check):
    check(case)


def test_option_without_effect_is_rejected():
    check_option(CASES[0], "scale", 1.0, 2.0)
    with pytest.raises(AssertionError, match="are the same"):
        check_option(CASES[0], "note", "a", "b")


# --- broken layers ---


def broken(name, **methods):
    return type(name, (Attend,), methods)


def answers(name, change, **methods):
    """A layer whose first output is `change(layer, y1, x1, y2, mask_2)`."""

    def call(self, x1, x2, mask_1=None, mask_2=None):
        y1, y2 = Attend.call(self, x1, x2, mask_1, mask_2)
        return change(self, y1, x1, y2, mask_2), y2

    return broken(name, call=call, **methods)


def with_spare(self, x1_shape, x2_shape):
    Attend.build(self, x1_shape, x2_shape)
    self.spare = self.add_weight((2,), name="spare")


def wrong_shape(self, x1, x2, mask_1=None, mask_2=None):
    shapes = (*x1.shape[:-1], self.units + 1), (*x2.shape[:-1], self.units)
    return tuple(keras.KerasTensor(shape, dtype=self.compute_dtype) for shape in shapes)


def zero_norm(self, y1, x1, y2, mask_2):
    """The norm of a zero vector has no gradient, and 0 * NaN is NaN."""
    return y1 + ops.sqrt(ops.sum(ops.square(self.dense(x1) * 0.0), axis=(1, 2), keepdims=True))


LEAKY = broken(
    "Leaky", averages=lambda s, h1, h2, mask: Attend.averages(s, h1, h2, ops.ones_like(mask))
)
BROKEN = [
    (LEAKY, "check_padding", "differs"),
    (LEAKY, "check_oracle", "differs"),
    (LEAKY, "check_save", "(?i)Could not|unknown|register"),
    (answers("PadsLeft", lambda s, y1, *_: y1 + 1), "check_padding", "not zero at appended pads"),
    (answers("Mixing", lambda s, y1, x1, y2, m: y1 * ops.mean(y2)), "check_batch", "row 0 alone"),
    (broken("Untouched", build=with_spare), "check_gradients", "spare (has no gradient|is zero)"),
    (
        answers("Zero", lambda s, y1, *_: y1 + ops.sum(s.spare) * 0.0, build=with_spare),
        "check_gradients",
        "spare is zero",
    ),
    (
        broken(
            "Frozen",
            call=lambda s, x1, x2, mask_1=None, mask_2=None: Attend.call(
                s, ops.stop_gradient(x1), x2, mask_1, mask_2
            ),
        ),
        "check_gradients",
        "x1 (has no gradient|is zero)",
    ),
    (
        broken("Lacks", get_config=lambda self: {"units": 3, "note": ""}),
        "check_config",
        "lacks .'scale'",
    ),
    (
        broken("Lies", get_config=lambda self: {**Attend.get_config(self), "scale": 3.0}),
        "check_config",
        "scale",
    ),
    (
        broken("BuildsLate", build=lambda self, x1_shape, x2_shape: None),
        "check_build",
        r"weights \(0, 0\)",
    ),
    (broken("WrongShape", compute_output_spec=wrong_shape), "check_symbolic", "symbolic shape"),
    (
        broken("OwnPolicy", sublayer_policy=lambda self: "float32"),
        "check_dtypes",
        "sublayer dense.* has policy float32",
    ),
    (
        answers("Wide", lambda s, y1, *_: ops.cast(y1, "float32")),
        "check_dtypes",
        "output 0 is float32",
    ),
    (answers("WrongMaths", lambda s, y1, *_: y1 * 1.0001), "check_oracle", "differs"),
    (
        answers(
            "NanWhenEmpty",
            lambda s, y1, x1, y2, m: y1 / ops.cast(ops.any(m, axis=1), y1.dtype)[:, None, None],
        ),
        "check_short",
        "not finite",
    ),
    (answers("NanGradient", zero_norm), "check_short", "gradient is not finite"),
]


@pytest.mark.parametrize(
    "cls, check, message", BROKEN, ids=[f"{c.__name__}-{k}" for c, k, _ in BROKEN]
)
def test_broken_layers_are_rejected(cls, check, message):
    case = Case(partial(cls, units=3), PAIR, (18, 0), attend_oracle)
    with pytest.raises((AssertionError, TypeError, ValueError), match=message):
        getattr(harness, check)(case)
