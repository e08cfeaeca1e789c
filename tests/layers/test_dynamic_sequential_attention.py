"""DynamicSequentialAttention."""

from functools import partial

import numpy as np
import pytest

from keras_sentmatch.layers import DynamicSequentialAttention
from tests import oracles_encoders
from tests.harness import (
    Case,
    arguments_act,
    built,
    check_build,
    check_gradients,
    check_oracle,
    gradients,
    lengths_mask,
    noise,
    run_checks,
    value,
)

INPUTS = {
    "phrases": noise(3, 3, 5, 4),
    "mask": lengths_mask([5, 3, 1], 5),
    "guide": noise(3, 4, seed=1),
}
SMALL = partial(DynamicSequentialAttention, steps=3, attention_units=2, beta=2.0)
SHOWN = {"return_selection": True}


def outputs(layer, phrases, mask, guide):
    count, width = phrases.shape[1], phrases.shape[-1]
    off = layer.coverage == "off"
    per_unit = [
        {
            "W": value(layer.token_kernels[r]),
            "U": value(layer.state_kernels[r]),
            "M": value(layer.guide_kernels[r]),
            "V": value(layer.earlier_kernels[r - 1]) if r else None,
            "w": value(layer.contexts[r]),
            "phi": None if off else value(layer.fertility_kernels[r]),
        }
        for r in range(count)
    ]
    alone = sum(layer.fused) == 1  # a single unit has the weight 1 whatever its score
    found = oracles_encoders.dynamic_sequential_attention(
        phrases,
        mask,
        guide,
        per_unit,
        np.zeros((width, 1)) if alone else value(layer.fusion_kernel),
        np.zeros(1) if alone else value(layer.fusion_context),
        [value(w) for w in layer.cell.weights],
        layer.beta,
        layer.steps,
        layer.fuse_word,
        layer.coverage,
        layer.clip_coverage,
        layer.coverage_update,
    )
    return found["states"], found["weights"], found["coverage"], found["fusion"]


def states(layer, **inputs):
    return outputs(layer, **inputs)[0]


def count(units=3, fertility=True, fusion=True):
    scoring = units * (3 * 4 * 2 + 2) + (units - 1) * 4 * 2
    return scoring + units * 4 * fertility + (4 * 2 + 2) * fusion + 3 * 4 * (4 + 4 + 2)


def case(name, weights, inputs=INPUTS, **arguments):
    return Case(
        partial(SMALL, **arguments),
        inputs,
        (weights, 0),
        outputs,
        name=name,
        options=SHOWN,
        pad_axes={"phrases": (2,)},
        float32_outputs=(1, 2, 3),
    )


CASES = [
    Case(partial(SMALL, steps=2), INPUTS, (count(), 0), states, pad_axes={"phrases": (2,)}),
    case("shown, log", count(), coverage="log", fuse_word=False, steps=2),
]
SHOW = case("shown", count())
WORDS = {**INPUTS, "phrases": INPUTS["phrases"][:, :1]}
PAIR = {**INPUTS, "phrases": INPUTS["phrases"][:, :2]}
VARIANTS = [
    SHOW,
    case("not clipped", count(), clip_coverage=False, steps=5),
    case("log, not clipped", count(), clip_coverage=False, steps=5, coverage="log"),
    case("score", count(), coverage_update="score"),
    case("score, not clipped", count(), coverage_update="score", clip_coverage=False),
    case("score, log", count(), coverage_update="score", coverage="log"),
    case("no coverage", count(fertility=False), coverage="off"),
    case("words only", count(units=1, fusion=False), WORDS),
    case("one phrase, word not fused", count(units=2, fusion=False), PAIR, fuse_word=False),
]

test_checks = run_checks(CASES)

test_variants = run_checks(VARIANTS, check_build, check_oracle)

test_no_weight_of_the_variants_is_dead = run_checks(VARIANTS, check_gradients)


test_arguments = arguments_act([SHOW], coverage="log", coverage_update="score")


def seen(layer, inputs=INPUTS):
    return [value(t) for t in layer(**inputs, **SHOWN)]


@pytest.mark.parametrize("coverage", ["multiply", "log"])
@pytest.mark.parametrize("update", ["probability", "score"])
def test_variants_where_there_is_nothing_to_read(coverage, update):
    """A fertility of 0 in float32 gives neither inf nor NaN, in values and gradients."""
    for clip in (True, False):
        layer = built(SHOW, coverage=coverage, clip_coverage=clip, coverage_update=update)
        for kernel in layer.fertility_kernels:
            kernel.assign(1000 * value(kernel))
        assert all(np.isfinite(t).all() for t in seen(layer))
        for group in gradients(SHOW, layer, INPUTS):
            assert all(np.isfinite(g).all() for g in group if g is not None)


def test_counts_of_the_paper():
    """768 features, two units of phrases."""
    layer = DynamicSequentialAttention()
    layer.build((None, 3, None, 768), guide_shape=(None, 768))
    found = dict.fromkeys(("gru", "fusion", "fertility", "F_r"), 0)
    for w in layer.trainable_weights:
        part = next((part for part in found if part in w.path), "F_r")
        found[part] += int(np.prod(w.shape))
    assert found == {"F_r": 1_690_200, "fusion": 153_800, "fertility": 2_304, "gru": 3_543_552}
