"""AdaptiveFusion."""

from functools import partial

import numpy as np
import pytest

from keras_sentmatch.layers import AdaptiveFusion
from tests import oracles_encoders
from tests.harness import (
    Case,
    arguments_act,
    built,
    check_build,
    check_oracle,
    lengths_mask,
    noise,
    run_checks,
    value,
)

INPUTS = {
    "affinity": noise(3, 5, 4),
    "difference": noise(3, 5, 4, seed=1),
    "mask": lengths_mask([5, 3, 2], 5),
}
SMALL = partial(AdaptiveFusion, attention_units=5)
ALIGNMENT = 2 * (2 * 4 * 5 + 5 + 5 + 1 + 8 * 4 + 4)  # guided, then joined
HIDDEN, GATE, FILTER, FUSED = 2 * (4 * 4 + 4), 2 * 4, 4 * 4 + 4 + 2 * 4, 4 * 4 + 4
ALL = ALIGNMENT + HIDDEN + GATE + FILTER + FUSED
NAMES = {  # of the oracle's weights, by sublayer
    "join_difference": "dstar",
    "join_affinity": "astar",
    "hidden_difference": "dhat",
    "hidden_affinity": "ahat",
    "filter_value": "v",
    "fused": "l",
}


def weights_of(layer):
    w = {}
    if layer.regulation:
        for name, short in NAMES.items():
            if hasattr(layer, name):
                w[f"W_{short}"], w[f"b_{short}"] = (value(x) for x in getattr(layer, name).weights)
        if layer.alignment != "none":
            d, a = layer.align_difference, layer.align_affinity
            w |= {"W_D": value(d.key.kernel), "W_a": value(d.guide.kernel)}
            w |= {"b_a": value(d.guide.bias), "w_d": value(d.context), "c_d": value(d.bias)}
            w |= {"W_A": value(a.key.kernel), "W_dbar": value(a.guide.kernel)}
            w |= {"b_dbar": value(a.guide.bias), "w_a": value(a.context), "c_a": value(a.bias)}
        if layer.gate:
            w["w_g"] = value(layer.gate_kernel)
        if layer.filter_gate:
            w["w_f"] = value(layer.filter_kernel)
    return w


def everything(layer, affinity, difference, mask):
    return oracles_encoders.adaptive_fusion(
        affinity,
        difference,
        mask,
        weights_of(layer),
        layer.alignment,
        layer.gate,
        layer.filter_gate,
        layer.output_mode,
        layer.regulation,
    )


def fused(layer, **inputs):
    return everything(layer, **inputs)[0]


SHOWN = {"options": {"return_gates": True}, "float32_outputs": (1, 2, 3)}
UNUSED = ("context_bias",)  # a constant on all scores: the softmax takes it out again
CASES = [
    Case(SMALL, INPUTS, (ALL, 0), everything, unused=UNUSED, **SHOWN),
    Case(
        partial(SMALL, alignment="none", gate=False, filter_gate=False, output_mode="replace"),
        INPUTS,
        (HIDDEN + FUSED, 0),
        fused,
        name="replaced, neither alignment nor gates",
    ),
]
VARIANTS = [
    Case(partial(SMALL, **arguments), INPUTS, (count, 0), everything, name=name, **SHOWN)
    for name, count, arguments in [
        ("literal", ALL + 2 * 5, {"alignment": "literal"}),
        ("no alignment", ALL - ALIGNMENT, {"alignment": "none"}),
        ("no gate", ALL - GATE, {"gate": False}),
        ("no filter", ALL - FILTER, {"filter_gate": False}),
        ("replaced", ALL, {"output_mode": "replace"}),
        ("no regulation", 0, {"regulation": False}),
    ]
]

test_checks = run_checks(CASES)

test_variants = run_checks(VARIANTS, check_build, check_oracle)


test_arguments = arguments_act(CASES, "output_stddev", alignment="none", output_mode="replace")


def test_parameters_of_the_paper():
    """393,730 + 2,360,832 + 1,182,720 + 1,182,720."""
    layer = AdaptiveFusion()
    layer.build((None, None, 768))
    assert layer.count_params() == 5_120_002


def test_a_new_layer_returns_the_affinity():
    a, mask = INPUTS["affinity"], INPUTS["mask"][:, :, None]
    assert (value(AdaptiveFusion()(**INPUTS)) == a * mask).all()
    assert not value(AdaptiveFusion(output_mode="replace")(**INPUTS)).any()
    *_, change = AdaptiveFusion()(**INPUTS, return_gates=True)
    assert not value(change).any()


def test_it_can_start_with_a_small_change():
    inputs = {"affinity": noise(2, 6, 64), "difference": noise(2, 6, 64, seed=1)}
    layer = AdaptiveFusion(output_stddev=0.02)
    *_, change = layer(**inputs, mask=np.ones((2, 6), bool), return_gates=True)
    assert 0.015 < value(layer.fused.kernel).std() < 0.025  # the tails are cut off
    assert not value(layer.fused.bias).any() and (0 < value(change)).all()
    assert value(change).max() < 0.2


def test_only_the_additive_guide_guides():
    """As printed, eq 5 gives every token the same mean, whatever the guide is."""
    a, d, mask = INPUTS["affinity"], INPUTS["difference"], INPUTS["mask"]
    for alignment, guides in (("additive", True), ("literal", False)):
        unit = built(CASES[0], alignment=alignment).align_difference
        one, other = value(unit(d, a, mask))[0], value(unit(d, 2 * a, mask))[0]
        assert bool(np.ptp(one, axis=0).max() > 1e-5) is guides
        assert bool(abs(one - other).max() > 1e-5) is guides


@pytest.mark.backend("torch")
def test_the_additive_scores_are_made_unit_by_unit():
    """`[B, L, L, attention_units]` is neither saved for the backward pass nor made at once."""
    import torch

    layer = AdaptiveFusion(attention_units=16)
    a, d, mask = noise(1, 20, 4), noise(1, 20, 4, seed=1), np.ones((1, 20), bool)
    layer.build(a.shape)
    torch.nn.init.normal_(layer.fused.kernel.value)
    saved, units = [], []
    tanh = torch.tanh

    def seen(x):
        units.append(x.numel() / 400 if x.shape[-2:] == (20, 20) else 0)
        return tanh(x)

    keep = torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t)
    with pytest.MonkeyPatch.context() as patch, keep:
        patch.setattr(torch, "tanh", seen)
        layer(a, d, mask).sum().backward()
    assert sum(units) == 4 * 16 and max(units) == 1  # two alignments, forward and again backward
    assert max(t.numel() for t in saved) == 400
