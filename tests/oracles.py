"""NumPy float64 oracles, written from the equations and from nothing else.

They are loops where the library is vectorized, so that the two share no trick and no mistake. Ids
are `[B, L]`, sequences `[B, L, D]`, masks Boolean `[B, L]` (True = real token, right-padded).
Weights have the Keras layout.
"""

import numpy as np


def sigmoid(x):
    return 0.5 * (1.0 + np.tanh(0.5 * np.asarray(x, np.float64)))


def relu(x):
    return np.maximum(x, 0.0)


def softmax(x):
    exp = np.exp(x - x.max(axis=-1, keepdims=True))
    return exp / exp.sum(axis=-1, keepdims=True)


# --- masked operations ---


def masked_softmax(scores, mask=None, axis=-1):
    """Softmax over the True entries only; masked entries and fully masked rows are 0."""
    scores = np.asarray(scores, np.float64)
    mask = np.ones(scores.shape, bool) if mask is None else np.broadcast_to(mask, scores.shape)
    kept = np.where(mask, scores, -np.inf)
    top = kept.max(axis=axis, keepdims=True)
    exp = np.where(mask, np.exp(np.where(mask, scores - np.where(np.isfinite(top), top, 0), 0)), 0)
    total = exp.sum(axis=axis, keepdims=True)
    return np.divide(exp, total, out=np.zeros_like(exp), where=total > 0)


def masked_mean(x, mask):
    """sum(m x) / max(sum(m), 1), over axis 1: `[B, D]`."""
    m = np.asarray(mask, np.float64)[..., None]
    # 0 * inf would be NaN: drop the pads, whatever they hold
    total = np.where(m > 0, np.asarray(x, np.float64), 0).sum(axis=1)
    return total / np.maximum(m.sum(axis=1), 1)


def masked_max(x, mask):
    """The maximum over real tokens `[B, D]` and its position `[B, D]`; both 0 without a token."""
    x, mask = np.asarray(x, np.float64), np.asarray(mask, bool)
    kept = np.where(mask[..., None], x, -np.inf)
    some = mask.any(axis=1)[:, None]
    return np.where(some, kept.max(axis=1), 0), np.where(some, kept.argmax(axis=1), 0)


def cosine(x, y):
    """<x, y> / (max(|x|, 1e-8) max(|y|, 1e-8)) over the last axis."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    norms = [np.maximum(np.sqrt((v * v).sum(axis=-1)), 1e-8) for v in (x, y)]
    return (x * y).sum(axis=-1) / (norms[0] * norms[1])


def pair_mask(mask_1, mask_2):
    return np.asarray(mask_1, bool)[:, :, None] & np.asarray(mask_2, bool)[:, None, :]


def reverse_within_length(x, mask):
    """Each row's real tokens in reverse order, its pads where they were."""
    out = np.array(x)
    for row, real in enumerate(np.asarray(mask, bool)):
        length = int(real.sum())
        out[row, :length] = out[row, :length][::-1]
    return out


# --- recurrence (a masked step keeps the state; the outputs at pads are zero) ---


def _scan(step, x, mask, state, backwards):
    x, mask = np.asarray(x, np.float64), np.asarray(mask, bool)
    out = np.zeros((*x.shape[:2], state[0].shape[-1]))
    steps = range(x.shape[1])
    for t in reversed(steps) if backwards else steps:
        real = mask[:, t, None]
        state = tuple(np.where(real, new, old) for new, old in zip(step(x[:, t], *state), state))
        out[:, t] = np.where(real, state[0], 0)
    return out, state[0]


