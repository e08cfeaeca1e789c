"""NumPy float64 oracles of dot-product attention, factorization machines, FA, SFA, rLSTM and
HyperLSTM.

Conventions as in `oracles` and `oracles_recurrent`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.oracles import attend, bidirectional_rnn, masked_mean, masked_softmax, sigmoid, softmax
from tests.oracles_recurrent import dense, zero_pads


def dot_attention(p, q, mask_1, mask_2, keys_1=None, keys_2=None, temperature=1.0):
    """Both attended sentences and both attentions by e_ij = tau k_pi . k_qj; keys k are p and q at first."""
    k_p, k_q = p if keys_1 is None else keys_1, q if keys_2 is None else keys_2
    e = float(np.squeeze(temperature)) * np.einsum("bik,bjk->bij", k_p, k_q)
    return attend(e, p, q, mask_1, mask_2)


def factorization_machine(z, w0, w, V):
    """w_0 + w . z + 1/2 sum_f [(v_f . z)^2 - v_f^2 . z^2]: V `[n, factors]` -> `[..., 1]`."""
    z = np.asarray(z, np.float64)
    y = float(np.squeeze(w0)) + z @ np.reshape(w, -1)
    for v_f in np.asarray(V, np.float64).T:
        y = y + 0.5 * ((z @ v_f) ** 2 - (z * z) @ (v_f * v_f))
    return y[..., None]


# --- FA and SFA ---


def feature_attention(x, mask, w1, b1, w2, b2):
    """Eq 1-3: s = mmean(x); e = sigmoid(tanh(s W1 + b1) W2 + b2); u = e * x. Returns u and e."""
    x = zero_pads(x, mask)
    e = sigmoid(dense(np.tanh(dense(masked_mean(x, mask), (w1, b1))), (w2, b2)))
    return x * e[:, None, :], e


def selective_feature_attention(
    branches,
    mask,
    w1,
    w2,
    pre_sigmoid=False,
    use_max=True,
    use_mean=True,
    select=True,
    b1=None,
    b2=None,
):
    """Eq 5-8: s = mean + max over branches and real tokens; e^n = sigmoid(tanh(s W1 + b1) W2^n + b2^n);
    e~ = softmax over n, each feature by itself; u = sum_n e~^n * x^n. Returns u, e and e~.

    `pre_sigmoid`: the softmax is taken of the logits. Without `select` u = e * mean_n x^n.
    """
    xs = [zero_pads(x, mask) for x in branches]
    batch, length, width = xs[0].shape
    s = np.zeros((batch, width))
    for b in range(batch):
        tokens = np.array([x[b, i] for x in xs for i in range(length) if mask[b][i]])
        if len(tokens):
            s[b] = use_mean * tokens.mean(0) + use_max * tokens.max(0)
    hidden = np.tanh(dense(s, (w1, b1)))
    logits = [dense(hidden, (w, None if b2 is None else b2[n])) for n, w in enumerate(w2)]
    e = sigmoid(np.stack(logits, 1))
    if not select:
        return e[:, 0][:, None, :] * (sum(xs) / len(xs)), e, e
    scores = np.stack(logits, 1) if pre_sigmoid else e
    chosen = softmax(scores.swapaxes(1, 2)).swapaxes(1, 2)
    return sum(chosen[:, n][:, None, :] * x for n, x in enumerate(xs)), e, chosen


def conv1d_same(x, mask, kernel, bias, dilation=1):
    """`same` convolution over real tokens, kernel `[k, D, F]`; of the zeros the smaller half is left."""
    x = zero_pads(x, mask)
    out = np.zeros((*x.shape[:2], kernel.shape[-1])) + bias
    left = (len(kernel) - 1) * dilation // 2
    for t in range(x.shape[1]):
        for k in range(len(kernel)):
            at = t - left + k * dilation
            if 0 <= at < x.shape[1]:
                out[:, t] += x[:, at] @ kernel[k]
    return zero_pads(out, mask)


def sfa_block(x, mask, weights):
    """The whole block: bottleneck in, stacked bidirectional RNNs (eq 4), SFA, bottleneck out.

    With cell "cnn" the branches stand side by side; without w1 there are no gates and u is their mean.
    """
    options = dict(weights)
    x = given = zero_pads(x, mask)
    residual = options.pop("residual", False)
    into, out = options.pop("bottleneck_in"), options.pop("bottleneck_out")
    layers, cell = options.pop("branches"), options.pop("cell", "gru")
    activation = options.pop("activation", None) or (lambda z: z)
    x = zero_pads(x if into is None else dense(x, into), mask)
    branches = []
    for layer in layers:
        if cell == "cnn":
            branches.append(zero_pads(activation(conv1d_same(x, mask, *layer)), mask))
        else:
            x = bidirectional_rnn(cell, x, mask, *layer)[0]
            branches.append(x)
    if options["w1"] is None:
        u, e = sum(branches) / len(branches), np.ones((len(x), 1, branches[0].shape[-1]))
        chosen = e
    else:
        u, e, chosen = selective_feature_attention(branches, mask, **options)
    y = u[:, :, : given.shape[-1]] if out is None else zero_pads(dense(u, out), mask)
    y = y + given if residual else y
    return {"output": y, "e": e, "weights": chosen}


# --- rLSTM and HyperLSTM ---

Weights = Mapping[str, Any]


def rlstm(y, mask_p, h_inputs, mask_h, weights, backwards=False, tanh=True):
    """An LSTM over H that re-reads P: m_t = sum_j alpha_{t,j} Y_j; c_t as in an LSTM;
    h_t = o_t tanh(c_t) + o_t tanh(m_t); alpha_{t+1} = msoftmax(w . tanh(Y W_p + m_t W_m + c_{t-1} W_c)).

    alpha_1 is uniform. A padded t keeps h, c and alpha. Returns states and alpha, both 0 at pads.
    """
    y, x = zero_pads(y, mask_p), zero_pads(h_inputs, mask_h)
    kernel, recurrent, bias = weights["lstm"]
    states, alphas = np.zeros((*x.shape[:2], len(recurrent))), np.zeros((*x.shape[:2], y.shape[1]))
    steps = range(x.shape[1])
    for b in range(len(x)):
        h, c = np.zeros(len(recurrent)), np.zeros(len(recurrent))
        alpha = masked_softmax(np.zeros(y.shape[1]), mask_p[b])
        for t in reversed(steps) if backwards else steps:
            if not mask_h[b][t]:
                continue
            m = sum(a_j * y_j for a_j, y_j in zip(alpha, y[b]))
            i, f, g, o = np.split(x[b, t] @ kernel + h @ recurrent + bias, 4)
            score = y[b] @ weights["w_p"] + m @ weights["w_m"] + c @ weights["w_c"]
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c) + sigmoid(o) * np.tanh(m)
            states[b, t], alphas[b, t] = h, alpha
            score = np.tanh(score) if tanh else score
            alpha = masked_softmax(score @ np.reshape(weights["w"], -1), mask_p[b])
    return states, alphas


def layer_norm(x, gamma, beta, epsilon=0.001):
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt(np.square(centered).mean(-1, keepdims=True) + epsilon) * gamma + beta


def hyper_lstm(x, mask, weights, forget_bias=1.0):
    """A small LSTM reads [x_t; h_{t-1}] and re-scales the main LSTM's gates.

    For gate y of i, f, g, o: z^k = h^ W^k + c^k (no c for k = b), d^k = z^k D^k, pre_y = d^x * (x W_y)
    + d^h * (h U_y) + b_y + d^b; then c' = sigmoid(f + forget_bias) c + sigmoid(i) tanh(g), h' =
    sigmoid(o) tanh(c'). `norm`: layer norms of pre_i, pre_f, pre_g, pre_o, and of c' inside its tanh.
    """
    x = zero_pads(x, mask)
    units, small = len(weights["recurrent"]), weights["small"]
    states, last = np.zeros((*x.shape[:2], units)), np.zeros((len(x), units))
    norm = weights.get("norm")
    for b in range(len(x)):
        h, c = np.zeros(units), np.zeros(units)
        h_small, c_small = np.zeros(len(small[1])), np.zeros(len(small[1]))
        for t in np.flatnonzero(mask[b]):
            seen = np.concatenate([x[b, t], h])
            i, f, g, o = np.split(seen @ small[0] + h_small @ small[1] + small[2], 4)
            c_small = sigmoid(f) * c_small + sigmoid(i) * np.tanh(g)
            h_small = sigmoid(o) * np.tanh(c_small)
            gates = []
            for y in range(4):
                part = slice(y * units, (y + 1) * units)
                d = {}
                for k in "xhb":
                    z = h_small @ weights[f"w_{k}"][y]
                    z = z if k == "b" else z + weights[f"c_{k}"][y]
                    d[k] = z @ weights[f"d_{k}"][y]
                pre = d["x"] * (x[b, t] @ weights["kernel"][:, part])
                pre = pre + d["h"] * (h @ weights["recurrent"][:, part])
                pre = pre + weights["bias"][part] + d["b"]
                gates.append(layer_norm(pre, *norm[y]) if norm else pre)
            i, f, g, o = gates
            c = sigmoid(f + forget_bias) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(layer_norm(c, *norm[4]) if norm else c)
            states[b, t] = last[b] = h
    return states, last
