"""The layers of DABERT."""

from functools import partial

import numpy as np
import pytest

from keras_sentmatch.layers import AdaptiveFusion, DualAttention, DualAttentionBlock
from tests import oracles_encoders as oracles
from tests.case import Case, built, gradients, noise, value, weights_of
from tests.harness import arguments_act, check_build, check_oracle, run_checks
from tests.layers.common import ONE

SEGMENTS = {"segment_ids": np.array([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0], [0, 1, 0, 0, 0]])}
CHANNELS = {"affinity": ONE["x"], "difference": noise(3, 5, 4, seed=1), "mask": ONE["mask"]}
ATTEND = partial(DualAttention, num_heads=2, key_dim=4)
FUSE = partial(AdaptiveFusion, attention_units=5)
BLOCK = partial(
    DualAttentionBlock, intermediate_dim=5, num_heads=2, fusion_options={"attention_units": 5}
)

ATTENTION = 3 * (4 * 8 + 8)
ALIGNMENT = 2 * (2 * 4 * 5 + 5 + 5 + 1 + 8 * 4 + 4)  # guided, then joined
HIDDEN, GATE, FILTER, FUSED = 2 * (4 * 4 + 4), 2 * 4, 4 * 4 + 4 + 2 * 4, 4 * 4 + 4
FUSION = ALIGNMENT + HIDDEN + GATE + FILTER + FUSED
REST = 4 * (4 * 4 + 4) + 4 * 4 + (4 * 5 + 5) + (5 * 4 + 4)  # of the block
NAMES = {  # of the oracle's weights, by sublayer
    "join_difference": "dstar",
    "join_affinity": "astar",
    "hidden_difference": "dhat",
    "hidden_affinity": "ahat",
    "filter_value": "v",
    "fused": "l",
}


def attended(layer, x, mask, segment_ids=None):
    weights = [weights_of(f) for f in (layer.query, layer.key, layer.value)]
    return oracles.dual_attention(x, mask, *weights, layer.distance, segment_ids, layer.cross)


def fusion_weights(layer):
    if not layer.regulation:
        return {}
    w = {}
    for name, short in NAMES.items():
        if hasattr(layer, name):
            w[f"W_{short}"], w[f"b_{short}"] = weights_of(getattr(layer, name))
    if layer.alignment != "none":
        d, a = layer.align_difference, layer.align_affinity
        w |= {"W_D": value(d.key.kernel), "W_a": value(d.guide.kernel), "w_d": value(d.context)}
        w |= {"b_a": value(d.guide.bias), "c_d": value(d.bias), "W_A": value(a.key.kernel)}
        w |= {"W_dbar": value(a.guide.kernel), "b_dbar": value(a.guide.bias)}
        w |= {"w_a": value(a.context), "c_a": value(a.bias)}
    if layer.gate:
        w["w_g"] = value(layer.gate_kernel)
    if layer.filter_gate:
        w["w_f"] = value(layer.filter_kernel)
    return w


def options_of(layer):
    return {
        "alignment": layer.alignment,
        "gate": layer.gate,
        "filter_gate": layer.filter_gate,
        "output": layer.output_mode,
        "regulation": layer.regulation,
    }


def fused(layer, affinity, difference, mask):
    weights = fusion_weights(layer)
    return oracles.adaptive_fusion(affinity, difference, mask, weights, **options_of(layer))


def block_weights(layer):
    attention = layer.attention
    layers = {"q": attention.query, "k": attention.key, "v": attention.value, "o": layer.join}
    layers |= {"norm_1": layer.attention_norm, "norm_2": layer.feedforward_norm}
    layers |= {"ff_1": layer.wide, "ff_2": layer.narrow}
    return {name: weights_of(x) for name, x in layers.items()}


def block(layer, x, mask, segment_ids=None):
    weights = block_weights(layer), fusion_weights(layer.fusion)
    found = oracles.dual_attention_block(
        x,
        mask,
        *weights,
        segment_ids,
        layer.distance,
        layer.cross,
        use_affinity=layer.channels != "difference",
        use_difference=layer.channels != "affinity",
        epsilon=layer.layer_norm_epsilon,
        activation=layer.activation.__name__,
        **options_of(layer.fusion),
    )
    return tuple(found.values())


