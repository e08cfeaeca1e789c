"""NumPy float64 oracles of a pretrained encoder, and of LadRa-Net, DABERT and a cross-encoder on it.

Conventions as in `oracles`. Every result per token is 0 at padding.
"""

import math

import numpy as np

from tests.oracles import masked_softmax, relu, sigmoid, softmax
from tests.oracles_blocks import conv1d_same, layer_norm
from tests.oracles_hosts import gelu as gelu_approximate
from tests.oracles_recurrent import dense, gru_step, zero_pads


def gelu(x):
    """x Phi(x), exact: RoBERTa's. BERT has the approximation by tanh, at most 5e-4 off."""
    return x * 0.5 * (1 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2)))


ACTIVATIONS = {
    "relu": relu,
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "linear": lambda x: x,
    "gelu": gelu,
    "gelu_approximate": gelu_approximate,
}

# --- LadRa-Net ---


def layer_weighted_sum(layers, logits, normalize=True):
    """Eq 9: h_t = sum_l alpha_l h^l_t; alpha = softmax(logits), or the logits themselves."""
    logits = np.reshape(np.asarray(logits, np.float64), -1)
    alpha = softmax(logits) if normalize else logits
    return sum(a * np.asarray(h, np.float64) for a, h in zip(alpha, layers, strict=True))


def phrase_cnn(x, mask, units):
    """Eq 10: per unit conv2(relu(conv1(x))), zeros at padding -> `[B, R, L, D]`."""
    outputs = []
    for k1, b1, k2, b2 in units:
        outputs.append(conv1d_same(relu(conv1d_same(x, mask, k1, b1)), mask, k2, b2))
    return np.stack(outputs, 1)


def sequential_scores(h, state, guide, before, unit):
    """Eq 13: e_i = omega . tanh(h_i W + s U + g M + (sum_j<r a^j) V), no V for the first unit: `[L]`."""
    known = state @ unit["U"] + guide @ unit["M"]
    if len(before):
        known = known + sum(before) @ unit["V"]
    return np.array([np.tanh(h_i @ unit["W"] + known) @ np.reshape(unit["w"], -1) for h_i in h])


def fertility(h, phi, steps):
    """Eq 14: phi_i = T sigmoid(h_i . w_phi): `[L]`."""
    # exact where sigmoid() rounds to 0: something is divided by it
    return steps * np.exp(-np.logaddexp(0, -h @ np.reshape(phi, -1)))


def fuse_units(a, W_f, w_f, fuse_word=True):
    """Eq 12: alpha^r = omega_f . tanh(a^r W_f); a = sum_r softmax_r(alpha) a^r, and the weights."""
    alpha = np.array([np.tanh(a_r @ W_f) @ np.reshape(w_f, -1) for a_r in a])
    kept = np.array([r > 0 or fuse_word for r in range(len(a))])
    assert kept.any(), "nothing to fuse"
    weights = masked_softmax(alpha, kept)
    return sum(w * a_r for w, a_r in zip(weights, a)), weights


def dynamic_sequential_attention(
    phrases,
    mask,
    guide,
    per_unit,
    W_f,
    w_f,
    gru,
    beta=10.0,
    steps=5,
    fuse_word=True,
    coverage="multiply",
    clip=True,
    update="probability",
):
    """Eq 12-14: T times, for every unit in turn p = msoftmax(beta m), a^r = sum_i p_i h^r_i, then
    s_t = GRU(fused a, s_{t-1}); s_0 = guide.

    `per_unit` = {W, U, M, V (not for unit 0), w, phi}. After its turn c^r -= p / phi ("probability") or
    m / phi ("score"), and `clip` keeps it >= 0. From an empty sentence p and a are 0 and the GRU steps.
    """
    mask = np.asarray(mask, bool)
    h = np.where(mask[:, None, :, None], np.asarray(phrases, np.float64), 0)
    batch, count, length, _ = h.shape
    out = {
        "states": np.zeros((batch, steps, np.shape(guide)[-1])),
        "weights": np.zeros((batch, steps, count, length)),
        "coverage": np.zeros((batch, steps, count, length)),
        "fusion": np.zeros((batch, steps, count)),
    }
    for b in range(batch):
        state = start = np.asarray(guide[b], np.float64)
        c = np.ones((count, length))
        for t in range(steps):
            chosen = []
            for r, unit in enumerate(per_unit):
                e = sequential_scores(h[b, r], state, start, chosen, unit)
                m = c[r] * e if coverage == "multiply" else e  # eq 14
                if coverage == "log":
                    m = e + np.log(np.maximum(c[r], 0) + 1e-6) / beta
                p = masked_softmax(beta * m, mask[b])
                chosen.append(sum(p_i * h_i for p_i, h_i in zip(p, h[b, r])))
                if coverage != "off":
                    used = {"probability": p, "score": m}[update]
                    spent = used / fertility(h[b, r], unit["phi"], steps)
                    c[r] = np.where(mask[b], c[r] - spent, c[r])
                if clip:
                    c[r] = np.maximum(c[r], 0)
                out["weights"][b, t, r] = p
            a, out["fusion"][b, t] = fuse_units(chosen, W_f, w_f, fuse_word)
            state = gru_step(a[None], state[None], *gru)[0]
            out["states"][b, t] = state
            out["coverage"][b, t] = np.where(mask[b], c, 0)
    return out


