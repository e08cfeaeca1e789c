"""Loading a run for an engine, after making what the engine needs."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.ensemble import EnsembleMatcher, load_run
from keras_sentmatch.inference.matcher import Matcher, run_folder
from keras_sentmatch.inference.onnx import (
    FOLDER,
    FORMAT,
    NOTE,
    OnnxMatcher,
    check_installed,
    digest,
    noted_digest,
)
from keras_sentmatch.inference.run_folder import members_of, read_card
from keras_sentmatch.safety import first_line


def load(
    folder: str | os.PathLike[str], *, engine: str = "keras"
) -> Matcher | OnnxMatcher | EnsembleMatcher:
    """Load the run, or the ensemble of runs, in a folder.

    Args:
        folder: A run folder, the folder of an ensemble, or `"similarity"` (see `Matcher.load`).
        engine: Engine that runs the model. `"keras"` uses the backend; `"onnx"` uses onnxruntime,
            the fastest on a CPU, without a backend. Predictions agree to 1e-5. The ONNX model is
            kept in the run folder; it is made when it is missing or belongs to other weights, which
            needs TensorFlow. Defaults to `"keras"`.

    Returns:
        A `Matcher`, an `OnnxMatcher` or an `EnsembleMatcher`.

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
        for member in map(run_folder, members_of(Path(folder))):
            read_card(member)
            if noted_digest(member / FOLDER) != digest(member):
                make_onnx(member)
    return load_run(folder, engine)


def make_onnx(folder: Path) -> dict[str, Any]:
    """Make the ONNX model in a run folder, or make it again; return the report of `export`."""
    from keras_sentmatch.exports.exporting import write_artifact

    made = digest(folder)
    try:
        matcher = Matcher.load(folder)
        matcher.temperature, matcher.threshold = 1.0, None  # applied to the outputs of the model
        matcher.abstain_below = None
        with tempfile.TemporaryDirectory(prefix=f".{FOLDER}-", dir=folder) as temporary:
            new, kept = Path(temporary, "new"), folder / FOLDER
            report = write_artifact(matcher, new, "engine")
            (new / NOTE).write_text(json.dumps({"format": FORMAT, "digest": made}) + "\n", "utf-8")
            if kept.exists():
                os.replace(kept, Path(temporary, "old"))
            os.replace(new, kept)
    except InputError as error:
        raise InputError(
            f"{folder} has no ONNX model of its present weights, and making it failed: {error}"
        ) from error
    except OSError as error:
        if noted_digest(folder / FOLDER) != made:  # another process was faster
            raise InputError(
                f"{folder} has no ONNX model of its present weights, and nothing can be written "
                f"there ({first_line(error)}). Make the model where the folder can be changed."
            ) from error
        report = {}
    return {**report, "format": "onnx", "folder": str(folder / FOLDER)}
