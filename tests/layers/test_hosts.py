"""The layers of BiMPM, CAFE, DIIN and RE2."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_sentmatch.layers import FactorizationMachine, MultiPerspectiveMatching
from keras_sentmatch.layers.diin import DecayingDropout, DenseInteractionCNN, SelfAttentionFusion
from keras_sentmatch.layers.re2 import (
    AlignmentFusion,
    ConvolutionalBlock,
    WeightNormalizedConv1D,
    WeightNormalizedDense,
)
from tests import oracles, oracles_blocks
from tests import oracles_hosts as hosts
from tests.case import Case, noise, value, weights_of
from tests.harness import arguments_act, run_checks
from tests.layers.common import ONE, TWO

X = {"x": ONE["x"]}
NO_MASK = {"zero_pads": False, "pad_axes": {"x": ()}}
ATTENTION = {"return_attention": True}


def matched(layer, x1, x2, mask_1, mask_2):
    weights = dict(zip(hosts.STRATEGIES, [[value(w) for w in pair] for pair in layer.kernels]))
    one, two = np.split(x1, 2, axis=-1), np.split(x2, 2, axis=-1)
    both = oracles.pair_mask(mask_1, mask_2)
    cosines = [oracles.cosine(a[:, :, None], b[:, None]) * both for a, b in zip(one, two)]
    return (
        hosts.bimpm_match(*one, *two, mask_1, mask_2, weights),
        hosts.bimpm_match(*two, *one, mask_2, mask_1, weights),
        np.stack(cosines, axis=1),
    )


def factorized(layer, z):
    weights = map(value, (layer.bias, layer.kernel, layer.factor_kernel))
    return oracles_blocks.factorization_machine(z, *weights)


def gates(layer):
    """(W, b) of z, r and f on [x; a]."""
    token, attended = weights_of(layer.token_gates), weights_of(layer.attended_gates)
    kernel, bias = np.concatenate([token[0], attended[0]]), token[1] + attended[1]
    return list(zip(np.split(kernel, 3, axis=1), np.split(bias, 3)))


def gated(layer, x, mask):
    return hosts.diin_encoder(x, mask, value(layer.attention_kernel), *gates(layer))


def blocks(layer):
    return [
        ([weights_of(convolution) for convolution in block], weights_of(transition))
        for block, transition in zip(layer.dense_blocks, layer.transitions)
    ]


def dense_net(layer, x):
    return hosts.dense_net(x, weights_of(layer.scale_down), blocks(layer))


def kernel_and_bias(layer):
    return hosts.weight_norm(value(layer.kernel), value(layer.scale)), value(layer.bias)


def normalized(layer, x):
    kernel, bias = kernel_and_bias(layer)
    return np.tanh(x @ kernel + bias)


def convolution(layer, x):
    return oracles_blocks.conv1d_same(x, np.ones(x.shape[:2], bool), *kernel_and_bias(layer))


def convolutions(layer, x, mask):
    for each in layer.convolutions:
        y = oracles_blocks.conv1d_same(x, mask, *kernel_and_bias(each))
        x = oracles_blocks.zero_pads(hosts.gelu(y), mask)
    return x


def aligned(layer, x, attended, mask):
    layers = layer.views + ([layer.output_dense] if layer.mode == "full" else [])
    fused = hosts.re2_fusion(x, attended, [kernel_and_bias(each) for each in layers])
    return oracles_blocks.zero_pads(fused, mask)


FUSE = partial(AlignmentFusion, units=3)
ALIGNED = ONE | {"attended": noise(3, 5, 4, seed=1)}
CASES = [
    Case(
        partial(MultiPerspectiveMatching, perspectives=2),
        TWO,
        (8 * 2 * 2, 0),
        matched,
        options={"return_cosines": True},
        float32_outputs=(2,),
    ),
    # It knows no mask, and padding goes through it.
    Case(
        partial(FactorizationMachine, factors=3),
        {"z": ONE["x"]},
        (1 + 4 + 3 * 4, 0),
        factorized,
        zero_pads=False,
    ),
    # It has two counters of steps.
    Case(SelfAttentionFusion, ONE, (3 * 4 + 2 * (4 * 12 + 12), 2), gated, options=ATTENTION),
    Case(
        partial(DenseInteractionCNN, blocks=2, layers_per_block=2, growth_rate=3),
        {"x": noise(2, 9, 6, 10)},  # 10 -> 3 (+ 3 + 3) -> 4 (+ 3 + 3) -> 5
        (33 + (84 + 165) + 40 + (111 + 192) + 55, 0),
        dense_net,
        **NO_MASK,
    ),
    Case(DecayingDropout, X, (0, 1), lambda layer, x: x, zero_pads=False),
    Case(
        partial(WeightNormalizedDense, units=3, activation="tanh"),
        X,
        (18, 0),
        normalized,
        zero_pads=False,
    ),
    Case(
        partial(WeightNormalizedConv1D, filters=3, kernel_size=3),
        X,
        (42, 0),
        convolution,
        **NO_MASK,
    ),
    Case(partial(ConvolutionalBlock, units=3), ONE, (42 + 33, 0), convolutions),
    Case(FUSE, ALIGNED, (3 * 30 + 33, 0), aligned),
    Case(partial(FUSE, mode="simple"), ALIGNED, (30, 0), aligned, name="simple"),
]

test_checks = run_checks(CASES)

test_arguments = arguments_act(
    [case for case in CASES if case.cls not in (DecayingDropout, SelfAttentionFusion)],
    "kernel_initializer",
    blocks=1,
    mode="simple",
    activation="relu",
)


@pytest.mark.parametrize(
    "case, plain",
    [
        (CASES[5], lambda: keras.layers.Dense(3, "tanh")),
        (CASES[6], lambda: keras.layers.Conv1D(3, 3, padding="same")),
    ],
)
def test_weight_normalization_starts_as_the_plain_layer(case, plain):
    layer, plain, x = case.make(kernel_initializer="he_normal"), plain(), X["x"]
    y = value(layer(x))
    plain.build(x.shape)
    plain.set_weights([value(layer.kernel), value(layer.bias)])
    assert abs(y - value(plain(x))).max() < 1e-6
    ones = case.make(kernel_initializer="ones")
    ones.build(x.shape)
    assert (value(ones.kernel) == 1).all()


def test_the_fusion_passes_its_dropout_on():
    layer = SelfAttentionFusion(0.5, 0.25, 7)
    for dropout in (layer.token_dropout, layer.attended_dropout):
        assert (dropout.rate, dropout.decay, dropout.decay_steps) == (0.5, 0.25, 7)
    outputs = [value(layer(**ONE, training=training)) for training in (True, False)]
    assert abs(outputs[0] - outputs[1]).max() > 1e-3


def drop(layer, steps):
    for _ in range(steps):
        y = value(layer(np.ones((100, 100), "float32"), training=True))
    return y


def test_dropout_keeps_less_with_every_step():
    layer = DecayingDropout(rate=0.2, decay=0.5, decay_steps=2)
    keep = 0.8 * 0.5 ** (np.arange(4) / 2)
    for share in keep:
        y = drop(layer, 1)
        assert abs((y != 0).mean() - share) < 0.02
        np.testing.assert_allclose(y[y != 0], 1 / share, rtol=1e-5)
    assert abs(float(layer.keep()) - 0.2) < 1e-6 and int(layer.steps) == 4
    assert (value(layer(X["x"])) == X["x"]).all() and int(layer.steps) == 4  # not in training
    plain = DecayingDropout(rate=0.3, decay=1.0, decay_steps=1)
    assert abs((drop(plain, 5) != 0).mean() - 0.7) < 0.02
    assert (drop(DecayingDropout(), 1) == 1).all()  # the paper's: nothing at first


@pytest.mark.each_backend
def test_fit_counts_steps_and_a_file_keeps_them(tmp_path):
    inputs = keras.Input((4,))
    outputs = keras.layers.Dense(1)(DecayingDropout(name="dropout")(inputs))
    model = keras.Model(inputs, outputs)
    model.compile("sgd", "mse")
    x = np.ones((12, 4), "float32")
    model.fit(x, x[:, :1], batch_size=4, epochs=2, verbose=0)
    model.evaluate(x, x[:, :1], verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert int(again.get_layer("dropout").steps) == int(model.get_layer("dropout").steps) == 6