# --- DABERT ---


def project(x, weights):
    """`[B, L, D]` -> `[B, h, L, k]`: one dense layer per head, (kernel `[D, h, k]`, bias `[h, k]`)."""
    kernel, bias = weights
    return np.stack([x @ kernel[:, n] + bias[n] for n in range(kernel.shape[1])], 1)


def distance_of(q, k, kind):
    """Eq 4 between two vectors: "l1" sum |q - k|, or "sum" as printed."""
    difference = q - k
    return (np.abs(difference) if kind == "l1" else difference).sum()


def dual_attention(x, mask, q, k, v, distance="l1", segment_ids=None, cross=False):
    """Eq 1-4: A = softmax(Q K^T / sqrt(k)) V and D = softmax(dist(Q, K) / sqrt(k)) V, by head.

    With `cross` a key of the query's own sentence has no part in D. Returns both and their maps.
    """
    x, mask = zero_pads(x, mask), np.asarray(mask, bool)
    Q, K, V = (project(x, weights) for weights in (q, k, v))
    batch, heads, length, width = Q.shape
    outputs = [np.zeros((batch, length, heads * V.shape[-1])) for _ in "AD"]
    maps = [np.zeros((batch, heads, length, length)) for _ in "AD"]
    for b, n, i in np.ndindex(batch, heads, length):
        if not mask[b, i]:
            continue
        other = np.ones(length, bool)
        if cross:
            assert segment_ids is not None
            other = np.asarray(segment_ids[b]) != segment_ids[b][i]
        affinity = [Q[b, n, i] @ K[b, n, j] for j in range(length)]
        difference = [distance_of(Q[b, n, i], K[b, n, j], distance) for j in range(length)]
        maps[0][b, n, i] = masked_softmax(np.array(affinity) / np.sqrt(width), mask[b])
        maps[1][b, n, i] = masked_softmax(np.array(difference) / np.sqrt(width), mask[b] & other)
        place = slice(n * V.shape[-1], (n + 1) * V.shape[-1])
        for output, weights in zip(outputs, maps):
            output[b, i, place] = sum(w * row for w, row in zip(weights[b, n, i], V[b, n]))
    return outputs[0], outputs[1], maps[0], maps[1]


def guided_alignment(values, guides, mask, weights, alignment):
    """Eq 5, half of it: for every guide g_i, u_ij = score(x_j, g_i), x-_i = sum_j msoftmax(u_i)_j x_j.

    "additive": w . tanh(x_j W_x + g_i W_g + b); "literal": w . tanh([x_j W_x; g_i W_g + b]).
    """
    W_x, W_g, b, w, c = weights
    w, c = np.reshape(w, -1), 0.0 if c is None else np.reshape(c, -1)[0]
    out = np.zeros_like(values)
    for i in range(len(guides)):
        if not mask[i]:
            continue
        known = guides[i] @ W_g + b
        if alignment == "additive":
            scores = [np.tanh(x_j @ W_x + known) @ w + c for x_j in values]
        else:
            assert alignment == "literal"
            scores = [np.tanh(np.concatenate([x_j @ W_x, known])) @ w + c for x_j in values]
        out[i] = sum(u * x_j for u, x_j in zip(masked_softmax(np.array(scores), mask), values))
    return out


def aligned(a, d, mask, weights, alignment):
    """Eq 5, one row: a*, d*. First d- guided by a, then a- guided by d-; "none" is a* = a, d* = d."""
    w = weights
    if alignment == "none":
        return a, d
    first = [w["W_D"], w["W_a"], w["b_a"], w["w_d"], w.get("c_d")]
    d_bar = guided_alignment(d, a, mask, first, alignment)
    second = [w["W_A"], w["W_dbar"], w["b_dbar"], w["w_a"], w.get("c_a")]
    a_bar = guided_alignment(a, d_bar, mask, second, alignment)
    d_star = np.tanh(np.concatenate([d, d_bar], -1) @ w["W_dstar"] + w["b_dstar"])
    a_star = np.tanh(np.concatenate([a, a_bar], -1) @ w["W_astar"] + w["b_astar"])
    return a_star, d_star


