"""Tracing: list the `keras.ops` operations that a model runs, in order, on any backend.

Keras records operations on symbolic tensors. `trace` calls the layers of a model instead of recording
them, so that only operations remain. Nothing is computed. Meanwhile functions of Keras are replaced, for
all threads: do not build or train another model at the same time.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import keras
import keras.src
from keras.src.layers import layer as keras_layer

from keras_sentmatch.ops import recurrence
from keras_sentmatch.ops.sequence import equal_lengths

# Primes that stand for the sizes that are known only when the model runs. No other size of a model
# is a multiple of them.
BATCH, LENGTH = 1_000_003, 99_991
_CELLS = (keras.layers.LSTMCell, keras.layers.GRUCell, keras.layers.SimpleRNNCell)
_BINARY = ("add", "sub", "mul", "truediv", "pow", "matmul")
_SHAPED = {
    "tile": keras.src.ops.numpy.Tile,
    "broadcast_to": keras.src.ops.numpy.BroadcastTo,
    "slice": keras.src.ops.core.Slice,
}
_lock = threading.Lock()  # parts of Keras are replaced meanwhile


@dataclass
class Body:
    """The operations of one step of a recurrence, and the tensors that enter and leave it."""

    inputs: list[Any]
    steps: list["Step"]
    outputs: list[Any]


@dataclass
class Step:
    """An operation with its arguments and its symbolic outputs."""

    kind: str  # name of its class
    operation: Any
    args: tuple[Any, ...]
    outputs: Any
    options: dict[str, Any] = field(default_factory=dict)
    body: Body | None = None


def is_dynamic(size: Any) -> bool:
    """Whether a size depends on the number of pairs or on their length."""
    return isinstance(size, int) and size >= LENGTH - 4 and size_parts(size) is not None


def size_parts(size: int) -> tuple[int, int, int, int] | None:
    """Return `(factor, batches, lengths, plus)` of `factor * BATCH**… * LENGTH**… + plus`."""
    for plus in sorted(range(-4, 5), key=abs):
        rest, counts = size - plus, []
        for prime in (BATCH, LENGTH):
            counts.append(0)
            while rest and rest % prime == 0:
                rest, counts[-1] = rest // prime, counts[-1] + 1
        if any(counts):
            return rest, *counts, plus  # type: ignore[return-value]
    return None


def symbolic_inputs(shapes: dict[str, Any]) -> dict[str, Any]:
    """Return symbolic tensors in place of a model's inputs `[batch, length, …]`."""
    return {
        name: keras.KerasTensor((BATCH, LENGTH, *x.shape[2:]), x.dtype, name=name)
        for name, x in shapes.items()
    }


def trace(function: Callable[..., Any], *inputs: Any) -> tuple[list[Step], Any]:
    """Return the operations of a function on symbolic tensors in order, and its outputs.

    Both sentences of a pair are padded to one length.
    """
    with _lock, _entering_layers() as steps, equal_lengths():
        outputs = function(*inputs)
    return steps, outputs


