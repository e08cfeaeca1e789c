"""DualAttentionBlock."""

from functools import partial

import numpy as np

from keras_sentmatch.layers import DualAttentionBlock
from tests import oracles_encoders
from tests.harness import Case, arguments_act, check_oracle, lengths_mask, noise, run_checks, value
from tests.layers.test_adaptive_fusion import weights_of as fusion_weights

INPUTS = {
    "x": noise(3, 5, 4),
    "mask": lengths_mask([5, 3, 2], 5),
    "segment_ids": np.array([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0], [0, 1, 0, 0, 0]]),
}
SMALL = partial(DualAttentionBlock, intermediate_dim=5, num_heads=2, attention_units=3)
BLOCK = 3 * (4 * 4 + 4) + (4 * 4 + 4) + 4 * 4 + (4 * 5 + 5) + (5 * 4 + 4)
ALIGNMENT = 2 * (2 * 4 * 3 + 3 + 3 + 1 + 8 * 4 + 4)
FUSION = ALIGNMENT + 2 * (4 * 4 + 4) + 2 * 4 + (4 * 4 + 4 + 2 * 4) + (4 * 4 + 4)


def weights_of(layer):
    """The weights of the block as the oracles name them."""
    attention = layer.attention
    layers = {"q": attention.query, "k": attention.key, "v": attention.value, "o": layer.join}
    layers |= {"norm_1": layer.attention_norm, "norm_2": layer.feedforward_norm}
    layers |= {"ff_1": layer.wide, "ff_2": layer.narrow}
    return {name: [value(w) for w in x.weights] for name, x in layers.items()}


def everything(layer, x, mask, segment_ids=None):
    found = oracles_encoders.dual_attention_block(
        x,
        mask,
        weights_of(layer),
        fusion_weights(layer.fusion),
        segment_ids,
        layer.distance,
        layer.cross,
        use_affinity=layer.channels != "difference",
        use_difference=layer.channels != "affinity",
        epsilon=layer.layer_norm_epsilon,
        activation=layer.activation.__name__,
        alignment=layer.alignment,
        gate=layer.gate,
        filter_gate=layer.filter_gate,
        output=layer.output_mode,
        regulation=layer.regulation,
    )
    return tuple(found.values())


SHOWN = {"options": {"return_attention": True}, "float32_outputs": (1, 2, 3, 4, 5)}
CASES = [
    Case(
        partial(SMALL, cross=True),
        INPUTS,
        (BLOCK + FUSION, 0),
        everything,
        unused=("context_bias",),  # a constant on all scores
        **SHOWN,
    )
]
VARIANTS = [
    Case(partial(SMALL, **arguments), INPUTS, (0, 0), everything, name=name, **SHOWN)
    for name, arguments in {
        "own sentence too": {},
        "affinity": {"channels": "affinity"},
        "difference": {"channels": "difference", "gate": False},
        "no regulation": {"regulation": False, "activation": "relu", "layer_norm_epsilon": 0.1},
        "literal": {"distance": "sum", "alignment": "literal", "output_mode": "replace"},
        "neither guide nor filter": {"alignment": "none", "filter_gate": False},
    }.items()
]

test_checks = run_checks(CASES)

test_variants = run_checks(VARIANTS, check_oracle)


test_arguments = arguments_act(
    CASES,
    "output_stddev",
    num_heads=4,
    channels="affinity",
    distance="sum",
    alignment="none",
    output_mode="replace",
)


def test_a_new_layer_is_a_plain_block():
    layer = SMALL()
    layer.build((None, None, 4))
    rng = np.random.default_rng(0)
    for x in layer.backbone_layers:
        x.set_weights([rng.normal(size=w.shape) for w in x.get_weights()])
    want, attention = oracles_encoders.transformer_encoder(
        INPUTS["x"].astype("float64"), INPUTS["mask"], weights_of(layer), activation="gelu"
    )
    got, seen, *_ = layer(**INPUTS, return_attention=True)
    np.testing.assert_allclose(value(got), want, atol=1e-5)
    np.testing.assert_allclose(value(seen), attention, atol=1e-6)


def test_what_the_fusion_starts_with():
    layer = SMALL(output_stddev=0.1)
    layer.build((None, None, 4))
    assert value(layer.fusion.fused.kernel).any()
