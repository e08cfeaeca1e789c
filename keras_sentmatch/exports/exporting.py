"""Writing an artifact, which is verified before it appears."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_sentmatch.display.rendering import render
from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.errors import InputError, argument
from keras_sentmatch.exports._portable import write_litert, write_onnx, write_saved_model_of_ids
from keras_sentmatch.exports._saved_model import write_saved_model
from keras_sentmatch.inference.ensemble import EnsembleMatcher, load_run
from keras_sentmatch.inference.examples import TOLERANCE, Examples
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.inference.run_folder import calibration_of
from keras_sentmatch.safety import working_folder
from keras_sentmatch.version import __version__


def _write_saved_model(ensemble: EnsembleMatcher, folder: Path) -> dict[str, Any]:
    words = isinstance(ensemble.members[0].encoder, PairEncoder)
    return (write_saved_model if words else write_saved_model_of_ids)(ensemble, folder)


WRITERS: dict[str, Callable[[EnsembleMatcher, Path], dict[str, Any]]] = {
    "saved_model": _write_saved_model,
    "onnx": write_onnx,
    "litert": write_litert,
}
NOTE = (
    "Words outside the vocabulary have no vectors in this format, although the run makes them of their "
    "spelling. Export as saved_model or onnx to keep them."
)
FRESH_PROCESS = Path(__file__).with_name("_fresh_process.py")


def export(
    matcher: Matcher | EnsembleMatcher,
    folder: str | os.PathLike[str],
    format: str = "saved_model",
    *,
    pairs: Any = None,
    tolerance: float = TOLERANCE,
) -> dict[str, Any]:
    """Write a matcher, or an ensemble, as an artifact that does not need this library.

    A fresh process loads the artifact and compares its predictions with those of the matcher, on
    difficult pairs (empty, 10,000 words, emoji, control characters, words of the vocabulary, …) and
    on `pairs`, one by one and in batches. Only then does `folder` appear; a failed export leaves
    nothing behind. Any backend can export. ONNX needs no TensorFlow; for the other formats, a process
    with TensorFlow on the CPU builds the model if needed.

    Args:
        matcher: A `Matcher`, or an ensemble from `load` whose members have equal encoders.
        folder: The folder to make. It must be empty or missing.
        format: `"saved_model"` for a TensorFlow SavedModel that takes sentences; `"onnx"` or
            `"litert"` for a model that takes ids, with a `score.py` that turns sentences into ids.
            A SavedModel on a pretrained backbone also takes ids. Defaults to `"saved_model"`.
        pairs: Additional pairs to compare, in any form that `Matcher.predict` accepts.
        tolerance: Largest difference of a probability, or of a score (relative above 1). Defaults
            to `1e-5`.

    Returns:
        `format`, `folder`, `inputs` and `outputs` (dtypes and shapes by name), `pairs` (number of
        compared pairs), `largest_difference` and perhaps a `note` on what the format lacks.

    Raises:
        InputError: The matcher cannot be exported in this format, or the artifact predicts otherwise.

    Example:

    ```python
    from keras_sentmatch import Matcher, export

    export(Matcher.load("runs/mine"), "exported/mine")["largest_difference"]  # 1.2e-07
    ```
    """
    if format not in WRITERS:
        raise InputError(
            f"{argument('format', format)} is not a format. Expected one of "
            f"{', '.join(map(repr, WRITERS))}."
        )
    if not 0 < tolerance <= 0.1:
        raise InputError(
            f"{argument('tolerance', tolerance)} is out of range. Expected a number above 0, at most "
            "0.1."
        )
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists already. Give the name of a new folder.")
    needed = {"onnx": "onnxruntime"}.get(format, "tensorflow")
    if find_spec(needed) is None:
        package = needed if format == "onnx" else '"keras-sentmatch[tensorflow]"'
        raise InputError(
            f"Exporting to {format} needs {needed} with every backend. Run pip install {package}."
        )
    ensemble = _as_ensemble(matcher, unseen_words=format != "litert")
    try:
        examples = Examples.of(ensemble, pairs)
    finally:  # the examples have taken the spare rows of the models
        for member in getattr(matcher, "members", [matcher]):
            if member.unseen_words:
                member.unseen_words.forget()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with working_folder(folder.parent, folder.name) as temporary:
        made, work = temporary / "made", temporary / "work"
        work.mkdir()
        if format == "onnx" or _tensorflow_on_cpu():
            signature = WRITERS[format](ensemble, made)
        else:
            signature = _write_elsewhere(format, ensemble, made, work)
        try:
            largest = [examples.compare(found, tolerance) for found in ask(made, examples, work)]
        except InputError as error:
            raise InputError(f"Nothing was exported. {error}") from error
        report = {"format": format, "folder": str(folder), **signature}
        report |= {"pairs": len(examples.sentence1), "largest_difference": max(largest)}
        if format == "litert" and any(
            m.unseen_words for m in getattr(matcher, "members", [matcher])
        ):
            report["note"] = NOTE
        write_card(made, report, ensemble)
        if folder.exists():
            folder.rmdir()
        os.replace(made, folder)
    return report


def _as_ensemble(matcher: Matcher | EnsembleMatcher, unseen_words: bool) -> EnsembleMatcher:
    """Return a copy with encoders of its own; `unseen_words` keeps the table for unseen words."""
    members = getattr(matcher, "members", [matcher])
    for member in members:
        if "pos" in member.encoder.features:
            raise InputError(
                "This matcher reads part-of-speech tags, which no artifact can make. Predict with "
                "this library, or train without the feature 'pos'."
            )
        if _facts(member.encoder) != _facts(members[0].encoder):
            raise InputError(
                "The members of this ensemble have different encoders, so they cannot share the "
                "inputs of one model. Export them one by one."
            )
    copies = [
        Matcher(
            member.model,
            type(member.encoder)(**member.encoder.get_config()),
            member.label_names,
            task=member.task,
            temperature=member.temperature,
            info=member.info,
            word_table=member.word_table if unseen_words else None,
        )
        for member in members
    ]
    limits = calibration_of(vars(matcher))
    if isinstance(matcher, Matcher):
        limits["temperature"] = 1.0  # the member has it
    return EnsembleMatcher(copies, **limits)


def _facts(encoder: Any) -> tuple[Any, ...]:
    """Return the facts that equal encoders share."""
    if isinstance(encoder, PairEncoder):
        return type(encoder), encoder.get_config()
    tokenizer = encoder.tokenizer
    config = {**tokenizer.get_config(), "name": ""}  # Keras numbers the layers of a process
    return type(encoder), encoder.max_length, config, tokenizer.get_vocabulary()


def _tensorflow_on_cpu() -> bool:
    """Whether this process can export. With a GPU, graphs would contain operations of cuDNN."""
    if keras.config.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return not tf.config.list_physical_devices("GPU")


def _write_elsewhere(
    format: str, ensemble: EnsembleMatcher, folder: Path, work: Path
) -> dict[str, Any]:
    """Save the ensemble, and let a TensorFlow process export it."""
    job, report = work / "job.json", work / "report.json"
    ensemble.save(work / "runs")
    job.write_text(json.dumps({"format": format, "folder": str(folder)}), encoding="utf-8")
    done = run_python(
        "-m", "keras_sentmatch.exports.exporting", str(work), KERAS_BACKEND="tensorflow"
    )
    if not report.is_file():
        raise InputError(f"The TensorFlow process that exports failed ({last_lines(done)}).")
    found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    if "error" in found:
        raise InputError(found["error"])
    return found


def main(work: Path) -> None:
    """Load the ensemble of a job, write the artifact, and then a report; in a TensorFlow process."""
    job = json.loads((work / "job.json").read_text(encoding="utf-8"))
    try:
        ensemble: Any = load_run(work / "runs", "keras")
        report = WRITERS[job["format"]](ensemble, Path(job["folder"]))
    except InputError as error:
        report = {"error": str(error)}
    (work / "report.json").write_text(json.dumps(report), encoding="utf-8")


def run_python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `python ARGUMENTS…` on the CPU with these environment variables; capture its output."""
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"} | environment,
        capture_output=True,
        text=True,
        errors="replace",
    )


