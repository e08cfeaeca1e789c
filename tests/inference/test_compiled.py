"""Every model becomes a program on PyTorch, which always answers with the present weights."""

import os

import numpy as np
import pytest

from keras_sentmatch.applications import get_model_class
from keras_sentmatch.applications.backbone import BackboneModel
from keras_sentmatch.errors import InputError
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


@pytest.mark.backend("torch")
def test_a_shape_is_compiled_once_its_calls_took_as_long_as_compiling(monkeypatch):
    torch = pytest.importorskip("torch")
    matcher = make("esim")
    compiled = CompiledModel(matcher.model)
    call, trace, clock = matcher.model.call, torch.jit.trace, [0.0]

    def takes(seconds, function):
        def timed(*args, **kwargs):
            clock[0] += seconds
            return function(*args, **kwargs)

        return timed

    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    monkeypatch.setattr(torch.jit, "trace", takes(10.0, trace))
    monkeypatch.setattr(matcher.model, "call", takes(1.0, call))

    def calls_until_compiled(text):
        arrays = matcher.encoder.encode([text], [text])
        before = compiled.traces
        for count in range(1, 100):
            compiled({key: arrays[key] for key in compiled.names})
            if compiled.traces > before:
                return count

    assert calls_until_compiled("a dog runs") == 4  # three, whatever they took
    assert calls_until_compiled("a dog runs in a park") == 12  # tracing calls the model once


@pytest.mark.backend("tensorflow")
def test_a_forked_process_does_not_hang():
    matcher = make("esim")
    assert matcher.predict("a dog", "a cat").label
    child = os.fork()
    if not child:
        try:
            matcher.predict("a dog", "a cat")
        except InputError as error:
            os._exit("spawn" in str(error))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
