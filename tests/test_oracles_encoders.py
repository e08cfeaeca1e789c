"""The oracles of LadRa-Net's and DABERT's layers against cases by hand, limits and identities."""

from typing import Any

import numpy as np
import pytest

from tests import oracles
from tests import oracles_encoders as o5
from tests import oracles_recurrent as o3
from tests.oracle_cases import MASK, NO_X, X, layer, noise, rnn, same

pytestmark = pytest.mark.once

PAD = ~MASK


# --- LadRa-Net ---


def test_layer_weighted_sum() -> None:
    layers, logits = [X, 3 * X, NO_X], noise(3)
    same(o5.layer_weighted_sum(layers, 0 * logits), (4 * X + NO_X) / 3)
    same(o5.layer_weighted_sum(layers[:2], [0, np.log(3)]), 2.5 * X)
    same(o5.layer_weighted_sum(layers, [2, -1, 0], normalize=False), -X)
    shifted = o5.layer_weighted_sum(layers, logits + 5)
    same(shifted, o5.layer_weighted_sum(layers, logits[:, None]), "a softmax")


@pytest.mark.parametrize(
    "width, want", {1: [1, 2, 4, 8], 2: [21, 42, 84, 8], 3: [210, 421, 842, 84]}.items()
)
def test_same_convolution(width: int, want: list) -> None:
    kernel = np.array([1, 10, 100][:width], float)[:, None, None]
    got = o5.same_convolution(np.array([[1.0], [2], [4], [8]]), kernel, np.zeros(1))
    same(got[:, 0], want)


def test_phrase_cnn_by_hand() -> None:
    x, mask = np.array([[[1.0], [-2], [3], [9]]]), np.array([[1, 1, 1, 0]], bool)
    one = np.ones((2, 1, 1))
    unit = one, np.array([0.5]), one, np.array([0.25])
    # windows (t, t+1): -1, 1, 3 plus .5; ReLU: 0, 1.5, 3.5; the pad's .5 is dropped; again, plus .25
    same(o5.phrase_cnn(x, mask, [unit])[0, 0, :, 0], [1.75, 5.25, 3.75, 0])
    # without the ReLU -.5 stays, and the outer layer is linear anyway
    same(o5.phrase_cnn(x, mask, [unit], "linear")[0, 0, :, 0], [1.25, 5.25, 3.75, 0])
    minus = one, np.array([0.5]), -one, np.array([0.25])
    same(o5.phrase_cnn(x, mask, [minus])[0, 0, :, 0], [-1.25, -4.75, -3.25, 0])


def test_phrase_cnn() -> None:
    units = [(*layer(w, 5, 6), *layer(w, 6, 5)) for w in (1, 2, 3)]
    out = o5.phrase_cnn(NO_X, MASK, units)
    assert out.shape == (3, 3, 4, 5) and not out.transpose(0, 2, 1, 3)[PAD].any()
    k1, b1, k2, b2 = units[0]
    same(out[0, 0], oracles.relu(X[0] @ k1[0] + b1) @ k2[0] + b2, "width 1 is two dense layers")
    same(out[1:2, :, :2], o5.phrase_cnn(X[1:2, :2], MASK[1:2, :2], units), "without the pads")
    same(out[:, 2:], o5.phrase_cnn(X, MASK, units[2:]), "units do not touch each other")
    x = np.repeat(X[:1], 2, 0)
    x[1, 3] += 1  # who sees the last token
    for r, first in enumerate((3, 1, 1)):  # two layers of windows (t), (t, t+1), (t-1, t, t+1)
        pair = o5.phrase_cnn(x, MASK[[0, 0]], units, np.tanh)[:, r]
        changed = np.abs(pair[0] - pair[1]).max(-1) > 1e-6
        assert changed.tolist() == [t >= first for t in range(4)]


def dsa_weights(units: int, width: int = 5, attention: int = 3) -> dict[str, Any]:
    names = [("W", width), ("U", width), ("M", width), ("V", width)]
    per_unit: list[dict] = [{n: noise(size, attention) for n, size in names} for _ in range(units)]
    for r, unit in enumerate(per_unit):
        unit.update(w=noise(attention, 1), phi=noise(width), V=unit["V"] if r else None)
    fusion = {"W_f": noise(width, attention), "w_f": noise(attention, 1)}
    return {"per_unit": per_unit, "gru": rnn(3, width, width), **fusion}


