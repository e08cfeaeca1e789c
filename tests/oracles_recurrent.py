"""NumPy float64 oracles of DRr-Net, DIN, their parts, and the schedule of DRr-Net.

Conventions as in `oracles`.
"""

import math

import numpy as np

from tests.oracles import gru, lstm, masked_softmax, relu, sigmoid, softmax


def zero_pads(x, mask):
    """0 at padded positions, whatever stands there; `mask` covers the leading axes of `x`."""
    x, mask = np.asarray(x, np.float64), np.asarray(mask, bool)
    return np.where(mask.reshape(*mask.shape, *[1] * (x.ndim - mask.ndim)), x, 0)


def dense(x, weights):
    """x W + b, `weights` = (W, b) or (W,)."""
    y = np.asarray(x, np.float64) @ weights[0]
    return y + weights[1] if len(weights) > 1 and weights[1] is not None else y


def class_probabilities(logits):
    """softmax; a single unit is a linear score."""
    return logits if logits.shape[-1] == 1 else softmax(logits)


def mlp(x, layers):
    """Dense layers with ReLU between them; the last one's output is left linear."""
    *hidden, last = layers
    for weights in hidden:
        x = relu(dense(x, weights))
    return dense(x, last)


def gru_step(x, h, kernel, recurrent, bias):
    """One step of `oracles.gru` from the state `h`: `[B, D]`, `[B, U]` -> `[B, U]`."""
    xz, xr, xh = np.split(x @ kernel + bias[0], 3, axis=-1)
    hz, hr, hh = np.split(h @ recurrent + bias[1], 3, axis=-1)
    z, r = sigmoid(xz + hz), sigmoid(xr + hr)
    return z * h + (1 - z) * np.tanh(xh + r * hh)


# --- features ---


def char_lstm(char_ids, table, *directions):
    """`[B, L, W]` ids -> `[B, L, h]`: the last state of an LSTM over the characters of each word.

    `directions`: one (kernel, recurrent, bias), or two, forward and backward, side by side. A word
    without characters is zero.
    """
    ids = np.asarray(char_ids)
    rows = ids.reshape(-1, ids.shape[-1])
    real = rows != 0
    states = [
        lstm(zero_pads(table[rows], real), real, *weights, backwards=bool(n))[1]
        for n, weights in enumerate(directions)
    ]
    return zero_pads(np.concatenate(states, -1), real.any(-1)).reshape(*ids.shape[:2], -1)


# --- DRr-Net ---


def stack_gru(x, mask, layers):
    """Eq 2: h^l = GRU_l(x^l), x^{l+1} = [h^l; x^l]: newest first, 0 at pads."""
    x = zero_pads(x, mask)
    for weights in layers:
        x = np.concatenate([gru(x, mask, *weights)[0], x], -1)
    return x


def self_attention_pooling(x, mask, kernel, bias, context):
    """Eq 3: alpha_i = omega . tanh(h_i W + b); sum_i msoftmax(alpha)_i h_i, and the weights."""
    x = zero_pads(x, mask)
    pooled, weights = np.zeros((len(x), x.shape[-1])), np.zeros(x.shape[:2])
    omega = np.reshape(context, -1)
    for b in range(len(x)):
        scores = np.array([omega @ np.tanh(h_i @ kernel + bias) for h_i in x[b]])
        weights[b] = masked_softmax(scores, mask[b])
        pooled[b] = sum(w_i * h_i for w_i, h_i in zip(weights[b], x[b]))
    return pooled, weights


def reread_attention(h, mask, guide, s0, W, U, M, w, gru, beta, steps, hard=False):
    """Eq 4, 6: m_i = omega . tanh(h_i W + s_{t-1} U + guide M); p = msoftmax(beta m);
    x_t = sum_i p_i h_i; s_t = GRU(x_t, s_{t-1}). Returns all states and weights p.

    `hard` is eq 5: p is one-hot at the first arg-max of m. Without a real token p and x_t are 0.
    """
    h = zero_pads(h, mask)
    state = np.asarray(s0, np.float64)
    omega, states, weights = np.reshape(w, -1), [], []
    for _ in range(steps):
        p = np.zeros(h.shape[:2])
        for b in range(len(h)):
            known = state[b] @ U
            if guide is not None and M is not None:
                known = known + guide[b] @ M
            m = np.array([omega @ np.tanh(h_i @ W + known) for h_i in h[b]])
            p[b] = masked_softmax(beta * m, mask[b])
            if hard and np.any(mask[b]):
                p[b] = np.eye(len(m))[np.where(mask[b], m, -np.inf).argmax()]
        read = np.stack([sum(p_i * h_i for p_i, h_i in zip(*row)) for row in zip(p, h)])
        state = gru_step(read, state, *gru)
        states.append(state)
        weights.append(p)
    return np.stack(states, 1), np.stack(weights, 1)