def lstm(x, mask, kernel, recurrent, bias, backwards=False):
    """Outputs `[B, L, h]`, last state `[B, h]`. Gates i, f, g, o: c' = f c + i g, h' = o tanh c'"""

    def step(xt, h, c):
        i, f, g, o = np.split(xt @ kernel + h @ recurrent + bias, 4, axis=-1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c

    zeros = np.zeros((len(x), recurrent.shape[0]))
    return _scan(step, x, mask, (zeros, zeros), backwards)


def gru(x, mask, kernel, recurrent, bias, backwards=False):
    """`reset_after` with a bias (2, 3h), one row for the input and one for the state. Gates z, r, h.

    With a bias (3h,) the state is reset before its product: h~ = tanh(x W + b + (r h) U).
    """

    def step(xt, h):
        if np.ndim(bias) == 1:
            of_z, of_r, of_h = np.split(recurrent, 3, axis=-1)
            xz, xr, xh = np.split(xt @ kernel + bias, 3, axis=-1)
            z, r = sigmoid(xz + h @ of_z), sigmoid(xr + h @ of_r)
            return (z * h + (1 - z) * np.tanh(xh + (r * h) @ of_h),)
        xz, xr, xh = np.split(xt @ kernel + bias[0], 3, axis=-1)
        hz, hr, hh = np.split(h @ recurrent + bias[1], 3, axis=-1)
        z, r = sigmoid(xz + hz), sigmoid(xr + hr)
        return (z * h + (1 - z) * np.tanh(xh + r * hh),)

    return _scan(step, x, mask, (np.zeros((len(x), recurrent.shape[0])),), backwards)


def simple_rnn(x, mask, kernel, recurrent, bias, backwards=False):
    """h' = tanh(x W + h U + b)."""

    def step(xt, h):
        return (np.tanh(xt @ kernel + h @ recurrent + bias),)

    return _scan(step, x, mask, (np.zeros((len(x), recurrent.shape[0])),), backwards)


CELLS = {"lstm": lstm, "gru": gru, "simple_rnn": simple_rnn, "rnn": simple_rnn}


def bidirectional_rnn(cell, x, mask, forward, backward):
    """`[forward; backward]` at each token, and `[last forward; last backward]` (at token 0)."""
    ahead, last_ahead = CELLS[cell](x, mask, *forward)
    back, last_back = CELLS[cell](x, mask, *backward, backwards=True)
    return np.concatenate([ahead, back], -1), np.concatenate([last_ahead, last_back], -1)


# --- features ---


def char_cnn(char_ids, embeddings, kernel, bias):
    """`[B, L, W]` ids (0 = none) -> `[B, L, f]`: embedding, valid convolution, ReLU, maximum.

    A window that starts beyond a word's last character cannot win, except the first.
    """
    ids, width = np.asarray(char_ids), kernel.shape[0]
    out = np.zeros((*ids.shape[:2], kernel.shape[2]))
    for b, t in np.ndindex(*ids.shape[:2]):
        length = int((ids[b, t] != 0).sum())
        if length == 0:
            continue
        chars = np.where((ids[b, t] != 0)[:, None], embeddings[ids[b, t]].astype(np.float64), 0)
        starts = range(ids.shape[2] - width + 1)
        windows = [
            relu(np.einsum("kd,kdf->f", chars[s : s + width], kernel) + bias)
            for s in starts
            if s == 0 or s < length
        ]
        out[b, t] = np.max(windows, axis=0)
    return out


def exact_match(ids_1, ids_2, unknown=1):
    """1.0 where the same word, neither pad (0) nor unknown, occurs in the other sentence."""
    rows = list(zip(np.asarray(ids_1).tolist(), np.asarray(ids_2).tolist()))
    flags_1 = [[float(i > unknown and i in two) for i in one] for one, two in rows]
    flags_2 = [[float(i > unknown and i in one) for i in two] for one, two in rows]
    return np.array(flags_1), np.array(flags_2)


def highway(x, layers):
    """n (W_t, b_t, W_g, b_g): g = sigmoid(x W_g + b_g); y = g ReLU(x W_t + b_t) + (1 - g) x."""
    x = np.asarray(x, np.float64)
    for w_t, b_t, w_g, b_g in layers:
        g = sigmoid(x @ w_g + b_g)
        x = g * relu(x @ w_t + b_t) + (1 - g) * x
    return x


# --- DRCN ---


def co_attention(p, q, mask_1, mask_2, temperature=1.0):
    """Eq 5: both attended sentences and both attentions, whose rows sum to 1."""
    e = cosine(p[:, :, None, :], q[:, None, :, :]) * temperature
    return attend(e, p, q, mask_1, mask_2)


def attend(e, p, q, mask_1, mask_2):
    """sum_j softmax_j(e_ij) q_j, the same for p, and both softmaxes."""
    both = pair_mask(mask_1, mask_2)
    alpha_p = masked_softmax(e, both, axis=2)
    alpha_q = masked_softmax(e, both, axis=1).transpose(0, 2, 1)
    p, q = np.where(mask_1[..., None], p, 0), np.where(mask_2[..., None], q, 0)
    return alpha_p @ q, alpha_q @ p, alpha_p, alpha_q


def bottleneck(x, mask, w_e, b_e, w_r, b_r):
    """Code z = tanh(x W_e + b_e) (zero at pads) and linear reconstruction z W_r + b_r."""
    code = np.tanh(np.asarray(x, np.float64) @ w_e + b_e)
    return np.where(np.asarray(mask, bool)[..., None], code, 0), code @ w_r + b_r


def masked_mse(x, reconstruction, mask):
    """Mean of the squared error over the real tokens of the batch and over the features."""
    real = np.asarray(mask, bool)
    square = np.square(np.asarray(x, np.float64) - reconstruction)[real]
    return float(square.sum() / (max(int(real.sum()), 1) * x.shape[-1]))


def drcn_step(row, x, h, a, base, past):
    """x^{l+1} by row of Table 6; `base` = emb, `past` = [h, a] (or [h]) of the earlier layers.

    1 (2-4 alike) [h; a; x^l] (eq 6); 5 [h^l; a^l; h^{l-1}..h^1; emb];
    6 [h^l; a^l; a^{l-1}..a^1; emb]; 7 [h; a; emb]; 8 [r^l; emb] with r^l = [h; a] + r^{l-1};
    9 r^l; 10 [h; a]; 11 h. Without attention (`a` None) every a is left out.
    """
    here = [h] if a is None else [h, a]
    if row in (8, 9):
        r = sum((np.concatenate(old, -1) for old in past), np.concatenate(here, -1))
        return np.concatenate([r, base], -1) if row == 8 else r
    blocks = {
        5: [*here, *(old[0] for old in reversed(past)), base],
        6: [*here, *(old[1] for old in reversed(past) if a is not None), base],
        7: [*here, base],
        10: here,
        11: [h],
    }.get(row, [*here, x])
    return np.concatenate(blocks, -1)


def dense_co_attentive_rnn(
    p, q, mask_1, mask_2, layers, autoencoders=None, *, row=1, attention=True
):
    """Eq 5, 6: `layers` = (forward, backward) RNN weights; `autoencoders` by the layer they follow.

    After an autoencoder the code takes the part of the embedding and earlier layers are forgotten.
    """
    masks = (np.asarray(mask_1, bool), np.asarray(mask_2, bool))
    xs = [np.where(m[..., None], np.asarray(x, np.float64), 0) for x, m in zip((p, q), masks)]
    bases = list(xs)
    past = ([], [])
    attentions, losses, widths = [], [], [xs[0].shape[-1]]
    for number, weights in enumerate(layers, 1):
        hs = [bidirectional_rnn("lstm", x, m, *weights)[0] for x, m in zip(xs, masks)]
        contexts = [None, None]
        if attention and row != 11:
            *contexts, alpha_p, alpha_q = co_attention(*hs, *masks)
            attentions.append((alpha_p, alpha_q))
        for side in (0, 1):
            h, a = hs[side], contexts[side]
            xs[side] = drcn_step(row, xs[side], h, a, bases[side], past[side])
            past[side].append([h] if a is None else [h, a])
        widths.append(xs[0].shape[-1])
        if autoencoders and number in autoencoders:
            pairs = [bottleneck(x, m, *autoencoders[number]) for x, m in zip(xs, masks)]
            errors = [masked_mse(x, rec, m) for x, (_, rec), m in zip(xs, pairs, masks)]
            losses.append(0.5 * sum(errors))
            xs = [code for code, _ in pairs]
            bases, past = list(xs), ([], [])
            widths.append(xs[0].shape[-1])
    xs = [np.where(m[..., None], x, 0) for x, m in zip(xs, masks)]
    return {"p": xs[0], "q": xs[1], "attentions": attentions, "losses": losses, "widths": widths}


def batch_norm(x, gamma, beta, mean, variance, epsilon=0.001):
    return (x - mean) / np.sqrt(variance + epsilon) * gamma + beta
