"""Asks an ONNX or LiteRT model as a program would that has never heard of the library that wrote it.

    python -P stranger_portable.py FOLDER WORK

See `stranger.py`: the answers are those of the model to the arrays, and of the folder's `score.py`, if it
has one, to the sentences.
"""

import json
import runpy
import sys
from pathlib import Path

import numpy as np

ALONE, BLOCK = 4, 64  # so many pairs one by one, the rest in blocks


def main(folder: Path, work: Path) -> None:
    sentences = json.loads((work / "sentences.json").read_text(encoding="utf-8"))
    pairs = list(zip(sentences["sentence1"], sentences["sentence2"]))
    score = runpy.run_path(str(Path(__file__).with_name("score.py")))
    with np.load(work / "arrays.npz") as file:
        arrays = {name: file[name] for name in file.files}
    facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    run = score["load_model"](folder, facts["shape"])
    output = "score" if facts["label_names"] is None else "probabilities"
    rows = len(pairs)
    starts = [*range(min(ALONE, rows)), *range(ALONE, rows, BLOCK), rows]
    blocks = [slice(start, end) for start, end in zip(starts, starts[1:])]
    by_ids = [run({name: x[block] for name, x in arrays.items()}) for block in blocks]
    answers = {f"ids/{output}": np.concatenate(by_ids)}
    if (folder / "score.py").exists():
        scorer = runpy.run_path(str(folder / "score.py"))["Scorer"](folder)
        given = [answer for block in blocks for answer in scorer(pairs[block])]
        scores = [list(a[output].values()) if "label" in a else a["score"] for a in given]
        answers[f"score.py/{output}"] = np.array(scores)
        if output == "probabilities":
            answers["score.py/label"] = np.array([answer["label"] for answer in given])
    np.savez(work / "answers.npz", **answers)  # type: ignore[arg-type]
    if "keras_sentmatch" in sys.modules:
        sys.exit("answering imported keras_sentmatch")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
