"""The oracles of the parts of the host networks, by hand."""

import numpy as np
import pytest

from tests import oracles
from tests import oracles_blocks as ob
from tests import oracles_hosts as oh
from tests.oracle_cases import MASK, MASK_2, NO_X, NO_Y, X, Y, layer, noise, same

pytestmark = pytest.mark.once

# --- hosts ---


def test_dot_attention() -> None:
    a_p, a_q, alpha_p, alpha_q = ob.dot_attention(NO_X, NO_Y, MASK, MASK_2)
    same(a_p[1, 0], oracles.softmax(Y[1] @ X[1, 0]) @ Y[1])
    same(a_q[1, 2], oracles.softmax(X[1, :2] @ Y[1, 2]) @ X[1, :2])
    assert not a_q[2].any() and not a_p[~MASK].any() and not alpha_q[~MASK_2].any()
    flat = ob.dot_attention(X, Y, MASK, MASK_2, temperature=0.0)[0]
    same(flat[1, 0], Y[1].mean(0), "equal scores")
    swapped = ob.dot_attention(Y, X, MASK_2, MASK)
    same(swapped[0], a_q)
    same(swapped[3], alpha_p)


def test_factorization_machine_sums_over_pairs() -> None:
    z, w0, w, V = noise(2, 6), 0.3, noise(6, 1), noise(6, 4)
    got = ob.factorization_machine(z, [w0], w, V)
    for row in (0, 1):
        pairs = [V[i] @ V[j] * z[row, i] * z[row, j] for i in range(6) for j in range(i)]
        same(got[row, 0], w0 + w[:, 0] @ z[row] + sum(pairs))


def test_bimpm_match_one_token() -> None:
    x, mask = noise(1, 1, 4), np.ones((1, 1), bool)
    weights = {s: (noise(3, 4), noise(3, 4)) for s in oh.STRATEGIES}
    for reading in ("argmax", "elementwise"):
        same(oh.bimpm_match(x, x, x, x, mask, mask, weights, reading), np.ones((1, 1, 24)))