@contextmanager
def _entering_layers() -> Iterator[list[Step]]:
    steps: list[Step] = []

    def symbolic_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(self, keras.layers.RNN):
            return _recurrence(steps, self, *args, **kwargs)
        if isinstance(self, keras.layers.Layer) or not _is_of_keras(self):
            return self.call(*args, **kwargs)
        outputs = self.compute_output_spec(*args, **kwargs)
        outputs = keras.tree.map_structure(_as_float32, outputs)
        steps.append(Step(type(self).__name__, self, args, outputs, kwargs))
        return outputs

    def maker(kind: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        """`ops.arange`, `ops.zeros` and the like, whose size may be dynamic."""

        def make(shape: Any, *args: Any, **kwargs: Any) -> Any:
            sizes = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
            if not any(map(is_dynamic, sizes)):
                return plain(shape, *args, **kwargs)
            default = "int32" if kind == "arange" else "float32"
            made = keras.KerasTensor(sizes, kwargs.get("dtype") or default)
            steps.append(Step(kind, None, (sizes,), made))
            return made

        return make

    def shaper(operation: Any, plain: Callable[..., Any]) -> Callable[..., Any]:
        """`ops.tile` and the like: of a weight, but with a dynamic size."""

        def shape(x: Any, *args: Any) -> Any:
            if any(map(is_dynamic, args[-1])) and not _is_symbol(x):
                return operation(args[-1]).symbolic_call(x, *args[:-1])
            return plain(x, *args)

        return shape

    def get_item(x: Any, key: Any) -> Any:  # Keras refuses a slice that is not in a tuple
        key = key if isinstance(key, tuple) else (key,)
        return keras.src.ops.numpy.GetItem().symbolic_call(x, key)

    with ExitStack() as stack:

        def replace(owner: Any, name: str, new: Any) -> None:
            stack.enter_context(mock.patch.object(owner, name, new))

        for owner in (keras.Operation, keras.layers.Layer):
            replace(owner, "symbolic_call", symbolic_call)
        replace(keras_layer, "Node", lambda **arguments: None)
        replace(keras.KerasTensor, "__getitem__", get_item)
        replace(
            keras.KerasTensor, "__jax_array__", lambda x: None
        )  # JAX leaves the operation to Keras
        replace(recurrence, "_fused_states", lambda layer, x: None)
        for module in (keras.ops, keras.src.ops):
            for kind in ("arange", "zeros", "ones"):
                replace(module, kind, maker(kind, getattr(module, kind)))
            for kind in _SHAPED:
                replace(module, kind, shaper(_SHAPED[kind], getattr(module, kind)))
            replace(module, "fori_loop", _unrolled)
            replace(module, "custom_gradient", lambda f: lambda *args: f(*args)[0])
        backend = keras.src.backend  # some layers of Keras call it for symbolic tensors too
        for owner, name in ((backend, "cast"), (backend.numpy, "where")):
            replace(owner, name, _for_symbols(getattr(owner, name), getattr(keras.ops, name)))
        for name in _BINARY:
            for method, order in ((f"__{name}__", 1), (f"__r{name}__", -1)):
                plain = getattr(keras.Variable, method)
                replace(keras.Variable, method, _with_symbols(plain, name, order))
        yield steps


def _for_symbols(plain: Any, symbolic: Any) -> Callable[..., Any]:
    """A function of the backend that leaves symbolic tensors to Keras."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return (symbolic if any(map(_is_symbol, args)) else plain)(*args, **kwargs)

    return call


def _as_float32(x: Any) -> Any:
    """Replace half precision, in which onnxruntime computes few operations on a CPU."""
    half = keras.backend.standardize_dtype(x.dtype) in ("float16", "bfloat16")
    return keras.KerasTensor(x.shape, "float32") if half else x


def _is_symbol(x: Any) -> bool:
    return isinstance(x, keras.KerasTensor)


def _is_of_keras(operation: Any) -> bool:
    return type(operation).__module__.startswith("keras.src.")


def _with_symbols(plain: Any, name: str, order: int) -> Callable[[Any, Any], Any]:
    """An operator of a variable, which Keras does not offer for symbolic tensors."""
    symbolic = {
        "add": keras.ops.add,
        "sub": keras.ops.subtract,
        "mul": keras.ops.multiply,
        "truediv": keras.ops.divide,
        "pow": keras.ops.power,
        "matmul": keras.ops.matmul,
    }[name]

    def operate(variable: Any, other: Any) -> Any:
        if _is_symbol(other):
            return symbolic(*(variable, other)[::order])
        return plain(variable, other)

    return operate


def _unrolled(lower: int, upper: int, body: Callable[[Any, Any], Any], state: Any) -> Any:
    for i in range(lower, upper):
        state = body(i, state)
    return state


def _is_usual(cell: Any) -> bool:
    """Whether ONNX has a cell as an operation."""
    tanh, sigmoid = keras.activations.tanh, keras.activations.sigmoid
    gates = getattr(cell, "recurrent_activation", sigmoid)
    usual = type(cell) in _CELLS and cell.activation is tanh and gates is sigmoid
    return usual and getattr(cell, "reset_after", True)


def _recurrence(steps: list[Step], layer: Any, x: Any, initial_state: Any = None, **_: Any) -> Any:
    """Record a recurrent layer: LSTM, GRU or RNN as one operation, another cell by its operations."""
    cell, body = layer.cell, None
    length = x.shape[1] if layer.return_sequences else None
    if not initial_state and not layer.return_state and _is_usual(cell):
        kind, width, states = type(cell).__name__, cell.units, []
    else:
        kind = "Scan"
        states = initial_state or layer.get_initial_state(batch_size=x.shape[0])
        inputs = [keras.KerasTensor(state.shape, x.dtype) for state in states]
        inputs.append(keras.KerasTensor((x.shape[0], *x.shape[2:]), x.dtype))
        before, steps[:] = steps[:], []
        y, after = cell(inputs[-1], inputs[:-1])
        body = Body(inputs, steps[:], [*after, y])
        steps[:] = before
        width = y.shape[-1]
    sizes = (x.shape[0], width) if length is None else (x.shape[0], length, width)
    outputs = [keras.KerasTensor(sizes, x.dtype)]
    if layer.return_state:
        outputs += [keras.KerasTensor(state.shape, x.dtype) for state in states]
    steps.append(Step(kind, layer, (x, states), outputs, body=body))
    return outputs if layer.return_state else outputs[0]
