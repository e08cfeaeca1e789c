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

ALONE, BLOCK = 4, 64  # so many pairs one by one, the rest in blocks


def main(folder: str, work: Path) -> None:
    sentences = json.loads((work / "sentences.json").read_text(encoding="utf-8"))
    columns = {name: tf.constant(column) for name, column in sentences.items()}
    with np.load(work / "arrays.npz") as file:
        arrays = {name: tf.constant(file[name]) for name in file.files}
    signatures = tf.saved_model.load(folder).signatures
    found = {}
    for signature, inputs in (("serving_default", columns), ("ids", arrays)):
        if signature in signatures:
            found[signature] = in_blocks(signatures[signature], inputs)
    if "score_encoded" in signatures:

        def encode_and_score(**block):
            encoded: dict = {}
            for name, column in block.items():
                encoded |= signatures[f"encode_{name}"](**{name: column})
            return signatures["score_encoded"](**encoded)

        found["score_encoded"] = in_blocks(encode_and_score, columns)
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


def in_blocks(function, inputs):
    """What a function gives for all rows, one a pair."""
    rows = len(next(iter(inputs.values())))
    starts = [*range(min(ALONE, rows)), *range(ALONE, rows, BLOCK), rows]
    blocks = [
        function(**{name: x[start:end] for name, x in inputs.items()})
        for start, end in zip(starts, starts[1:])
    ]
    return {
        name: tf.concat([block[name] for block in blocks], 0)
        for name in blocks[0]
        if name != "label_names"
    }


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