def gate_fusion(a_star, d_star, weights, gate):
    """Eq 6: d^ = tanh(d* W + b), a^ likewise; g = sigmoid([d^; a^] . w_g) or 1/2; v = g a^ + (1-g) d^."""
    d_hat = np.tanh(d_star @ weights["W_dhat"] + weights["b_dhat"])
    a_hat = np.tanh(a_star @ weights["W_ahat"] + weights["b_ahat"])
    g = np.full(len(a_star), 0.5)
    if gate:
        g = sigmoid(np.concatenate([d_hat, a_hat], -1) @ np.reshape(weights["w_g"], -1))
    return g[:, None] * a_hat + (1 - g)[:, None] * d_hat, g


def gate_filter(a, v, weights, filter_gate):
    """Eq 7: f = sigmoid([a; v W_v + b_v] . w_f) or 1; l = f tanh(v W_l + b_l). Returns l and f."""
    f = np.ones(len(a))
    if filter_gate:
        projected = v @ weights["W_v"] + weights["b_v"]
        f = sigmoid(np.concatenate([a, projected], -1) @ np.reshape(weights["w_f"], -1))
    return f[:, None] * np.tanh(v @ weights["W_l"] + weights["b_l"]), f


def adaptive_fusion(
    a,
    d,
    mask,
    weights,
    alignment="additive",
    gate=True,
    filter_gate=True,
    output="residual",
    regulation=True,
):
    """Eq 5-7: a + l ("residual") or l ("replace"), g, f, |l| / |a|; without regulation (a + d) / 2.

    W_a, b_a are applied to the guide a_i, W_dbar, b_dbar to d-_i; w_g takes d^ first, w_f takes a first.
    """
    mask = np.asarray(mask, bool)
    a, d = zero_pads(a, mask), zero_pads(d, mask)
    out, g, f = (a + d) / 2, np.full(mask.shape, 0.5), np.ones(mask.shape)
    change = (d - a) / 2
    if regulation:
        for b in range(len(a)):
            a_star, d_star = aligned(a[b], d[b], mask[b], weights, alignment)
            v, g[b] = gate_fusion(a_star, d_star, weights, gate)
            change[b], f[b] = gate_filter(a[b], v, weights, filter_gate)
            out[b] = {"residual": a[b] + change[b], "replace": change[b]}[output]
    sizes = [np.linalg.norm(x, axis=-1) for x in (change, a)]
    size = np.divide(*sizes, out=np.zeros(mask.shape), where=sizes[1] > 0)
    return tuple(zero_pads(x, mask) for x in (out, g, f, size))


# --- whole models, from the output of the embeddings on ---


def finish_block(x, attended, weights, epsilon, activation):
    """What follows attention in a post-norm block; `attended` `[B, L, h k]`, heads side by side."""
    act = ACTIVATIONS[activation] if isinstance(activation, str) else activation
    kernel, bias = weights["o"]
    y = x + attended @ np.reshape(kernel, (-1, x.shape[-1])) + bias
    y = layer_norm(y, *weights["norm_1"], epsilon)
    return layer_norm(
        y + dense(act(dense(y, weights["ff_1"])), weights["ff_2"]), *weights["norm_2"], epsilon
    )


def transformer_encoder(x, mask, weights, epsilon=1e-12, activation="gelu_approximate"):
    """A block of BERT: y = norm_1(x + MHA(x)), z = norm_2(y + ff_2(act(ff_1(y)))), and its maps."""
    x = zero_pads(x, mask)
    heads = (weights[name] for name in "qkv")
    affinity, _, attention, _ = dual_attention(x, mask, *heads)
    return zero_pads(finish_block(x, affinity, weights, epsilon, activation), mask), attention


def dual_attention_block(
    x,
    mask,
    weights,
    fusion,
    segment_ids=None,
    distance="l1",
    cross=False,
    use_affinity=True,
    use_difference=True,
    epsilon=1e-12,
    activation="gelu_approximate",
    **options,
):
    """The block above, where what the heads attend to is fused from A and D before `o`.

    Without one of the two channels the fusion gets (D, D), or (A, A).
    """
    x = zero_pads(x, mask)
    heads = (weights[name] for name in "qkv")
    a, d, a_map, d_map = dual_attention(x, mask, *heads, distance, segment_ids, cross)
    pair = (a if use_affinity else d), (d if use_difference else a)
    fused, gate, filtered, change = adaptive_fusion(*pair, mask, fusion, **options)
    output = zero_pads(finish_block(x, fused, weights, epsilon, activation), mask)
    maps = {"affinity": a_map, "difference": d_map}
    return {"output": output, **maps, "gate": gate, "filter": filtered, "change": change}
