"""How each operation of `keras.ops` is written to an ONNX graph."""

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import keras
import numpy as np

from keras_sentmatch.inference.onnx_file import DTYPES
from keras_sentmatch.inference.tracing import Step, is_dynamic

Write = Callable[..., Any]
OPERATIONS: dict[str, Write] = {}  # by the name of Keras's class
_UNARY = {
    **{name: name for name in "Exp Log Sqrt Tanh Sigmoid Sign Erf Sin Cos Tan Atan Floor".split()},
    **{name: name for name in "Ceil Reciprocal Softplus Softsign Relu".split()},
    **{"ReLU": "Relu", "Absolute": "Abs", "Abs": "Abs", "Negative": "Neg", "HardSilu": "HardSwish"},
}
_BINARY = {
    **{"Add": "Add", "Subtract": "Sub", "Multiply": "Mul", "TrueDivide": "Div", "Divide": "Div"},
    **{"Maximum": "Max", "Minimum": "Min", "Power": "Pow", "Matmul": "MatMul", "Dot": "MatMul"},
}
_COMPARISONS = {
    **{"Equal": "Equal", "Less": "Less", "LessEqual": "LessOrEqual"},
    **{"Greater": "Greater", "GreaterEqual": "GreaterOrEqual"},
}
_LOGICAL = {"LogicalAnd": "And", "LogicalOr": "Or", "LogicalXor": "Xor"}
_REDUCTIONS = {
    "Sum": "Sum",
    "Max": "Max",
    "Amax": "Max",
    "Min": "Min",
    "Amin": "Min",
    "Mean": "Mean",
    "Prod": "Prod",
    "Logsumexp": "LogSumExp",
}


class Unsupported(Exception):
    """An operation that is not written to ONNX."""


def writes(*kinds: str) -> Callable[[Write], Write]:
    def register(write: Write) -> Write:
        OPERATIONS.update(dict.fromkeys(kinds, write))
        return write

    return register


# === One value at a time ===


@writes("ConvertToTensor", "StopGradient", "Identity", "Copy", "Cast", "Real")
def _same(graph: Any, step: Step, x: Any, *_: Any, **__: Any) -> str:
    found: str = graph.value(x, step.outputs.dtype)
    return found


@writes(*_UNARY)
def _unary(graph: Any, step: Step, x: Any) -> Any:
    return graph.add(_UNARY[step.kind], graph.value(x, step.outputs.dtype))


@writes(*_BINARY)
def _binary(graph: Any, step: Step, x: Any, y: Any) -> Any:
    dtype = step.outputs.dtype
    return graph.add(_BINARY[step.kind], graph.value(x, dtype), graph.value(y, dtype))


@writes(*_COMPARISONS, "NotEqual")
def _comparison(graph: Any, step: Step, x: Any, y: Any) -> Any:
    dtype = keras.backend.result_type(*(getattr(v, "dtype", type(v)) for v in (x, y)))
    dtype = "int32" if dtype == "bool" else dtype
    kind = _COMPARISONS.get(step.kind, "Equal")
    found = graph.add(kind, graph.value(x, dtype), graph.value(y, dtype))
    return found if step.kind != "NotEqual" else graph.add("Not", found)


@writes(*_LOGICAL)
def _logical(graph: Any, step: Step, x: Any, y: Any) -> Any:
    return graph.add(_LOGICAL[step.kind], graph.value(x, "bool"), graph.value(y, "bool"))


@writes("LogicalNot")
def _not(graph: Any, step: Step, x: Any) -> Any:
    return graph.add("Not", graph.value(x, "bool"))


@writes("Square")
def _square(graph: Any, step: Step, x: Any) -> Any:
    name = graph.value(x, step.outputs.dtype)
    return graph.add("Mul", name, name)


@writes("Rsqrt")
def _rsqrt(graph: Any, step: Step, x: Any) -> Any:
    return graph.add("Reciprocal", graph.add("Sqrt", graph.value(x)))


@writes("Erfc")
def _erfc(graph: Any, step: Step, x: Any) -> Any:
    return graph.add("Sub", graph.constant(1.0), graph.add("Erf", graph.value(x)))


@writes("Gelu")
def _gelu(graph: Any, step: Step, x: Any) -> Any:
    form = "tanh" if step.operation.approximate else "none"
    return graph.add("Gelu", graph.value(x), approximate=form)


