"""Writing an artifact, which is verified before it appears."""

import glob
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.display.rendering import render
from keras_sentmatch.errors import InputError, argument
from keras_sentmatch.exports._examples import TOLERANCE, Examples, as_ensemble
from keras_sentmatch.exports._int8 import quantize
from keras_sentmatch.exports._portable import write_engine, write_litert, write_onnx
from keras_sentmatch.exports._saved_model import write_saved_model
from keras_sentmatch.inference.ensemble import EnsembleMatcher
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.inference.run_folder import calibration_of
from keras_sentmatch.training.lock import is_alive
from keras_sentmatch.version import __version__

WRITERS: dict[str, Callable[[EnsembleMatcher, Path], dict[str, Any]]] = {
    "saved_model": write_saved_model,
    "onnx": write_onnx,
    "litert": write_litert,
    "engine": write_engine,  # for `load(run, engine="onnx")`
}
FORMATS = ("saved_model", "onnx", "litert")
FRESH_PROCESS = Path(__file__).with_name("_fresh_process.py")


def export(
    matcher: Matcher | EnsembleMatcher,
    folder: str | os.PathLike[str],
    format: str = "saved_model",
    *,
    pairs: Any = None,
    tolerance: float = TOLERANCE,
    int8: PairDataset | None = None,
    max_drop: float = 0.5,
) -> dict[str, Any]:
    """Write a matcher, or an ensemble, as an artifact that does not need this library.

    A fresh process loads the artifact and compares its predictions with those of the matcher, on
    difficult pairs (empty, 10,000 words, emoji, control characters, words of the vocabulary, …) and
    on `pairs`. Only then does `folder` appear; a failed export leaves nothing behind. Any backend
    can export; a process with TensorFlow on the CPU builds the model if needed.

    Args:
        matcher: A `Matcher` or an `inference.EnsembleMatcher`.
        folder: The folder to make. It must be empty or missing.
        format: `"saved_model"` for a TensorFlow SavedModel that takes sentences; `"onnx"` or
            `"litert"` for a model that takes ids, with a `score.py` that turns sentences into ids.
            Defaults to `"saved_model"`.
        pairs: Additional pairs to compare, in any form that `Matcher.predict` accepts.
        tolerance: Largest difference of a probability, or of a score (relative above 1). Defaults
            to `1e-5`.
        int8: Labeled pairs, best validation pairs. After the verification, the ONNX model gets
            weights of 8 bits, and both forms are compared on these pairs.
        max_drop: Largest drop of the primary metric on them, in points. Defaults to `0.5`.

    Returns:
        `format`, `folder`, `signatures` (inputs and outputs by name), `left_out` (the reason for
        each missing signature), `pairs` (number of compared pairs) and `largest_difference`. With
        `int8` also the `method`, the `figure`, the number of `pairs`, and the metrics of `float32`
        and `int8`.

    Example:

    ```python
    from keras_sentmatch import Matcher, export

    export(Matcher.load("runs/mine"), "exported/mine")["largest_difference"]  # 1.2e-07
    ```
    """
    if format not in FORMATS:
        raise InputError(
            f"{argument('format', format)} is not a format. Expected one of "
            f"{', '.join(map(repr, FORMATS))}."
        )
    if not 0 < tolerance <= 0.1:
        raise InputError(
            f"{argument('tolerance', tolerance)} is out of range. Expected a number above 0, at most "
            "0.1."
        )
    if int8 is not None and format != "onnx":
        raise InputError(
            f"{argument('int8')} needs {argument('format', 'onnx')}, but the format is {format!r}. "
            "Change one of them."
        )
    if not 0 <= max_drop <= 100:
        raise InputError(
            f"{argument('max_drop', max_drop)} is out of range. Expected points from 0 to 100."
        )
    return write_artifact(matcher, Path(folder), format, pairs, tolerance, int8, max_drop)


def write_artifact(
    matcher: Matcher | EnsembleMatcher,
    folder: Path,
    format: str,
    pairs: Any = None,
    tolerance: float = TOLERANCE,
    int8: PairDataset | None = None,
    max_drop: float = 0.5,
) -> dict[str, Any]:
    """Write as `export` does; `"engine"` is a format too."""
    for member in getattr(matcher, "members", [matcher]):
        if not isinstance(member, Matcher):
            raise InputError(
                f"{member!r} cannot be exported, because it has no Keras model. Load the run as a "
                "Matcher."
            )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists already. Give the name of a new folder.")
    if find_spec("tensorflow") is None:
        raise InputError(
            "Exporting needs TensorFlow with every backend. Run pip install "
            '"keras-sentmatch[tensorflow]".'
        )
    ensemble = as_ensemble(matcher)
    examples = Examples.of(ensemble, pairs)
    folder.parent.mkdir(parents=True, exist_ok=True)
    mine = f".{folder.name}-{platform.node()}-"
    for path in folder.parent.glob(f"{glob.escape(mine)}*"):  # of exports that were killed
        number = path.name.removeprefix(mine).partition("-")[0]
        if number.isdecimal() and not is_alive(int(number)):
            shutil.rmtree(path, ignore_errors=True)
    prefix = f"{mine}{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=folder.parent) as temporary:
        made, work = Path(temporary, "made"), Path(temporary, "work")
        work.mkdir()
        if _tensorflow_on_cpu():
            written = WRITERS[format](ensemble, made)
        else:
            written = _write_elsewhere(format, ensemble, made, work)
        report = {"format": format, "folder": str(folder), **written}
        report["pairs"] = len(examples.sentence1)
        found = ask_artifact(made, examples, work)
        report["largest_difference"] = examples.compare(found, tolerance)
        if int8 is not None:
            report["int8"] = quantize(made, ensemble, int8, max_drop)
            ask_artifact(made, examples, work)  # it answers all of them
        write_card(made, report, ensemble)
        if folder.exists():
            folder.rmdir()
        os.replace(made, folder)
    return report


