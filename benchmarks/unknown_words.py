"""What the package's other words do for pairs of another data set: a run with them, and without.

    KERAS_BACKEND=torch python benchmarks/unknown_words.py RUN --data path/to/snli --split validation

RUN was trained with the package's word vectors. "Without" means that every word that its training data
did not have is unknown.
"""

import json
from pathlib import Path

import measuring
import numpy as np

from keras_sentmatch import Matcher
from keras_sentmatch.data import load_pairs
from keras_sentmatch.text import Vocabulary

RESULTS = measuring.Results("unknown_words")


def main() -> None:
    parser = measuring.parser(__doc__ or "")
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("--data")
    parser.add_argument("--split", default="validation")
    args = parser.parse_args()
    if not args.show:
        pairs = load_pairs(args.data)[args.split]
        trained_on = load_pairs(
            json.loads((args.run / "matcher.json").read_text())["info"]["source"]["data"]
        )
        for words in ("all", "of training"):
            matcher = Matcher.load(args.run)
            if words != "all":
                encoder = matcher.encoder
                seen = {
                    word
                    for part in ("train", "validation")
                    for side in (trained_on[part].sentence1, trained_on[part].sentence2)
                    for text in side
                    for word in encoder.tokens(text)
                }
                kept = [
                    w if w in seen else f"[unused {i}]"
                    for i, w in enumerate(encoder.vocabulary.words)
                ]
                encoder.vocabulary = Vocabulary(kept[2:])
                encoder._table = encoder._new_table()
                matcher.new_words = None
            known = list(matcher.label_names)
            names = [name.lower() for name in pairs.label_names]
            probabilities = matcher.predict_proba(pairs)[:, [known.index(name) for name in names]]
            right = float((probabilities.argmax(-1) == np.asarray(pairs.labels)).mean())
            report = matcher.encoder.report
            RESULTS.add(
                {
                    "run": args.run.name,
                    "data": pairs.name,
                    "words": words,
                    "unknown": f"{report.unknown / report.tokens:.4f}",
                    "accuracy": f"{right:.4f}",
                    "pairs": len(pairs),
                }
            )
    rows = RESULTS.rows()
    names = ["run", "data", "words", "unknown", "accuracy", "pairs"]
    RESULTS.show(names, [[row[name] for name in names] for row in rows], args.write)


if __name__ == "__main__":
    main()