def phrases(units: int) -> np.ndarray:
    more = noise(3, units - 1, 4, 5)
    more = np.where(MASK[:, None, :, None], more, 99)
    return np.concatenate([NO_X[:, None], more], 1)


def test_dynamic_sequential_attention_of_words_alone_is_rereading() -> None:
    w, guide = dsa_weights(1), noise(3, 5)
    out = o5.dynamic_sequential_attention(
        NO_X[:, None], MASK, guide, **w, beta=2.0, steps=3, coverage="off"
    )
    unit = [w["per_unit"][0][k] for k in "WUMw"]
    states, weights = o3.reread_attention(X, MASK, guide, guide, *unit, w["gru"], 2.0, 3)
    same(out["states"], states)
    same(out["weights"][:, :, 0], weights)
    same(out["fusion"], np.ones((3, 3, 1)))
    same(out["coverage"][:, 1, 0], MASK)


def test_dynamic_sequential_attention_step_by_step() -> None:
    w, guide, h = dsa_weights(3), noise(3, 5), phrases(3)
    out = o5.dynamic_sequential_attention(h, MASK, guide, **w, beta=2.0, steps=2)
    state, row, c = guide[1], h[1, :, :2], np.ones((3, 2))
    for t in range(2):
        a: list[np.ndarray] = []
        for r, unit in enumerate(w["per_unit"]):
            known = state @ unit["U"] + guide[1] @ unit["M"]
            for before in a:
                known = known + before @ unit["V"]
            e = (np.tanh(row[r] @ unit["W"] + known) @ unit["w"])[:, 0]
            p = oracles.softmax(2.0 * c[r] * e)
            same(out["weights"][1, t, r], [*p, 0, 0])
            a.append(p @ row[r])
            c[r] = np.maximum(c[r] - p / (2 * oracles.sigmoid(row[r] @ unit["phi"])), 0)
            same(out["coverage"][1, t, r], [*c[r], 0, 0])
        mix = oracles.softmax((np.tanh(np.stack(a) @ w["W_f"]) @ w["w_f"])[:, 0])
        same(out["fusion"][1, t], mix)
        state = o3.gru_step(mix @ np.stack(a), state, *w["gru"])
        same(out["states"][1, t], state)
    assert not out["weights"][2].any() and np.isfinite(out["states"]).all()
    same(out["fusion"][2], np.full((2, 3), 1 / 3))


def test_dynamic_sequential_attention_does_not_see_pads_or_other_rows() -> None:
    w, guide, h = dsa_weights(2), noise(3, 5), phrases(2)
    whole = o5.dynamic_sequential_attention(h, MASK, guide, **w)
    part = o5.dynamic_sequential_attention(h[1:2, :, :2], MASK[1:2, :2], guide[1:2], **w)
    assert whole["states"].shape == (3, 5, 5) and whole["weights"].shape == (3, 5, 2, 4)
    same(whole["states"][1:2], part["states"])
    same(whole["weights"][1:2, ..., :2], part["weights"])
    same(whole["fusion"][1:2], part["fusion"])
    assert not whole["coverage"][1, ..., 2:].any() and not whole["weights"][1, ..., 2:].any()


def test_units_in_turn() -> None:
    w, guide, h = dsa_weights(3), noise(3, 5), phrases(3)

    def run(steps: int = 1, **new: Any) -> dict:
        return o5.dynamic_sequential_attention(h, MASK, guide, **{**w, **new}, steps=steps)

    full, w["per_unit"][1]["V"] = run(), np.zeros((5, 3))
    deaf = run()
    moved = np.abs(full["weights"] - deaf["weights"]).max((0, 1, 3))
    assert moved[0] == 0 and moved[1] > 1e-3 and moved[2] > 1e-3  # r = 2 hears a^1
    part = run(fuse_word=False)
    same(part["weights"], deaf["weights"], "the word is still read")
    assert not part["fusion"][..., 0].any() and (part["fusion"][..., 1:] > 0).all()
    same(
        part["fusion"][..., 1:], deaf["fusion"][..., 1:] / (1 - deaf["fusion"][..., :1]), "rescaled"
    )
    same(run(w_f=np.zeros(3))["fusion"], np.full((3, 1, 3), 1 / 3))
    with pytest.raises(AssertionError):
        o5.fuse_units([guide[0]], w["W_f"], w["w_f"], fuse_word=False)


