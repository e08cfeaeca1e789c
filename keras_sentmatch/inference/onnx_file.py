"""Bytes of ONNX models: what is needed to write one, and to look at one that may come from anybody.

The format is that of protocol buffers. A message is a row of fields: a key (number and kind), then an
integer, four bytes, or a length with that number of bytes.
"""

import struct
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

# Numbers of the fields that are used here, in onnx.proto
MODEL = {"ir_version": 1, "producer_name": 2, "graph": 7, "opset_import": 8, "functions": 25}
OPSET = {"domain": 1, "version": 2}
GRAPH = {
    "node": 1,
    "name": 2,
    "initializer": 5,
    "input": 11,
    "output": 12,
    "sparse_initializer": 15,
}
NODE = {"input": 1, "output": 2, "name": 3, "op_type": 4, "attribute": 5, "domain": 7}
ATTRIBUTE = {"name": 1, "f": 2, "i": 3, "s": 4, "t": 5, "g": 6, "ints": 8, "graphs": 11, "type": 20}
KINDS = {"f": 1, "i": 2, "s": 3, "t": 4, "g": 5, "ints": 7}  # values of an attribute's type
TENSOR = {"dims": 1, "data_type": 2, "name": 8, "raw_data": 9, "external_data": 13}
MADE = frozenset(  # operations of the models that are written here, none of which reads a file
    """Abs Add And ArgMax Atan AveragePool Cast Ceil Clip Concat ConstantOfShape Conv Cos CumSum
    Div Einsum Elu Equal Erf Exp Expand Floor GRU Gather GatherElements Gelu Greater
    GreaterOrEqual HardSigmoid HardSwish Identity LSTM LayerNormalization LeakyRelu Less
    LessOrEqual Log LogSoftmax MatMul Max MaxPool Min Mul Neg Not Or Pad Pow RNN Range
    Reciprocal ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Relu Reshape
    Scan Selu Shape Sigmoid Sign Sin Slice Softmax Softplus Softsign Split Sqrt Squeeze Sub Tan
    Tanh Tile Transpose Unsqueeze Where Xor""".split()
)
DTYPES = {"float32": 1, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11}


def message(fields: dict[str, int], **values: Any) -> bytes:
    """Encode a message; a list is one field per element."""
    parts = []
    for name, value in values.items():
        for one in value if isinstance(value, list) else [value]:
            number = fields[name]
            if isinstance(one, float):
                parts.append(_varint(number << 3 | 5) + struct.pack("<f", one))
            elif isinstance(one, int | np.integer):
                parts.append(_varint(number << 3) + _varint(int(one) % (1 << 64)))
            else:
                content = one.encode() if isinstance(one, str) else one
                parts.append(_varint(number << 3 | 2) + _varint(len(content)) + content)
    return b"".join(parts)


def tensor(name: str, values: np.ndarray) -> bytes:
    """Encode an array."""
    raw = np.ascontiguousarray(values).tobytes()
    kind = DTYPES[values.dtype.name]
    return message(TENSOR, dims=list(values.shape), data_type=kind, name=name, raw_data=raw)


def attribute(name: str, value: Any) -> bytes:
    """Encode an attribute of a node: a number, a text, a list of integers, a tensor or a graph."""
    if isinstance(value, bytes):
        kind = "g"
    elif isinstance(value, np.ndarray):
        kind, value = "t", tensor("", value)
    else:
        kind = {int: "i", float: "f", str: "s", list: "ints"}[type(value)]
    return message(ATTRIBUTE, name=name, type=KINDS[kind], **{kind: value})


def signature(name: str, dtype: str, shape: Sequence[int | str]) -> bytes:
    """Encode the name, dtype and shape of an input or output; a text names a dynamic size."""
    sizes = [message({"size": 1 + isinstance(size, str)}, size=size) for size in shape]
    of_shape = message({"dim": 1}, dim=sizes)
    kind = message({"dtype": 1, "shape": 2}, dtype=DTYPES[dtype], shape=of_shape)
    return message({"name": 1, "type": 2}, name=name, type=message({"tensor": 1}, tensor=kind))


def model(graph: bytes, opset: int) -> bytes:
    """Encode a model."""
    used = message(OPSET, domain="", version=opset)
    return message(
        MODEL, ir_version=9, producer_name="keras_sentmatch", graph=graph, opset_import=used
    )


def fields(content: memoryview) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each field of a message."""
    at, end = 0, len(content)
    while at < end:
        key, at = _read_varint(content, at)
        kind = key & 7
        value: Any = None
        if kind == 0:
            value, at = _read_varint(content, at)
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        elif kind == 2:
            size, at = _read_varint(content, at)
            value, at = content[at : at + size], at + size
        else:
            raise ValueError("it is not an ONNX model")
        if at > end:
            raise ValueError("it is cut off")
        yield key >> 3, value


def check_model(content: bytes, operations: Collection[str]) -> Any:
    """Return the graph of a model; refuse one that does anything but these operations.

    So it reads no other files, runs no foreign code, and ends.
    """
    graph: Any = None
    for number, value in fields(memoryview(content)):
        if number == MODEL["functions"]:
            raise ValueError("it defines functions of its own")
        if number == MODEL["graph"]:
            if graph is not None:
                raise ValueError("it has two graphs")
            graph = value
    if graph is None:
        raise ValueError("it has no graph")
    _check_graph(graph, operations)
    return graph


def tables(graph: Any, names: Collection[str]) -> dict[str, np.ndarray]:
    """Return copies of the float32 matrices with these names in a graph."""
    found = {}
    for number, value in fields(graph):
        if number == GRAPH["initializer"]:
            parts = {number: part for number, part in fields(value)}  # the last size: columns
            name = bytes(parts.get(TENSOR["name"], b"")).decode()
            if name in names:
                if parts.get(TENSOR["data_type"]) != DTYPES["float32"]:
                    raise ValueError(f"{name} is not of float32")
                flat = np.frombuffer(parts[TENSOR["raw_data"]], "<f4")
                found[name] = flat.reshape(-1, parts[TENSOR["dims"]]).copy()
    return found


def _check_graph(graph: Any, operations: Collection[str], depth: int = 0) -> None:
    for number, node in fields(graph):
        if number != GRAPH["node"]:
            continue
        kind = domain = ""
        bodies = []
        for number, value in fields(node):
            if number == NODE["op_type"]:
                kind = bytes(value).decode()
            elif number == NODE["domain"]:
                domain = bytes(value).decode()
            elif number == NODE["attribute"]:
                numbers = (ATTRIBUTE["g"], ATTRIBUTE["graphs"])
                bodies += [part for number, part in fields(value) if number in numbers]
            if kind not in operations and kind or domain not in ("", "ai.onnx"):
                raise ValueError(f"it has the foreign operation {domain or 'ai.onnx'}.{kind}")
        if bodies and (kind != "Scan" or depth):
            raise ValueError(f"it has the loop or branch {kind}")
        for body in bodies:
            _check_graph(body, operations, depth + 1)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def _read_varint(content: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        if at >= len(content):
            raise ValueError("it is cut off")
        byte = content[at]
        value, at, shift = value | (byte & 127) << shift, at + 1, shift + 7
        if byte < 128:
            return value, at
    raise ValueError("it is not an ONNX model")
