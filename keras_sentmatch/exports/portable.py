"""A matcher as an ONNX or a LiteRT model, which take ids, with the files that turn text into ids."""

import logging
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.exports.encoder_rules import write_encoder
from keras_sentmatch.exports.saved_model import ServingFunctions, describe_specs, quiet
from keras_sentmatch.inference.ensemble import EnsembleMatcher
from keras_sentmatch.inference.new_words import row_tables, word_tables
from keras_sentmatch.safety import first_line

OPSET = 18
Tables = Mapping[str, tuple[str, Any]]  # what a new word's row holds, and the variable, by name


def write_onnx(ensemble: EnsembleMatcher, folder: Path) -> dict[str, Any]:
    """Writes `model.onnx` and the encoder's files; as `write_saved_model`."""
    return _write(ensemble, folder, partial(_convert_to_onnx, tables={}))


def write_engine(ensemble: EnsembleMatcher, folder: Path) -> dict[str, Any]:
    """As `write_onnx`, for `Matcher.load(run, engine="onnx")`: tables of words can be replaced."""
    member = ensemble.members[0]
    learns = isinstance(member.encoder, PairEncoder) and word_tables(member.model)
    roles = enumerate(row_tables(member.model) if learns else ())
    tables = {f"words_{number}": found for number, found in roles}
    return _write(ensemble, folder, partial(_convert_to_onnx, tables=tables), tables)


def write_litert(ensemble: EnsembleMatcher, folder: Path) -> dict[str, Any]:
    """Writes `model.tflite` and the encoder's files; as `write_saved_model`."""
    return _write(ensemble, folder, _convert_to_litert)


def _write(
    ensemble: EnsembleMatcher,
    folder: Path,
    convert: Callable[[ServingFunctions, Path], Any],
    tables: Tables = {},  # noqa: B006
) -> dict[str, Any]:
    served = ServingFunctions(ensemble)
    if len(served.groups) > 1:
        raise InputError(
            "The members of this ensemble have different encoders, so no ids fit all of them: "
            "export it as a SavedModel, which takes sentences, or its members one by one."
        )
    folder.mkdir()
    inputs, outputs = convert(served, folder)
    shape = next(iter(inputs.values())).shape[:2].as_list()
    roles = {name: role for name, (role, _) in tables.items()}
    reason = write_encoder(ensemble, folder, list(inputs), shape, roles)
    left_out = {"score.py": reason} if reason else {}
    return {"signatures": {"ids": describe_specs(inputs, outputs)}, "left_out": left_out}


def _convert_to_onnx(served: ServingFunctions, folder: Path, tables: Tables) -> tuple[Any, Any]:
    """The specs of inputs and outputs. `tables` become inputs that have a default value."""
    try:
        import onnx
        import onnxruntime  # noqa: F401  (checked before anything is written)
        import tensorflow as tf
        import tf2onnx
    except ImportError as error:
        raise InputError(f'ONNX: {error}; pip install "keras-sentmatch[onnx]".') from error
    specs = served.input_specs
    variables = [variable for _, variable in tables.values()]
    named = list(specs.values()) + [
        tf.TensorSpec(variable.shape, variable.dtype, name)
        for name, variable in zip(tables, variables)
    ]

    def answer(*arrays: Any) -> Any:
        with keras.StatelessScope(list(zip(variables, arrays[len(specs) :]))):
            return served.scores_of_ids(**dict(zip(specs, arrays)))

    function = tf.function(answer, input_signature=named, autograph=False)
    with _tensordot_as_matmul():
        traced = function.get_concrete_function()
    try:
        with quiet("tf2onnx", logging.CRITICAL), quiet("tensorflow"):
            model, _ = tf2onnx.convert.from_function(
                function, named, opset=OPSET, custom_op_handlers={"Erfc": (_erfc, [])}
            )
        constants = {inner.name: outer for outer, inner in traced.graph.captures}
        for value in list(model.graph.input):
            if value.name in specs:
                batch, length, *_ = value.type.tensor_type.shape.dim
                batch.dim_param, length.dim_param = "batch", "length"
            elif value.name in tables:
                number = keras.ops.convert_to_numpy(tables[value.name][1])
                model.graph.initializer.append(onnx.numpy_helper.from_array(number, value.name))
                value.type.tensor_type.shape.dim[0].dim_param = "words"
            else:  # a constant that was computed while the model was built
                number = constants[value.name].numpy()
                model.graph.initializer.append(onnx.numpy_helper.from_array(number, value.name))
                model.graph.input.remove(value)
        path = str(folder / "model.onnx")
        onnx.save(model, path)
        onnx.checker.check_model(path)  # the converter leaves in what it cannot convert
    except Exception as error:  # the converter raises anything
        raise _refused("ONNX", served, [_reason(error)]) from error
    return specs, traced.structured_outputs