def reads(scores: list, steps: int = 3, phi: float = -10.0, **options: Any) -> Any:
    """Tokens with these first scores e, all the same ever after; phi_i is nearly 0, or T / 2."""
    n = len(scores)
    zero, w = np.zeros((n, 1)), np.ones(1)
    unit = {"W": np.arctanh(scores)[:, None], "U": zero, "M": zero, "w": w, "phi": np.full(n, phi)}
    rest = {"W_f": zero, "w_f": w, "gru": (np.zeros((n, 3 * n)),) * 2 + (np.zeros((2, 3 * n)),)}
    return o5.dynamic_sequential_attention(
        np.eye(n)[None, None],
        np.ones((1, n), bool),
        np.ones((1, n)),
        [unit],
        **rest,
        steps=steps,
        **{"beta": 1e4, **options},
    )


def order(out: dict) -> list:
    return out["weights"][0, :, 0].argmax(-1).tolist()


def test_coverage_makes_it_read_something_else() -> None:
    same(reads([0.5, 0.9, 0.7])["states"][0, :, 0], [0.5, 0.25, 0.125], "a GRU of zeros")
    logs: dict[str, Any] = {"coverage": "log", "beta": 100.0, "epsilon": 1e-30}
    assert order(reads([0.5, 0.9, 0.7], coverage="off")) == [1, 1, 1]
    assert order(reads([0.5, 0.9, 0.7])) == [1, 2, 0]
    assert order(reads([0.5, 0.9, 0.7], **logs)) == [1, 2, 0]
    # 0 times a negative score is the best score there is (SPEC 0.8); the logarithm is right
    assert order(reads([-0.5, -0.2, -0.4])) == [1, 1, 1]
    assert order(reads([-0.5, -0.2, -0.4], **logs)) == [1, 2, 0]


def test_coverage_by_hand() -> None:
    # equal scores: p = 1/2, phi = T/2 = 2, so c falls by 1/4 a step
    out = reads([0.5, 0.5], steps=4, phi=0.0)
    same(out["coverage"][0, :, 0, 0], [0.75, 0.5, 0.25, 0])
    one = {
        clip: reads([0.5], steps=3, phi=0.0, clip=clip)["coverage"][0, :, 0, 0] for clip in (0, 1)
    }
    same(one[0], [1 / 3, -1 / 3, -1])
    same(one[1], [1 / 3, 0, 0])
    # "score": c -= c e / phi
    scored = reads([0.5, -0.5], steps=2, phi=0.0, update="score")["coverage"][0, :, 0]
    same(scored, [[0.5, 1.5], [0.25, 2.25]])
    # m = e + log(c + epsilon) / beta
    logs: dict[str, Any] = {"coverage": "log", "beta": 2.0, "epsilon": 0.5}
    out = reads([0.5, 0.25], steps=2, phi=0.0, **logs)
    same(out["weights"][0, 0, 0], oracles.softmax(np.array([1.0, 0.5])))
    c = 1 - out["weights"][0, 0, 0]
    same(out["weights"][0, 1, 0], oracles.softmax([1.0, 0.5] + np.log(c + 0.5)))
    scored = reads([0.5, 0.25], steps=1, phi=0.0, update="score", **logs)["coverage"][0, 0, 0]
    m = np.array([0.5, 0.25]) + np.log(1.5) / 2
    same(scored, np.maximum(1 - 2 * m, 0), "T / 2 = 1 / 2")


