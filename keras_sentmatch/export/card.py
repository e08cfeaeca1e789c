"""The README.md of an artifact: what it takes and gives, how to load it, what was verified."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import keras

from keras_sentmatch import __version__
from keras_sentmatch.display.rendering import render
from keras_sentmatch.inference.ensemble import EnsembleMatcher


def write_card(folder: Path, report: dict[str, Any], ensemble: EnsembleMatcher) -> None:
    """Writes README.md into `folder`."""
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
        backend=keras.config.backend(),
        versions=versions,
    )
    (folder / "README.md").write_text(text, encoding="utf-8", newline="\n")
