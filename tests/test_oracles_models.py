"""The oracles of every whole model: padding, batch, swapping, switches, and by hand."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests import oracles
from tests import oracles_blocks as ob
from tests import oracles_hosts as oh
from tests import oracles_recurrent as o3
from tests.oracle_cases import IDS, TABLE, layer, noise, rnn, same

pytestmark = pytest.mark.once

# --- whole models ---


def drr_weights() -> dict[str, Any]:
    width = 4 + 2 + 2
    mlps = {k: [layer(4 * n, 5), layer(5, 3)] for k, n in (("mlp_h", width), ("mlp_v", 2))}
    return {
        "highway": [(*layer(4, 4), *layer(4, 4))],
        "layers": [rnn(3, 4, 2), rnn(3, 6, 2)],
        "pooling": (*layer(width, 3), noise(3)),
        "init": layer(width, 2),
        "reread": (noise(width, 3), noise(2, 3), noise(width, 3), noise(3)),
        "gru": rnn(3, width, 2),
        "steps": 2,
        **mlps,
        "gate_h": (noise(3), 0.1),
        "gate_v": (noise(3, 1), noise(1)),
        "mlp_out": [layer(3, 4), layer(4, 3)],
    }


def din_weights(kind: str) -> dict[str, Any]:
    gates: Any = {k: (noise(2, 2), noise(2, 2), noise(2, 2)) for k in "zrh"}
    if kind == "din2":
        gates = {k: (noise(4, 4), noise(4, 4)) for k in "zrh"}
    return {
        "encoder": rnn(3, 4, 4),
        "trans_p": layer(4, 4),
        "trans_h": layer(4, 4),
        "inter": (noise(2, 2), noise(2, 2)),
        "kind": kind,
        "encode_h": kind == "din2",
        "gates": rnn(3, 4, 4) if kind == "gru" else gates,
        "fc": [] if kind == "din2" else [layer(4, 4), layer(4, 4)],
        "output": layer(4, 3),
    }


def esim_weights() -> dict[str, Any]:
    encoders = {
        "encoder": (rnn(4, 4, 3), rnn(4, 4, 3)),
        "composition": (rnn(4, 3, 3), rnn(4, 3, 3)),
    }
    return {**encoders, "projection": layer(24, 3), "dense": [layer(24, 4), layer(4, 3)]}


def bimpm_weights() -> dict[str, Any]:
    match = {s: (noise(2, 3), noise(2, 3)) for s in oh.STRATEGIES}
    aggregation = (rnn(4, 16, 2), rnn(4, 16, 2))
    dense = [layer(8, 4), layer(4, 3)]
    return {
        "encoder": (rnn(4, 4, 3), rnn(4, 4, 3)),
        "match": match,
        "aggregation": aggregation,
        "dense": dense,
    }


def cafe_weights() -> dict[str, Any]:
    return {
        "projection": layer(4, 4),
        "highway": [(*layer(4, 4), *layer(4, 4))],
        "inter": layer(4, 4),
        "intra": layer(4, 4),
        "fm": [(noise(1), noise(n), noise(n, 2)) for n in (8, 4, 4) * 2],
        "encoder": rnn(4, 10, 3),
        "head": layer(24, 5),
        "head_highway": [(*layer(5, 5), *layer(5, 5))],
        "output": layer(5, 3),
    }


def re2_weights(connection: str) -> dict[str, Any]:
    width = {"aug": 7, "residual": 3, "none": 3}[connection]
    blocks = [
        {
            "convs": [layer(3, n, 3), layer(3, 3, 3)],
            "projection": None if connection == "aug" else layer(n + 3, 3),
            "temperature": np.array([0.6]),
            "fusion": [layer(2 * n + 6, 3) for _ in range(3)] + [layer(9, 3)],
        }
        for n in (4, width, width)
    ]
    dense = [layer(12, 3), layer(3, 3)]
    return {"blocks": blocks, "connection": connection, "residual": layer(4, 3), "dense": dense}


def rlstm_weights() -> dict[str, Any]:
    one = {k: noise(6, 2) for k in ("w_p", "w_m", "w_c")} | {"w": noise(2)}
    sides = {k: {**one, "lstm": rnn(4, 4, 6)} for k in ("forward", "backward")}
    return {"encoder": (rnn(4, 4, 3), rnn(4, 4, 3)), **sides, "dense": [layer(12, 3)]}


def hyper_weights() -> dict[str, Any]:
    encoder: dict[str, Any] = dict(zip(("kernel", "recurrent", "bias"), rnn(4, 4, 3)))
    encoder["small"] = rnn(4, 7, 2)
    for k in "xhb":
        encoder |= {f"w_{k}": noise(4, 2, 2), f"c_{k}": noise(4, 2), f"d_{k}": noise(4, 2, 3)}
    return {"encoder": encoder, "dense": [layer(12, 3)]}


MODELS: dict[str, tuple[Callable, Callable]] = {
    "drr_net": (o3.drr_net, drr_weights),
    **{k: (o3.din, partial(din_weights, k)) for k in ("din1", "din2", "gru")},
    "esim": (oh.esim, esim_weights),
    "bimpm": (oh.bimpm, bimpm_weights),
    "cafe": (oh.cafe, cafe_weights),
    **{f"re2_{k}": (oh.re2, partial(re2_weights, k)) for k in ("aug", "residual", "none")},
    "rlstm": (ob.rlstm_model, rlstm_weights),
    "hyper_lstm": (ob.hyper_lstm_model, hyper_weights),
}


def made(name: str) -> tuple[Callable, dict[str, Any]]:
    model, make = MODELS[name]
    return model, {"embeddings": [TABLE], **make()}


@pytest.mark.parametrize("name", MODELS)
def test_whole_model(name: str) -> None:
    """Probabilities; one row alone, and longer padding, give the same."""
    model, weights = made(name)
    p = model(IDS, weights)["probabilities"]
    assert p.shape == (4, 3) and np.isfinite(p).all()
    same(p.sum(-1), 1)
    assert np.ptp(p[:, 0]) > 1e-4
    padded = {k: np.pad(v, ((0, 0), (0, 2))) for k, v in IDS.items()}
    same(model(padded, weights)["probabilities"], p, "more padding")
    alone = model({k: v[1:2] for k, v in IDS.items()}, weights)["probabilities"]
    same(alone, p[1:2], "one row alone")


SYMMETRIC = ("esim", "bimpm", "cafe", "drr_net", "re2_aug")


@pytest.mark.parametrize("name", SYMMETRIC)
def test_swapped_sentences_swap_what_is_found(name: str) -> None:
    model, weights = made(name)
    out = model(IDS, weights)
    back = model({k[:-1] + "21"[int(k[-1]) - 1]: v for k, v in IDS.items()}, weights)
    names = [k for k in out if k.endswith("_1")]
    assert names
    for k in names:
        for one, two in zip(out[k], back[k[:-1] + "2"]):
            same(one, two, k)


def test_drr_net_by_hand() -> None:
    _, weights = made("drr_net")
    out = o3.drr_net(IDS, weights)
    gates = []
    for k in "hv":
        w, b = weights[f"gate_{k}"]
        gates.append(oracles.sigmoid(out[f"p_{k}"] @ np.reshape(w, -1) + b)[:, None])
    mixed = gates[0] * out["p_h"] + gates[1] * out["p_v"]
    same(out["probabilities"], oracles.softmax(o3.mlp(mixed, weights["mlp_out"])))
    same(out["p_v"], oracles.softmax(out["logits_v"]))
    for key in ("mlp_h", "mlp_v", "init"):
        less = o3.drr_net(IDS, {**weights, key: None})
        assert np.abs(less["probabilities"] - out["probabilities"]).max() > 1e-5
    twins = {k: IDS["word_ids_1"] for k in IDS}
    out = o3.drr_net(twins, weights)
    same(out["states_1"], out["states_2"], "identical sentences")


def test_din_presets() -> None:
    """The switches: shared transform and encoded H; the identity of `gru` with a GRU by hand."""
    _, weights = made("gru")
    out = o3.din(IDS, weights)
    assert "z" not in out and out["interaction"].shape == (4, 3, 4)
    assert out["interaction"].max() <= 1 and out["interaction"].min() >= 0
    assert not out["interaction"][3].any()
    encoded = o3.din(IDS, {**weights, "encode_h": True})
    assert np.abs(encoded["probabilities"] - out["probabilities"]).max() > 1e-5
    strips = o3.din(IDS, made("din1")[1])
    same(strips["z"][1].max(), 1)
    same(strips["h"][1].min(), 0)


@pytest.mark.parametrize("connection", ["aug", "residual", "none"])
def test_re2_connections(connection: str) -> None:
    _, weights = made(f"re2_{connection}")
    masks = [IDS[f"word_ids_{n}"] != 0 for n in (1, 2)]
    emb = [TABLE[IDS[f"word_ids_{n}"]] for n in (1, 2)]
    one, two, three = weights["blocks"]
    out_1, _ = oh.re2_block(emb, masks, one)
    kernel, bias = weights["residual"]
    r_1 = [(e @ kernel + bias + o) / math.sqrt(2) for e, o in zip(emb, out_1)]
    r_1 = {"aug": out_1, "residual": r_1, "none": out_1}[connection]

    def joined(xs: list) -> list:
        return [np.concatenate([x, e], -1) for x, e in zip(xs, emb)] if connection == "aug" else xs

    out_2, _ = oh.re2_block(joined(r_1), masks, two)
    r_2 = out_2
    if connection != "none":
        r_2 = [(r + o) / math.sqrt(2) for r, o in zip(r_1, out_2)]
    out_3, _ = oh.re2_block(joined(r_2), masks, three)
    a, b = (oracles.masked_max(o, m)[0] for o, m in zip(out_3, masks))
    first, last = weights["dense"]
    for prediction, v in (
        ("full", [a, b, a - b, a * b]),
        ("symmetric", [a, b, np.abs(a - b), a * b]),
        ("simple", [a, b]),
    ):
        v = np.concatenate(v, -1)
        dense = [(first[0][: v.shape[-1]], first[1]), last]
        out = oh.re2(IDS, {**weights, "prediction": prediction, "dense": dense})
        same(out["logits"], oh.gelu(v @ dense[0][0] + first[1]) @ last[0] + last[1], prediction)


def row_of(name: str) -> tuple[dict, dict, list, list]:
    """The weights, ids, embeddings and masks of the pair without pads: 4 and 3 words."""
    ids = {k: v[1:2] for k, v in IDS.items()}
    xs = [TABLE[v] for v in ids.values()]
    return made(name)[1], ids, xs, [np.ones(x.shape[:2], bool) for x in xs]


def matching(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.concatenate([a, b, a - b, a * b], -1)


def test_esim_by_hand() -> None:
    weights, ids, xs, masks = row_of("esim")
    a, b = (
        oracles.bidirectional_rnn("lstm", x, m, *weights["encoder"])[0] for x, m in zip(xs, masks)
    )
    e = a[0] @ b[0].T
    pooled = []
    for x, y in ((a, oracles.softmax(e) @ b), (b, oracles.softmax(e.T) @ a)):
        kernel, bias = weights["projection"]
        fused = oracles.relu(matching(x, y) @ kernel + bias)
        real = np.ones(fused.shape[:2], bool)
        v = oracles.bidirectional_rnn("lstm", fused, real, *weights["composition"])[0]
        pooled += [v.mean(1), v.max(1)]
    (k1, b1), (k2, b2) = weights["dense"]
    logits = np.tanh(np.concatenate(pooled, -1) @ k1 + b1) @ k2 + b2
    same(oh.esim(ids, weights)["logits"], logits)


def test_cafe_by_hand() -> None:
    weights, ids, xs, masks = row_of("cafe")
    kernel, bias = weights["projection"]
    xs = [oracles.highway(x @ kernel + bias, weights["highway"]) for x in xs]
    pooled = []
    for n in (0, 1):
        x, six = xs[n], []
        for other, key, machines in ((xs[1 - n], "inter", (0, 1, 2)), (x, "intra", (3, 4, 5))):
            w, c = weights[key]
            e = oracles.relu(x @ w + c)[0] @ oracles.relu(other @ w + c)[0].T
            y = oracles.softmax(e) @ other
            zs = np.concatenate([x, y], -1), x * y, x - y
            six += [ob.factorization_machine(z, *weights["fm"][m]) for z, m in zip(zs, machines)]
        x = np.concatenate([x, *six], -1)
        h = oracles.lstm(x, masks[n], *weights["encoder"])[0]
        pooled.append(np.concatenate([h.mean(1), h.max(1)], -1))
    v = matching(*pooled) @ weights["head"][0] + weights["head"][1]
    v = oracles.highway(v, weights["head_highway"])
    same(oh.cafe(ids, weights)["logits"], v @ weights["output"][0] + weights["output"][1])


def test_bimpm_by_hand() -> None:
    weights, ids, xs, masks = row_of("bimpm")
    sides = []
    for x, mask in zip(xs, masks):
        h = oracles.bidirectional_rnn("lstm", x, mask, *weights["encoder"])[0]
        sides.append((h[..., :3], h[..., 3:]))
    last = []
    for n in (0, 1):
        m = oh.bimpm_match(*sides[n], *sides[1 - n], masks[n], masks[1 - n], weights["match"])
        h = oracles.bidirectional_rnn("lstm", m, masks[n], *weights["aggregation"])[0]
        last += [h[:, -1, :2], h[:, 0, 2:]]
    (k1, b1), (k2, b2) = weights["dense"]
    logits = np.tanh(np.concatenate(last, -1) @ k1 + b1) @ k2 + b2
    same(oh.bimpm(ids, weights)["logits"], logits)


def test_hyper_lstm_and_rlstm_vectors() -> None:
    weights, ids, xs, masks = row_of("hyper_lstm")
    p, h = (ob.hyper_lstm(x, m, weights["encoder"])[0][:, -1] for x, m in zip(xs, masks))
    kernel, bias = weights["dense"][0]
    same(ob.hyper_lstm_model(ids, weights)["logits"], matching(p, h) @ kernel + bias)
    weights, ids, xs, masks = row_of("rlstm")
    y = oracles.bidirectional_rnn("lstm", xs[0], masks[0], *weights["encoder"])[0]
    one = ob.rlstm(y, masks[0], xs[1], masks[1], weights["forward"])[0].mean(1)
    two = ob.rlstm(y, masks[0], xs[1], masks[1], weights["backward"], backwards=True)[0].mean(1)
    kernel, bias = weights["dense"][0]
    same(ob.rlstm_model(ids, weights)["logits"], np.concatenate([one, two], -1) @ kernel + bias)


def test_drr_net_vectors() -> None:
    """Eq 7: which vectors reach which classifier."""
    weights, ids, xs, masks = row_of("drr_net")
    hs = []
    for x, mask in zip(xs, masks):
        h = o3.stack_gru(oracles.highway(x, weights["highway"]), mask, weights["layers"])
        hs.append(o3.self_attention_pooling(h, mask, *weights["pooling"])[0])
    out = o3.drr_net(ids, weights)
    for name, (a, b) in (("h", hs), ("v", [out[f"states_{n}"][:, -1] for n in (1, 2)])):
        v = np.concatenate([a, b, a * b, a - b], -1)
        same(out[f"logits_{name}"], o3.mlp(v, weights[f"mlp_{name}"]))


def test_diin_whole() -> None:
    encoders = {f"encoder_{n}": (noise(12), *(layer(8, 4) for _ in "zrf")) for n in (1, 2)}
    blocks = [([layer(3, 3, 2, 2)], layer(4, 2))]
    weights = {"embeddings": [TABLE], "highway": [(*layer(4, 4), *layer(4, 4))], **encoders}
    weights |= {"first": layer(4, 2), "blocks": blocks, "output": layer(8, 3)}
    ids = {
        "word_ids_1": IDS["word_ids_1"],
        "word_ids_2": np.pad(IDS["word_ids_2"], ((0, 0), (0, 1))),
    }
    out = oh.diin(ids, weights)
    same(out["probabilities"].sum(-1), 1)
    assert out["interaction"].shape == (4, 4, 4, 4) and not out["interaction"][3].any()
    alone = oh.diin({k: v[:1] for k, v in ids.items()}, weights)["probabilities"]
    same(alone, out["probabilities"][:1])


def test_hosts_call_the_feature_attention() -> None:
    """It is called at the place meant, once a sentence; what it makes counts."""
    for name in ("esim", "bimpm", "cafe", "re2_aug"):
        places = ["attended", "fused"] if name == "esim" else ["fused"]
        model, weights = made(name)
        called = []

        def hook(x: Any, mask: Any, side: int, place: str, called: list = called) -> Any:
            called.append((place, side))
            return 0.5 * x

        changed = model(IDS, {**weights, "adapt": hook})["probabilities"]
        assert called == [(place, side) for place in places for side in (0, 1)]
        assert np.abs(changed - model(IDS, weights)["probabilities"]).max() > 1e-6