def test_selectable() -> None:
    w, guide, h = dsa_weights(2), noise(3, 5), phrases(2)
    free = np.array([[0, 1, 1, 1], [0, 1, 1, 1], [1, 1, 1, 1]], bool)
    some = o5.dynamic_sequential_attention(h, MASK, guide, **w, selectable=free)
    assert not some["weights"][:, :, :, 0].any()
    same(some["coverage"][:2, :, :, 0], np.ones((2, 5, 2)))
    options: dict[str, Any] = {**w, "selectable": free, "update": "score"}
    scored = o5.dynamic_sequential_attention(h, MASK, guide, **options)["coverage"]
    same(scored[:2, :, :, 0], np.ones((2, 5, 2)))
    same(some["weights"][1, :, :, 1], np.ones((5, 2)), "the only one left")
    rest = o5.dynamic_sequential_attention(h[..., 1:, :], MASK[:, 1:], guide, **w)
    same(some["states"], rest["states"])


# --- DABERT ---


def heads(count: int = 2, size: int = 3) -> tuple[Any, Any, Any]:
    return tuple((noise(5, count, size), noise(count, size)) for _ in "qkv")


def test_dual_attention_by_hand() -> None:
    x, mask = np.array([[[0.0], [2.0], [9.0]]]), np.array([[1, 1, 0]], bool)
    one = np.ones((1, 1, 1)), np.zeros((1, 1))
    a, d, a_map, d_map = o5.dual_attention(x, mask, one, one, one)
    same(a[0, :, 0], [1, 2 * oracles.sigmoid(4.0), 0])
    same(d[0, :, 0], [2 * oracles.sigmoid(2.0), 2 * oracles.sigmoid(-2.0), 0])
    same(a_map[0, 0, 0], [0.5, 0.5, 0])
    assert not a_map[0, 0, 2].any() and not d_map[0, 0, 2].any()
    wide = {k: o5.distance_of(np.array([1.0, 5]), np.array([4.0, 1]), k) for k in DISTANCES}
    assert wide == {"l1": 7, "l2": 5, "l2_squared": 25, "sum": 1}


DISTANCES = ("l1", "l2", "l2_squared", "sum")


@pytest.mark.parametrize("kind", DISTANCES)
def test_dual_attention(kind: str) -> None:
    q, k, v = heads()
    a, d, a_map, d_map = o5.dual_attention(NO_X, MASK, q, k, v, kind)
    assert a.shape == d.shape == (3, 4, 6) and a_map.shape == d_map.shape == (3, 2, 4, 4)
    Q, K, V = (np.einsum("ld,dhk->hlk", X[0], w) + b[:, None] for w, b in (q, k, v))
    same(a_map[0], oracles.softmax(Q @ K.transpose(0, 2, 1) / 3**0.5))
    apart = Q[:, :, None] - K[:, None]
    square = np.square(apart).sum(-1)
    want = {"l1": abs(apart).sum(-1), "l2": square**0.5, "l2_squared": square}
    same(d_map[0], oracles.softmax(want.get(kind, apart.sum(-1)) / 3**0.5))
    same(d[0], np.concatenate(list(d_map[0] @ V), -1), "heads side by side")
    for values, maps in ((a, a_map), (d, d_map)):
        assert not values[PAD].any() and not maps.transpose(0, 2, 1, 3)[PAD].any()
        same(maps.sum(-1), np.broadcast_to(MASK[:, None], (3, 2, 4)))
    for whole, part in zip((a, d), o5.dual_attention(X[1:2, :2], MASK[1:2, :2], q, k, v, kind)):
        same(whole[1:2, :2], part, "without the pads and the other rows")
    spread = np.ptp(d_map[0], axis=1).max()  # SPEC 0.1: as printed, the query does not matter
    assert spread < 1e-12 if kind == "sum" else spread > 1e-2


def test_dual_attention_moves_with_the_tokens() -> None:
    q, k, v = heads()
    turned = o5.dual_attention(X[:1, ::-1], MASK[:1], q, k, v)
    for one, two in zip(o5.dual_attention(X[:1], MASK[:1], q, k, v)[:2], turned):
        same(one, two[:, ::-1])


