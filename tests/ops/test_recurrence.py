"""recurrent_states against the Keras layer; scan_sequence: values, gradients, states, outputs."""

import sys
from functools import partial

import keras
import numpy as np
import pytest
from keras import ops

from keras_sentmatch.ops import recurrent_states
from keras_sentmatch.ops.recurrence import scan_sequence
from tests.case import Case, gradients, noise, value

pytestmark = pytest.mark.each_backend

X, FACTOR = noise(2, 5, 3), noise(2, 3, 4, seed=1)


class Scanned(keras.layers.Layer):
    """s' = tanh(s + x_t F) with F from outside the loop; the output has another width than the state."""

    def call(self, x, factor):
        def step(x, states):
            s = ops.tanh(states[0] + ops.matmul(ops.expand_dims(x, 1), factor)[:, 0])
            return s[:, :2] * 2, [s, states[1] + 1]

        start = ops.zeros_like(factor[:, 0])
        y, (last, steps) = scan_sequence(step, x, [start, ops.zeros((1,))])
        return y, last, steps

    def compute_output_spec(self, x, factor):
        shapes = (*x.shape[:2], 2), (x.shape[0], factor.shape[-1]), (1,)
        return tuple(keras.KerasTensor(shape, dtype=self.compute_dtype) for shape in shapes)


CASE = Case(Scanned, {"x": X, "factor": FACTOR}, (0, 0))


def looped(x, factor):
    s, out = np.zeros((2, 4)), []
    for t in range(x.shape[1]):
        s = np.tanh(s + np.einsum("bd,bdk->bk", x[:, t], factor))
        out.append(2 * s[:, :2])
    return np.stack(out, 1), s


def test_values():
    y, last, steps = (value(t) for t in Scanned()(X, FACTOR))
    want, want_last = looped(X.astype("float64"), FACTOR.astype("float64"))
    assert abs(y - want).max() < 1e-6 and abs(last - want_last).max() < 1e-6
    assert steps.tolist() == [5]


def test_gradients():
    """Against finite differences, of what goes in and of what the step takes from around it."""
    _, (by_x, by_factor) = gradients(CASE, Scanned(), {"x": X, "factor": FACTOR})
    rng = np.random.default_rng(3)  # the projection that `gradients` takes
    marks = [rng.normal(size=shape) for shape in ((2, 5, 2), (2, 4), (1,))]

    def total(x, factor):
        return sum((a * m).sum() for a, m in zip(looped(x, factor), marks))

    wide, small = {"x": X.astype("float64"), "factor": FACTOR.astype("float64")}, 1e-5
    for name, got in (("x", by_x), ("factor", by_factor)):
        for at in ((0, 0, 0), (1, 2, 2)):
            up, down = ({n: np.array(a) for n, a in wide.items()} for _ in range(2))
            up[name][at] += small
            down[name][at] -= small
            want = (total(**up) - total(**down)) / (2 * small)
            assert abs(got[at] - want) < 1e-4 * max(1, abs(want))


@pytest.mark.parametrize("jit", [False, True])
def test_compiled_with_unknown_lengths(jit):
    inputs = {"x": keras.Input((None, 3), name="x"), "factor": keras.Input((3, 4), name="factor")}
    model = keras.Model(inputs, Scanned()(keras.layers.Dense(3)(inputs["x"]), inputs["factor"])[0])
    if keras.backend.backend() == "torch" and jit:
        pytest.skip("torch.compile needs a C++ compiler, and isn't what Keras does by itself")
    model.compile("sgd", "mse", jit_compile=jit)
    for length in (5, 2):
        loss = model.train_on_batch({"x": X[:, :length], "factor": FACTOR}, noise(2, length, 2))
        assert np.isfinite(loss)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_loop_runs_in_the_dtype_of_the_sequence(dtype):
    seen = []

    def step(x, states):
        seen.extend(keras.backend.standardize_dtype(t.dtype) for t in (x, *states))
        return x, [states[0] + x]

    y, last = scan_sequence(step, ops.cast(X, dtype), [np.zeros((2, 3), "float32")])
    assert set(seen) == {dtype}
    assert {keras.backend.standardize_dtype(t.dtype) for t in (y, *last)} == {dtype}


