"""Scores pairs with an artifact in a process without this library.

    python -P _fresh_process.py ARTIFACT WORK

Reads `sentences.json` and `arrays.npz` in the folder WORK and writes `answers.npz` there, with one
array per signature and output, called SIGNATURE/OUTPUT.
"""

import json
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, Any]
ALONE, BLOCK = 4, 64  # the first pairs are scored alone, the rest in blocks


def main(folder: Path, work: Path) -> None:
    sentences = json.loads((work / "sentences.json").read_text(encoding="utf-8"))
    with np.load(work / "arrays.npz") as file:
        arrays = dict(file)
    answer = answer_saved_model if (folder / "saved_model.pb").exists() else answer_portable
    found = {
        f"{signature}/{name}": array
        for signature, outputs in answer(folder, sentences, arrays)
        for name, array in outputs.items()
    }
    np.savez(work / "answers.npz", **found)
    imported = {"keras_sentmatch", "keras_hub", "tensorflow_text"} & set(sys.modules)
    if imported:
        sys.exit(f"answering imported {', '.join(sorted(imported))}")


def answer_saved_model(
    folder: Path, sentences: Arrays, arrays: Arrays
) -> Iterator[tuple[str, Arrays]]:
    """Yield the outputs of each signature."""
    import tensorflow as tf

    signatures = tf.saved_model.load(str(folder)).signatures

    def call(name: str, inputs: Arrays) -> Arrays:
        outputs = signatures[name](**{key: tf.constant(x) for key, x in inputs.items()})
        return {key: decoded(x.numpy()) for key, x in outputs.items() if key != "label_names"}

    def encode_and_score(block: Arrays) -> Arrays:
        encoded = [call(f"encode_{side}", {side: column}) for side, column in block.items()]
        return call("score_encoded", encoded[0] | encoded[1])

    if "serving_default" in signatures:
        yield "serving_default", in_blocks(lambda block: call("serving_default", block), sentences)
    if "ids" in signatures:
        yield "ids", in_blocks(lambda block: call("ids", block), arrays)
    if "score_encoded" in signatures:
        yield "score_encoded", in_blocks(encode_and_score, sentences)


def answer_portable(
    folder: Path, sentences: Arrays, arrays: Arrays
) -> Iterator[tuple[str, Arrays]]:
    """Yield the outputs of the model for ids, and those of the `score.py` in the folder."""
    facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    copied = (folder / "score.py").exists()
    here = Path(__file__).parents[1] / "inference"
    script = runpy.run_path(str((folder if copied else here) / "score.py"))
    run = script["load_model"](folder, facts["shape"])
    name = "score" if facts["label_names"] is None else "probabilities"
    yield "ids", in_blocks(lambda block: {name: run(block)}, arrays)
    if not copied:
        return
    scorer = script["Scorer"](folder)

    def score(block: Arrays) -> Arrays:
        answers = scorer(list(zip(block["sentence1"], block["sentence2"])))
        if name == "score":
            return {name: np.array([answer[name] for answer in answers])}
        return {
            name: np.array([list(answer[name].values()) for answer in answers]),
            "label": np.array([answer["label"] or "" for answer in answers]),
        }

    yield "score.py", in_blocks(score, sentences)


def in_blocks(answer: Callable[[Arrays], Arrays], inputs: Arrays) -> Arrays:
    """Return the outputs for all rows, computed in blocks."""
    rows = len(next(iter(inputs.values())))
    starts = [*range(min(ALONE, rows)), *range(ALONE, rows, BLOCK), rows]
    blocks = [
        answer({name: x[start:end] for name, x in inputs.items()})
        for start, end in zip(starts, starts[1:])
    ]
    return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}


def decoded(x: np.ndarray) -> np.ndarray:
    return np.array([text.decode("utf-8") for text in x]) if x.dtype == object else x


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
