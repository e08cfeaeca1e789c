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

ALONE = 4  # so many pairs are also asked one by one


def main(folder: Path, work: Path) -> None:
    sentences = json.loads((work / "sentences.json").read_text(encoding="utf-8"))
    pairs = list(zip(sentences["sentence1"], sentences["sentence2"]))
    score = runpy.run_path(str(Path(__file__).with_name("score.py")))
    with np.load(work / "arrays.npz") as file:
        arrays = {name: file[name] for name in file.files}
    facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    run = score["load_model"](folder, facts["shape"])
    output = "score" if facts["label_names"] is None else "probabilities"
    answers = {f"ids/{output}": run(arrays)}
    if (folder / "score.py").exists():
        scorer = runpy.run_path(str(folder / "score.py"))["Scorer"](folder)
        one_by_one = [scorer.scores([pair]) for pair in pairs[:ALONE]]
        answers[f"score.py/{output}"] = np.concatenate([*one_by_one, scorer.scores(pairs[ALONE:])])
        if output == "probabilities":
            answers["score.py/label"] = np.array([answer["label"] for answer in scorer(pairs)])
    np.savez(work / "answers.npz", **answers)
    if "keras_sentmatch" in sys.modules:
        sys.exit("answering imported keras_sentmatch")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
