"""NumPy float64 oracles of the layers of BiMPM, RE2 and DIIN."""

import math

import numpy as np

from tests.oracles import cosine, masked_softmax, pair_mask, relu, sigmoid
from tests.oracles_recurrent import dense, zero_pads

# --- BiMPM ---

STRATEGIES = ("full", "max", "attentive", "max_attentive")


def perspectives(x, y, w):
    """f_m: cos(W_k * x, W_k * y) for k = 1..l; x, y `[h]`, W `[l, h]` -> `[l]`."""
    return np.array([cosine(w_k * x, w_k * y) for w_k in w])


def weighted_mean(weights, x):
    """sum_j a_j x_j / sum_j a_j; the sum keeps its sign and 1e-8 of size at least."""
    total = weights.sum()
    return weights @ x / (np.copysign(max(abs(total), 1e-8), total))


def bimpm_match(forward_1, backward_1, forward_2, backward_2, mask_1, mask_2, weights):
    """Sentence 1 against sentence 2, `[B, L1, h]` twice and `[B, L2, h]` twice -> `[B, L1, 8 l]`.

    weights: (W forward, W backward), `[l, h]` each, by strategy. With alpha_ij = cos(h_i, h_j), full: the
    last forward state, the first backward state; max: max_j f_m(h_i, h_j); attentive: sum_j alpha_ij h_j /
    sum_j alpha_ij; max_attentive: h_j of the largest alpha_ij. 0 at pads and without a sentence 2.
    """
    sides = ((forward_1, forward_2), (backward_1, backward_2))
    out = []
    for b in range(len(forward_1)):
        real = np.flatnonzero(mask_2[b])
        rows = []
        for i in range(forward_1.shape[1]):
            row = []
            for strategy in (s for s in STRATEGIES if s in weights):
                for direction, (own, other) in enumerate(sides):
                    w = np.asarray(weights[strategy][direction], np.float64)
                    if not mask_1[b][i] or not len(real):
                        row.append(np.zeros(len(w)))
                        continue
                    h_i, h = np.float64(own[b, i]), np.float64(other[b])[real]
                    alpha = np.array([cosine(h_i, h_j) for h_j in h])
                    if strategy == "max":
                        row.append(np.max([perspectives(h_i, h_j, w) for h_j in h], axis=0))
                        continue
                    if strategy == "full":
                        y = h[-1] if direction == 0 else h[0]
                    elif strategy == "attentive":
                        y = weighted_mean(alpha, h)
                    else:
                        y = h[alpha.argmax()]
                    row.append(perspectives(h_i, y, w))
            rows.append(np.concatenate(row))
        out.append(rows)
    return np.array(out)


# --- RE2 ---


def gelu(x):
    """x Phi(x) by its tanh approximation."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def weight_norm(v, g):
    """The kernel g v / |v|, the norm over the inputs of each output unit (all axes but the last)."""
    return g * v / np.sqrt(np.square(v).sum(tuple(range(v.ndim - 1)), keepdims=True))


def re2_fusion(z, x, layers):
    """Four (W, b), "full": G([G1([z; x]); G2([z; z - x]); G3([z; z * x])]); one, "simple": G([z; x])."""
    parts = [np.concatenate([z, y], -1) for y in (x, z - x, z * x)]
    if len(layers) == 1:
        return gelu(dense(parts[0], layers[0]))
    made = [gelu(dense(part, layer)) for part, layer in zip(parts, layers)]
    return gelu(dense(np.concatenate(made, -1), layers[3]))


# --- DIIN ---


def diin_encoder(x, mask, w, z, r, f):
    """s_ij = w . [x_i; x_j; x_i * x_j]; x'_i = sum_j msoftmax_j(s) x_j; out = r * x + f * z with
    z = tanh, r and f = sigmoid of [x; x'] W + b. Returns out and the weights, 0 at pads.
    """
    x, w = zero_pads(x, mask), np.reshape(w, -1)
    scores = np.zeros((*x.shape[:2], x.shape[1]))
    for b, i, j in np.ndindex(*scores.shape):
        scores[b, i, j] = w @ np.concatenate([x[b, i], x[b, j], x[b, i] * x[b, j]])
    alpha = masked_softmax(scores, pair_mask(mask, mask), axis=2)
    both = np.concatenate([x, alpha @ x], -1)
    out = sigmoid(dense(both, r)) * x + sigmoid(dense(both, f)) * np.tanh(dense(both, z))
    return zero_pads(out, mask), alpha


def conv2d_same(x, kernel, bias):
    """`[B, R, C, D]`, kernel `[k, k, D, F]` (odd k) or `[D, F]` for 1 x 1 -> `[B, R, C, F]`."""
    kernel = np.reshape(kernel, (1, 1, *kernel.shape)) if kernel.ndim == 2 else kernel
    rows, columns = kernel.shape[:2]
    margin = ((0, 0), (rows // 2, rows // 2), (columns // 2, columns // 2), (0, 0))
    padded = np.pad(x, margin)
    out = np.zeros((*x.shape[:3], kernel.shape[-1])) + bias
    for i, j in np.ndindex(rows, columns):
        out += padded[:, i : i + x.shape[1], j : j + x.shape[2]] @ kernel[i, j]
    return out


def max_pool_2x2(x):
    """The maximum of 2 x 2 cells, stride 2; a last odd row or column is left out."""
    rows, columns = (n // 2 for n in x.shape[1:3])
    out = np.zeros((len(x), rows, columns, x.shape[-1]))
    for i, j in np.ndindex(rows, columns):
        out[:, i, j] = x[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2].max((1, 2))
    return out


def dense_net(x, first, blocks):
    """1 x 1 conv `first`, then by block: each 3 x 3 conv reads all that came before and appends
    ReLU(conv) to it; a 1 x 1 conv and a 2 x 2 max-pool follow. Flat, `[B, R C F]`.
    """
    x = conv2d_same(x, *first)
    for convs, transition in blocks:
        for kernel, bias in convs:
            x = np.concatenate([x, relu(conv2d_same(x, kernel, bias))], -1)
        x = max_pool_2x2(conv2d_same(x, *transition))
    return x.reshape(len(x), -1)
