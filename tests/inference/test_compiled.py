"""Every model becomes a program on PyTorch, which always answers with the present weights."""

import numpy as np
import pytest

from keras_sentmatch.applications import BackboneModel, get_model_class
from keras_sentmatch.inference.compiled import CompiledModel
from tests.toys.matchers import SIZES, make


@pytest.mark.backend("torch")
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in ("esim", "cafe") else pytest.mark.slow) for n in SIZES],
)
def test_every_model_is_compiled(name):
    torch = pytest.importorskip("torch")
    if issubclass(get_model_class(name), BackboneModel):
        pytest.importorskip("keras_hub")
    matcher = make(name)
    arrays = dict(matcher.encoder.encode(["a dog runs", "no"], ["the dogs run in a park", "a cat"]))
    compiled = CompiledModel(matcher.model)
    arrays = {key: arrays[key] for key in compiled.names}
    eager, *_, got = (compiled(arrays) for _ in range(5))
    (program,) = compiled._functions.values()
    assert isinstance(program, torch.jit.ScriptModule), "it fell back to the model itself"
    np.testing.assert_allclose(got, eager, atol=1e-6)
    weights = matcher.model.get_weights()
    try:
        matcher.model.set_weights([weight * np.float32(0.5) for weight in weights])
        want = CompiledModel(matcher.model)(arrays)
        assert abs(want - eager).max() > 1e-4
        np.testing.assert_allclose(compiled(arrays), want, atol=1e-6)
    finally:
        matcher.model.set_weights(weights)
