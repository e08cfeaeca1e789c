"""The ONNX model of a matcher or an ensemble, and its comparison with Keras."""

import logging
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from keras import ops

from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.ensemble import EnsembleMatcher
from keras_sentmatch.inference.examples import Examples
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.inference.onnx import (
    FOLDER,
    NOTE,
    OnnxModel,
    identity,
    is_installed,
    make_key,
    may_use,
    seal,
)
from keras_sentmatch.inference.onnx_graph import write_model
from keras_sentmatch.inference.run_folder import write_json
from keras_sentmatch.inference.unseen_words import row_tables, spare_rows
from keras_sentmatch.safety import replace_file, working_folder

log = logging.getLogger(__name__)
Written = tuple[bytes, dict[str, Any]]


def keep_model_if_possible(matcher: Matcher, folder: Path) -> None:
    """Write the ONNX model of a run at its end, and let it predict if `load` would.

    Without onnxruntime, or if ONNX cannot express the model, Keras predicts.
    """
    if not is_installed("onnxruntime"):
        return
    try:
        model = keep_model(matcher, folder)
    except InputError as error:
        log.info("%s predicts with Keras, because it has no ONNX model: %s", folder, error)
        return
    if may_use(folder, None):
        matcher.use_onnx(model)


def keep_model(matcher: Matcher, folder: Path) -> OnnxModel:
    """Write the ONNX model of a matcher that was just saved in a folder, and compare it with Keras.

    Returns the model.

    Raises:
        InputError: ONNX cannot express the model, or its predictions differ from those of Keras by
            more than 1e-5. The folder then notes this, so that it is not tried again.
    """
    kept = folder / FOLDER
    facts: dict[str, Any] = {}
    error = None
    with working_folder(folder, FOLDER) as temporary:
        new = temporary / "new"
        new.mkdir(parents=True)
        try:
            content, facts = model_of(matcher)
            replace_file(new / "model.onnx", content)
            model = OnnxModel(content, facts, kept / "model.onnx")
            compared(matcher, model)
        except InputError as refused:
            error, facts = refused, {"refused": str(refused)}
            (new / "model.onnx").unlink(missing_ok=True)
        if kept.exists():
            os.replace(kept, temporary / "old")
        os.replace(new, kept)
    facts |= identity(folder)
    make_key()
    write_json(kept / NOTE, {**facts, "seal": seal(facts)})
    if error is not None:
        raise error
    return model


def model_of(matcher: Matcher) -> Written:
    """Return the model of a matcher before its temperature, and the facts that `OnnxModel` needs."""
    content, facts, _ = ensemble_model(EnsembleMatcher([matcher.uncalibrated()]))
    return content, facts


def compared(matcher: Matcher, model: OnnxModel) -> float:
    """Return the largest difference between an ONNX model and Keras on difficult pairs.

    Raises:
        InputError: It is above 1e-5; the message names the pair.
    """
    try:
        examples = Examples.of(EnsembleMatcher([matcher.uncalibrated()]))
        other = matcher.uncalibrated()
        other.use_onnx(model)
        with warnings.catch_warnings():  # the long sentences are truncated
            warnings.simplefilter("ignore")
            scores = other.predict_proba(examples.sentence1, examples.sentence2)
    finally:  # the examples have taken the spare rows of the model
        if matcher.unseen_words:
            matcher.unseen_words.forget()
    answers = other.answers(scores)
    if other.label_names is None:
        return examples.compare({"score": scores})
    return examples.compare({"probabilities": scores, "label": [a["label"] for a in answers]})


def ensemble_model(ensemble: EnsembleMatcher) -> tuple[bytes, dict[str, Any], dict[str, Any]]:
    """Return the model of an ensemble, the facts that `OnnxModel` needs, and inputs and outputs."""
    members: list[Matcher] = ensemble.members
    name = "score" if ensemble.label_names is None else "probabilities"
    with_table = [member for member in members if member.unseen_words]
    spare = min((spare_rows(member.model, member.encoder) for member in with_table), default=0)
    found = [pair for member in with_table for pair in row_tables(member.model)]
    tables = {f"words_{number}": variable for number, (_, variable) in enumerate(found)}
    roles = {f"words_{number}": role for number, (role, _) in enumerate(found)}
    inputs = {key: x for member in members for key, x in member.model.input.items()}

    def scores(arrays: Mapping[str, Any]) -> dict[str, Any]:
        each = [
            _tempered(member, member.model({key: arrays[key] for key in member.model.input}))
            for member in members
        ]
        mean = each[0] if len(each) == 1 else ops.mean(ops.stack(each), axis=0)
        return {name: _tempered(ensemble, mean) if name == "probabilities" else mean[:, 0]}

    try:
        content, outputs = write_model(scores, inputs, [name], tables)
    except Exception as error:  # layers of the user may do anything with symbolic tensors
        raise InputError(
            f"ONNX cannot express this {type(members[0].model).__name__}: "
            f"{str(error).splitlines()[0]:.200}. Export it as a SavedModel."
        ) from error
    signature = {
        "inputs": {key: _described(x.dtype, x.shape) for key, x in inputs.items()},
        "outputs": {name: _described("float32", [None, *outputs[name][1:]])},
    }
    return content, {"tables": roles, "spare_rows": spare}, signature


def _described(dtype: str, shape: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape)}


def _tempered(matcher: Any, outputs: Any) -> Any:
    """Apply the temperature as `keras_sentmatch.metrics.apply_temperature` does."""
    if matcher.label_names is None or matcher.temperature == 1:
        return outputs
    logits = ops.log(ops.maximum(outputs, float(np.finfo("float32").tiny)))
    return ops.softmax(logits / matcher.temperature)