def test_dual_attention_across() -> None:
    q, k, v = heads()
    segments = np.array([[0, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]])
    a, d, a_map, d_map = o5.dual_attention(NO_X, MASK, q, k, v, segment_ids=segments, cross=True)
    plain = o5.dual_attention(NO_X, MASK, q, k, v, segment_ids=segments)
    same(a, plain[0])
    same(a_map, plain[2])
    assert not d_map[0, :, :2, :2].any() and not d_map[0, :, 2:, 2:].any()
    same(d_map[0].sum(-1), np.ones((2, 4)))
    rescaled = plain[3][0, :, :2, 2:]
    same(d_map[0, :, :2, 2:], rescaled / rescaled.sum(-1, keepdims=True))
    assert not d[1].any() and not d_map[1].any(), "one sentence alone has nothing to differ from"


A_SIZE, H_SIZE = 3, 4


def fusion_weights(wide: int = 1) -> dict[str, Any]:
    """`wide` = 2 for the literal alignment."""
    w: dict[str, Any] = {k: noise(5, A_SIZE) for k in ("W_D", "W_a", "W_A", "W_dbar")}
    w.update({k: noise(A_SIZE) for k in ("b_a", "b_dbar")})
    w.update({k: noise(wide * A_SIZE, 1) for k in ("w_d", "w_a")})
    for k, shape in {
        "dstar": (10, 5),
        "astar": (10, 5),
        "dhat": (5, H_SIZE),
        "ahat": (5, H_SIZE),
        "v": (H_SIZE, 5),
        "l": (H_SIZE, 5),
    }.items():
        w[f"W_{k}"], w[f"b_{k}"] = layer(*shape)
    return {**w, "w_g": noise(2 * H_SIZE, 1), "w_f": noise(10, 1)}


D_X = np.where(MASK[..., None], np.random.default_rng(9).normal(size=X.shape), -99.0)


def test_adaptive_fusion_by_hand() -> None:
    w, a, d = fusion_weights(), X[1, :2], D_X[1, :2]
    out, g, f = o5.adaptive_fusion(NO_X, D_X, MASK, w)

    def attend(x: Any, guide: Any, W_x: str, W_g: str, b: str, v: str) -> np.ndarray:
        hidden = np.tanh((x @ w[W_x])[None] + (guide @ w[W_g] + w[b])[:, None])
        return oracles.softmax((hidden @ w[v])[..., 0]) @ x

    def dense(x: Any, k: str) -> np.ndarray:
        return x @ w[f"W_{k}"] + w[f"b_{k}"]

    d_bar = attend(d, a, "W_D", "W_a", "b_a", "w_d")
    a_bar = attend(a, d_bar, "W_A", "W_dbar", "b_dbar", "w_a")
    d_hat = np.tanh(dense(np.tanh(dense(np.hstack([d, d_bar]), "dstar")), "dhat"))
    a_hat = np.tanh(dense(np.tanh(dense(np.hstack([a, a_bar]), "astar")), "ahat"))
    gate = oracles.sigmoid(np.hstack([d_hat, a_hat]) @ w["w_g"])
    v = gate * a_hat + (1 - gate) * d_hat
    filtered = oracles.sigmoid(np.hstack([a, dense(v, "v")]) @ w["w_f"])
    same(g[1], [*gate[:, 0], 0, 0])
    same(f[1], [*filtered[:, 0], 0, 0])
    same(out[1, :2], a + filtered * np.tanh(dense(v, "l")))
    assert not any(y[PAD].any() for y in (out, g, f)) and np.isfinite(out).all()
    for whole, part in zip((out, g, f), o5.adaptive_fusion(a[None], d[None], MASK[1:2, :2], w)):
        same(whole[1:2, :2], part, "without the pads and the other rows")
    replaced = o5.adaptive_fusion(NO_X, D_X, MASK, w, output="replace")[0]
    same(out - replaced, X * MASK[..., None])
    shifted = {**w, "c_d": 3.0, "c_a": np.array([-2.0])}
    same(o5.adaptive_fusion(NO_X, D_X, MASK, shifted)[0], out, "a score's bias cancels")
    still = {**w, "W_l": 0 * w["W_l"], "b_l": 0 * w["b_l"]}
    same(o5.adaptive_fusion(NO_X, D_X, MASK, still)[0], X * MASK[..., None], "BERT at step 0")


