"""NumPy float64 oracles of ESIM, BiMPM, CAFE, RE2, DIIN and their parts.

Conventions as in `oracles` and `oracles_recurrent`. Every model takes `inputs` and `weights` as
`oracles_recurrent.word_features` does, and further weights by name. `weights["adapt"]`, if there, is FA or SFA:
a function (x, mask, side 0 or 1, placement) -> x of the same shape, called with placement "fused" at the
place of each host (ESIM also has "attended").
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.oracles import (
    Array,
    bidirectional_rnn,
    cosine,
    highway,
    lstm,
    masked_max,
    masked_mean,
    masked_softmax,
    pair_mask,
    relu,
    sigmoid,
)
from tests.oracles_blocks import conv1d_same, dot_attention, factorization_machine
from tests.oracles_recurrent import class_probabilities, dense, word_features, zero_pads


def adapt(xs: Sequence[Array], masks: Sequence[Array], weights: Any, place: str = "fused") -> list:
    hook = weights.get("adapt")
    return [x if hook is None else hook(x, masks[n], n, place) for n, x in enumerate(xs)]


def result(v: Array, layers: Sequence[Sequence[Array]], activation: Any, **others: Any) -> dict:
    """The dense layers with `activation`, the last one linear: logits and probabilities."""
    for layer in layers[:-1]:
        v = activation(dense(v, layer))
    logits = dense(v, layers[-1])
    return {"logits": logits, "probabilities": class_probabilities(logits), **others}


# --- ESIM ---


def esim(inputs: Mapping[str, Array], weights: Mapping[str, Any]) -> dict[str, Any]:
    """Weights: encoder, composition: (forward, backward) LSTMs; projection: (W, b), ReLU;
    dense: [(W, b) tanh, ..., (W, b)].

    Enhancement [a; x; a - x; a * x]; pooling [mean a; max a; mean b; max b]. Returns also attention_1,
    attention_2.
    """
    xs, masks = word_features(inputs, weights)
    states = [bidirectional_rnn("lstm", x, m, *weights["encoder"])[0] for x, m in zip(xs, masks)]
    *attended, alpha_1, alpha_2 = dot_attention(*states, *masks)
    attended = adapt(attended, masks, weights, "attended")
    fused = []
    for a, x, mask in zip(states, attended, masks):
        enhanced = np.concatenate([a, x, a - x, a * x], -1)
        fused.append(zero_pads(relu(dense(enhanced, weights["projection"])), mask))
    pooled = []
    for x, mask in zip(adapt(fused, masks, weights), masks):
        v = bidirectional_rnn("lstm", x, mask, *weights["composition"])[0]
        pooled += [masked_mean(v, mask), masked_max(v, mask)[0]]
    v = np.concatenate(pooled, -1)
    return result(v, weights["dense"], np.tanh, attention_1=alpha_1, attention_2=alpha_2)


# --- BiMPM ---

STRATEGIES = ("full", "max", "attentive", "max_attentive")


def perspectives(x: Array, y: Array, w: Array) -> Array:
    """f_m: cos(W_k * x, W_k * y) for k = 1..l; x, y `[h]`, W `[l, h]` -> `[l]`."""
    return np.array([cosine(w_k * x, w_k * y) for w_k in w])


def weighted_mean(weights: Array, x: Array) -> Array:
    """sum_j a_j x_j / sum_j a_j; the sum keeps its sign and 1e-8 of size at least."""
    total = weights.sum()
    return weights @ x / (np.copysign(max(abs(total), 1e-8), total))


def bimpm_match(
    forward_1: Array,
    backward_1: Array,
    forward_2: Array,
    backward_2: Array,
    mask_1: Array,
    mask_2: Array,
    weights: Mapping[str, Sequence[Array]],
) -> Array:
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


def bimpm(inputs: Mapping[str, Array], weights: Mapping[str, Any]) -> dict[str, Any]:
    """Weights: encoder, aggregation: (forward, backward) LSTMs; match: as in `bimpm_match`, for
    both sentences; dense: [(W, b) tanh, ..., (W, b)].

    The aggregation's last states [forward P; backward P; forward Q; backward Q] go to the dense layers.
    Returns also matching_1, matching_2 `[B, L, 8 l]`.
    """
    xs, masks = word_features(inputs, weights)
    halves = []
    for x, mask in zip(xs, masks):
        h = bidirectional_rnn("lstm", x, mask, *weights["encoder"])[0]
        halves.append(np.split(h, 2, axis=-1))
    matched = [
        bimpm_match(*halves[n], *halves[1 - n], masks[n], masks[1 - n], weights["match"])
        for n in (0, 1)
    ]
    last = [
        bidirectional_rnn("lstm", x, mask, *weights["aggregation"])[1]
        for x, mask in zip(adapt(matched, masks, weights), masks)
    ]
    v = np.concatenate(last, -1)
    return result(v, weights["dense"], np.tanh, matching_1=matched[0], matching_2=matched[1])


# --- CAFE ---


def cafe_features(a: Array, other: Array, machines: Sequence[Sequence[Array]]) -> Array:
    """FM of [a; a'], of a * a', of a - a': `[B, L, 3]`; machines: three (w0, w, V)."""
    zs = (np.concatenate([a, other], -1), a * other, a - other)
    return np.concatenate([factorization_machine(z, *fm) for z, fm in zip(zs, machines)], -1)


def cafe(inputs: Mapping[str, Array], weights: Mapping[str, Any]) -> dict[str, Any]:
    """Weights: projection: (W, b), linear, or None; highway: its layers; inter, intra: the ReLU
    dense layers F and G (W, b); fm: six (w0, w, V), inter then intra, as in `cafe_features`; encoder: one
    LSTM, or (forward, backward); head: (W, b), linear, or None; head_highway; output: (W, b).

    Both attentions average the vectors themselves, not their projections; a token attends to itself too.
    [mean; max] of the LSTM by sentence, then [x_a; x_b; x_a - x_b; x_a * x_b]. Returns also features_1,
    features_2 `[B, L, 6]`, attention_1, attention_2, intra_1, intra_2.
    """
    xs, masks = word_features(inputs, weights)
    if weights.get("projection") is not None:
        xs = [dense(x, weights["projection"]) for x in xs]
    xs = [zero_pads(highway(x, weights["highway"]), m) for x, m in zip(xs, masks)]
    keys = [relu(dense(x, weights["inter"])) for x in xs]
    *aligned, alpha_1, alpha_2 = dot_attention(*xs, *masks, *keys)
    out: dict[str, Any] = {"attention_1": alpha_1, "attention_2": alpha_2}
    augmented = []
    for n, (x, mask) in enumerate(zip(xs, masks)):
        own = relu(dense(x, weights["intra"]))
        intra, _, out[f"intra_{n + 1}"], _ = dot_attention(x, x, mask, mask, own, own)
        inter = cafe_features(x, aligned[n], weights["fm"][:3])
        six = np.concatenate([inter, cafe_features(x, intra, weights["fm"][3:])], -1)
        out[f"features_{n + 1}"] = zero_pads(six, mask)
        augmented.append(np.concatenate([x, out[f"features_{n + 1}"]], -1))
    pooled = []
    for x, mask in zip(adapt(augmented, masks, weights), masks):
        both = len(weights["encoder"]) == 2
        run = bidirectional_rnn("lstm", x, mask, *weights["encoder"]) if both else None
        h = run[0] if run else lstm(x, mask, *weights["encoder"])[0]
        pooled.append(np.concatenate([masked_mean(h, mask), masked_max(h, mask)[0]], -1))
    a, b = pooled
    v = np.concatenate([a, b, a - b, a * b], -1)
    v = v if weights.get("head") is None else dense(v, weights["head"])
    return result(highway(v, weights["head_highway"]), [weights["output"]], None, **out)


# --- RE2 ---


def gelu(x: Array) -> Array:
    """x Phi(x) by its tanh approximation."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def weight_norm(v: Array, g: Array) -> Array:
    """The kernel g v / |v|, the norm over the inputs of each output unit (all axes but the last)."""
    return g * v / np.sqrt(np.square(v).sum(tuple(range(v.ndim - 1)), keepdims=True))


def re2_fusion(z: Array, x: Array, layers: Sequence[Any]) -> Array:
    """Four (W, b), "full": G([G1([z; x]); G2([z; z - x]); G3([z; z * x])]); one, "simple": G([z; x])."""
    parts = [np.concatenate([z, y], -1) for y in (x, z - x, z * x)]
    if len(layers) == 1:
        return gelu(dense(parts[0], layers[0]))
    made = [gelu(dense(part, layer)) for part, layer in zip(parts, layers)]
    return gelu(dense(np.concatenate(made, -1), layers[3]))


def re2_block(
    xs: Sequence[Array], masks: Sequence[Array], block: Mapping[str, Any]
) -> tuple[list, list]:
    """One block on both sentences: their outputs `[B, L, h]` (0 at pads) and the two attentions.

    block: convs (kernel `[3, in, h]`, bias) each; projection: (W, b) of the "linear" alignment (activated)
    or None, "identity"; temperature: tau; fusion: as in `re2_fusion`.
    """
    joined = []
    for x, mask in zip(xs, masks):
        encoded = x
        for kernel, bias in block["convs"]:
            encoded = zero_pads(gelu(conv1d_same(encoded, mask, kernel, bias)), mask)
        joined.append(zero_pads(np.concatenate([x, encoded], -1), mask))
    keys: Sequence[Any] = (None, None)
    if block.get("projection") is not None:
        keys = [gelu(dense(z, block["projection"])) for z in joined]
    *aligned, alpha_1, alpha_2 = dot_attention(*joined, *masks, *keys, block["temperature"])
    fused = [re2_fusion(z, x, block["fusion"]) for z, x in zip(joined, aligned)]
    return [zero_pads(x, m) for x, m in zip(fused, masks)], [alpha_1, alpha_2]


def re2(inputs: Mapping[str, Array], weights: Mapping[str, Any]) -> dict[str, Any]:
    """Weights: blocks: as in `re2_block`; connection ("aug"): the input of block n + 1 is
    "aug" [r_n; emb], r_1 = out_1, r_n = (r_{n-1} + out_n) / sqrt 2; "residual" r_n alone, where
    r_1 = (emb W + b + out_1) / sqrt 2 with residual: (W, b); "none" out_n; prediction ("full"): [a; b; a - b;
    a * b], "symmetric" with |a - b|, "simple" [a; b]; dense: [(W, b) GELU, ..., (W, b)]. What is
    pooled is the last block's output. Returns also attentions_1, attentions_2, by block.
    """
    emb, masks = word_features(inputs, weights)
    connection = weights.get("connection", "aug")
    xs, past, outs = emb, list(emb), []
    attentions: tuple[list, list] = ([], [])
    for number, block in enumerate(weights["blocks"], 1):
        outs, alphas = re2_block(xs, masks, block)
        for side in (0, 1):
            attentions[side].append(alphas[side])
        xs = list(outs)
        for side in (0, 1) if connection != "none" else ():
            if number == 1 and connection == "aug":
                past[side] = outs[side]
            else:
                first = number == 1 and connection == "residual"
                old = dense(emb[side], weights["residual"]) if first else past[side]
                past[side] = zero_pads((old + outs[side]) / math.sqrt(2), masks[side])
            parts = [past[side], emb[side]] if connection == "aug" else [past[side]]
            xs[side] = np.concatenate(parts, -1)
    a, b = (masked_max(x, m)[0] for x, m in zip(adapt(outs, masks, weights), masks))
    kinds: dict[str, list] = {
        "full": [a, b, a - b, a * b],
        "symmetric": [a, b, np.abs(a - b), a * b],
        "simple": [a, b],
    }
    v = np.concatenate(kinds[weights.get("prediction", "full")], -1)
    found = {f"attentions_{n + 1}": attentions[n] for n in (0, 1)}
    return result(v, weights["dense"], gelu, **found)


# --- DIIN ---


def diin_encoder(
    x: Array, mask: Array, w: Array, z: Sequence[Array], r: Sequence[Array], f: Sequence[Array]
) -> tuple[Array, Array]:
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


def interaction_tensor(p: Array, h: Array, mask_1: Array, mask_2: Array) -> Array:
    """I_ij = p_i * h_j, 0 where either is a pad: `[B, L1, L2, D]`."""
    out = np.zeros((len(p), p.shape[1], h.shape[1], p.shape[2]))
    for b, i, j in np.argwhere(pair_mask(mask_1, mask_2)):
        out[b, i, j] = p[b, i] * h[b, j]
    return out


def conv2d_same(x: Array, kernel: Array, bias: Array) -> Array:
    """`[B, R, C, D]`, kernel `[k, k, D, F]` (odd k) or `[D, F]` for 1 x 1 -> `[B, R, C, F]`."""
    kernel = np.reshape(kernel, (1, 1, *kernel.shape)) if kernel.ndim == 2 else kernel
    rows, columns = kernel.shape[:2]
    margin = ((0, 0), (rows // 2, rows // 2), (columns // 2, columns // 2), (0, 0))
    padded = np.pad(x, margin)
    out = np.zeros((*x.shape[:3], kernel.shape[-1])) + bias
    for i, j in np.ndindex(rows, columns):
        out += padded[:, i : i + x.shape[1], j : j + x.shape[2]] @ kernel[i, j]
    return out


def max_pool_2x2(x: Array) -> Array:
    """The maximum of 2 x 2 cells, stride 2; a last odd row or column is left out."""
    rows, columns = (n // 2 for n in x.shape[1:3])
    out = np.zeros((len(x), rows, columns, x.shape[-1]))
    for i, j in np.ndindex(rows, columns):
        out[:, i, j] = x[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2].max((1, 2))
    return out


def dense_net(
    x: Array,
    first: Sequence[Array],
    blocks: Sequence[tuple[Sequence[Sequence[Array]], Sequence[Array]]],
) -> Array:
    """1 x 1 conv `first`, then by block: each 3 x 3 conv reads all that came before and appends
    ReLU(conv) to it; a 1 x 1 conv and a 2 x 2 max-pool follow. Flat, `[B, R C F]`.
    """
    x = conv2d_same(x, *first)
    for convs, transition in blocks:
        for kernel, bias in convs:
            x = np.concatenate([x, relu(conv2d_same(x, kernel, bias))], -1)
        x = max_pool_2x2(conv2d_same(x, *transition))
    return x.reshape(len(x), -1)


def diin(inputs: Mapping[str, Array], weights: Mapping[str, Any]) -> dict[str, Any]:
    """At the fixed length of the ids. Weights: highway: its layers, shared; encoder_1, encoder_2:
    (w, z, r, f) of `diin_encoder`; first, blocks: of `dense_net`; output: (W, b).

    Only the interaction's cells of pads are zeroed: what the convolutions' biases put there stays.
    Returns also encoder_attention_1, encoder_attention_2, interaction.
    """
    xs, masks = word_features(inputs, weights)
    encoded, found = [], {}
    for n, (x, mask) in enumerate(zip(xs, masks)):
        x = zero_pads(highway(x, weights["highway"]), mask)
        h, found[f"encoder_attention_{n + 1}"] = diin_encoder(x, mask, *weights[f"encoder_{n + 1}"])
        encoded.append(h)
    image = interaction_tensor(*adapt(encoded, masks, weights), *masks)
    v = dense_net(image, weights["first"], weights["blocks"])
    return result(v, [weights["output"]], None, interaction=image, **found)
