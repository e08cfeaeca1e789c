"""Every model still gives what it gave: outputs, explanations, losses and counts against tests/golden/golden.npz.

The ONNX model of each gives the same.
"""

import os
from typing import Any

import keras
import numpy as np
import pytest

from keras_sentmatch.applications import list_models
from tests.golden import record

pytestmark = pytest.mark.each_backend

# JAX compiles each model: it runs and trains the default ones, with SENTMATCH_ALL_CHECKS=1 all, and explains none.
JAX = keras.backend.backend() == "jax"
DEFAULTS_ONLY = JAX and not os.environ.get("SENTMATCH_ALL_CHECKS")
CONFIGS = record.read()[0]["configs"]
KEYS = [key for key in CONFIGS if key in list_models() or not DEFAULTS_ONLY]
TOLERANCE, EXPLAINED = 1e-6, 3e-6
STRETCHED = 5e-5  # of DIN's explainer: it stretches small differences to 0..1, and errors with them


@pytest.fixture(scope="module")
def golden() -> tuple[dict[str, Any], np.ndarray]:
    return record.read()


def test_there_is_an_output_of_every_model_and_the_presets_are_as_recorded(golden):
    about, _ = golden
    recorded = {entry["model"] for entry in CONFIGS.values()}
    assert recorded == set(list_models()), "run tests/golden/record.py"
    assert about["presets"] == record.presets()


@pytest.mark.parametrize("key", KEYS)
def test_golden(key, golden):
    about, values = golden
    entry, wrong = about["configs"][key], {}
    name, config = entry["model"], entry["arguments"]
    if "backbone" in config:
        pytest.importorskip("keras_hub")

    def check(what: str, array: Any) -> None:
        start, end = entry["values"][what]
        got, want = record.kept(array), values[start:end]
        assert got.shape == want.shape, what
        off = abs(got - want) / np.maximum(1, abs(want))
        explained = STRETCHED if name == "din" else EXPLAINED
        tolerance = explained if what.startswith("explainer") else TOLERANCE
        if not off.max(initial=0) <= tolerance:
            wrong[what] = off.max()

    model = record.make(name, config)
    inputs = record.inputs_of(model, config.get("backbone", ""))
    found = record.facts(model)
    assert found == {n: entry[n] for n in found}
    shown = None if JAX else record.explained(model, inputs)
    # A preset has the graph of its explainer; a model is called itself, since some have a call of their own.
    preset = key not in list_models()
    output = shown["probabilities"] if shown and preset else record.run(model, inputs)
    check("output", output)
    if not JAX:
        shapes = None if shown is None else {n: list(x.shape) for n, x in shown.items()}
        assert shapes == entry["explained"]
        for n, x in (shown or {}).items():
            check(f"explainer {n}", x)
        if model.can_split:
            check("output", record.halves_output(model, inputs))
        np.testing.assert_allclose(record.onnx_output(model, inputs), output, atol=1e-5)
    check("loss", record.loss_of(model, inputs))
    assert not wrong


# KerasHub's backbones do not export, and Keras's ONNX files on PyTorch have the lengths of an example.
EXPORTED = [n for n in list_models() if n in CONFIGS and "backbone" not in CONFIGS[n]["arguments"]]


@pytest.mark.backend("tensorflow", "jax")
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n == "re2" else pytest.mark.slow) for n in EXPORTED]
)
def test_keras_exports(name, tmp_path):
    """`model.export` answers as the model does: for pairs, and for one pair of other lengths."""
    tf = pytest.importorskip("tensorflow")
    model = record.make(name, CONFIGS[name]["arguments"])
    inputs = record.inputs_of(model)
    model.export(tmp_path, format="tf_saved_model", verbose=False)
    served = tf.saved_model.load(tmp_path)
    alone = {n: x[:1, : 4 if "_1" in n else 5] for n, x in inputs.items()}
    five = {
        n: np.concatenate([x, record.lengthened(alone[n], x.shape[1])]) for n, x in inputs.items()
    }
    want = record.run(model, five)
    for given, expected in ((inputs, want[:-1]), (alone, want[-1:])):
        found = served.serve({n: tf.constant(x) for n, x in given.items()})
        np.testing.assert_allclose(found, expected, atol=1e-5)