@writes("Silu")
def _silu(graph: Any, step: Step, x: Any) -> Any:
    return graph.add("Mul", graph.value(x), graph.add("Sigmoid", graph.value(x)))


@writes("Elu", "LeakyRelu", "HardSigmoid")
def _with_a_slope(graph: Any, step: Step, x: Any) -> Any:
    operation = step.operation
    alpha = getattr(operation, "alpha", getattr(operation, "negative_slope", 1 / 6))
    return graph.add(step.kind, graph.value(x), alpha=float(alpha))


@writes("Selu")
def _selu(graph: Any, step: Step, x: Any) -> Any:
    return graph.add("Selu", graph.value(x))


@writes("LogSigmoid")
def _log_sigmoid(graph: Any, step: Step, x: Any) -> Any:
    return graph.add("Neg", graph.add("Softplus", graph.add("Neg", graph.value(x))))


@writes("Relu6")
def _relu6(graph: Any, step: Step, x: Any) -> Any:
    return graph.add("Clip", graph.value(x), graph.constant(0.0), graph.constant(6.0))


@writes("Clip")
def _clip(graph: Any, step: Step, x: Any) -> Any:
    dtype = step.outputs.dtype
    limits = (graph.constant(v, dtype) for v in (step.operation.x_min, step.operation.x_max))
    return graph.add("Clip", graph.value(x, dtype), *limits)


@writes("Where")
def _where(graph: Any, step: Step, condition: Any, x: Any, y: Any) -> Any:
    dtype = step.outputs.dtype
    one, other = graph.value(x, dtype), graph.value(y, dtype)
    of_rows = len(step.outputs.shape) > 2 and tuple(getattr(condition, "shape", ()))[-1:] == (1,)
    if of_rows and graph.is_zero(other):
        # This sets padded rows to zero, whose values are finite. A product takes half as long.
        return graph.add("Mul", one, graph.value(condition, dtype))
    return graph.add("Where", graph.value(condition, "bool"), one, other)


@writes("DivideNoNan")
def _divide_no_nan(graph: Any, step: Step, x: Any, y: Any) -> Any:
    x, y = (graph.value(v, step.outputs.dtype) for v in (x, y))
    zero = graph.constant(0.0)
    return graph.add("Where", graph.add("Equal", y, zero), zero, graph.add("Div", x, y))


@writes("OnesLike", "ZerosLike")
def _filled(graph: Any, step: Step, x: Any, *_: Any, **__: Any) -> Any:
    return _fill(graph, graph.add("Shape", graph.value(x)), step, step.kind == "OnesLike")


@writes("ones", "zeros")
def _made(graph: Any, step: Step, sizes: Any) -> Any:
    return _fill(graph, graph.shape(sizes), step, step.kind == "ones")


def _fill(graph: Any, shape: str, step: Step, value: bool) -> Any:
    dtype = keras.backend.standardize_dtype(step.outputs.dtype)
    return graph.add("ConstantOfShape", shape, value=np.array([value], dtype))


@writes("arange")
def _range(graph: Any, step: Step, sizes: Any) -> Any:
    return graph.add("Cast", _numbers(graph, sizes[0]), to=DTYPES[step.outputs.dtype])


def _numbers(graph: Any, count: int) -> str:
    """The integers from 0 to `count - 1`."""
    if not is_dynamic(count):
        return graph.integers(*range(count))  # type: ignore[no-any-return]
    zero, one = (graph.constant(np.int64(number)) for number in (0, 1))
    found: str = graph.add("Range", zero, graph.add("Squeeze", graph.size(count)), one)
    return found


# === Along axes ===


@writes(*_REDUCTIONS, "Any", "All")
def _reduction(graph: Any, step: Step, x: Any) -> Any:
    operation, dtype = step.operation, step.outputs.dtype
    axis = operation.axis
    axes = range(len(x.shape)) if axis is None else axis if not isinstance(axis, int) else [axis]
    kind = _REDUCTIONS.get(step.kind, "Max" if step.kind == "Any" else "Min")
    if step.kind in ("Any", "All"):
        x = graph.add("Cast", graph.value(x, "bool"), to=DTYPES["int32"])
    elif dtype == "bool":
        raise Unsupported(f"the operation {step.kind} on truth values")
    else:
        x = graph.value(x, dtype)
    keep = int(bool(operation.keepdims))
    found = graph.add(f"Reduce{kind}", x, graph.integers(*axes), keepdims=keep)
    return graph.add("Cast", found, to=DTYPES["bool"]) if dtype == "bool" else found


