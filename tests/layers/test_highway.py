"""Highway."""

from keras_sentmatch.layers import Highway
from tests import oracles
from tests.harness import Case, arguments_act, noise, run_checks, value


def oracle(layer, x):
    return oracles.highway(
        x,
        [
            (value(t.kernel), value(t.bias), value(g.kernel), value(g.bias))
            for t, g in zip(layer.transforms, layer.gates)
        ],
    )


# A highway knows no mask: what comes in at a pad goes through it.
CASES = [Case(Highway, {"x": noise(2, 5, 4)}, (80, 0), oracle, zero_pads=False)]

test_checks = run_checks(CASES)


test_arguments = arguments_act(CASES)


def test_no_layers():
    assert Highway(num_layers=0)(noise(1, 2, 3)).shape == (1, 2, 3)
