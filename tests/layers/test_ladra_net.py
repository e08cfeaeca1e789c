"""The layers of LadRa-Net."""

from functools import partial

import keras
import numpy as np
import pytest
from keras import ops

from keras_sentmatch.layers import DynamicSequentialAttention, PhraseCNN
from keras_sentmatch.layers.ladra_net import LayerWeightedSum
from tests import oracles_encoders as oracles
from tests.case import Case, built, gradients, lengths_mask, noise, value, weights_of
from tests.harness import arguments_act, check_build, check_gradients, check_oracle, run_checks
from tests.layers.common import ONE

INPUTS = {
    "phrases": noise(3, 3, 5, 4),
    "mask": lengths_mask([5, 3, 1], 5),
    "guide": noise(3, 4, seed=1),
}
LAYERS = {"layers": noise(2, 4, 5, 3)}
READ = partial(DynamicSequentialAttention, steps=3, attention_units=2, beta=2.0)
SHOWN = {"return_selection": True}


@keras.saving.register_keras_serializable(package="tests")
class Summed(LayerWeightedSum):
    """The harness gives it one tensor instead of a list."""

    def build(self, layers_shape):
        super().build([layers_shape] * layers_shape[1])

    def call(self, layers):
        return super().call(ops.unstack(layers, 4, axis=1))

    def compute_output_spec(self, layers):
        return self.spec(layers.shape[0], *layers.shape[2:])


def summed(layer, layers):
    return oracles.layer_weighted_sum(
        list(layers.swapaxes(0, 1)), value(layer.scalars), layer.normalize
    )


def convolved(layer, x, mask):
    pairs = zip(layer.hidden_convolutions, layer.output_convolutions)
    return oracles.phrase_cnn(x, mask, [weights_of(a) + weights_of(b) for a, b in pairs])


def read(layer, phrases, mask, guide):
    count, width = phrases.shape[1], phrases.shape[-1]
    per_unit = [
        {
            "W": value(layer.token_kernels[r]),
            "U": value(layer.state_kernels[r]),
            "M": value(layer.guide_kernels[r]),
            "V": value(layer.earlier_kernels[r - 1]) if r else None,
            "w": value(layer.contexts[r]),
            "phi": value(layer.fertility_kernels[r]) if layer.fertility_kernels else None,
        }
        for r in range(count)
    ]
    alone = sum(layer.fused) == 1  # a single unit has the weight 1 whatever its score
    found = oracles.dynamic_sequential_attention(
        phrases,
        mask,
        guide,
        per_unit,
        np.zeros((width, 1)) if alone else value(layer.fusion_kernel),
        np.zeros(1) if alone else value(layer.fusion_context),
        weights_of(layer.cell),
        layer.beta,
        layer.steps,
        layer.fuse_word,
        layer.coverage,
        layer.clip_coverage,
        layer.coverage_update,
    )
    return found["states"], found["weights"], found["coverage"], found["fusion"]


def count(units=3, fertility=True, fusion=True):
    scoring = units * (3 * 4 * 2 + 2) + (units - 1) * 4 * 2
    return scoring + units * 4 * fertility + (4 * 2 + 2) * fusion + 3 * 4 * (4 + 4 + 2)


def windows(*widths):
    return sum(width * 4 * 3 + 3 + width * 3 * 4 + 4 for width in widths)


def reading(name, weights, inputs=INPUTS, **arguments):
    return Case(
        partial(READ, **arguments),
        inputs,
        (weights, 0),
        read,
        name=name,
        options=SHOWN,
        pad_axes={"phrases": (2,)},
        float32_outputs=(1, 2, 3),
    )


SHOW = reading("shown", count())
PHRASES = partial(PhraseCNN, hidden_filters=3)
SUMS = {"pad_axes": {"layers": (2,)}, "zero_pads": False}
CASES = [
    Case(
        partial(READ, steps=2),
        INPUTS,
        (count(), 0),
        lambda layer, **inputs: read(layer, **inputs)[0],
        pad_axes={"phrases": (2,)},
    ),
    reading("shown, no coverage", count(fertility=False), coverage="off", fuse_word=False, steps=2),
    Case(partial(PHRASES, widths=(1, 4, 2)), ONE, (windows(1, 4, 2), 0), convolved),
]
WORDS = INPUTS | {"phrases": INPUTS["phrases"][:, :1]}
PAIR = INPUTS | {"phrases": INPUTS["phrases"][:, :2]}
VARIANTS = [
    SHOW,
    reading("not clipped", count(), clip_coverage=False, steps=5),
    reading("log", count(), coverage="log", clip_coverage=False),
    reading("score", count(), coverage_update="score"),
    reading("score, not clipped", count(), coverage_update="score", clip_coverage=False),
    reading("words only", count(units=1, fusion=False), WORDS),
    reading("one phrase, word not fused", count(units=2, fusion=False), PAIR, fuse_word=False),
]

test_checks = run_checks(CASES)

test_sums = run_checks(
    [
        Case(Summed, LAYERS, (4, 0), summed, **SUMS),
        Case(partial(Summed, normalize=False), LAYERS, (4, 0), summed, "free", **SUMS),
    ]
)

test_variants = run_checks(VARIANTS, check_build, check_oracle, check_gradients)

test_arguments = arguments_act(
    [SHOW, CASES[2]], coverage="off", coverage_update="score", widths=(3, 2)
)


@pytest.mark.parametrize("update", ["probability", "score"])
def test_a_fertility_of_zero_gives_neither_inf_nor_nan(update):
    for clip in (True, False):
        layer = built(SHOW, clip_coverage=clip, coverage_update=update)
        for kernel in layer.fertility_kernels:
            kernel.assign(1000 * value(kernel))
        assert all(np.isfinite(value(t)).all() for t in layer(**INPUTS, **SHOWN))
        for group in gradients(SHOW, layer, INPUTS):
            assert all(np.isfinite(g).all() for g in group if g is not None)


@pytest.mark.each_backend
@pytest.mark.parametrize("normalize", [True, False])
def test_the_sum_starts_as_the_mean_and_half_precision_sums_in_float32(normalize):
    x = noise(1, 12, 50, 20, seed=3)
    y = LayerWeightedSum(normalize, dtype="mixed_bfloat16")(list(x.swapaxes(0, 1)))
    assert keras.backend.standardize_dtype(y.dtype) == "bfloat16"
    error = value(ops.cast(y, "float32")) - x.mean(1)
    assert np.sqrt((error**2).mean()) < 2e-3 * np.abs(x.mean(1)).max()