def test_bimpm_match() -> None:
    weights = {s: (noise(2, 5), noise(2, 5)) for s in oh.STRATEGIES}
    back_1, back_2 = noise(3, 4, 5), noise(3, 3, 5)
    sides = (
        NO_X,
        np.where(MASK[..., None], back_1, 9),
        NO_Y,
        np.where(MASK_2[..., None], back_2, 9),
    )
    out = oh.bimpm_match(*sides, MASK, MASK_2, weights)
    assert out.shape == (3, 4, 16) and not out[~MASK].any()
    h, b = X[0, 3], back_1[0, 3]

    def f(x: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
        return np.array([oracles.cosine(w_k * x, w_k * y) for w_k in w])

    alpha = [oracles.cosine(h, Y[0, j]) for j in (0, 1)]
    want = [f(h, Y[0, 1], weights["full"][0]), f(b, back_2[0, 0], weights["full"][1])]
    want += [np.maximum(*(f(h, Y[0, j], weights["max"][0]) for j in (0, 1)))]
    want += [np.maximum(*(f(b, back_2[0, j], weights["max"][1]) for j in (0, 1)))]
    mean = (alpha[0] * Y[0, 0] + alpha[1] * Y[0, 1]) / (alpha[0] + alpha[1])
    same(out[0, 3, :8], np.concatenate(want))
    same(out[0, 3, 8:10], f(h, mean, weights["attentive"][0]))
    same(out[0, 3, 12:14], f(h, Y[0, int(np.argmax(alpha))], weights["max_attentive"][0]))
    other = oh.bimpm_match(*sides, MASK, MASK_2, weights, "elementwise")
    same(other[..., :12], out[..., :12])
    best = np.maximum(alpha[0] * Y[0, 0], alpha[1] * Y[0, 1])
    same(other[0, 3, 12:14], f(h, best, weights["max_attentive"][0]))
    part = {"max_attentive": weights["max_attentive"], "full": weights["full"]}
    same(oh.bimpm_match(*sides, MASK, MASK_2, part), out[..., [0, 1, 2, 3, 12, 13, 14, 15]])


def test_re2_pieces() -> None:
    same(oh.gelu(np.array([0.0, 1.0, -1.0])), [0, 0.841344746, -0.158655254])
    v = noise(3, 4, 2)
    kernel = oh.weight_norm(v, np.array([2.0, 3.0]))
    same(np.sqrt(np.square(kernel).sum((0, 1))), [2, 3])
    one, g = layer(10, 3), [layer(10, 3), layer(10, 3), layer(10, 3), layer(9, 3)]
    z, x = X, X + 1
    same(oh.re2_fusion(z, x, [one], np.tanh), np.tanh(np.concatenate([z, x], -1) @ one[0] + one[1]))
    parts = [np.concatenate([z, y], -1) @ w + b for y, (w, b) in zip((x, z - x, z * x), g)]
    same(oh.re2_fusion(z, x, g, lambda y: y), np.concatenate(parts, -1) @ g[3][0] + g[3][1])


def test_diin_pieces() -> None:
    w, z, r, f = noise(15), layer(10, 5), layer(10, 5), layer(10, 5)
    out, alpha = oh.diin_encoder(NO_X, MASK, w, z, r, f)
    s = [w @ np.concatenate([X[1, 0], X[1, j], X[1, 0] * X[1, j]]) for j in (0, 1)]
    same(alpha[1, 0, :2], oracles.softmax(np.array(s)))
    both = np.concatenate([X[1, 0], alpha[1, 0, :2] @ X[1, :2]])
    gates = [both @ k + b for k, b in (r, f, z)]
    same(
        out[1, 0],
        oracles.sigmoid(gates[0]) * X[1, 0] + oracles.sigmoid(gates[1]) * np.tanh(gates[2]),
    )
    tensor = oh.interaction_tensor(NO_X, NO_Y, MASK, MASK_2)
    same(tensor[0, 3, 1], X[0, 3] * Y[0, 1])
    assert not tensor[2].any() and not tensor[0, :, 2].any()


def test_dense_net_pieces() -> None:
    x = np.arange(15.0).reshape(1, 3, 5, 1)
    same(oh.max_pool_2x2(x)[0, :, :, 0], [[6, 8]])
    same(oh.max_pool_2x2(x, "same")[0, :, :, 0], [[6, 8, 9], [11, 13, 14]])
    ones = np.ones((3, 3, 1, 1))
    summed = oh.conv2d_same(x, ones, np.array([0.5]))
    same(summed[0, 1, 1, 0], x[0, :, :3].sum() + 0.5)
    same(summed[0, 0, 0, 0], 0 + 1 + 5 + 6 + 0.5)
    shift = np.zeros((3, 3, 1, 1))
    shift[0, 1] = 1  # reads the row above: a correlation, as in Keras
    same(
        oh.conv2d_same(x, shift, np.zeros(1))[0, :, :, 0],
        [np.zeros(5), x[0, 0, :, 0], x[0, 1, :, 0]],
    )
    blocks = [([layer(3, 3, 4, 2), layer(3, 3, 6, 2)], layer(8, 4))]
    flat = oh.dense_net(noise(2, 4, 4, 5), layer(5, 4), blocks)
    assert flat.shape == (2, 2 * 2 * 4)
    kernel, bias = blocks[0][0][0]
    grown = [([(kernel, bias)], (np.eye(6), np.zeros(6)))]
    image = np.abs(noise(2, 4, 4, 4))
    got = oh.dense_net(image, (np.eye(4), np.zeros(4)), grown)
    both = np.concatenate([image, oracles.relu(oh.conv2d_same(image, kernel, bias))], -1)
    same(got, oh.max_pool_2x2(both).reshape(2, -1), "[x; ReLU(conv)]")
    identity = (np.eye(4, 3), np.zeros(3))
    image = noise(2, 4, 4, 4)
    pooled = oh.dense_net(image, (np.eye(4), np.zeros(4)), [([], identity)])
    same(pooled, oh.max_pool_2x2(image[..., :3]).reshape(2, -1))


def test_cafe_features_in_order() -> None:
    machines = [(0.0, noise(n), noise(n, 2)) for n in (10, 5, 5)]
    got = oh.cafe_features(X, X + 1, machines)
    for n, z in enumerate((np.concatenate([X, X + 1], -1), X * (X + 1), -np.ones_like(X))):
        same(got[..., n : n + 1], ob.factorization_machine(z, *machines[n]))