@writes("Argmax")
def _argmax(graph: Any, step: Step, x: Any) -> Any:
    keep = int(bool(step.operation.keepdims))
    found = graph.add("ArgMax", graph.value(x), axis=step.operation.axis, keepdims=keep)
    return graph.add("Cast", found, to=DTYPES[step.outputs.dtype])


@writes("Softmax", "LogSoftmax")
def _softmax(graph: Any, step: Step, x: Any) -> Any:
    return graph.add(step.kind, graph.value(x), axis=step.operation.axis)


@writes("Cumsum")
def _cumsum(graph: Any, step: Step, x: Any) -> Any:
    axis = graph.constant(np.int64(step.operation.axis))
    return graph.add("CumSum", graph.value(x, step.outputs.dtype), axis)


@writes("LayerNorm")
def _layer_norm(graph: Any, step: Step, x: Any, gamma: Any = None, beta: Any = None) -> Any:
    operation, width = step.operation, x.shape[-1]
    axes = operation.axis if isinstance(operation.axis, list | tuple) else [operation.axis]
    if operation.rms_scaling or [a % len(x.shape) for a in axes] != [len(x.shape) - 1]:
        raise Unsupported("this layer normalization")
    scale = graph.value(np.ones(width, "float32") if gamma is None else gamma)
    parts = [scale] if beta is None else [scale, graph.value(beta)]
    options = {"axis": -1, "epsilon": float(operation.epsilon or 1e-3)}
    return graph.add("LayerNormalization", graph.value(x), *parts, **options)


@writes("BatchNorm")
def _batch_norm(
    graph: Any,
    step: Step,
    x: Any,
    mean: Any,
    variance: Any,
    offset: Any = None,
    scale: Any = None,
) -> Any:
    if step.operation.axis % len(x.shape) != len(x.shape) - 1:
        raise Unsupported("this batch normalization")
    spread = graph.add("Add", graph.value(variance), graph.constant(step.operation.epsilon))
    found = graph.add("Sub", graph.value(x), graph.value(mean))
    found = graph.add("Div", found, graph.add("Sqrt", spread))
    found = found if scale is None else graph.add("Mul", found, graph.value(scale))
    return found if offset is None else graph.add("Add", found, graph.value(offset))


@writes("Einsum")
def _einsum(graph: Any, step: Step, *operands: Any) -> Any:
    names = [graph.value(x, step.outputs.dtype) for x in operands]
    return graph.add("Einsum", *names, equation=step.operation.subscripts.replace(" ", ""))


@writes("OneHot")
def _one_hot(graph: Any, step: Step, x: Any) -> Any:
    axis, rank = step.operation.axis, len(x.shape) + 1
    after = range(1, rank - axis % rank)
    classes = _numbers(graph, step.operation.num_classes)
    if after:
        classes = graph.add("Unsqueeze", classes, graph.integers(*after))
    ids = graph.add("Unsqueeze", graph.value(x, "int64"), graph.integers(axis % rank))
    return graph.add("Cast", graph.add("Equal", ids, classes), to=DTYPES[step.outputs.dtype])