def _tensorflow_on_cpu() -> bool:
    """Whether this process can export. With a GPU, graphs would contain operations of cuDNN."""
    if keras.config.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return not tf.config.list_physical_devices("GPU")


def _write_elsewhere(
    format: str, ensemble: EnsembleMatcher, folder: Path, work: Path
) -> dict[str, Any]:
    """Save the members, and let a TensorFlow process export them."""
    runs = [str(work / f"run-{number}") for number in range(len(ensemble.members))]
    for member, run in zip(ensemble.members, runs):
        member.save(run)
    job, report = work / "job.json", work / "report.json"
    calibration = calibration_of(vars(ensemble))
    facts = {"format": format, "runs": runs, "folder": str(folder), "report": str(report)}
    job.write_text(json.dumps({**facts, "calibration": calibration}), encoding="utf-8")
    done = run_python(
        "-m", "keras_sentmatch.exports.exporting", str(job), KERAS_BACKEND="tensorflow"
    )
    if not report.is_file():
        raise InputError(f"The TensorFlow process that exports failed ({last_lines(done)}).")
    found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    if "error" in found:
        raise InputError(found["error"])
    return found


def run_python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `python ARGUMENTS…` on the CPU with these environment variables; capture its output."""
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"} | environment,
        capture_output=True,
        text=True,
        errors="replace",
    )


def last_lines(done: subprocess.CompletedProcess[str], count: int = 2) -> str:
    """Return the last lines that a failed process printed."""
    lines = (done.stderr or done.stdout).strip().splitlines()[-count:]
    return " / ".join(lines) or f"it ended with status {done.returncode} and no message"


def ask_artifact(folder: Path, examples: Examples, work: Path) -> dict[str, dict[str, np.ndarray]]:
    """Return the outputs of an artifact by signature and name.

    A process with only the runtime and NumPy computes them; `work` is a folder for its files.
    """
    sentences = {"sentence1": examples.sentence1, "sentence2": examples.sentence2}
    (work / "sentences.json").write_text(json.dumps(sentences), encoding="utf-8")
    np.savez(work / "arrays.npz", **examples.arrays)  # type: ignore[arg-type] # its allow_pickle
    done = run_python("-P", str(FRESH_PROCESS), str(folder), str(work))
    if done.returncode:
        raise InputError(
            f"Nothing was exported, because the artifact does not run ({last_lines(done)})."
        )
    found: dict[str, dict[str, np.ndarray]] = {}
    with np.load(work / "answers.npz") as answers:
        for name, array in answers.items():
            signature, output = name.rsplit("/", 1)
            found.setdefault(signature, {})[output] = array
    return found


def write_card(folder: Path, report: dict[str, Any], ensemble: EnsembleMatcher) -> None:
    """Write README.md: inputs and outputs of the artifact, how to load it, what was verified."""
    versions = [f"keras-sentmatch {__version__}", f"keras {keras.__version__}"]
    for name in ("tensorflow", "numpy", "onnx", "tf2onnx", "onnxruntime"):
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    text = render(
        "export_card.md",
        **report,
        first=ensemble.members[0],
        members=len(ensemble.members),
        label_names=ensemble.label_names,
        threshold=ensemble.threshold,
        abstain_below=ensemble.abstain_below,
        backend=keras.config.backend(),
        versions=versions,
    )
    (folder / "README.md").write_text(text, encoding="utf-8", newline="\n")


def main(path: str) -> None:
    """Load the runs of a job, write the artifact, and then a report; in a TensorFlow process."""
    job = json.loads(Path(path).read_text(encoding="utf-8"))
    try:
        members = [Matcher.load(run) for run in job["runs"]]
        ensemble = EnsembleMatcher(members, **job["calibration"])
        report = WRITERS[job["format"]](ensemble, Path(job["folder"]))
    except InputError as error:
        report = {"error": str(error)}
    Path(job["report"]).write_text(json.dumps(report), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