def test_alignments() -> None:
    def bars(alignment: str, **new: Any) -> np.ndarray:
        w = {**fusion_weights(2 if alignment == "literal" else 1), **new}
        first = [w["W_D"], w["W_a"], w["b_a"], w["w_d"], None]
        return o5.guided_alignment(D_X[0], X[0], MASK[0], first, alignment)

    literal, additive = bars("literal"), bars("additive")
    assert np.ptp(literal, axis=0).max() < 1e-12 < 1e-2 < np.ptp(additive, axis=0).max()
    w = fusion_weights(2)
    pool = D_X, MASK, w["W_D"], 0 * w["b_a"], w["w_d"][:A_SIZE]
    pooled = o3.self_attention_pooling(*pool)[0][0]
    same(bars("literal", **w), np.tile(pooled, (4, 1)), "no trace of the guide")
    b = noise(A_SIZE)
    w = {**fusion_weights(), "W_a": np.zeros((5, A_SIZE)), "b_a": b}
    pooled = o3.self_attention_pooling(D_X, MASK, w["W_D"], b, w["w_d"])[0][0]
    same(bars("additive", **w), np.tile(pooled, (4, 1)), "without a guide it is pooling")
    a_star, d_star = o5.aligned(X[0], D_X[0], MASK[0], {}, "none")
    same(a_star, X[0])
    same(d_star, D_X[0])


@pytest.mark.parametrize("alignment", ["additive", "literal", "none"])
def test_adaptive_fusion_ablations(alignment: str) -> None:
    w = fusion_weights(2 if alignment == "literal" else 1)

    def run(new: Any = (), **options: Any) -> Any:
        options = {"alignment": alignment, **options}
        return o5.adaptive_fusion(NO_X, D_X, MASK, {**w, **dict(new)}, **options)

    half = run({"w_g": 0 * w["w_g"]})
    for one, two in zip(half, run(gate=False)):
        same(one, two, "an open question is the mean")
    same(half[1], 0.5 * MASK)
    open_ = run(filter_gate=False, output="replace")
    same(open_[2], MASK * 1.0)
    same(run({"w_f": 0 * w["w_f"]}, output="replace")[0], open_[0] / 2)
    same(open_[1], run()[1], "the filter leaves the gate alone")
    out, g, f = o5.adaptive_fusion(NO_X, D_X, MASK, {}, alignment, regulation=False)
    same(out, (X + D_X) / 2 * MASK[..., None])
    same(g, 0.5 * MASK)
    same(f, MASK)


# --- whole models ---


def block(width: int = 5, heads: int = 2, size: int = 3, hidden: int = 7) -> dict[str, Any]:
    w: dict[str, Any] = {n: (noise(width, heads, size), noise(heads, size)) for n in "qkv"}
    w |= {"o": (noise(heads, size, width), noise(width))}
    w |= {"ff_1": layer(width, hidden), "ff_2": layer(hidden, width)}
    return w | {n: (1 + noise(width), noise(width)) for n in ("norm_1", "norm_2")}


def normal(x: Any, gamma: Any, beta: Any) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True) * gamma + beta


def test_gelu() -> None:
    x = np.linspace(-6, 6, 101)
    assert 1e-4 < np.abs(o5.gelu_approximate(x) - o5.gelu(x)).max() < 5e-4
    same(o5.gelu_approximate(np.array([0.0, 1.0])), [0, 0.8411919906082768])


