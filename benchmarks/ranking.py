"""One query against many candidates: with encodings that are kept, and as pairs.

    python benchmarks/ranking.py
    python benchmarks/ranking.py --show --write docs/results.md

Times `Matcher.rank_scores` of one query against `--candidates` whose encodings are kept
(`Matcher.encode` once), and against the same as strings. The models have the sizes of `speed.py`;
DRCN is its variant without attention, and no model uses exact match. Each model on each backend runs
in a separate process, one after the other; existing rows are not measured again.
"""

import argparse
import json
import shlex
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import measuring
import numpy as np
import subjects
from measuring import LABELS, make_pairs, timed

SPLIT: dict[str, dict[str, Any]] = {  # what lets a model encode a sentence alone
    "diin": {"exact_match": False},
    "drcn": {"preset": "encoder_only"},
    "drr_net": {"exact_match": False},
}
RESULTS = measuring.Results("ranking")


def busy_timed(steps: Sequence[Callable[[], Any]]) -> tuple[list[float], float]:
    """Seconds of each step, and the processors that other programs used meanwhile."""
    return measuring.busy_while(lambda: timed(steps))


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """The speed of ranking with and without cached encodings: a row, or why there is none."""
    import keras

    from keras_sentmatch.inference.matcher import Matcher

    config = SPLIT.get(args.model, {})
    model = subjects.build(args.model, args.length, args.seed, **config)
    if not model.can_split:
        return {"skipped": "it cannot encode a sentence alone"}
    if keras.backend.backend() == "tensorflow":
        model.jit_compile = False  # as in training and the commands
    data, encoder = make_pairs(args.candidates, args.length, "full", args.seed)
    matcher = Matcher(model, encoder, LABELS, task="classification")
    query, candidates = data.sentence1[0], list(data.sentence2)
    size, label = args.batch_size, LABELS[0]

    def keep() -> Any:
        return matcher.encode(candidates, batch_size=size)

    def kept() -> np.ndarray:
        return matcher.rank_scores(query, corpus, label=label)

    def pairs() -> np.ndarray:
        return matcher.rank_scores(query, candidates, label=label, batch_size=size)

    corpus = keep()
    difference = np.abs(kept() - pairs()).max()  # and everything is compiled
    encode_s, others_encode = busy_timed([keep])
    kept_s, others_kept = busy_timed([kept] * args.steps)
    pairs_s, others_pairs = busy_timed([pairs] * args.steps)
    kept_ms, pairs_ms = (1000 * statistics.median(s) for s in (kept_s, pairs_s))
    return {
        "encode_s": round(encode_s[0], 3),
        "kept_ms": round(kept_ms, 2),
        "pairs_ms": round(pairs_ms, 2),
        "ratio": round(pairs_ms / kept_ms, 2),
        "largest_difference": f"{difference:.1e}",
        "corpus_mib": round(corpus.nbytes / 2**20, 1),
        "others_cpu": round(max(others_encode, others_kept, others_pairs), 2),
        "steps": args.steps,
        "config": json.dumps(config),
    }


def run_all(args: argparse.Namespace) -> None:
    sizes = {"candidates": args.candidates, "batch_size": args.batch_size, "length": args.length}
    options = ["--candidates", args.candidates, "--batch-size", args.batch_size]
    options += ["--length", args.length, "--steps", args.steps]
    for model in args.models.split(","):
        for backend in args.backends.split(","):
            row = {"model": model, "backend": backend}
            if RESULTS.has(row | sizes):
                continue
            found = measuring.run_child(backend, "--models", model, "--measure", *options)
            if "skipped" in found:
                print(f"{model} {backend}: {found['skipped']}", flush=True)
                continue
            row |= {"device": f"{measuring.cpus()} CPUs"} | sizes
            facts = {"seed": args.seed, "cpus": measuring.cpus()}
            command = shlex.join(["python", "benchmarks/ranking.py", *map(str, options)])
            RESULTS.add({**row, **found, **facts, "command": command})


def table() -> tuple[list[str], list[list[str]]]:
    head = ["model", "backend", "encoding once s", "kept ms", "pairs ms", "times as fast"]
    head += ["kept MiB", "largest difference", "others' CPUs"]
    lines = [
        [
            row["model"],
            row["backend"],
            f"{float(row['encode_s']):.2f}",
            f"{float(row['kept_ms']):,.0f}",
            f"{float(row['pairs_ms']):,.0f}",
            f"{float(row['ratio']):.2f}",
            row["corpus_mib"],
            row["largest_difference"],
            f"{float(row['others_cpu']):.2f}",
        ]
        for row in RESULTS.rows()
    ]
    return head, lines


def main() -> None:
    parser = measuring.parser(__doc__)
    parser.add_argument("--models", default=",".join(subjects.WORD_MODELS))
    parser.add_argument("--backends", default=",".join(measuring.BACKENDS))
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--length", type=int, default=32, help="words of every sentence")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--candidates", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)  # in a child
    args = parser.parse_args()
    if args.measure:
        args.model = args.models
        print(json.dumps(measure(args)))
        return
    if not args.show:
        run_all(args)
    RESULTS.show(*table(), args.write)


if __name__ == "__main__":
    main()
