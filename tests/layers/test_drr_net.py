"""The layers of DRr-Net: RerereadAttention, SelfAttentionPooling and StackRNN."""

from functools import partial

import numpy as np
import pytest

from keras_sentmatch.layers import RerereadAttention, SelfAttentionPooling, StackRNN
from tests import oracles_recurrent as oracles
from tests.case import Case, built, gradients, noise, value, weights_of
from tests.harness import arguments_act, check_build, check_oracle, run_checks
from tests.layers.common import ONE

BARE = {"h": ONE["x"], "mask": ONE["mask"]}
INPUTS = BARE | {"initial_state": noise(3, 4, seed=2), "guide": noise(3, 6, seed=1)}
REREAD = partial(RerereadAttention, units=3, attention_units=2, steps=3, beta=2.0)
ATTENTION, GUIDE, INITIAL = 4 * 2 + 3 * 2 + 2, 6 * 2, 4 * 3 + 3


def gru(width):
    return 3 * 3 * (width + 3 + 2)


def reread(layer, h, mask, guide=None, initial_state=None):
    s0 = {"zero": np.zeros((len(h), layer.units)), "given": initial_state}.get(layer.initial_state)
    if s0 is None:
        s0 = np.tanh(initial_state @ value(layer.initial_kernel) + value(layer.initial_bias))
    states, weights = oracles.reread_attention(
        h,
        mask,
        guide,
        s0,
        value(layer.token_kernel),
        value(layer.state_kernel),
        value(layer.guide_kernel) if layer.guide else None,
        value(layer.context)[:, 0],
        weights_of(layer.cell),
        layer.beta,
        layer.steps,
        hard=layer.selection != "soft",
    )
    return states[:, -1], states, weights


def stacked(layer, x, mask):
    return oracles.stack_gru(x, mask, [weights_of(rnn) for rnn in layer.forward_rnns])


def pooled(layer, x, mask):
    weights = (value(w) for w in (layer.kernel, layer.bias, layer.context))
    return oracles.self_attention_pooling(x, mask, *weights)


SHOWN = {"options": {"return_selection": True}, "float32_outputs": (2,), "zero_pads": False}
EVERY = (ATTENTION + GUIDE + INITIAL + gru(4), 0)
SOFT = Case(REREAD, INPUTS, EVERY, lambda layer, **inputs: reread(layer, **inputs)[0], "reread")
CASES = [
    SOFT,
    Case(
        partial(REREAD, selection="straight_through"),
        INPUTS,
        EVERY,
        reread,
        "straight through, selection returned",
        **SHOWN,
    ),
    Case(partial(StackRNN, units=3, depth=2), ONE, (gru(4) + gru(7), 0), stacked),
    Case(
        partial(SelfAttentionPooling, units=3),
        ONE,
        (4 * 3 + 3 + 3, 0),
        pooled,
        options={"return_attention": True},
        float32_outputs=(1,),
    ),
]
PLAIN = [
    Case(
        partial(REREAD, guide=False, initial_state="zero", selection="hard"),
        BARE,
        (ATTENTION + gru(4), 0),
        reread,
        "hard, neither guide nor initial state",
        **SHOWN,
    ),
    Case(
        partial(REREAD, guide=False, initial_state="given"),
        BARE | {"initial_state": noise(3, 3, seed=2)},
        (ATTENTION + gru(4), 0),
        reread,
        "given initial state",
        **SHOWN,
    ),
]

test_checks = run_checks(CASES)

test_variants = run_checks(PLAIN, check_build, check_oracle)

test_arguments = arguments_act(CASES, "context_initializer", selection="hard", initial_state="zero")


def seen(**overrides):
    return [value(t) for t in built(SOFT, **overrides)(**INPUTS, return_selection=True)]


def test_a_big_beta_is_the_hard_selection():
    """It chooses other tokens than a small one spreads over, and equals the arg-max of eq 5."""
    hard = seen(selection="hard")
    for beta in (1e5, 1e8):
        for soft, want in zip(seen(beta=beta), hard):
            np.testing.assert_allclose(soft, want, atol=1e-5)
    assert abs(seen(beta=1.0)[2] - hard[2]).max() > 0.1


@pytest.mark.each_backend
def test_the_gradient_of_each_selection():
    """At the default beta the scores learn; at the paper's "arbitrarily big" beta and hard they don't."""
    for selection, beta, learns in (
        ("soft", 10.0, True),
        ("straight_through", 10.0, True),
        ("soft", 1e8, False),
        ("hard", 10.0, False),
    ):
        case = Case(partial(REREAD, selection=selection, beta=beta), INPUTS, (0, 0))
        layer = built(case)
        of_weights, (by_h, *_) = gradients(case, layer, INPUTS)
        weights = dict(zip((v.name for v in layer.trainable_variables), of_weights))
        for name in ("token_kernel", "state_kernel", "guide_kernel", "context"):
            flows = weights[name] is not None and bool(weights[name].any())
            assert flows is learns, (selection, beta, name)
        assert by_h.any() and weights["initial_kernel"].any()  # what was read does learn


def test_the_pooled_vector_is_a_mean_without_a_context():
    layer = SelfAttentionPooling(3, context_initializer="zeros")
    x, mask = ONE["x"], ONE["mask"][..., None]
    np.testing.assert_allclose(value(layer(**ONE)), (x * mask).sum(1) / mask.sum(1), atol=1e-6)


def test_the_papers_initial_ranges():
    """Every weight lies within sqrt(6 / (n_in + n_out)), of each gate, and not far within."""
    pooling, stack = SelfAttentionPooling(200), StackRNN(units=50, depth=2)
    pooling.build((None, None, 100))
    stack.build((None, None, 40))
    kernels = [w for rnn in stack.forward_rnns for w in weights_of(rnn)[:2]]
    for kernel, gates in [(value(pooling.kernel), 1), (value(pooling.context), 1)] + [
        (kernel, 3) for kernel in kernels
    ]:
        rows, columns = kernel.shape
        assert 0.9 < abs(kernel).max() / (6 / (rows + columns / gates)) ** 0.5 <= 1
    assert not value(pooling.bias).any()