def test_transformer_encoder() -> None:
    w = block()
    out, maps = o5.transformer_encoder(NO_X, MASK, w, 0.0, "tanh")
    x = X[0]
    attended = []
    for n in range(2):
        q, k, v = (x @ w[name][0][:, n] + w[name][1][n] for name in "qkv")
        same(maps[0, n], oracles.softmax(q @ k.T / 3**0.5))
        attended.append(maps[0, n] @ v @ w["o"][0][n])
    y = normal(x + sum(attended) + w["o"][1], *w["norm_1"])
    z = y + np.tanh(y @ w["ff_1"][0] + w["ff_1"][1]) @ w["ff_2"][0] + w["ff_2"][1]
    same(out[0], normal(z, *w["norm_2"]))
    assert not out[PAD].any()
    same(out[1:2, :2], o5.transformer_encoder(X[1:2, :2], MASK[1:2, :2], w, 0.0, "tanh")[0])
    wide = o5.transformer_encoder(NO_X, MASK, w, 100.0, "tanh")[0]
    assert np.abs(wide[0] - w["norm_2"][1]).max() < np.abs(out[0] - w["norm_2"][1]).max() / 2


def six_wide() -> dict[str, Any]:
    """The fusion's weights for a block of width 6, as the heads of `block` have side by side."""
    w = {k: noise(6, A_SIZE) for k in ("W_D", "W_a", "W_A", "W_dbar")}
    w |= {k: noise(A_SIZE) for k in ("b_a", "b_dbar", "w_d", "w_a")}
    shapes = {"dstar": (12, 6), "astar": (12, 6), "dhat": (6, 4), "ahat": (6, 4)}
    for k, shape in (shapes | {"v": (4, 6), "l": (4, 6)}).items():
        w[f"W_{k}"], w[f"b_{k}"] = layer(*shape)
    return w | {"w_g": noise(8), "w_f": noise(12)}


def test_dual_attention_encoder() -> None:
    w, fusion = block(), six_wide()
    plain, maps = o5.transformer_encoder(NO_X, MASK, w)
    still = fusion | {"W_l": 0 * fusion["W_l"], "b_l": 0 * fusion["b_l"]}
    at_first = o5.dual_attention_encoder(NO_X, MASK, w, still)
    same(at_first["output"], plain, "the encoder at step 0")
    same(at_first["affinity"], maps)
    made = o5.dual_attention_encoder(NO_X, MASK, w, fusion)
    assert (
        np.abs(made["output"] - plain)[MASK].min(-1).max() > 1e-3 and not made["output"][PAD].any()
    )
    cut = o5.dual_attention_encoder(X[1:2, :2], MASK[1:2, :2], w, fusion)
    same(made["output"][1:2, :2], cut["output"])
    mean = {"regulation": False}
    for options in ({"use_difference": False}, {"use_affinity": False}):
        one = o5.dual_attention_encoder(NO_X, MASK, w, fusion, **options, **mean)
        swapped = o5.dual_attention(X, MASK, *(w[n] for n in "qkv"))[int("use_affinity" in options)]
        want = o5.finish_block(X, swapped, w, 1e-12, "gelu_approximate")
        same(one["output"][MASK], want[MASK], "the mean of a channel and itself")
    segments = np.array([[0, 0, 1, 1], [0, 1, 0, 0], [0, 0, 0, 0]])
    across = o5.dual_attention_encoder(NO_X, MASK, w, fusion, segments, cross=True)
    assert not across["difference"][0, :, :2, :2].any()
    assert np.abs(across["output"] - made["output"])[MASK].max() > 1e-3


def classifier(classes: int = 3) -> dict[str, Any]:
    return {"layers": [block(), block()], "pooler": layer(5, 5), "classifier": layer(5, classes)}


def test_cross_encoder() -> None:
    w = classifier()
    out = o5.cross_encoder(NO_X, MASK, w)
    states = o5.transformer(X, MASK, w["layers"])[0]
    pooled = np.tanh(states[1][:, 0] @ w["pooler"][0] + w["pooler"][1])
    same(out["logits"], pooled @ w["classifier"][0] + w["classifier"][1])
    same(out["probabilities"], oracles.softmax(out["logits"]))
    assert [a.shape for a in out["attention"]] == [(3, 2, 4, 4)] * 2
    mean = o5.cross_encoder(NO_X, MASK, w | {"pooler": None}, "mean")["logits"]
    same(mean[1], states[1][1, :2].mean(0) @ w["classifier"][0] + w["classifier"][1])
    score = o5.cross_encoder(NO_X, MASK, classifier(1))
    same(score["probabilities"], score["logits"])


