"""The ONNX models that are written from Keras models: the same outputs, and bytes that end."""

import keras
import numpy as np
import pytest

from keras_sentmatch.applications.registry import list_models
from keras_sentmatch.inference import onnx_file
from keras_sentmatch.inference.ensemble import EnsembleMatcher
from keras_sentmatch.inference.onnx import OnnxModel
from keras_sentmatch.inference.onnx_export import ensemble_model, model_of
from keras_sentmatch.inference.onnx_graph import write_model
from keras_sentmatch.inference.tracing import BATCH, LENGTH, is_dynamic, size_parts
from tests.golden import record
from tests.toys.matchers import make

onnxruntime = pytest.importorskip("onnxruntime")
FIRST = ["a dog runs in the park .", "", "the cat is not big , and the dogs move", "two"]
SECOND = ["an animal moves", "no dog", "the small cat runs", "a a a"]
HOSTS = {"feature_attention": "sfa"}


@pytest.mark.each_backend
@pytest.mark.parametrize(
    ("name", "options"),
    [pytest.param(n, {}, id=n) for n in list_models()]
    + [pytest.param(n, HOSTS, id=f"{n}-sfa") for n in ("esim", "drcn", "re2")],
)
def test_every_model(name, options, tmp_path):
    """One row and several, whatever the length: what Keras gives for the longest."""
    matcher = make(name, **options)
    content, facts = model_of(matcher)
    model = OnnxModel(content, facts, tmp_path / "model.onnx")
    arrays = matcher.encoder.encode(FIRST, SECOND, length=20)
    want = record.run(matcher.model, {n: arrays[n] for n in matcher.model.input})
    for rows, length in ((1, None), (4, None), (4, 20)):
        found = model(matcher.encoder.encode(FIRST[:rows], SECOND[:rows], length=length))
        np.testing.assert_allclose(found, want[:rows], atol=1e-5, err_msg=f"{rows} {length}")


ACTIVATIONS = (
    "elu", "leaky_relu", "hard_sigmoid", "selu", "log_sigmoid", "relu6", "softsign", "hard_silu",
    "softplus", "silu", "gelu", "tanh",
)  # fmt: skip


def test_activations_and_reductions():
    def made(arrays):
        x = arrays["x"]
        found = {name: getattr(keras.ops, name)(x) for name in ACTIVATIONS}
        return found | {
            "prod": keras.ops.prod(x, axis=-1),
            "logsumexp": keras.ops.logsumexp(x, axis=-1, keepdims=True),
        }

    x = np.linspace(-7, 7, 30, dtype="float32").reshape(2, 5, 3)
    names = [*ACTIVATIONS, "prod", "logsumexp"]
    content, _ = write_model(made, {"x": keras.KerasTensor((None, None, 3))}, names, {})
    onnx_file.check_model(content, onnx_file.MADE)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    want = made({"x": keras.ops.convert_to_tensor(x)})
    for name, found in zip(names, session.run(names, {"x": x})):
        here = keras.ops.convert_to_numpy(want[name])
        np.testing.assert_allclose(found, here, atol=1e-5, rtol=1e-5, err_msg=name)


def test_convolutions_over_words():
    kernels = {
        (size, filters): np.random.default_rng(size)
        .normal(size=(size, 3, filters))
        .astype("float32")
        for size in (1, 2, 3, 4)
        for filters in (2, 5)  # fewer and more than the three inputs
    }
    ways = [("same", 1, 1), ("valid", 1, 1), ("same", 1, 2), ("valid", 1, 2), ("valid", 2, 1)]

    def made(arrays):
        return {
            f"{size} {filters} {way}": keras.ops.conv(
                arrays["x"], kernel, stride, pad, "channels_last", dilation
            )
            for (size, filters), kernel in kernels.items()
            for way, (pad, stride, dilation) in enumerate(ways)
        }

    x = np.random.default_rng(0).normal(size=(2, 9, 3)).astype("float32")
    want = made({"x": keras.ops.convert_to_tensor(x)})
    content, _ = write_model(made, {"x": keras.KerasTensor((None, None, 3))}, list(want), {})
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    for name, found in zip(want, session.run(list(want), {"x": x})):
        here = keras.ops.convert_to_numpy(want[name])
        np.testing.assert_allclose(found, here, atol=1e-5, err_msg=name)


def test_the_mean_of_members_and_their_temperatures(tmp_path):
    members = [make("decatt"), make("re2")]
    ensemble = EnsembleMatcher(members, temperature=1.5)
    for member, temperature in zip(members, (0.5, 2.0)):
        member.temperature = temperature
    try:
        model = OnnxModel(*ensemble_model(ensemble)[:2], tmp_path / "model.onnx")
        arrays = members[0].encoder.encode(FIRST, SECOND)
        want = ensemble.predict_proba(FIRST, SECOND)
    finally:
        for member in members:
            member.temperature = 1.0
    np.testing.assert_allclose(model(arrays), want, atol=1e-6)


def test_sizes():
    assert size_parts(6 * BATCH * LENGTH) == (6, 1, 1, 0)
    assert size_parts(LENGTH - 1) == (1, 0, 1, -1)
    assert not any(map(is_dynamic, (1, 300, 30_522, 400_000, LENGTH + 100)))
    assert all(map(is_dynamic, (LENGTH, BATCH, 2 * BATCH, LENGTH + 2)))


@pytest.mark.parametrize("end", [1, 9, 200, -1])
def test_a_model_that_is_cut_off(end):
    content, _ = model_of(make("decatt"))
    with pytest.raises(ValueError, match="cut off|no graph|not an ONNX"):
        onnx_file.check_model(content[:end], onnx_file.MADE)


def test_it_is_valid():
    onnx = pytest.importorskip("onnx")
    for name in ("re2", "rlstm"):
        onnx.checker.check_model(onnx.load_from_string(model_of(make(name))[0]), full_check=True)
    graph = onnx.load_from_string(model_of(make("re2"))[0]).graph
    kinds = {node.op_type for node in graph.node}
    assert "Split" in kinds and not kinds & {"Reshape", "Shape"}  # only stacked, not measured
