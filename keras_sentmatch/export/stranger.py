"""Asks a SavedModel as a program would that has never heard of the library that wrote it.

    python -P stranger.py SAVED_MODEL WORK

Reads `sentences.json` and `arrays.npz` in the folder WORK and writes `answers.npz` there: an array for
each signature and output, called SIGNATURE/OUTPUT.
"""

import json
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

ALONE = 4  # so many pairs are also asked one by one


def main(folder: str, work: Path) -> None:
    sentences = json.loads((work / "sentences.json").read_text(encoding="utf-8"))
    columns = {name: tf.constant(column) for name, column in sentences.items()}
    with np.load(work / "arrays.npz") as file:
        arrays = {name: tf.constant(file[name]) for name in file.files}
    signatures = tf.saved_model.load(folder).signatures
    found = {}
    if "serving_default" in signatures:
        serve = signatures["serving_default"]
        found["serving_default"] = serve(**columns)
        one_by_one = [
            serve(**{name: column[i : i + 1] for name, column in columns.items()})
            for i in range(ALONE)
        ]
        found["serving_default of one pair"] = {
            name: tf.concat([*(row[name] for row in one_by_one), x[ALONE:]], 0)
            for name, x in found["serving_default"].items()
            if name != "label_names"
        }
    if "ids" in signatures:
        found["ids"] = signatures["ids"](**arrays)
    if "score_encoded" in signatures:
        encoded: dict = {}
        for name, column in columns.items():
            encoded |= signatures[f"encode_{name}"](**{name: column})
        found["score_encoded"] = signatures["score_encoded"](**encoded)
    answers = {}
    for signature, outputs in found.items():
        for name, x in outputs.items():
            x = x.numpy()
            if x.dtype == object:
                x = np.array([text.decode("utf-8") for text in x.tolist()])
            answers[f"{signature}/{name}"] = x
    np.savez(work / "answers.npz", **answers)
    strangers = {"keras_sentmatch", "keras_hub", "tensorflow_text"} & set(sys.modules)
    if strangers:
        sys.exit(f"loading imported {', '.join(sorted(strangers))}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