class Recurrent(keras.layers.Layer):
    """A recurrent layer, through the door or as Keras runs it."""

    def __init__(self, make, through, **kwargs):
        super().__init__(**kwargs)
        self.rnn, self.through = make(3, return_sequences=True, dtype=self.dtype_policy), through

    def build(self, x_shape):
        self.rnn.build(x_shape)

    def call(self, x):
        return recurrent_states(self.rnn, x) if self.through else self.rnn(x)

    def compute_output_shape(self, x_shape):
        return (*x_shape[:-1], 3)


def ours_and_theirs(make, scale=1.0, **kwargs):
    layers = [Recurrent(make, through, **kwargs) for through in (True, False)]
    for layer in layers:
        layer.build((None, None, 3))
    for i, (one, two) in enumerate(zip(*(layer.weights for layer in layers))):
        one.assign(scale * noise(*one.shape, seed=i))
        two.assign(one)
    return layers


FUSED = {
    "lstm": keras.layers.LSTM,
    "lstm without bias": partial(keras.layers.LSTM, use_bias=False),
    "gru": keras.layers.GRU,
    "gru without bias": partial(keras.layers.GRU, use_bias=False),
    "rnn": keras.layers.SimpleRNN,
}
LOOPED = {
    "relu": partial(keras.layers.LSTM, activation="relu"),
    "hard sigmoid": partial(keras.layers.GRU, recurrent_activation="hard_sigmoid"),
    "reset before": partial(keras.layers.GRU, reset_after=False),
    "backwards": partial(keras.layers.LSTM, go_backwards=True),
}


@pytest.mark.each_backend
@pytest.mark.parametrize("name", [*FUSED, *LOOPED])
def test_states_and_gradients_are_those_of_the_layer(name, monkeypatch):
    scale = 0.5 if name == "rnn" else 1.0  # without gates, great weights make rounding grow
    ours, theirs = ours_and_theirs({**FUSED, **LOOPED}[name], scale)
    looped = []
    run = ours.rnn.call
    monkeypatch.setattr(ours.rnn, "call", lambda *a, **k: looped.append(1) or run(*a, **k))
    found = []
    for layer in (ours, theirs):
        case = Case(lambda layer=layer: layer, {"x": X}, (0, 0))
        found.append([value(layer(X)), *(g for by in gradients(case, layer, {"x": X}) for g in by)])
    for one, two in zip(*found):
        assert abs(one - two).max() <= 1e-6 and abs(two).max() > 1e-3
    assert bool(looped) == (keras.backend.backend() != "torch" or name in LOOPED)


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16", "float64"])
@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_states_in_other_dtypes(name, dtype):
    one, two = (layer(X) for layer in ours_and_theirs(FUSED[name], dtype=dtype))
    assert one.dtype == two.dtype
    assert abs(value(one).astype("float64") - value(two).astype("float64")).max() <= 1e-6


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_cudnn_on_jax_gets_no_half_precision(dtype, monkeypatch):
    if keras.backend.backend() != "jax":
        pytest.skip("how Keras calls cuDNN on JAX")
    import jax.experimental.rnn

    called = []

    def no_gpu(*args, **options):
        called.append(1)
        raise ValueError("there is no GPU")

    module = sys.modules["keras.src.backend.jax.rnn"]
    monkeypatch.setattr(module, "cudnn_ok", lambda *args, **options: True)
    monkeypatch.setattr(jax.experimental.rnn, "lstm", no_gpu)
    ours, _ = ours_and_theirs(FUSED["lstm"], dtype=dtype)
    assert value(ours(X)).shape == (2, 5, 3)
    assert bool(called) == (dtype == "float32")


def test_an_empty_batch_has_states():
    if keras.backend.backend() == "tensorflow":
        pytest.skip("TensorFlow adds no bias to an empty batch")
    ours, _ = ours_and_theirs(FUSED["lstm"])
    assert value(ours(X[:0])).shape == (0, 5, 3)


@pytest.mark.parametrize("how", ["compiled", "exported"])
def test_a_traced_graph_gives_the_same_states(how):
    if keras.backend.backend() != "torch":
        pytest.skip("only PyTorch has fused kernels")
    torch = pytest.importorskip("torch")
    ours, theirs = ours_and_theirs(FUSED["lstm"])
    x = torch.tensor(X)
    if how == "compiled":
        traced = torch.compile(ours, backend="eager", dynamic=True)
    else:
        traced = torch.export.export(ours, (x,)).module()
    assert abs(value(traced(x)) - value(theirs(x))).max() <= 1e-6
