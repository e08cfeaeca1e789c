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


@pytest.mark.parametrize("coverage", ["multiply", "log", "off"])
def test_what_is_chosen_and_covered(coverage):
    _, weights, covered, units = seen(built(SHOW, coverage=coverage))
    assert weights.shape == covered.shape == (3, 3, 3, 5) and units.shape == (3, 3, 3)
    real = np.broadcast_to(INPUTS["mask"][:, None, None], weights.shape)
    assert not weights[~real].any() and not covered[~real].any()
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
    np.testing.assert_allclose(units.sum(-1), 1, atol=1e-6)
    assert (covered >= 0).all()
    fell = (np.diff(covered, axis=1) <= 0).all() and (covered[real] < 1).all()
    assert fell == (coverage != "off")


def test_coverage_sends_the_second_look_elsewhere():
    """With scores above 0 a token that was read is not read again. Below 0 only "log" prevents that."""
    order = np.random.default_rng(4).permuted(np.tile(np.arange(5), (3, 3, 1)), axis=-1)
    phrases = np.zeros((3, 3, 5, 4), "float32")
    np.put_along_axis(phrases[..., 0], order, np.arctanh([0.5, 0.4, 0.3, 0.2, 0.1]), -1)
    phrases[..., 1] = -1
    inputs = {**INPUTS, "phrases": phrases, "mask": np.ones((3, 5), bool)}
    for sign, best in ((1, order), (-1, order[..., ::-1])):
        for coverage, again in (("off", True), ("log", False), ("multiply", sign < 0)):
            layer = built(SHOW, steps=2, beta=100.0, coverage=coverage)
            for w in layer.weights:  # scores are those of the token, half of it is to be read
                w.assign(np.zeros(w.shape))
            for kernel, context in zip(layer.token_kernels, layer.contexts):
                kernel.assign(np.eye(4, 2))
                context.assign([[sign], [0.0]])
            for kernel in layer.fertility_kernels:
                kernel.assign([[0.0], [np.log(3)], [0.0], [0.0]])
            weights, covered = seen(layer, inputs)[1:3]
            assert (weights.max(-1) > 0.9).all()
            want = np.stack([best[..., 0], best[..., 0 if again else 1]], axis=1)
            np.testing.assert_array_equal(weights.argmax(-1), want)
            left = np.take_along_axis(covered[:, 0], best[..., :1], -1)
            assert (left == float(coverage == "off")).all()


def test_a_big_beta_is_the_hard_selection():
    """In the first unit's first step nothing else differs: one token, the one with the greatest weight at any beta."""
    one, two = (seen(built(SHOW, beta=beta))[1] for beta in (1.0, 1e8))
    assert set(np.unique(two)) == {0.0, 1.0} and one[0, 0, 0].max() < 0.9
    np.testing.assert_array_equal(one[:, 0, 0].argmax(-1), two[:, 0, 0].argmax(-1))


def test_nothing_to_choose_from():
    """From an empty sentence zeros are read."""
    inputs = {**INPUTS, "mask": INPUTS["mask"] & [[False], [True], [True]]}
    for coverage in ("multiply", "log", "off"):
        states, weights, covered, _ = seen(built(SHOW, coverage=coverage), inputs)
        assert np.isfinite(states).all() and not weights[0].any() and not covered[0].any()


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


def test_bad_inputs():
    with pytest.raises(ValueError, match=r"\[B, R\+1, L, D\].*Received: shape=\(3, 5, 4\)"):
        SMALL()(INPUTS["phrases"][:, 0], INPUTS["mask"], INPUTS["guide"])
    with pytest.raises(ValueError, match=r"guide must be \[B, 4\].*Received: shape=\(3, 3\)"):
        SMALL()(INPUTS["phrases"], INPUTS["mask"], INPUTS["guide"][:, :3])
    with pytest.raises(ValueError, match="fuse_word=False needs phrases in addition to the words"):
        SMALL(fuse_word=False)(**WORDS)