@contextmanager
def _tensordot_as_matmul() -> Iterator[None]:
    """Within it a product of `[B, L, D]` and `[D, K]` is traced as one `tf.matmul`.

    Keras calls `tf.tensordot`, which becomes seven nodes of ONNX.
    """
    import tensorflow

    tf: Any = tensorflow
    tensordot = tf.tensordot

    def product(a: Any, b: Any, axes: Any, name: str | None = None) -> Any:
        is_matmul = axes == [[-1], [0]] and b.shape.rank == 2
        return tf.matmul(a, b, name=name) if is_matmul else tensordot(a, b, axes, name=name)

    tf.tensordot = product
    try:
        yield
    finally:
        tf.tensordot = tensordot


def _erfc(graph: Any, node: Any, name: str, arguments: Any) -> None:
    """The GELU of RoBERTa and others has this function, which ONNX lacks: it is 1 - erf."""
    x, output = node.input[0], node.output[0]
    shapes, dtypes = node.output_shapes, node.output_dtypes
    graph.remove_node(node.name)
    one = graph.make_const(f"{name}_one", np.ones((), "float32")).output[0]
    erf = graph.make_node("Erf", [x], shapes=shapes, dtypes=dtypes).output[0]
    graph.make_node("Sub", [one, erf], outputs=[output], shapes=shapes, dtypes=dtypes)


def _convert_to_litert(served: ServingFunctions, folder: Path) -> tuple[Any, Any]:
    """Tries any shape, then one pair of any length, then one pair of the full length."""
    reasons = []
    for shape in ((None, None), (1, None), (1, served.first.encoder.max_length)):
        try:
            return _litert(served, folder / "model.tflite", shape)
        except Exception as error:  # the converter raises anything
            reasons.append(_reason(error))
    raise _refused("LiteRT", served, reasons)


def _litert(
    served: ServingFunctions, path: Path, shape: tuple[int | None, int | None]
) -> tuple[Any, Any]:
    import tensorflow as tf

    specs = {
        name: tf.TensorSpec([*shape, *spec.shape[2:]], spec.dtype, name)
        for name, spec in served.input_specs.items()
    }
    function = tf.function(served.scores_of_ids, autograph=False).get_concrete_function(**specs)
    module = tf.Module()
    module.weights = served.variables()
    with tempfile.TemporaryDirectory() as saved, quiet("tensorflow"):
        tf.saved_model.save(module, saved, signatures={"serving_default": function})
        converter = tf.lite.TFLiteConverter.from_saved_model(
            saved, signature_keys=["serving_default"]
        )
        path.write_bytes(converter.convert())
    return specs, function.structured_outputs


def _refused(format: str, served: ServingFunctions, reasons: list[str]) -> InputError:
    return InputError(
        f"{format} cannot express this {type(served.first.model).__name__}: "
        f"{'; '.join(dict.fromkeys(reasons))}. Export it as a SavedModel."
    )


def _reason(error: Exception) -> str:
    """The operation that an error of the converter names, or its first line."""
    found = re.search(r"'tf\.\w+' op [^\n]*", str(error))
    return found[0] if found else first_line(error)
