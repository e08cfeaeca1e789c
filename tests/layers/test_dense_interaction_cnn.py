"""DenseInteractionCNN."""

from functools import partial

from keras_sentmatch.layers.diin import DenseInteractionCNN
from tests import oracles_hosts
from tests.harness import Case, arguments_act, noise, run_checks, value


def of(layer):
    return value(layer.kernel), value(layer.bias)


def blocks(layer):
    return [
        ([of(convolution) for convolution in block], of(transition))
        for block, transition in zip(layer.dense_blocks, layer.transitions)
    ]


def oracle(layer, x):
    return oracles_hosts.dense_net(x, of(layer.scale_down), blocks(layer))


SMALL = partial(DenseInteractionCNN, blocks=2, layers_per_block=2, growth_rate=3)
# 10 -> 3 (+ 3 + 3) -> 4 (+ 3 + 3) -> 5
WEIGHTS = 33 + (84 + 165) + 40 + (111 + 192) + 55
CASES = [
    Case(
        SMALL,
        {"x": noise(2, 9, 6, 10)},
        (WEIGHTS, 0),
        oracle,
        zero_pads=False,
        pad_axes={"x": ()},  # a grid of one size
    )
]

test_checks = run_checks(CASES)


test_arguments = arguments_act(CASES, blocks=1)
