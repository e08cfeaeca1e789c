"""The README.md of an artefact."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import keras

from keras_sentmatch import __version__
from keras_sentmatch.inference.ensemble import EnsembleMatcher

_ABOUT = {
    "serving_default": "Sentences in, answers out.",
    "ids": "The same for what the encoder makes of sentences: padded on the right with 0.",
    "encode_sentence1": "First sentences alone: keep what comes out, for `score_encoded`.",
    "encode_sentence2": "Second sentences alone.",
    "score_encoded": "Kept encodings in, answers out. One sentence on one side is scored with every "
    "sentence of the other.",
}
_KINDS = {
    "saved_model": "a TensorFlow SavedModel. It needs TensorFlow and nothing else.",
    "onnx": "an ONNX model that takes ids. It needs onnxruntime and NumPy.",
    "litert": "a LiteRT model that takes ids. It needs ai-edge-litert or TensorFlow, and NumPy.",
}
_FILES = {"onnx": "model.onnx", "litert": "model.tflite"}
_ASK_SAVED_MODEL = [
    "## Asking it",
    "",
    "```python",
    "import tensorflow as tf",
    "",
    'serve = tf.saved_model.load("THIS FOLDER").signatures["serving_default"]',
    'serve(sentence1=tf.constant(["A dog runs."]), sentence2=tf.constant(["An animal moves."]))',
    "```",
    "",
    "TensorFlow Serving wants this folder as a numbered one, `models/NAME/1`. Over REST, ask in "
    "columns:",
    "",
    "```bash",
    "curl http://localhost:8501/v1/models/NAME:predict -d '",
    '{"inputs": {"sentence1": ["A dog runs."], "sentence2": ["An animal moves."]}}\'',
    "```",
    "",
]
_ASK = [
    "## Asking it",
    "",
    "```bash",
    'python score.py "A dog runs." "An animal moves."',
    "```",
    "",
    "```python",
    "from score import Scorer",
    "",
    'Scorer("THIS FOLDER")([("A dog runs.", "An animal moves."), ("It rains.", "It snows.")])',
    "```",
    "",
]


def write_card(folder: Path, report: dict[str, Any], ensemble: EnsembleMatcher) -> None:
    """Writes README.md: what the artefact takes and gives, how to load it, what was checked."""
    first, count, format = ensemble.members[0], len(ensemble.members), report["format"]
    many = f", the mean of {count} of them" if count > 1 else ""
    lines = [
        f"# {first.model.name}",
        "",
        f"A sentence-pair matcher ({type(first.model).__name__}{many}) as {_KINDS[format]}",
        "",
        *_answers(ensemble),
        "",
        *_signatures(report, first),
        *(_saved_model(report) if format == "saved_model" else _portable(report)),
        *_checked(report),
    ]
    (folder / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def _signatures(report: dict[str, Any], first: Any) -> list[str]:
    lines = [
        "## Signatures",
        "",
        "B: any number of pairs or sentences. Lengths: any; of a sentence (or pair, where the model "
        f"reads both as one) the first {first.encoder.max_length} tokens are read.",
        "",
    ]
    for name, signature in report["signatures"].items():
        lines += [f"### `{name}`", "", _ABOUT[name], ""]
        lines += ["| | name | dtype | shape |", "|---|---|---|---|"]
        for side in ("inputs", "outputs"):
            for what, spec in signature[side].items():
                lines.append(f"| {side[:-1]} | `{what}` | {spec['dtype']} | {_shape(spec)} |")
        lines.append("")
    for name, why in report["left_out"].items():
        lines += [f"There is no `{name}`: {why.rstrip('.')}.", ""]
    return lines


def _shape(spec: dict[str, Any]) -> str:
    names = ["B" if i == 0 else "any" for i in range(len(spec["shape"]))]
    return f"[{', '.join(n if d is None else str(d) for n, d in zip(names, spec['shape']))}]"


def _saved_model(report: dict[str, Any]) -> list[str]:
    return _ASK_SAVED_MODEL if "serving_default" in report["signatures"] else []


def _portable(report: dict[str, Any]) -> list[str]:
    lines = [
        "## Files",
        "",
        f"- `{_FILES[report['format']]}`: the model",
        "- `facts.json`: inputs, label names, threshold, and how text becomes ids",
        "- `encoder/`: the encoder as keras-sentmatch saves it",
    ]
    if "score.py" in report["left_out"]:
        return [*lines, ""]
    return [
        *lines,
        "- `score.py`: scores sentences; reads `facts.json` and the vocabularies",
        "",
        *_ASK,
    ]


def _answers(ensemble: EnsembleMatcher) -> list[str]:
    if ensemble.label_names is None:
        return ["It answers a score for each pair."]
    rule = "the most probable one"
    if ensemble.threshold is not None:
        no, yes = ensemble.label_names
        rule = f"`{yes}` where its probability is above {ensemble.threshold}, else `{no}`"
    names = ", ".join(f"`{name}`" for name in ensemble.label_names)
    return [f"Labels, in the order of the probabilities: {names}. The label answered is {rule}."]


def _checked(report: dict[str, Any]) -> list[str]:
    found = [f"keras-sentmatch {__version__}", f"keras {keras.__version__}"]
    for name in ("tensorflow", "numpy", "onnx", "tf2onnx", "onnxruntime"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return [
        "## Checked",
        "",
        f"A process without keras-sentmatch answered {report['pairs']} pairs as the matcher did on "
        f"{keras.config.backend()}: the largest difference was {report['largest_difference']:.1e}.",
        "",
        f"Versions: {', '.join(found)}.",
    ]
