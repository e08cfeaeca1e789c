"""Loading a run, after making what the fastest engine needs."""

import logging
import os
from pathlib import Path

from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.ensemble import EnsembleMatcher, Folders, load_run
from keras_sentmatch.inference.matcher import Matcher, run_folder
from keras_sentmatch.inference.onnx import check_engine, is_fastest, is_installed, state_of
from keras_sentmatch.inference.run_folder import STATIC, is_packaged, members_of
from keras_sentmatch.inference.static import StaticMatcher
from keras_sentmatch.safety import first_line

log = logging.getLogger(__name__)
_WHY = {
    "old": "is not that of its present files and of this version",
    "foreign": "was made elsewhere, and may not predict as its weights do",
    "missing": "is missing",
    "refused": "could not be made before",
}


def load(
    folder: Folders, *, engine: str | None = None
) -> Matcher | EnsembleMatcher | StaticMatcher:
    """Load the run, or the ensemble of runs, in a folder.

    An ONNX model that does not belong to the present weights is made again, in the run folder.

    Args:
        folder: A run folder, the folder of an ensemble, or `"similarity"` (see `Matcher.load`). Or a
            list of run folders, which answer together. `"static"` is similarity without a model: the
            cosine of means of the built-in word vectors, which takes microseconds.
        engine: What runs the model: `"keras"`, or `"onnx"` for onnxruntime, which is fastest on a
            CPU and imports no backend. Predictions agree to 1e-5. Defaults to `None`: onnxruntime
            on a CPU if the run has an ONNX model, as training writes it, otherwise Keras.

    Returns:
        A `Matcher`. For several runs, a matcher that answers with the mean of their probabilities or
        scores. `"static"` has no encoder and no model, and predicts, ranks and evaluates alone.

    Raises:
        InputError: Not a run folder, a damaged file; or `engine="onnx"` and a model that ONNX cannot
            express.

    Example:

    ```python
    from keras_sentmatch import load

    load("runs/drcn-embedded").predict("A dog runs.", "An animal moves.")
    ```
    """
    check_engine(engine)
    is_one = isinstance(folder, str | os.PathLike)
    if is_one and is_packaged(Path(folder), STATIC):  # type: ignore[arg-type]
        return StaticMatcher(engine)
    if engine != "keras" and is_installed("keras") and (engine == "onnx" or is_fastest()):
        for run in members_of(Path(folder)) if is_one else folder:  # type: ignore[arg-type,union-attr]
            _make_again(Path(run), engine)
    return load_run(folder, engine)


def _make_again(folder: Path, engine: str | None) -> None:
    """Make the ONNX model of a run if it needs another one, and that of the built-in matcher."""
    makes = ("old", "foreign", "missing") if is_packaged(folder) else ("old", "foreign")
    folder = run_folder(folder)
    state = state_of(folder)
    if state not in (makes if engine is None else _WHY):
        return
    from keras_sentmatch.inference.onnx_export import keep_model  # imports Keras

    log.info("the ONNX model of %s %s: making it", folder, _WHY[state])
    try:
        keep_model(Matcher.load(folder, "keras"), folder)
        return
    except InputError as error:
        why = str(error)
    except OSError as error:
        if state_of(folder) == "current":  # another process was faster
            return
        why = f"nothing can be written there: {first_line(error)}"
    if engine == "onnx":
        raise InputError(
            f"{folder} has no ONNX model of its present weights, and making it failed: {why}"
        )
    log.info("%s is used with Keras, because its ONNX model could not be made: %s", folder, why)
