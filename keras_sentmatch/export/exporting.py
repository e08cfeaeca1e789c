"""Writing an artefact, and proving it before it is called done."""

import json
import os
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import keras

from keras_sentmatch.errors import InputError
from keras_sentmatch.export.card import write_card
from keras_sentmatch.export.examples import TOLERANCE, Examples, as_ensemble
from keras_sentmatch.export.portable_model import read_portable, write_litert, write_onnx
from keras_sentmatch.export.processes import last_lines, run_python
from keras_sentmatch.export.saved_model import read_saved_model, write_saved_model
from keras_sentmatch.inference.ensemble import EnsembleMatcher

# (ensemble, folder) -> what was written
WRITERS = {"saved_model": write_saved_model, "onnx": write_onnx, "litert": write_litert}
# (folder, examples, work) -> what a stranger reads
READERS = {"saved_model": read_saved_model, "onnx": read_portable, "litert": read_portable}
FORMATS = tuple(WRITERS)


def export(
    matcher: Any,
    folder: str | os.PathLike,
    format: str = "saved_model",
    *,
    pairs: Any = None,
    tolerance: float = TOLERANCE,
) -> dict[str, Any]:
    """Writes a matcher, or an ensemble of them, as an artefact that needs this library no more.

    What is written is loaded by a fresh process and compared with `Matcher.predict` on pairs that
    are hard to get right (empty, 10,000 words, emoji, right-to-left text, control characters, words
    of the model's own vocabulary) and on `pairs`. Only then does `folder` appear; after a failure
    nothing is left behind.

    Any backend can export: on JAX and PyTorch, or where TensorFlow has a GPU, another process builds
    the same model on TensorFlow on the CPU.

    Args:
        matcher: A `Matcher`, or a `inference.EnsembleMatcher`.
        folder: The folder to make; it must not exist, or be empty.
        format: `"saved_model"`, a TensorFlow SavedModel that takes sentences; `"onnx"` or `"litert"`,
            a model that takes ids, with the files and a `score.py` that make them of sentences.
        pairs: More pairs to compare on, in any form that `Matcher.predict` takes.
        tolerance: The largest difference of a probability that is allowed (of a score above 1, relative to it).

    Returns:
        What was written: `format`, `folder`, `signatures` (inputs and outputs of each by name),
        `left_out` (signatures that cannot be, and why), `pairs` (how many were compared) and
        `largest_difference`.

    Raises:
        InputError: An unknown format, a folder that holds something, TensorFlow or the format's own
            package missing, a matcher that cannot be exported, answers that differ by more than `tolerance`, or a tolerance
            that is not between 0 and 0.1.

    Example:

    ```python
    from keras_sentmatch import Matcher
    from keras_sentmatch.export import export

    export(Matcher.load("runs/mine"), "exported/mine")["largest_difference"]  # 1.2e-07
    ```
    """
    if format not in FORMATS:
        raise InputError(f"format={format!r}: expected one of {', '.join(map(repr, FORMATS))}.")
    if not 0 < tolerance <= 0.1:
        raise InputError(f"tolerance={tolerance}: expected a number above 0, at most 0.1.")
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists already: give the name of a new folder.")
    if find_spec("tensorflow") is None:
        raise InputError(
            "Exporting needs TensorFlow, whatever the backend: pip install "
            '"keras-sentmatch[tensorflow]".'
        )
    ensemble = as_ensemble(matcher)
    examples = Examples.of(ensemble, pairs)
    folder.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{folder.name}-"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=folder.parent) as temporary:
        made, work = Path(temporary, "made"), Path(temporary, "work")
        work.mkdir()
        write = _write_here if _tensorflow_on_cpu() else _write_elsewhere
        report = {"format": format, "folder": str(folder), **write(format, ensemble, made, work)}
        found = READERS[format](made, examples, work)
        report["pairs"] = len(examples.sentence1)
        report["largest_difference"] = examples.compare(found, tolerance)
        write_card(made, report, ensemble)
        if folder.exists():
            folder.rmdir()
        os.replace(made, folder)
    return report


def _tensorflow_on_cpu() -> bool:
    """Whether this process can export. With a GPU, graphs hold cuDNN's operations, only for GPUs."""
    if keras.config.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return not tf.config.list_physical_devices("GPU")


def _write_here(format: str, ensemble: EnsembleMatcher, made: Path, work: Path) -> dict[str, Any]:
    return WRITERS[format](ensemble, made)


def _write_elsewhere(
    format: str, ensemble: EnsembleMatcher, made: Path, work: Path
) -> dict[str, Any]:
    if any(getattr(m.encoder.tokenizer, "name", "") == "own" for m in ensemble.members):
        raise InputError(
            "A tokenizer of your own does not come along to the TensorFlow process that exports: use TensorFlow on the CPU "
            "as the backend (KERAS_BACKEND=tensorflow)."
        )
    runs = [str(work / f"run-{number}") for number in range(len(ensemble.members))]
    for member, run in zip(ensemble.members, runs):
        member.save(run)
    report = work / "report.json"
    job: dict[str, Any] = {"format": format, "runs": runs, "made": str(made), "report": str(report)}
    job["calibration"] = {"temperature": ensemble.temperature, "threshold": ensemble.threshold}
    (work / "job.json").write_text(json.dumps(job), encoding="utf-8")
    done = run_python(
        "-m", "keras_sentmatch.export.worker", str(work / "job.json"), KERAS_BACKEND="tensorflow"
    )
    if not report.is_file():
        raise InputError(f"The TensorFlow process that was to export failed: {last_lines(done)}.")
    found = json.loads(report.read_text(encoding="utf-8"))
    if "error" in found:
        raise InputError(found["error"])
    return found
