"""An ONNX model written from what a Keras model computes, without a converter."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_sentmatch.inference import onnx_file
from keras_sentmatch.inference._onnx_operations import OPERATIONS, Unsupported
from keras_sentmatch.inference.tracing import (
    Step,
    is_dynamic,
    size_parts,
    symbolic_inputs,
    trace,
)

OPSET = 20


def write_model(
    function: Callable[..., Any],
    inputs: Mapping[str, Any],
    outputs: Sequence[str],
    tables: Mapping[str, Any],
) -> tuple[bytes, dict[str, list[int | str]]]:
    """Write a function of symbolic tensors by name that returns tensors by name.

    Args:
        function: The function; it may use variables of Keras.
        inputs: The inputs by name, with the shapes `[batch, length, …]` and dtypes.
        outputs: Names of the outputs, in the order of the model.
        tables: Variables by name, which become inputs with defaults.

    Returns:
        The bytes of the model, and the shapes of its outputs by name.

    Raises:
        Unsupported: ONNX has no such operation, or it is not known here.
    """
    symbols = symbolic_inputs(dict(inputs))
    steps, found = trace(function, symbols)
    graph = Graph({id(variable): name for name, variable in tables.items()})
    for name, symbol in symbols.items():
        graph.names[id(symbol)] = name
    graph.sizes_of = next(iter(symbols))
    graph.write(steps, [found[name] for name in outputs])
    for name in outputs:
        graph.node("Identity", [graph.value(found[name])], [name])
    given = {name: (x.dtype, ["batch", "length", *x.shape[2:]]) for name, x in symbols.items()}
    given |= {name: (v.dtype, ["words", *v.shape[1:]]) for name, v in tables.items()}
    shapes = {name: ["batch", *found[name].shape[1:]] for name in outputs}
    made = onnx_file.message(
        onnx_file.GRAPH,
        node=graph.nodes,
        name="matcher",
        initializer=[*graph.constants.values()],
        input=[onnx_file.signature(n, dtype, shape) for n, (dtype, shape) in given.items()],
        output=[onnx_file.signature(n, found[n].dtype, shapes[n]) for n in outputs],
    )
    return onnx_file.model(made, OPSET), shapes


class Graph:
    """The nodes of a model while they are written. Equal nodes are written once."""

    def __init__(self, tables: Mapping[int, str]) -> None:
        self.nodes: list[bytes] = []
        self.constants: dict[Any, bytes] = {}  # encoded, by content
        self.names: dict[int, str] = {}  # of the values of symbolic tensors, by their id
        self.parts: dict[tuple[str, ...], str] = {}  # of both sentences: halves, and what was split
        self.sizes_of = ""  # the input that has the dynamic sizes
        self._tables = tables
        self._made: dict[Any, Any] = {}
        self._count = 0
        self._kept: list[Any] = []  # so that no id is used again

    def write(self, steps: Sequence[Step], wanted: Sequence[Any]) -> None:
        """Write the operations that lead to the wanted tensors."""
        needed = {id(x) for x in wanted}
        used = []
        for step in reversed(steps):
            made = keras.tree.flatten(step.outputs)
            if any(id(x) in needed for x in made):
                used.append(step)
                needed |= {id(x) for x in keras.tree.flatten((step.args, step.options))}
                if step.body is not None:
                    parts = [(inner.args, inner.options) for inner in step.body.steps]
                    needed |= {id(x) for x in keras.tree.flatten([parts, step.body.outputs])}
        for step in reversed(used):
            self._kept.append(step)
            write = OPERATIONS.get(step.kind)
            if write is None:
                raise Unsupported(f"the operation {step.kind}")
            made = write(self, step, *step.args, **step.options)
            names = [made] if isinstance(made, str) else made
            self.names |= {id(x): n for x, n in zip(keras.tree.flatten(step.outputs), names)}

    def value(self, x: Any, dtype: str | None = None) -> str:
        """Return the name of a tensor, a variable or a constant; cast to a dtype."""
        if id(x) in self.names:
            name, given = self.names[id(x)], x.dtype
        elif id(x) in self._tables:
            name, given = self._tables[id(x)], x.dtype
            if name not in self.constants:
                number = np.asarray(ops.convert_to_numpy(x))
                self.constants[name] = onnx_file.tensor(name, number)
        elif isinstance(x, keras.KerasTensor):
            raise Unsupported(f"the tensor {x.name}")
        elif is_dynamic(x):
            name, given = self.add("Squeeze", self.size(x)), "int64"
        else:
            return self.constant(x, dtype)
        if dtype is None or keras.backend.standardize_dtype(given) == dtype:
            return name
        return self.add("Cast", name, to=onnx_file.DTYPES[dtype])

    def constant(self, x: Any, dtype: str | None = None) -> str:
        """Return the name of an array."""
        plain = isinstance(x, bool | int | float | list | tuple | np.ndarray | np.generic)
        value = np.asarray(x if plain else ops.convert_to_numpy(x))
        known = value.dtype.kind != "f" and value.dtype.name in onnx_file.DTYPES
        value = value.astype(dtype or (value.dtype if known else "float32"))
        key = (value.dtype.name, value.shape, value.tobytes())
        if key not in self._made:
            self._made[key] = f"constant_{len(self.constants)}"
            self.constants[self._made[key]] = onnx_file.tensor(self._made[key], value)
        name: str = self._made[key]
        return name

    def is_zero(self, name: str) -> bool:
        """Return whether a name is that of the constant 0.0."""
        return bool(name == self._made.get(("float32", (), bytes(4))))

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, "int64"))

    def node(
        self, kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any
    ) -> None:
        """Write a node."""
        encoded = [onnx_file.attribute(name, value) for name, value in attributes.items()]
        fields: Any = {"input": list(inputs), "output": list(outputs)}
        self.nodes.append(
            onnx_file.message(onnx_file.NODE, **fields, op_type=kind, attribute=encoded)
        )

    def many(self, kind: str, inputs: Sequence[str], count: int, **attributes: Any) -> list[str]:
        """Write a node unless there is an equal one; return the names of its outputs."""
        key = (kind, *inputs, count, repr(attributes))
        if key not in self._made:
            self._made[key] = [self.new() for _ in range(count)]
            self.node(kind, inputs, self._made[key], **attributes)
        found: list[str] = self._made[key]
        return found

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.many(kind, inputs, 1, **attributes)[0]

    def new(self) -> str:
        self._count += 1
        return f"value_{self._count}"

    def size(self, size: int) -> str:
        """Return the name of a vector with one size, which may be dynamic."""
        if not is_dynamic(size):
            return self.integers(size)
        parts = size_parts(size)
        assert parts is not None
        factor, batches, lengths, plus = parts
        found = self.integers(factor)
        shape = self.add("Shape", self.sizes_of)
        for axis, times in enumerate((batches, lengths)):
            for _ in range(times):
                one = self.add("Gather", shape, self.integers(axis), axis=0)
                found = one if found == self.integers(1) else self.add("Mul", found, one)
        return self.add("Add", found, self.integers(plus)) if plus else found

    def shape(self, sizes: Sequence[int]) -> str:
        """Return the name of a vector of sizes."""
        if not any(map(is_dynamic, sizes)):
            return self.integers(*sizes)
        return self.add("Concat", *map(self.size, sizes), axis=0)

    def inner(self, steps: Sequence[Step], inputs: Sequence[Any], outputs: Sequence[Any]) -> bytes:
        """Write the body of a Scan, which may use all values outside."""
        outside, made, self.nodes = self.nodes, dict(self._made), []
        names = [self.new() for _ in inputs]
        self.names |= {id(x): name for x, name in zip(inputs, names)}
        self._kept.append((inputs, outputs))
        self.write(steps, outputs)
        last = [self.new() for _ in outputs]
        for x, name in zip(outputs, last):
            self.node("Identity", [self.value(x, inputs[0].dtype)], [name])
        found = onnx_file.message(
            onnx_file.GRAPH,
            node=self.nodes,
            name="step",
            input=[_untyped(name, x) for name, x in zip(names, inputs)],
            output=[_untyped(name, x) for name, x in zip(last, outputs)],
        )
        constants = {key: x for key, x in self._made.items() if isinstance(x, str)}
        self.nodes, self._made = outside, made | constants
        return found


def _untyped(name: str, x: Any) -> bytes:
    sizes = [f"{name}_{i}" if is_dynamic(size) else size for i, size in enumerate(x.shape)]
    return onnx_file.signature(name, x.dtype, sizes)
