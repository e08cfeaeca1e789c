"""The oracles of FA, SFA, rLSTM and HyperLSTM against cases done by hand, limits and identities."""

import math
from typing import Any

import numpy as np
import pytest

from tests import oracles
from tests import oracles_blocks as ob
from tests.oracle_cases import MASK, MASK_2, NO_X, NO_Y, X, Y, layer, noise, rnn, same

pytestmark = pytest.mark.once

# --- FA and SFA ---


def test_feature_attention() -> None:
    w1, b1, w2, b2 = noise(5, 2), noise(2), noise(2, 5), noise(5)
    u, e = ob.feature_attention(NO_X, MASK, w1, b1, w2, b2)
    same(e[1], oracles.sigmoid(np.tanh(X[1, :2].mean(0) @ w1 + b1) @ w2 + b2))
    same(u[1, 1], e[1] * X[1, 1])
    assert not u[~MASK].any()
    same(ob.feature_attention(X, MASK, w1, None, 0 * w2, None)[1], np.full((3, 5), 0.5))
    norm = [np.full(5, 2.0), np.full(5, 0.3), np.full(5, 0.1), np.full(5, 4.0)]
    logit = np.log(e / (1 - e))
    normed = ob.feature_attention(X, MASK, w1, b1, w2, b2, norm, epsilon=0)[1]
    same(normed, oracles.sigmoid((logit - 0.1) + 0.3), "2 (z - 0.1) / 2 + 0.3")


def test_selective_feature_attention() -> None:
    w1, w2 = noise(5, 2), [noise(2, 5, scale=9) for _ in range(3)]
    xs = [NO_X, NO_X + 1, -NO_X]
    u, e, chosen = ob.selective_feature_attention(xs[:1], MASK, w1, w2[:1])
    same(chosen, np.ones((3, 1, 5)))
    same(u, X * MASK[..., None], "one branch")
    u, e, chosen = ob.selective_feature_attention(xs, MASK, w1, w2)
    same(chosen.sum(1), 1)
    assert (chosen.max(1) / chosen.min(1)).max() <= math.e
    tokens = np.concatenate([X[1, :2], X[1, :2] + 1, -X[1, :2]])
    hidden = np.tanh((tokens.mean(0) + tokens.max(0)) @ w1)
    same(e[1, 2], oracles.sigmoid(hidden @ w2[2]))
    exp = np.exp(e[1])
    same(u[1, 0], (exp * [X[1, 0], X[1, 0] + 1, -X[1, 0]]).sum(0) / exp.sum(0))
    assert not u[~MASK].any() and not u[2].any()
    logits = ob.selective_feature_attention(xs, MASK, w1, w2, pre_sigmoid=True)[2]
    same(logits[1], oracles.softmax((hidden @ np.stack(w2)).T).T)
    same(ob.selective_feature_attention(xs, MASK, w1, [w2[0]] * 3)[2], np.full((3, 3, 5), 1 / 3))
    u, e, _ = ob.selective_feature_attention(xs, MASK, w1, w2[:1], select=False)
    same(u[1, 0], e[1, 0] * (X[1, 0] + 1) / 3)
    for switch in ("use_max", "use_mean"):
        off = ob.selective_feature_attention(xs, MASK, w1, w2, **{switch: False})[1]
        pool = tokens.mean(0) if switch == "use_max" else tokens.max(0)
        same(off[1, 0], oracles.sigmoid(np.tanh(pool @ w1) @ w2[0]))


def test_sfa_block() -> None:
    branches = [(rnn(3, 4, 2), rnn(3, 4, 2)) for _ in range(2)]
    weights = {"bottleneck_in": layer(5, 4), "branches": branches, "bottleneck_out": layer(4, 5)}
    weights |= {"w1": noise(4, 2), "w2": [noise(2, 4), noise(2, 4)]}
    out = ob.sfa_block(NO_X, MASK, weights)
    x0 = (X @ weights["bottleneck_in"][0] + weights["bottleneck_in"][1]) * MASK[..., None]
    x1 = oracles.bidirectional_rnn("gru", x0, MASK, *branches[0])[0]
    x2 = oracles.bidirectional_rnn("gru", x1, MASK, *branches[1])[0]
    u = ob.selective_feature_attention([x1, x2], MASK, weights["w1"], weights["w2"])[0]
    kernel, bias = weights["bottleneck_out"]
    same(out["output"], (u @ kernel + bias) * MASK[..., None])