def last_lines(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last lines that a failed process printed."""
    lines = (done.stderr or done.stdout).strip().splitlines()[-2:]
    return " / ".join(lines) or f"it ended with status {done.returncode} and no message"


def ask(folder: Path, examples: Examples, work: Path) -> list[dict[str, np.ndarray]]:
    """Return the outputs of an artifact by name, for pairs one by one and for pairs in batches.

    A process with only the runtime and NumPy computes them; `work` is a folder for its files.
    """
    sentences = {"sentence1": examples.sentence1, "sentence2": examples.sentence2}
    (work / "sentences.json").write_text(json.dumps(sentences), encoding="utf-8")
    done = run_python("-P", str(FRESH_PROCESS), str(folder), str(work))
    if done.returncode:
        raise InputError(f"The artifact does not run ({last_lines(done)}).")
    return [dict(np.load(work / f"{name}.npz")) for name in ("alone", "together")]


def write_card(folder: Path, report: dict[str, Any], ensemble: EnsembleMatcher) -> None:
    """Write README.md: inputs and outputs of the artifact, how to load it, what was verified."""
    versions = [f"keras-sentmatch {__version__}", f"keras {keras.__version__}"]
    for name in ("tensorflow", "numpy", "onnxruntime"):
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    text = render(
        "export_card.md",
        **report,
        name=Path(report["folder"]).name,
        first=ensemble.members[0],
        members=len(ensemble.members),
        label_names=ensemble.label_names,
        threshold=ensemble.threshold,
        abstain_below=ensemble.abstain_below,
        backend=keras.config.backend(),
        versions=versions,
    )
    (folder / "README.md").write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