def cosine_warm_up_decay(i, loops, maximum, minimum=0.0, warm_up=0.05, legacy=True):
    """The learning rate of loop `i` (from 0) out of `loops`.

    Warm-up over N_w = floor(N w) loops, then decay over N_d = floor(N (1 - w)). `legacy` measures the
    decay from loop 0; the corrected form from loop N_w over the N - N_w loops that remain. Without
    a warm-up loop (N_w = 0) the decay begins at once; past the end the last value stays.
    """
    n_w, n_d = math.floor(loops * warm_up), math.floor(loops * (1 - warm_up))
    if n_w and i < (loops * warm_up if legacy else n_w):
        angle = (min(max(i, 0), n_w - 1) - n_w + 1) / n_w
    elif legacy:
        angle = min(max(i, 0), n_d - 1) / n_d
    else:
        angle = min(max(i - n_w, 0), loops - n_w) / (loops - n_w)
    return minimum + (maximum - minimum) * 0.5 * (1 + math.cos(math.pi * angle))


# --- DIN (n = sqrt(d)) ---


def to_matrices(c, kernel, bias):
    """Eq 7: W~ = tanh(c W + b), `[B, L, d_c]` -> `[B, L, n, n]` (rows filled first)."""
    y = np.tanh(dense(c, (kernel, np.reshape(bias, -1))))
    n = math.isqrt(y.shape[-1])
    return y.reshape(*y.shape[:-1], n, n)


def matrix_interaction(p, h, mask_p, mask_h, w, b):
    """Eq 8: W^t_tau = tanh(W~'_tau W~_t + W_inter W^t_{tau-1} + b_inter), W^t_0 = 0, for every t.

    `[B, Lh, Lp, n, n]`; a padded tau keeps W^t_{tau-1}; a padded t is 0, and all is if P is empty.
    """
    out = np.zeros((len(h), h.shape[1], p.shape[1], *np.shape(w)))
    for row in range(len(h)):
        for t in range(h.shape[1]):
            if not mask_h[row][t]:
                continue
            state = np.zeros(np.shape(w))
            for tau in range(p.shape[1]):
                if mask_p[row][tau]:
                    state = np.tanh(p[row, tau] @ h[row, t] + w @ state + b)
                out[row, t, tau] = state
    return out


def dynamic_weights(last, weights, kind):
    """Eq 15, 16, 22, 23 for one gate: the left factors and the bias made from W^t_{l_P} `[n, n]`.

    "din1": (W_con, b_con, B_con), left factors as printed, or with two more for the input
    (concat = "split"). "din2": (W_con, B_con) or (W_con, B_con, b_con) in the Keras layout.
    """
    if kind == "din2":
        v, (w_con, big_b, *b_con) = last.reshape(-1), weights  # eq 21
        w = np.tanh(v @ w_con + (b_con[0] if b_con and b_con[0] is not None else 0))
        return [w, w], np.tanh(v @ big_b)
    *factors, big_b = weights
    made = [np.tanh(w @ last + b) for w, b in zip(factors[::2], factors[1::2])]
    return [made[0], made[-1]], np.tanh(big_b @ last)


def matrix_dynamic_gru(last, x, mask, gates, kind="din1"):
    """Eq 9-23: a GRU over t whose weights are made anew from W^t_{l_P}; h_0 = 0.

    din2 has vec() everywhere and * for the products. Returns the states, 0 at pads, which keep H_{t-1},
    and the weights made for H_{t-1} by gate.
    """
    batch, length, n, _ = x.shape
    shape = (n * n,) if kind == "din2" else (n, n)
    product = np.multiply if kind == "din2" else np.matmul
    out = {k: np.zeros((batch, length, *shape)) for k in "zrh"}
    states = np.zeros((batch, length, n * n))
    for row in range(batch):
        H = np.zeros(shape)
        for t in range(length):
            if not mask[row][t]:
                continue
            made = {k: dynamic_weights(last[row, t], gates[k], kind) for k in "zrh"}
            word = x[row, t].reshape(shape)

            def gate(k, state, made=made, word=word):
                (for_state, for_word), bias = made[k]
                return product(for_state, state) + product(for_word, word) + bias

            Z, R = sigmoid(gate("z", H)), sigmoid(gate("r", H))
            H = (1 - Z) * H + Z * np.tanh(gate("h", R * H))
            states[row, t] = H.reshape(-1)
            for k in "zrh":
                out[k][row, t] = made[k][0][0]
    return {"states": states, **out}


def static_states(last, x, mask, weights, words):
    """The states `[B, Lh, d]` of an ordinary GRU fed [vec(W~_t), vec(W^t_{l_P})], or the latter."""
    read = [m.reshape(*m.shape[:2], -1) for m in ([x, last] if words else [last])]
    return gru(np.concatenate(read, -1), mask, *weights)[0]


def min_max(x, mask):
    """(x - min) / (max - min) over the real entries of the last axis; 0 at pads and if max = min."""
    mask = np.broadcast_to(mask, x.shape)
    low = np.where(mask, x, np.inf).min(-1, keepdims=True)
    high = np.where(mask, x, -np.inf).max(-1, keepdims=True)
    some = mask & (high > low)
    return np.where(some, np.where(some, x - low, 0) / np.where(some, high - low, 1), 0)
