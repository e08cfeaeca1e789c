"""The oracles of DRr-Net and DIN against cases done by hand, limits and identities."""

from typing import Any

import numpy as np
import pytest

from tests import oracles
from tests import oracles_recurrent as o3
from tests.oracle_cases import IDS, MASK, MASK_2, NO_X, TABLE, X, noise, rnn, same

pytestmark = pytest.mark.once

# --- features ---


def test_word_features() -> None:
    weights: dict[str, Any] = {"embeddings": [TABLE], "flag": True, "antonym": True}
    weights["pos"] = np.eye(3)
    weights["char_lstm"] = (noise(5, 2), rnn(4, 2, 2))
    inputs = dict(IDS)
    for n in "12":
        shape = IDS[f"word_ids_{n}"].shape
        inputs[f"pos_{n}"] = np.full(shape, 2)
        inputs[f"antonym_{n}"] = np.ones(shape, int)
        inputs[f"char_ids_{n}"] = np.full((*shape, 3), 1) * [1, 1, 0]
    xs, masks = o3.word_features(inputs, weights)
    assert xs[0].shape == (4, 4, 4 + 2 + 1 + 3 + 1) and not xs[0][~masks[0]].any()
    same(xs[0][0, 0, 6:], [0, 0, 0, 1, 1])
    same(xs[0][0, 1, 6:], [1, 0, 0, 1, 1])
    same(xs[0][0, 1, :4], TABLE[3])
    table, cell = weights["char_lstm"]
    word = np.stack([table[1], table[1]])[None]
    same(xs[0][0, 0, 4:6], oracles.lstm(word, np.ones((1, 2), bool), *cell)[1][0])
    assert not o3.char_lstm(np.zeros((1, 2, 3), int), *weights["char_lstm"]).any()


# --- DRr-Net ---


def test_self_attention_pooling() -> None:
    w = noise(5, 3), noise(3), noise(3)
    pooled, weights = o3.self_attention_pooling(NO_X, MASK, *w)
    scores = np.tanh(X @ w[0] + w[1]) @ w[2]
    same(weights[0], oracles.softmax(scores[0]))
    same(pooled[1], oracles.softmax(scores[1, :2]) @ X[1, :2])
    assert not pooled[2].any() and not weights[2].any() and not weights[~MASK].any()
    same(o3.self_attention_pooling(NO_X, MASK, w[0], w[1], 0 * w[2])[0][1], X[1, :2].mean(0))


def test_reread_attention() -> None:
    W, U, M, w, cell = noise(5, 3), noise(2, 3), noise(5, 3), noise(3, 1), rnn(3, 5, 2)
    guide, s0 = noise(3, 5), noise(3, 2)

    def run(beta: float = 2.0, steps: int = 3, hard: bool = False, **new: Any) -> Any:
        a = {"guide": guide, "s0": s0, "W": W, "U": U, "M": M, "w": w, "gru": cell, **new}
        return o3.reread_attention(NO_X, MASK, beta=beta, steps=steps, hard=hard, **a)

    states, weights = run()
    assert states.shape == (3, 3, 2) and weights.shape == (3, 3, 4)
    m = np.tanh(X[1, :2] @ W + s0[1] @ U + guide[1] @ M) @ w[:, 0]
    same(weights[1, 0, :2], oracles.softmax(2.0 * m))
    same(states[1, 0], o3.gru_step(weights[1, 0, :2] @ X[1, :2], s0[1], *cell))
    same(run(steps=1)[0][:, 0], states[:, 0], "T = 1 is the first of several steps")
    assert not weights[2].any() and np.isfinite(states).all()
    same(run(w=0 * w)[1][0], np.full((3, 4), 0.25), "equal scores")
    for soft, hard in zip(run(beta=1e9), run(hard=True)):
        same(soft, hard, "beta to infinity")
    same(run(guide=None)[0], run(M=0 * M)[0])
    same(run(M=None)[0], run(guide=0 * guide)[0])
    assert np.abs(run(M=None)[0] - states).max() > 1e-3


def test_gru_step_is_the_grus() -> None:
    cell, states = rnn(3, 5, 2), [np.zeros((3, 2))]
    for t in range(4):
        states.append(o3.gru_step(X[:, t], states[-1], *cell))
    same(oracles.gru(X, np.ones((3, 4), bool), *cell)[0], np.stack(states[1:], 1))


def test_stack_gru_newest_first() -> None:
    layers = [rnn(3, 5, 2), rnn(3, 7, 3)]
    out = o3.stack_gru(NO_X, MASK, layers)
    h1 = oracles.gru(X, MASK, *layers[0])[0]
    h2 = oracles.gru(np.concatenate([h1, X], -1), MASK, *layers[1])[0]
    same(out, np.concatenate([h2, h1, X * MASK[..., None]], -1))
    both = o3.stack_gru(X, MASK, [(rnn(3, 5, 2), rnn(3, 5, 2))])
    assert both.shape == (3, 4, 9)


LEGACY = {0: 1.0e-6, 1: 3.9e-6, 25: 5.314e-4, 49: 1e-3, 50: 9.932e-4, 51: 9.929e-4, 500: 4.587e-4}


@pytest.mark.parametrize("i, want", LEGACY.items())
def test_cosine_warm_up_decay_legacy(i: int, want: float) -> None:
    assert o3.cosine_warm_up_decay(i, 1000, 1e-3) == pytest.approx(
        want, rel=2e-2 if i < 2 else 1e-3
    )