def test_dabert() -> None:
    w = classifier()
    same(o5.dabert(NO_X, MASK, w)["logits"], o5.cross_encoder(NO_X, MASK, w)["logits"])
    w["layers"][0]["fusion"] = six_wide()
    out = o5.dabert(NO_X, MASK, w, dual={"distance": "l2"})
    first = o5.dual_attention_encoder(X, MASK, w["layers"][0], w["layers"][0]["fusion"], None, "l2")
    last, _ = o5.transformer_encoder(first["output"], MASK, w["layers"][1])
    rest = o5.cross_encoder(first["output"], MASK, w | {"layers": w["layers"][1:]})
    same(out["logits"], rest["logits"])
    assert len(out["gate"]) == 1
    same(out["difference"][0], first["difference"])
    pooled = np.tanh(last[:, 0] @ w["pooler"][0] + w["pooler"][1])
    same(out["logits"], pooled @ w["classifier"][0] + w["classifier"][1])


def ladra_weights(units: int = 2) -> dict[str, Any]:
    phrase = [(*layer(width, 5, 4), *layer(width, 4, 5)) for width in (2, 3)[:units]]
    return {
        "layers": [block(), block()],
        "layer_logits": noise(2),
        "phrase": phrase,
        "pooling": [(*layer(5, 3), noise(3)) for _ in phrase],
        "dsa": dsa_weights(units + 1),
        "mlp": [layer(5, 5), layer(5, 3)],
    }


def test_ladra_net() -> None:
    w = ladra_weights()
    out = o5.ladra_net(NO_X, MASK, w)
    one, two = o5.transformer(X, MASK, w["layers"])[0]
    alpha = oracles.softmax(w["layer_logits"])
    same(out["layer_weights"], alpha)
    h = [alpha[0] * one + alpha[1] * two]
    h += list(np.moveaxis(o5.phrase_cnn(h[0], MASK, w["phrase"]), 1, 0))
    pooled = [
        o3.self_attention_pooling(h_r, MASK, *weights)[0]
        for h_r, weights in zip(h[1:], w["pooling"])
    ]
    pair = (two[:, 0] + pooled[0] + pooled[1]) / 3
    same(out["pair"], pair)
    read = o5.dynamic_sequential_attention(np.stack(h, 1), MASK, pair, **w["dsa"])
    steps = read["states"].shape[1]
    vector = (pair + read["states"].sum(1)) / (steps + 1)
    same(out["vector"], vector)
    same(out["logits"], o3.mlp(vector, w["mlp"]))
    same(out["weights"], read["weights"])
    assert np.isfinite(out["probabilities"]).all()
    for name in ("logits", "coverage"):
        part = o5.ladra_net(X[1:2, :2], MASK[1:2, :2], w)[name]
        whole = out[name][1:2]
        same(whole[..., : part.shape[-1]], part, "without the pads and the other rows")


def test_ladra_net_ablations() -> None:
    w = ladra_weights()
    states = o5.transformer(X, MASK, w["layers"])[0]

    def vector(**new: Any) -> np.ndarray:
        return o5.ladra_net_head(states, MASK, w | new)["vector"]

    full = o5.ladra_net_head(states, MASK, w)
    same(vector(use_pair=False), full["states"].mean(1))
    same(vector(fusion="max"), np.maximum(full["pair"], full["states"].max(1)))
    same(vector(dsa=None), full["pair"], "BERT and the phrases")
    same(vector(dsa=None, phrase=[]), states[1][:, 0], "BERT alone")
    alone = o5.ladra_net_head(states, MASK, w | {"phrase": [], "dsa": dsa_weights(1)})
    assert alone["weights"].shape[2] == 1
    same(alone["pair"], states[1][:, 0])
    free = o5.ladra_net_head(states, MASK, w | {"normalize_layers": False})
    same(free["layer_weights"], w["layer_logits"])
    given = o5.ladra_net_head(states, MASK, w | {"dsa": None}, sentence=0 * full["pair"])
    same(given["pair"], full["pair"] - states[1][:, 0] / 3)
