"""RerereadAttention."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_sentmatch.layers import RerereadAttention
from tests import oracles_recurrent
from tests.harness import (
    Case,
    arguments_act,
    built,
    check_build,
    check_oracle,
    gradients,
    lengths_mask,
    noise,
    run_checks,
    value,
)

BARE = {"h": noise(3, 5, 4), "mask": lengths_mask([5, 2, 1], 5)}
STARTED = {**BARE, "initial_state": noise(3, 4, seed=2)}
INPUTS = {**STARTED, "guide": noise(3, 6, seed=1)}
SMALL = partial(RerereadAttention, units=3, attention_units=2, steps=3, beta=2.0)
GRU = 3 * 3 * (4 + 3 + 2)
ATTENTION = 4 * 2 + 3 * 2 + 2  # token, state, context
GUIDE, INITIAL = 6 * 2, 4 * 3 + 3


def outputs(layer, h, mask, guide=None, initial_state=None):
    if layer.initial_state == "zero":
        s0 = np.zeros((len(h), layer.units))
    elif layer.initial_state == "given":
        s0 = initial_state
    else:
        s0 = np.tanh(initial_state @ value(layer.initial_kernel) + value(layer.initial_bias))
    states, weights = oracles_recurrent.reread_attention(
        h,
        mask,
        guide,
        s0,
        value(layer.token_kernel),
        value(layer.state_kernel),
        value(layer.guide_kernel) if layer.guide else None,
        value(layer.context)[:, 0],
        [value(w) for w in layer.cell.weights],
        layer.beta,
        layer.steps,
        hard=layer.selection != "soft",
        coverage=layer.coverage,
    )
    return states[:, -1], states, weights


def last(layer, **inputs):
    return outputs(layer, **inputs)[0]


SHOWN = {"options": {"return_selection": True}, "float32_outputs": (2,), "zero_pads": False}
CASES = [
    Case(SMALL, INPUTS, (ATTENTION + GUIDE + INITIAL + GRU, 0), last),
    Case(
        partial(SMALL, selection="straight_through"),
        INPUTS,
        (ATTENTION + GUIDE + INITIAL + GRU, 0),
        outputs,
        name="straight through, selection returned",
        **SHOWN,
    ),
]
PLAIN = [
    Case(
        partial(SMALL, guide=False, initial_state="zero", selection="hard"),
        BARE,
        (ATTENTION + GRU, 0),
        outputs,
        name="hard, neither guide nor initial state",
        **SHOWN,
    ),
    Case(
        partial(SMALL, coverage=True),
        INPUTS,
        (ATTENTION + GUIDE + INITIAL + GRU, 0),
        outputs,
        name="coverage",
        **SHOWN,
    ),
    Case(
        partial(SMALL, guide=False, initial_state="given"),
        {**BARE, "initial_state": noise(3, 3, seed=2)},
        (ATTENTION + GRU, 0),
        outputs,
        name="given initial state",
        **SHOWN,
    ),
]

test_checks = run_checks(CASES)

test_variants = run_checks(PLAIN, check_build, check_oracle)


test_arguments = arguments_act(CASES, selection="hard", initial_state="zero")


def seen(case, **overrides):
    return [value(t) for t in built(case, **overrides)(**INPUTS, return_selection=True)]


def test_a_big_beta_is_the_hard_selection():
    """It chooses other tokens than a small one spreads over, and equals the arg-max of eq 5."""
    hard = seen(CASES[0], selection="hard")
    for beta in (1e5, 1e8):
        for soft, want in zip(seen(CASES[0], beta=beta), hard):
            np.testing.assert_allclose(soft, want, atol=1e-5)
    assert abs(seen(CASES[0], beta=1.0)[2] - hard[2]).max() > 0.1


def by_name(selection, beta):
    case = Case(partial(SMALL, selection=selection, beta=beta), INPUTS, (0, 0))
    layer = built(case)
    of_weights, of_inputs = gradients(case, layer, INPUTS)
    names = [v.name for v in layer.trainable_variables]
    return dict(zip(names, of_weights)), dict(zip(("h", "initial_state", "guide"), of_inputs))


@pytest.mark.each_backend
def test_the_gradient_of_each_selection():
    """At the default beta the scores learn; at the paper's "arbitrarily big" beta and hard they don't."""
    scoring = ("token_kernel", "state_kernel", "guide_kernel", "context")
    for selection, beta, learns in (
        ("soft", 10.0, True),
        ("straight_through", 10.0, True),
        ("soft", 1e8, False),
        ("hard", 10.0, False),
    ):
        weights, inputs = by_name(selection, beta)
        for name in scoring:
            flows = weights[name] is not None and bool(weights[name].any())
            assert flows is learns, (selection, beta, name)
        assert inputs["h"].any() and weights["initial_kernel"].any()  # what was read does learn


class Selection(keras.layers.Layer):
    """The selection alone, as a function of the scores."""

    def __init__(self, selection):
        super().__init__()
        self.unit = SMALL(selection=selection)

    def call(self, scores, mask):
        return self.unit._select(scores, mask)

    def compute_mask(self, *args, **kwargs):
        return None


@pytest.mark.each_backend
def test_straight_through_has_the_gradient_of_its_soft_weights():
    """A linear function of the weights has the same gradient for both."""
    inputs = {"scores": noise(3, 5), "mask": INPUTS["mask"]}
    found = {}
    for selection in ("soft", "straight_through"):
        case = Case(partial(Selection, selection=selection), inputs, (0, 0))
        found[selection] = gradients(case, case.make(), inputs)[1][0]
    np.testing.assert_allclose(found["soft"], found["straight_through"], atol=1e-7)
    assert found["soft"].any()
