"""Loading a run for an engine, after making what the engine needs."""

import os
from pathlib import Path
from typing import Any

from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.ensemble import EnsembleMatcher, Folders, load_run
from keras_sentmatch.inference.matcher import Matcher, run_folder
from keras_sentmatch.inference.onnx import (
    FOLDER,
    NOTE,
    OnnxMatcher,
    check_installed,
    is_current,
    note_of,
)
from keras_sentmatch.inference.run_folder import members_of, write_json
from keras_sentmatch.safety import first_line, working_folder


def load(folder: Folders, *, engine: str = "keras") -> Matcher | OnnxMatcher | EnsembleMatcher:
    """Load the run, or the ensemble of runs, in a folder.

    Args:
        folder: A run folder, the folder of an ensemble, or `"similarity"` (see `Matcher.load`). Or a
            list of run folders, which answer together.
        engine: Engine that runs the model. `"keras"` uses the backend; `"onnx"` uses onnxruntime,
            the fastest on a CPU, without a backend. Predictions agree to 1e-5. The ONNX model is
            kept in the run folder; it is made when it is missing or belongs to other weights, which
            needs TensorFlow. Defaults to `"keras"`.

    Returns:
        A `Matcher`; with `engine="onnx"` a matcher that neither explains nor exports. For several
        runs, a matcher that answers with the mean of their probabilities or scores.

    Raises:
        InputError: Not a run folder, a damaged file, or a model that ONNX cannot express.

    Example:

    ```python
    from keras_sentmatch import load

    load("runs/drcn-embedded", engine="onnx").predict("A dog runs.", "An animal moves.")
    ```
    """
    if engine == "onnx":
        check_installed()
        is_one = isinstance(folder, str | os.PathLike)
        for run in members_of(Path(folder)) if is_one else folder:  # type: ignore[arg-type,union-attr]
            if not is_current(run_folder(Path(run))):
                make_onnx(run_folder(Path(run)))
    return load_run(folder, engine)


def make_onnx(folder: Path) -> dict[str, Any]:
    """Make the ONNX model in a run folder, or make it again; return the report of `export`."""
    from keras_sentmatch.exports.exporting import export

    kept = folder / FOLDER
    report: dict[str, Any] = {}
    try:
        matcher = Matcher.load(folder)
        matcher.temperature, matcher.threshold = 1.0, None  # applied to the outputs of the model
        matcher.abstain_below = None
        with working_folder(folder, FOLDER) as temporary:
            new = temporary / "new"
            report = export(matcher, new, "onnx")
            if kept.exists():
                os.replace(kept, temporary / "old")
            os.replace(new, kept)
        write_json(kept / NOTE, note_of(folder))
    except InputError as error:
        raise InputError(
            f"{folder} has no ONNX model of its present weights, and making it failed: {error}"
        ) from error
    except OSError as error:
        if not is_current(folder):  # no other process was faster
            raise InputError(
                f"{folder} has no ONNX model of its present weights, and nothing can be written "
                f"there ({first_line(error)}). Make the model where the folder can be changed."
            ) from error
    return {**report, "folder": str(kept)}