def test_cosine_warm_up_decay_ends() -> None:
    for legacy in (True, False):
        rates = [o3.cosine_warm_up_decay(i, 1000, 1.0, 0.1, legacy=legacy) for i in range(1001)]
        assert max(rates) == 1.0 and rates[49] == 1.0 and min(rates) >= 0.1
        assert (rates[50] == 1.0) is not legacy
        assert (rates[960] == rates[999]) is legacy
        short = [o3.cosine_warm_up_decay(i, 10, 1.0, legacy=legacy) for i in range(10)]
        assert short[0] == 1.0 and short == sorted(short, reverse=True)
    assert rates[1000] == pytest.approx(0.1) and rates[525] == pytest.approx(0.55)


# --- DIN ---


def test_matrix_interaction() -> None:
    p, h, w, b = noise(3, 4, 2, 2), noise(3, 3, 2, 2), noise(2, 2), noise(2, 2)
    out = o3.matrix_interaction(np.where(MASK[..., None, None], p, 9), h, MASK, MASK_2, w, b)
    assert out.shape == (3, 3, 4, 2, 2)
    first = np.tanh(p[1, 0] @ h[1, 2] + b)
    second = np.tanh(p[1, 1] @ h[1, 2] + w @ first + b)
    same(out[1, 2], [first, second, second, second])
    assert not out[2].any() and not out[~MASK_2].any()
    alone = o3.matrix_interaction(p, h, MASK, MASK_2, 0 * w, b)[:, :, -1]
    same(alone[0, 1], np.tanh(p[0, 3] @ h[0, 1] + b), "without W_inter only the last word counts")


def test_matrix_dynamic_gru() -> None:
    last, x = noise(3, 3, 2, 2), noise(3, 3, 2, 2)
    gates = {k: (noise(2, 2), noise(2, 2), noise(2, 2)) for k in "zrh"}
    out = o3.matrix_dynamic_gru(last, x, MASK_2, gates)

    def made(k: str, t: int) -> tuple:
        w, b, big = gates[k]
        return np.tanh(w @ last[1, t] + b), np.tanh(big @ last[1, t])

    H = np.zeros((2, 2))
    for t in range(3):
        (wz, bz), (wr, br), (wh, bh) = (made(k, t) for k in "zrh")
        Z, R = (oracles.sigmoid(w @ (H + x[1, t]) + b) for w, b in ((wz, bz), (wr, br)))
        H = (1 - Z) * H + Z * np.tanh(wh @ (R * H + x[1, t]) + bh)
        same(out["states"][1, t], [H[0, 0], H[0, 1], H[1, 0], H[1, 1]])
        same(out["r"][1, t], wr)
    assert not any(v[~MASK_2].any() for v in out.values())
    twice = {k: (w, b, w, b, big) for k, (w, b, big) in gates.items()}
    same(o3.matrix_dynamic_gru(last, x, MASK_2, twice)["states"], out["states"], "split, equal")
    other = {k: (w, b, w + 1, b, big) for k, (w, b, big) in gates.items()}
    assert (
        np.abs(o3.matrix_dynamic_gru(last, x, MASK_2, other)["states"] - out["states"]).max() > 0.01
    )
    one = o3.matrix_dynamic_gru(last[:, :1], x[:, :1], MASK_2[:, :1], other)["states"][1, 0]
    # from H = 0 only the input's factor, the second, counts
    Z, C = (
        np.tanh((w + 1) @ last[1, 0] + b) @ x[1, 0] + np.tanh(big @ last[1, 0])
        for w, b, _, _, big in (other["z"], other["h"])
    )
    same(one, (oracles.sigmoid(Z) * np.tanh(C)).ravel())
    still = {k: (0 * w, 0 * b, 0 * big) for k, (w, b, big) in gates.items()}
    assert not o3.matrix_dynamic_gru(last, x, MASK_2, still)["states"].any()


def test_matrix_dynamic_gru_by_scaling() -> None:
    last, x = noise(3, 3, 2, 2), noise(3, 3, 2, 2)
    gates = {k: (noise(4, 4), noise(4, 4), noise(4)) for k in "zrh"}
    out = o3.matrix_dynamic_gru(last, x, MASK_2, gates, "din2")
    v, word = last[0, 0].ravel(), x[0, 0].ravel()
    w, b = (
        {k: np.tanh(v @ gates[k][n] + n0 * gates[k][2]) for k in "zrh"}
        for n, n0 in ((0, 1), (1, 0))
    )
    z = oracles.sigmoid(w["z"] * word + b["z"])
    same(out["states"][0, 0], z * np.tanh(w["h"] * word + b["h"]))
    same(out["z"][0, 0], w["z"])
    bare = {k: g[:2] for k, g in gates.items()}
    zero = {k: (*g[:2], 0 * g[2]) for k, g in gates.items()}
    runs = [o3.matrix_dynamic_gru(last, x, MASK_2, g, "din2")["states"] for g in (bare, zero)]
    same(*runs)
    assert np.abs(runs[0] - out["states"]).max() > 0.01


def test_maps_and_strips() -> None:
    every = np.zeros((1, 2, 4, 2, 2))
    every[0, 0, :, 0, 0] = [3, 1, 2, 0]
    every[0, 1, :, 1, 1] = [5, 5, 5, 100]
    real = np.array([[1, 1, 1, 0]], bool)
    same(o3.interaction_map(every, real, np.ones((1, 2), bool)), [[[1, 0, 0.5, 0], [0, 0, 0, 0]]])
    same(o3.gate_strip(every[:, 0], real), [[1, 0, 0.5, 0]])
    assert not o3.interaction_map(every, ~real & False, np.ones((1, 2), bool)).any()
