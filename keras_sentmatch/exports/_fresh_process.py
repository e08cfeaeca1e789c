"""Scores pairs with an artifact in a process without this library.

    python -P _fresh_process.py ARTIFACT WORK

Reads `sentences.json` in the folder WORK, and writes `alone.npz` and `together.npz` there, with one
array per output: pairs scored one by one, and in blocks.
"""

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, Any]


def main(folder: Path, work: Path) -> None:
    sentences = json.loads((work / "sentences.json").read_text(encoding="utf-8"))
    answer = portable(folder) if (folder / "score.py").exists() else saved_model(folder)
    for name, size in (("alone", 1), ("together", 64)):
        np.savez(work / f"{name}.npz", **in_blocks(answer, sentences, size))
    imported = {"keras_sentmatch", "keras_hub", "tensorflow_text"} & set(sys.modules)
    if imported:
        sys.exit(f"answering imported {', '.join(sorted(imported))}")


def saved_model(folder: Path) -> Callable[[Arrays], Arrays]:
    """Return the function `serving_default` of a SavedModel."""
    import tensorflow as tf

    serve = tf.saved_model.load(str(folder)).signatures["serving_default"]

    def answer(sentences: Arrays) -> Arrays:
        outputs = serve(**{name: tf.constant(x) for name, x in sentences.items()})
        return {name: decoded(x.numpy()) for name, x in outputs.items() if name != "label_names"}

    return answer


def portable(folder: Path) -> Callable[[Arrays], Arrays]:
    """Return the `score.py` in the folder as a function."""
    scorer = runpy.run_path(str(folder / "score.py"))["Scorer"](folder)

    def answer(sentences: Arrays) -> Arrays:
        answers = scorer(list(zip(sentences["sentence1"], sentences["sentence2"])))
        if "score" in answers[0]:
            return {"score": np.array([answer["score"] for answer in answers])}
        rows = [list(answer["probabilities"].values()) for answer in answers]
        labels = [answer["label"] or "" for answer in answers]
        return {"probabilities": np.array(rows), "label": np.array(labels)}

    return answer


def in_blocks(answer: Callable[[Arrays], Arrays], inputs: Arrays, size: int) -> Arrays:
    """Return the outputs for all rows, computed in blocks of `size` rows."""
    rows = range(0, len(inputs["sentence1"]), size)
    blocks = [answer({name: x[i : i + size] for name, x in inputs.items()}) for i in rows]
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def decoded(x: np.ndarray) -> np.ndarray:
    return np.array([text.decode("utf-8") for text in x]) if x.dtype == object else x


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
