"""Training on imperfect data: planted wrong labels and rare labels.

    pip install "keras-sentmatch[corpus]"
    python benchmarks/own_data.py --data path/to/data --part audit

`audit`: a tenth of the labels of SICK's training pairs is changed (seeded), and `audit` looks for
them. `rare`: Quora's pairs without those of bimpm_dev.tsv, cut to 5% duplicates; bimpm_dev.tsv, cut
in the same way, tests. The model is `bag_of_words` in its matching form unless `--model` names
another. Each part, kind and seed is one row, and existing rows are not run again.
"""

import re
import tempfile
import time
from pathlib import Path
from typing import Any

import measuring
import numpy as np

from keras_sentmatch.data import PairDataset, read_pairs, split_pairs

KEY = ("kind", "model", "seed")
FILES = {"audit": "audit_planted", "rare": "rare_labels"}
SHARE = 0.05  # of duplicates, where they are rare
SETTINGS = {"bag_of_words": ["model.matching_features=true"]}
KINDS: dict[str, Any] = {
    "audit": {"a tenth of the labels changed": 0.1},
    "rare": {"none": {}, "balanced": {"class_weight": "balanced"}},
}


def recipe(model: str, seed: int, **training: Any) -> Any:
    from keras_sentmatch.training import load_recipe

    plan = load_recipe(model, "pairs", overrides=SETTINGS.get(model, []))
    return plan.with_training(seed=seed, **training)


def planted(args: Any, seed: int, kind: str) -> dict[str, Any]:
    """Count how many of the changed labels are suspected."""
    from keras_sentmatch.analysis import audit

    pairs = read_pairs(args.data / "sick" / "SICK_train.txt")
    rng = np.random.default_rng(seed)
    changed = rng.permutation(len(pairs))[: round(KINDS["audit"][kind] * len(pairs))]
    labels = np.array(pairs.labels)
    labels[changed] = (labels[changed] + rng.integers(1, pairs.num_classes, len(changed))) % 3
    noisy = PairDataset.from_dict(pairs.to_dict() | {"labels": labels})
    report = audit(noisy, recipe(args.model, seed), progress=False)
    rows = [found["row"] - 1 for found in report["suspects"]]
    hits = np.isin(rows, changed)
    first = hits[: len(changed)]
    return {
        "rows": len(pairs),
        "planted": len(changed),
        "suspects": len(rows),
        "precision": round(float(hits.mean()), 4),
        "recall": round(float(hits.sum() / len(changed)), 4),
        "precision_of_first_100": round(float(first[:100].mean()), 4),
        "accuracy": round(report["answers"]["accuracy"], 4),
    }


def quora(args: Any) -> tuple[PairDataset, PairDataset]:
    """Return pairs to train on, and pairs to test on that do not occur among them."""
    test = read_pairs(args.data / "quora" / "bimpm_dev.tsv", on_error="skip")
    pairs = read_pairs(args.data / "quora" / "quora-dev.csv", on_error="skip")

    def keys(data: PairDataset) -> list[frozenset[str]]:
        sides = (
            [re.sub(r"\W", "", text.lower()) for text in side]
            for side in (data.sentence1, data.sentence2)
        )
        return list(map(frozenset, zip(*sides)))

    held = set(keys(test))
    return pairs.select([i for i, key in enumerate(keys(pairs)) if key not in held]), test


def cut(pairs: PairDataset, seed: int) -> PairDataset:
    """Return all pairs that are no duplicates, and enough duplicates to make 5%."""
    rng = np.random.default_rng(seed)
    yes, no = (rng.permutation(np.flatnonzero(pairs.labels == label)) for label in (1, 0))
    return pairs.select(np.sort(np.concatenate([no, yes[: round(len(no) * SHARE / (1 - SHARE))]])))


def rare(args: Any, seed: int, kind: str) -> dict[str, Any]:
    from keras_sentmatch.training import train

    pairs, test = (cut(data, seed) for data in quora(args))
    parts = split_pairs(pairs, [0.9, 0.1], seed=seed)
    splits = {**dict(zip(("train", "validation"), parts)), "test": test}
    with tempfile.TemporaryDirectory() as folder:
        plan = recipe(args.model, seed, **KINDS["rare"][kind])
        found = train(plan, splits, Path(folder) / "run", baseline=False).metrics
    row = found["classes"]["test"][1]
    figures = {name: row[name] for name in ("precision", "recall", "f1", "average_precision")}
    figures |= {"accuracy": found["test"]["accuracy"], "macro_f1": found["test"]["macro_f1"]}
    return {"rows": len(splits["train"])} | {n: round(v, 4) for n, v in figures.items()}


def main() -> None:
    parser = measuring.parser(__doc__)
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with a folder for each data set"
    )
    parser.add_argument("--part", choices=list(FILES), required=True)
    parser.add_argument("--model", default="bag_of_words")
    parser.add_argument("--seeds", default="0,1,2")
    args = parser.parse_args()
    results = measuring.Results(FILES[args.part])
    for seed in map(int, args.seeds.split(",")):
        for kind in KINDS[args.part]:
            key = dict(zip(KEY, (kind, args.model, str(seed))))
            if results.has(key):
                continue
            start = time.perf_counter()
            found = MEASURES[args.part](args, seed, kind)
            results.add(key | found | {"seconds": round(time.perf_counter() - start, 1)})


MEASURES = {"audit": planted, "rare": rare}

if __name__ == "__main__":
    main()
