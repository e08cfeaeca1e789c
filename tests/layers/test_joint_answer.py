"""JointAnswer."""

from functools import partial

import numpy as np

from keras_sentmatch.layers.hybrid import JointAnswer
from tests.harness import Case, built, noise, run_checks, value


def joint(layer, wide, deep):
    share = value(layer.deep_share)
    if not layer.softmax:
        return share * deep + (1 - share) * wide
    wide, deep = (np.exp(x) / np.exp(x).sum(-1, keepdims=True) for x in (wide, deep))
    product = deep**share * wide ** (1 - share)
    return product / product.sum(-1, keepdims=True)


PARTS = {"wide": noise(3, 4), "deep": noise(3, 4, seed=1)}
COMMON = {"float32_outputs": True, "zero_pads": False}
CASES = [
    Case(JointAnswer, PARTS, (0, 1), joint, **COMMON),
    Case(partial(JointAnswer, softmax=False), PARTS, (0, 1), joint, "scores", **COMMON),
]

test_checks = run_checks(CASES)


def test_training_sees_the_deep_part_alone():
    layer = built(CASES[1])
    assert np.allclose(value(layer(**PARTS, training=True)), PARTS["deep"])