def test_conv1d_same() -> None:
    x, mask = np.arange(1.0, 6)[None, :, None], np.array([[1, 1, 1, 1, 0]], bool)
    one = np.array([0.0])
    for kernel, dilation, want in (
        ([1, 10, 100], 1, [210, 321, 432, 43, 0]),
        ([1, 10], 1, [21, 32, 43, 4, 0]),  # an even width: the extra zero is on the right
        ([1, 10, 100], 2, [310, 420, 31, 42, 0]),
    ):
        got = ob.conv1d_same(x, mask, np.reshape(np.float64(kernel), (-1, 1, 1)), one, dilation)
        same(got[0, :, 0], want)


# --- rLSTM and HyperLSTM ---


def test_rlstm() -> None:
    weights = {"lstm": rnn(4, 5, 3), "w": noise(2, 1), "w_p": noise(3, 2), "w_m": noise(3, 2)}
    weights["w_c"] = noise(3, 2)
    y = noise(3, 4, 3)
    states, alpha = ob.rlstm(np.where(MASK[..., None], y, 9), MASK, NO_Y, MASK_2, weights)
    same(alpha[1, 0], [0.5, 0.5, 0, 0], "uniform at first")
    sums = y[1, :2] @ weights["w_p"] + y[1, :2].mean(0) @ weights["w_m"]
    score = np.tanh(sums) @ weights["w"][:, 0]
    same(alpha[1, 1, :2], oracles.softmax(score))
    a, b = (p_j @ weights["w_p"] for p_j in y[1, :2])
    m = alpha[1, 1, :2] @ y[1, :2] @ weights["w_m"]
    i, _, g, _ = np.split(Y[1, 0] @ weights["lstm"][0] + weights["lstm"][2], 4)
    c_1 = oracles.sigmoid(i) * np.tanh(g) @ weights["w_c"]
    score = np.tanh([a + m + c_1, b + m + c_1]) @ weights["w"][:, 0]
    same(alpha[1, 2, :2], oracles.softmax(score), "alpha_3 is made from c_1")
    cell = oracles.lstm(Y, MASK_2, *weights["lstm"])[0]
    _, _, _, o = np.split(Y[1, 0] @ weights["lstm"][0] + weights["lstm"][2], 4)
    same(states[1, 0], cell[1, 0] + oracles.sigmoid(o) * np.tanh(y[1, :2].mean(0)))
    for backwards in (False, True):  # nothing to re-read: an LSTM
        plain = oracles.lstm(Y, MASK_2, *weights["lstm"], backwards=backwards)[0]
        got = ob.rlstm(0 * y, MASK, Y, MASK_2, weights, backwards=backwards)[0]
        same(got, plain)
    same(states[2], cell[2], "an empty P")
    first = ob.rlstm(y, MASK, Y, MASK_2, {**weights, "first": np.array([0.0, math.log(3), 5, 5])})[
        1
    ]
    same(first[1, 0], [0.25, 0.75, 0, 0])
    flat = ob.rlstm(y, MASK, Y, MASK_2, weights, tanh=False)[1]
    same(flat[1, 2], flat[1, 1], "without tanh m and c cancel in the softmax")
    assert np.abs(alpha[1, 2] - alpha[1, 1]).max() > 1e-3


def test_hyper_lstm_limit_is_the_lstm() -> None:
    kernel, recurrent, bias = rnn(4, 5, 3)
    weights: dict[str, Any] = {"kernel": kernel, "recurrent": recurrent, "bias": bias}
    weights["small"] = rnn(4, 8, 2)
    for k in "xhb":
        weights[f"w_{k}"] = np.zeros((4, 2, 2))
        weights[f"d_{k}"] = np.full((4, 2, 3), 0.5)
        weights[f"c_{k}"] = np.ones((4, 2))
    states, last = ob.hyper_lstm(NO_X, MASK, weights, forget_bias=0.0)
    want = oracles.lstm(X, MASK, kernel, recurrent, bias)
    same(states, want[0])
    same(last, want[1])
    plus = bias + [0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0]
    same(ob.hyper_lstm(X, MASK, weights)[0], oracles.lstm(X, MASK, kernel, recurrent, plus)[0])
    weights["w_b"], weights["w_x"] = noise(4, 2, 2), noise(4, 2, 2)
    moved, _ = ob.hyper_lstm(X, MASK, weights, forget_bias=0.0)
    assert np.abs(moved - want[0]).max() > 1e-3 and not moved[~MASK].any()
    weights["norm"] = [(np.ones(3), np.zeros(3))] * 5
    assert np.abs(ob.hyper_lstm(X, MASK, weights, forget_bias=0.0)[0] - moved).max() > 1e-3


def test_layer_norm() -> None:
    y = ob.layer_norm(np.array([1.0, 3.0]), np.array([2.0, 2.0]), np.array([0.0, 1.0]), epsilon=0)
    same(y, [-2, 3])