@writes("Conv")
def _conv(graph: Any, step: Step, x: Any, kernel: Any) -> Any:
    operation, rank = step.operation, len(x.shape) - 2
    kernel = np.asarray(keras.ops.convert_to_numpy(kernel))  # [size…, in / groups, filters]
    sizes = kernel.shape[:-2]
    strides, dilations = (
        [v] * rank if isinstance(v, int) else list(v)
        for v in (operation.strides, operation.dilation_rate)
    )
    pads = [0] * (2 * rank)
    if operation.padding == "same":
        if max(strides) > 1:
            raise Unsupported("a convolution with strides and padding")
        spread = [d * (size - 1) for d, size in zip(dilations, sizes)]
        pads = [s // 2 for s in spread] + [s - s // 2 for s in spread]
    groups = x.shape[_features(operation, x)] // kernel.shape[-2]
    if rank == groups == 1 and operation.data_format == "channels_last":
        return _windows(graph, x, kernel, pads, strides[0], dilations[0])
    weights = graph.constant(kernel.transpose(rank + 1, rank, *range(rank)))
    options = {"strides": strides, "dilations": dilations, "pads": pads}
    return _channels_first(graph, "Conv", operation, x, weights, group=groups, **options)


def _windows(
    graph: Any, x: Any, kernel: np.ndarray, pads: list[int], stride: int, dilation: int
) -> Any:
    """Write a convolution over words as one matrix product, which is faster.

    The kernel is multiplied with all windows `[B, L, size * in]`. If there are fewer filters than
    inputs, it is multiplied with each word, and the products of the words of a window are added.
    """
    (size, width, filters), name, last = kernel.shape, graph.value(x), (len(kernel) - 1) * dilation
    adds = stride == 1 and filters < width
    if adds:
        name = graph.add("MatMul", name, graph.constant(np.concatenate([*kernel], axis=1)))
    if any(pads):
        pads = [0, pads[0], 0, 0, pads[1], 0]
        name = graph.add("Pad", name, graph.integers(*pads), graph.constant(0.0))
    parts = []
    for k in range(size):
        at = k * dilation
        limits = [[at], [at - last or 2**31], [1], [stride]]  # from, to, axis, step
        if adds:
            for limit, more in zip(limits, (k * filters, (k + 1) * filters, 2, 1)):
                limit.append(more)
        parts.append(graph.add("Slice", name, *(graph.integers(*limit) for limit in limits)))
    if adds:
        return reduce(partial(graph.add, "Add"), parts)
    name = graph.add("Concat", *parts, axis=2)
    return graph.add("MatMul", name, graph.constant(kernel.reshape(-1, filters)))


@writes("MaxPool", "AveragePool")
def _pool(graph: Any, step: Step, x: Any) -> Any:
    operation, rank = step.operation, len(x.shape) - 2
    size, strides = (
        [v] * rank if isinstance(v, int) else list(v)
        for v in (operation.pool_size, operation.strides or operation.pool_size)
    )
    pads = {"auto_pad": "SAME_UPPER" if operation.padding == "same" else "VALID"}
    return _channels_first(
        graph, step.kind, operation, x, kernel_shape=size, strides=strides, **pads
    )


def _features(operation: Any, x: Any) -> int:
    return 1 if operation.data_format == "channels_first" else len(x.shape) - 1


def _channels_first(
    graph: Any, kind: str, operation: Any, x: Any, *weights: str, **options: Any
) -> Any:
    name, rank = graph.value(x), len(x.shape)
    if _features(operation, x) == 1:
        return graph.add(kind, name, *weights, **options)
    name = graph.add("Transpose", name, perm=[0, rank - 1, *range(1, rank - 1)])
    name = graph.add(kind, name, *weights, **options)
    return graph.add("Transpose", name, perm=[0, *range(2, rank), 1])


# === Shapes ===


@writes("ExpandDims")
def _expand_dims(graph: Any, step: Step, x: Any) -> Any:
    axis = step.operation.axis
    axes = [axis] if isinstance(axis, int) else axis
    return graph.add("Unsqueeze", graph.value(x), graph.integers(*axes))


@writes("Squeeze")
def _squeeze(graph: Any, step: Step, x: Any) -> Any:
    axis = step.operation.axis
    if axis is None:
        axis = [i for i, size in enumerate(x.shape) if size == 1]
    return graph.add("Squeeze", graph.value(x), graph.integers(*np.atleast_1d(axis).tolist()))


@writes("Transpose")
def _transpose(graph: Any, step: Step, x: Any) -> Any:
    rank = len(x.shape)
    order = step.operation.axes or range(rank)[::-1]
    return graph.add("Transpose", graph.value(x), perm=[axis % rank for axis in order])


@writes("Swapaxes")
def _swapaxes(graph: Any, step: Step, x: Any) -> Any:
    order = list(range(len(x.shape)))
    one, two = step.operation.axis1, step.operation.axis2
    order[one], order[two] = order[two], order[one]
    return graph.add("Transpose", graph.value(x), perm=order)


@writes("Reshape", "Flatten")
def _reshape(graph: Any, step: Step, x: Any) -> Any:
    """Leave the one dynamic size that cannot be copied to ONNX; sizes are computed only if there are more."""
    sizes = list(step.outputs.shape)
    dynamic = [i for i, size in enumerate(sizes) if is_dynamic(size)]
    copied = [i for i in dynamic if i < len(x.shape) and x.shape[i] == sizes[i]]
    if len(dynamic) - len(copied) > 1:
        shape = graph.shape(sizes)
    else:
        inferred = [i for i in dynamic if i not in copied][:1]
        shape = graph.integers(
            *(-1 if i in inferred else 0 if i in copied else size for i, size in enumerate(sizes))
        )
    return graph.add("Reshape", graph.value(x), shape)


@writes("Concatenate", "Stack")
def _concatenate(graph: Any, step: Step, parts: Any) -> Any:
    axis, dtype = step.operation.axis, step.outputs.dtype
    names = [graph.value(x, dtype) for x in parts]
    if step.kind == "Stack":
        names = [graph.add("Unsqueeze", name, graph.integers(axis)) for name in names]
    if len(names) == 1:
        return names[0]
    split = graph.parts.get(tuple(names))
    return split if split and axis == 0 else graph.add("Concat", *names, axis=axis)


@writes("Split")
def _split(graph: Any, step: Step, x: Any) -> Any:
    axis, sections = step.operation.axis, step.operation.indices_or_sections
    if isinstance(sections, int):
        name = graph.value(x)
        parts = graph.many("Split", [name], sections, axis=axis, num_outputs=sections)
        if axis == 0:
            graph.parts[tuple(parts)] = name
        return parts
    sizes = graph.integers(*(part.shape[axis] for part in step.outputs))
    return graph.many("Split", [graph.value(x), sizes], len(step.outputs), axis=axis)


@writes("Unstack")
def _unstack(graph: Any, step: Step, x: Any) -> Any:
    numbers = [graph.constant(np.int64(i)) for i in range(len(step.outputs))]
    return [graph.add("Gather", graph.value(x), i, axis=step.operation.axis) for i in numbers]


@writes("GetItem")
def _get_item(graph: Any, step: Step, x: Any, key: Any) -> Any:
    name, dtype = graph.value(x), x.dtype
    key = list(key) if isinstance(key, tuple | list) else [key]
    if Ellipsis in [part for part in key if not isinstance(part, keras.KerasTensor)]:
        at = key.index(Ellipsis)
        rest = len(x.shape) - sum(part is not None for part in key) + 1
        key[at : at + 1] = [slice(None)] * rest
    axis, of_x = 0, 0
    flags = dtype == "bool"  # which ONNX does not cut
    cut = any(isinstance(part, slice) and part != slice(None) for part in key)
    if flags and cut:
        name = graph.add("Cast", name, to=DTYPES["int32"])
    for part in key:
        if part is None:
            name, axis = graph.add("Unsqueeze", name, graph.integers(axis)), axis + 1
            continue
        if isinstance(part, slice):
            name = _slice(graph, name, axis, x.shape[of_x], part)
            axis += 1
        elif isinstance(part, int | np.integer):
            name = graph.add("Gather", name, graph.constant(np.int64(part)), axis=axis)
        else:
            raise Unsupported("an index that is a tensor")
        of_x += 1
    return graph.add("Cast", name, to=DTYPES["bool"]) if flags and cut else name


def _slice(graph: Any, name: str, axis: int, size: int, part: slice) -> str:
    start, stop, step = part.indices(size)
    if (start, stop, step) == (0, size, 1):
        return name
    start = start - size if start and part.start is not None and part.start < 0 else start
    if step < 0:
        stop = stop if part.stop is not None else -(2**31)
        start = start if part.start is not None else -1
    elif part.stop is None:
        stop = 2**31
    elif part.stop < 0:
        stop = part.stop
    ends = [graph.size(start), graph.size(stop), graph.integers(axis), graph.integers(step)]
    found: str = graph.add("Slice", name, *ends)
    return found


@writes("Slice")
def _part(graph: Any, step: Step, x: Any, start: Any) -> Any:
    ends = [int(first) + size for first, size in zip(start, step.operation.shape)]
    axes = graph.integers(*range(len(ends)))
    return graph.add("Slice", graph.value(x), graph.integers(*start), graph.shape(ends), axes)


@writes("Take")
def _take(graph: Any, step: Step, x: Any, indices: Any) -> Any:
    name, axis = graph.value(x), step.operation.axis
    if axis is None:
        name, axis = graph.add("Reshape", name, graph.integers(-1)), 0
    whole = getattr(indices, "dtype", "int32") in ("int32", "int64")
    return graph.add("Gather", name, graph.value(indices, None if whole else "int32"), axis=axis)


@writes("TakeAlongAxis")
def _take_along_axis(graph: Any, step: Step, x: Any, indices: Any) -> Any:
    ids = graph.value(indices, "int64")
    return graph.add("GatherElements", graph.value(x), ids, axis=step.operation.axis)


@writes("Pad")
def _pad(graph: Any, step: Step, x: Any, constant_values: Any = None, **_: Any) -> Any:
    if step.operation.mode != "constant":
        raise Unsupported(f"padding of the kind {step.operation.mode}")
    width = step.operation.pad_width
    width = width if len(width) == len(x.shape) else width * len(x.shape)
    pads = graph.integers(*(before for before, _ in width), *(after for _, after in width))
    return graph.add("Pad", graph.value(x), pads, graph.constant(constant_values or 0, x.dtype))


@writes("Tile")
def _tile(graph: Any, step: Step, x: Any) -> Any:
    times = step.operation.repeats
    times = [times] if isinstance(times, int) else list(times)
    times = [1] * (len(x.shape) - len(times)) + times
    return graph.add("Tile", graph.value(x), graph.shape(times))


@writes("Repeat")
def _repeat(graph: Any, step: Step, x: Any) -> Any:
    axis = step.operation.axis % len(x.shape)
    name = graph.add("Unsqueeze", graph.value(x), graph.integers(axis + 1))
    times = [1] * (len(x.shape) + 1)
    times[axis + 1] = step.operation.repeats
    name = graph.add("Tile", name, graph.shape(times))
    return graph.add("Reshape", name, graph.shape(step.outputs.shape))


@writes("BroadcastTo")
def _broadcast_to(graph: Any, step: Step, x: Any) -> Any:
    return graph.add("Expand", graph.value(x), graph.shape(step.outputs.shape))


# === Recurrence ===


@writes("LSTMCell", "GRUCell", "SimpleRNNCell")
def _recurrent_layer(graph: Any, step: Step, x: Any, states: Any) -> Any:
    """Keras's gates are input, forget, candidate, output, or update, reset, candidate."""
    layer, cell = step.operation, step.operation.cell
    if layer.go_backwards:
        raise Unsupported("a recurrence from the end")
    kind, order = {
        "LSTMCell": ("LSTM", (0, 3, 1, 2)),
        "GRUCell": ("GRU", (0, 1, 2)),
        "SimpleRNNCell": ("RNN", (0,)),
    }[step.kind]

    def ordered(weights: Any) -> np.ndarray:
        parts = np.split(np.asarray(keras.ops.convert_to_numpy(weights)), len(order), axis=-1)
        return np.concatenate([parts[gate] for gate in order], axis=-1)

    weights = [ordered(w).T[None] for w in (cell.kernel, cell.recurrent_kernel)]
    bias = np.zeros((2, weights[0].shape[1]), "float32")
    if cell.use_bias:
        bias[:] = ordered(cell.bias) if kind == "GRU" else [ordered(cell.bias), bias[1]]
    rows = graph.add("Transpose", graph.value(x), perm=[1, 0, 2])
    weights = [graph.constant(w) for w in (*weights, bias.reshape(1, -1))]
    options = {"hidden_size": cell.units} | ({"linear_before_reset": 1} if kind == "GRU" else {})
    outputs, last = graph.many(kind, [rows, *weights], 2, **options)
    if not layer.return_sequences:
        return graph.add("Squeeze", last, graph.integers(0))
    outputs = graph.add("Squeeze", outputs, graph.integers(1))
    return graph.add("Transpose", outputs, perm=[1, 0, 2])


@writes("Scan")
def _scan(graph: Any, step: Step, x: Any, states: Any) -> Any:
    layer, body = step.operation, step.body
    assert body is not None
    if layer.go_backwards:
        raise Unsupported("a recurrence from the end")
    first = [graph.value(state, x.dtype) for state in states]
    count = len(first)
    found = graph.many(
        "Scan",
        [*first, graph.value(x)],
        count + 1,
        body=graph.inner(body.steps, body.inputs, body.outputs),
        num_scan_inputs=1,
        scan_input_axes=[1],
        scan_output_axes=[1],
    )
    y = found[count]
    if not layer.return_sequences:
        y = graph.add("Gather", y, graph.constant(np.int64(-1)), axis=1)
    return [y, *found[:count]] if layer.return_state else y
