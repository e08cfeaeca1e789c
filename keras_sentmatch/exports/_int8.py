"""An ONNX model with weights of 8 bits, compared with float32 on labeled pairs."""

import contextlib
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError, argument, wording
from keras_sentmatch.exports._saved_model import quiet
from keras_sentmatch.inference.ensemble import EnsembleMatcher
from keras_sentmatch.inference.score import load_model
from keras_sentmatch.metrics import evaluate_predictions
from keras_sentmatch.safety import first_line

BLOCK = 64
RANGES = 128  # pairs from which the ranges of activations are measured


def quantize(
    folder: Path, ensemble: EnsembleMatcher, dataset: PairDataset, max_drop: float
) -> dict[str, Any]:
    """Put int8 weights into an artifact; return the metrics of both forms on labeled pairs."""
    if not len(dataset):
        raise InputError(
            "int8 needs labeled pairs for the comparison with float32, but the data is empty. Pass labeled pairs."
        )
    pairs = ensemble.relabel(dataset)
    before = ensemble.evaluate(pairs, batch_size=BLOCK)
    facts = json.loads((folder / "facts.json").read_text("utf-8"))
    blocks = list(_blocks(ensemble, pairs, facts["inputs"]))
    few = ensemble.relabel(dataset.limit(RANGES))
    method = _write(folder, [arrays for _, arrays in _blocks(ensemble, few, facts["inputs"])])
    run = load_model(folder, facts["shape"])
    scores = np.concatenate([run(arrays) for _, arrays in blocks])
    order = np.concatenate([rows for rows, _ in blocks])
    after = evaluate_predictions(pairs, scores[np.argsort(order)], threshold=ensemble.threshold)
    name = before["primary"]
    drop = 100 * (before[name] - after[name])
    if not drop <= max_drop:
        raise InputError(
            f"Nothing was exported. With int8 weights {name} on {len(pairs):,} pairs falls from "
            f"{before[name]:.4f} to {after[name]:.4f}, by {drop:.2f} points; expected at most "
            f"{max_drop:g}. Export without {wording('int8', '--int8')}, or with a larger "
            f"{argument('max_drop')}."
        )
    note = {"method": method, "figure": name, "pairs": len(pairs)}
    note |= {"float32": float(before[name]), "int8": float(after[name])}
    (folder / "facts.json").write_text(json.dumps({**facts, "int8": note}) + "\n", "utf-8")
    return note


def _blocks(
    ensemble: EnsembleMatcher, pairs: PairDataset, inputs: list[str]
) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
    """Yield row numbers and arrays of pairs of similar length."""
    lengths = [max(len(a), len(b)) for a, b in zip(pairs.sentence1, pairs.sentence2)]
    order = np.argsort(lengths, kind="stable")
    encoder: Any = ensemble.members[0].encoder
    for start in range(0, len(order), BLOCK):
        rows = order[start : start + BLOCK]
        part = pairs.select(rows)
        arrays = encoder.encode(part.sentence1, part.sentence2, tags=part.tags)
        yield rows, {name: arrays[name] for name in inputs}


def _write(folder: Path, examples: list[dict[str, np.ndarray]]) -> str:
    """Quantize model.onnx by the method that is faster for its operations."""
    import onnx
    from onnxruntime import quantization as q

    path, full = folder / "model.onnx", folder / "float32.onnx"
    path.rename(full)
    kinds = {node.op_type for node in onnx.load(full).graph.node}
    method = "static" if "Conv" in kinds and "LSTM" not in kinds else "dynamic"

    class Reader(q.CalibrationDataReader):
        def __init__(self) -> None:
            self.rest = iter(examples)

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self.rest, None)

    try:
        with _unheard():
            if method == "static":  # convolutions quantized dynamically are slower than in float32
                q.quantize_static(
                    full,
                    path,
                    Reader(),
                    op_types_to_quantize=["Conv", "MatMul", "Gemm"],
                    weight_type=q.QuantType.QInt8,
                    activation_type=q.QuantType.QUInt8,
                    per_channel=True,
                )
            else:
                kinds = {"MatMul", "Gemm", "LSTM", "Gather"}
                q.quantize_dynamic(full, path, op_types_to_quantize=sorted(kinds))
    except Exception as error:  # onnxruntime raises anything
        raise InputError(
            f"Nothing was exported. onnxruntime cannot quantize this model ({first_line(error)}). "
            f"Export without {wording('int8', '--int8')}."
        ) from error
    full.unlink()
    return method


@contextlib.contextmanager
def _unheard() -> Iterator[None]:
    """Hide advice from the root logger without giving it a handler for good."""
    root, none = logging.getLogger(), logging.NullHandler()
    root.addHandler(none)
    try:
        with quiet("root"):
            yield
    finally:
        root.removeHandler(none)