MAPS = {"options": {"return_attention": True}, "float32_outputs": (2, 3)}
GATES = {"options": {"return_gates": True}, "float32_outputs": (1, 2, 3)}
ALL = {"options": {"return_attention": True}, "float32_outputs": (1, 2, 3, 4, 5)}
UNUSED = ("context_bias",)  # it adds the same to all scores
PAIR = ONE | SEGMENTS
CASES = [
    Case(ATTEND, ONE, (ATTENTION, 0), attended, name="attention", **MAPS),
    Case(FUSE, CHANNELS, (FUSION, 0), fused, name="fusion", unused=UNUSED, **GATES),
    Case(
        partial(FUSE, alignment="none", gate=False, filter_gate=False, output_mode="replace"),
        CHANNELS,
        (HIDDEN + FUSED, 0),
        lambda layer, **inputs: fused(layer, **inputs)[0],
        name="fusion, replaced, neither alignment nor gates",
    ),
    Case(
        partial(BLOCK, cross=True),
        PAIR,
        (REST + FUSION, 0),
        block,
        name="block",
        unused=UNUSED,
        **ALL,
    ),
]
FUSIONS = {
    "literal": (FUSION + 2 * 5, {"alignment": "literal"}),
    "no alignment": (FUSION - ALIGNMENT, {"alignment": "none"}),
    "no gate": (FUSION - GATE, {"gate": False}),
    "no filter": (FUSION - FILTER, {"filter_gate": False}),
    "replaced": (FUSION, {"output_mode": "replace"}),
    "no regulation": (0, {"regulation": False}),
}
BLOCKS = {
    "own sentence too": {},
    "affinity": {"channels": "affinity"},
    "difference": {"channels": "difference"},
    "relu": {
        "fusion_options": {"regulation": False},
        "activation": "relu",
        "layer_norm_epsilon": 0.1,
    },
    "literal block": {
        "distance": "sum",
        "fusion_options": {"alignment": "literal", "output_mode": "replace"},
    },
}
VARIANTS = [
    Case(partial(ATTEND, distance="sum"), ONE, (ATTENTION, 0), attended, name="sum", **MAPS),
    Case(partial(ATTEND, cross=True), PAIR, (ATTENTION, 0), attended, name="cross", **MAPS),
    *(
        Case(partial(FUSE, **arguments), CHANNELS, (count, 0), fused, name=name, **GATES)
        for name, (count, arguments) in FUSIONS.items()
    ),
]

test_checks = run_checks(CASES)

test_variants = run_checks(VARIANTS, check_build, check_oracle)

test_blocks = run_checks(
    [
        Case(partial(BLOCK, **a), PAIR, (0, 0), block, name=name, **ALL)
        for name, a in BLOCKS.items()
    ],
    check_oracle,
)

test_arguments = arguments_act(
    [Case(partial(ATTEND, cross=True), PAIR, (0, 0)), *CASES[1:]],
    "output_stddev",
    num_heads=4,
    channels="affinity",
    distance="sum",
    alignment="none",
    output_mode="replace",
    fusion_options={"fusion_options": {"gate": False}},
)


def test_parameters_of_the_paper():
    """393,730 + 2,360,832 + 1,182,720 + 1,182,720."""
    layer = AdaptiveFusion()
    layer.build((None, None, 768))
    assert layer.count_params() == 5_120_002


def test_what_a_new_fusion_starts_with():
    a, mask = CHANNELS["affinity"], CHANNELS["mask"][:, :, None]
    assert (value(AdaptiveFusion()(**CHANNELS)) == a * mask).all()
    assert not value(AdaptiveFusion(output_mode="replace")(**CHANNELS)).any()
    inputs = {"affinity": noise(2, 6, 64), "difference": noise(2, 6, 64, seed=1)}
    layer = AdaptiveFusion(output_stddev=0.02)
    *_, change = layer(**inputs, mask=np.ones((2, 6), bool), return_gates=True)
    assert 0.015 < value(layer.fused.kernel).std() < 0.025  # the tails are cut off
    assert (value(change) > 0).all() and value(change).max() < 0.2
    whole = BLOCK(fusion_options={"output_stddev": 0.1})
    whole.build((None, None, 4))
    assert value(whole.fusion.fused.kernel).any()


def test_a_new_block_is_that_of_bert():
    layer = BLOCK()
    layer.build((None, None, 4))
    rng = np.random.default_rng(0)
    for x in layer.backbone_layers:
        x.set_weights([rng.normal(size=w.shape) for w in x.get_weights()])
    want, attention = oracles.transformer_encoder(
        ONE["x"].astype("float64"), ONE["mask"], block_weights(layer), activation="gelu"
    )
    got, seen, *_ = layer(**ONE, return_attention=True)
    np.testing.assert_allclose(value(got), want, atol=1e-5)
    np.testing.assert_allclose(value(seen), attention, atol=1e-6)


def test_what_is_printed_ignores_the_token():
    """Eq 4 gives every token the same difference, and eq 5 the same mean, whatever the guide is."""
    for distance, same in (("sum", True), ("l1", False)):
        difference = value(built(CASES[0], distance=distance)(**ONE)[1])[0]
        assert bool(np.ptp(difference, axis=0).max() < 1e-5) is same
    a, d, mask = CHANNELS.values()
    for alignment, guides in (("additive", True), ("literal", False)):
        unit = built(CASES[1], alignment=alignment).align_difference
        one, other = value(unit(d, a, mask))[0], value(unit(d, 2 * a, mask))[0]
        assert bool(np.ptp(one, axis=0).max() > 1e-5) is guides
        assert bool(abs(one - other).max() > 1e-5) is guides


@pytest.mark.each_backend
@pytest.mark.parametrize("distance", ["l1", "sum"])
def test_finite_gradient_where_a_query_is_its_key(distance):
    """No token is at any distance from itself if keys and queries are projected alike."""
    case = Case(partial(ATTEND, distance=distance), ONE | {"x": np.ones_like(ONE["x"])}, (0, 0))
    layer = built(case)
    layer.key.set_weights(layer.query.get_weights())
    for inputs in (case.inputs, ONE):
        for group in gradients(case, layer, inputs):
            assert all(np.isfinite(g).all() and abs(g).max() < 1e3 for g in group)
