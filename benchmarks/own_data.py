"""Training on the data that people have: planted errors, rare labels, matching pairs, candidates.

    pip install "keras-sentmatch[corpus]"
    python benchmarks/own_data.py --data path/to/data --part audit

`audit`: a tenth of the labels of SICK's training pairs is changed to another one (seeded), and
`keras_sentmatch.analysis.audit` looks for them. `rare`: Quora's pairs, those of bimpm_dev.tsv left
out, cut to 5% duplicates; bimpm_dev.tsv, cut in the same way, tests. `positives`: Quora's
duplicates alone, negatives drawn by `from_positives`, beside the true labels of as many pairs;
bimpm_dev.tsv tests. `ranking`: the losses of `training.ranking_loss` on TrecQA (its TRAIN, the clean
development and test questions) and on WikiQA, where one half of the development questions chooses the
epoch and the other tests. The model is `bag_of_words` in its matching form (`ranking`: `re2` with two
blocks of 50 units, at most 12 epochs, in mixed_bfloat16) unless `--model` names another; `--limit`
takes fewer pairs and one epoch, to try the script, and adds no row. One row for each part, kind and
seed; existing rows are not run again.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import measuring
import numpy as np

from keras_sentmatch.data import PairDataset, load_pairs, read_pairs, split_pairs

KEY = ("kind", "model", "seed")
FILES = {
    "audit": "audit_planted",
    "rare": "rare_labels",
    "positives": "positives_only",
    "ranking": "ranking_losses",
}
PARTS = tuple(FILES)
SHARE = 0.05  # of duplicates, where they are rare
SETTINGS = {
    "bag_of_words": ["model.matching_features=true"],
    "re2": ["model.units=50", "model.blocks=2"],
}
KINDS: dict[str, Any] = {
    "audit": {"a tenth of the labels changed": 0.1},
    "rare": {
        "none": {},
        "balanced": {"class_weight": "balanced"},
    },
    "positives": {
        "true labels": 0.0,
        "drawn, easy": 0.0,
        "drawn, half hard": 0.5,
        "drawn, hard": 1.0,
    },
    "ranking": {
        f"{data}, {loss}": {"ranking_loss": loss}
        for data in ("TrecQA", "WikiQA")
        for loss in ("pointwise", "pairwise", "listwise")
    },
}


def recipe(model: str, seed: int, **training: Any) -> Any:
    from keras_sentmatch.training import load_recipe

    plan = load_recipe(model, "pairs", overrides=SETTINGS.get(model, []))
    return plan.with_training(seed=seed, **training)


def planted(args: Any, seed: int, kind: str) -> dict[str, Any]:
    """How many of the changed labels are suspected."""
    from keras_sentmatch.analysis.audit import audit

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
    """Pairs to train on, which do not occur in those to test on."""
    test = read_pairs(args.data / "quora" / "bimpm_dev.tsv", on_error="skip")
    pairs = read_pairs(args.data / "quora" / "quora-dev.csv", on_error="skip")

    def keys(data: PairDataset) -> list[frozenset[str]]:
        def plain(text: str) -> str:
            return "".join(c for c in text.lower() if c.isalnum())

        return [frozenset((plain(a), plain(b))) for a, b in zip(data.sentence1, data.sentence2)]

    held = set(keys(test))
    return pairs.select([i for i, key in enumerate(keys(pairs)) if key not in held]), test


def cut(pairs: PairDataset, seed: int) -> PairDataset:
    """All pairs that are no duplicates, and so many duplicates that they are 5%."""
    rng = np.random.default_rng(seed)
    yes, no = (rng.permutation(np.flatnonzero(pairs.labels == label)) for label in (1, 0))
    return pairs.select(np.sort(np.concatenate([no, yes[: round(len(no) * SHARE / (1 - SHARE))]])))


def trained(model: str, seed: int, splits: Any, **training: Any) -> dict[str, Any]:
    from keras_sentmatch.training import train

    with tempfile.TemporaryDirectory() as folder:
        plan = recipe(model, seed, **training)
        found = train(plan, splits, Path(folder) / "run", baseline=False).metrics
    row = found["classes"]["test"][1]
    figures = {name: row[name] for name in ("precision", "recall", "f1", "average_precision")}
    figures |= {"accuracy": found["test"]["accuracy"], "macro_f1": found["test"]["macro_f1"]}
    return {"rows": len(splits["train"])} | {n: round(v, 4) for n, v in figures.items()}


def rare(args: Any, seed: int, kind: str) -> dict[str, Any]:
    pairs, test = (cut(data, seed) for data in quora(args))
    train, validation = split_pairs(pairs, [0.9, 0.1], seed=seed)
    splits = {"train": train, "validation": validation, "test": test}
    return trained(args.model, seed, splits, **KINDS["rare"][kind])


def positives(args: Any, seed: int, kind: str) -> dict[str, Any]:
    from keras_sentmatch.corpus import from_positives

    pairs, test = quora(args)
    yes = pairs.select(np.flatnonzero(pairs.labels == 1))
    if kind == "true labels":
        rng = np.random.default_rng(seed)
        no = rng.permutation(np.flatnonzero(pairs.labels == 0))[: len(yes)]
        both = pairs.select(np.sort(np.concatenate([np.flatnonzero(pairs.labels == 1), no])))
        train, validation = split_pairs(both, [0.9, 0.1], seed=seed)
        splits = {"train": train, "validation": validation}
    else:
        splits, _ = from_positives(
            yes, fractions=[0.9, 0.1], hard=KINDS["positives"][kind], seed=seed
        )
    names = splits["train"].label_names
    named = PairDataset(test.sentence1, test.sentence2, np.array(test.labels), label_names=names)
    return trained(args.model, seed, {**splits, "test": named})


def ranking(args: Any, seed: int, kind: str) -> dict[str, Any]:
    """MAP and MRR on questions that neither train nor choose the epoch."""
    from keras_sentmatch.training import train

    if kind.startswith("TrecQA"):
        parts = load_pairs(f"trecqa-clean:{args.data / 'trecqa'}")
    else:
        parts = load_pairs(args.data / "wikiqa")
        validation, test = split_pairs(parts["validation"], [0.5, 0.5], seed=0)
        parts = {"train": parts["train"], "validation": validation, "test": test}
    if args.limit is not None:
        parts = {role: pairs.limit(args.limit) for role, pairs in parts.items()}
    epochs = {"epochs": 12, "patience": 3} if args.limit is None else {"epochs": 1}
    training = KINDS["ranking"][kind] | epochs | {"dtype_policy": "mixed_bfloat16"}
    plan = recipe(args.model, seed, **training)
    with tempfile.TemporaryDirectory() as folder:
        found = train(plan, parts, Path(folder) / "run", baseline=False).metrics
    names = ("map", "mrr", "accuracy", "nll")
    figures = {name: round(found["test"][name], 4) for name in names}
    figures["validation_map"] = round(found["validation"]["map"], 4)
    return {"rows": len(parts["train"]), **figures, "best_epoch": found["best_epoch"]}


def show(part: str, page: Path | None) -> None:
    """Means of the seeds, and their standard deviations."""
    results = measuring.Results(FILES[part], f"own_data.py --part {part}")
    groups: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in results.rows():
        groups.setdefault((row["kind"], row["model"]), []).append(row)
    if not groups:
        return
    names = [n for n in results.rows()[0] if n not in (*KEY, "seconds", "versions", "date")]
    lines = []
    for key, rows in groups.items():
        line = [*key, str(len(rows))]
        for name in names:
            values = [float(row[name]) for row in rows]
            digits = 0 if min(values) > 1 else 3
            sd = f" ± {np.std(values, ddof=1):.3f}" if digits and len(rows) > 1 else ""
            line.append(f"{np.mean(values):,.{digits}f}{sd}")
        lines.append(line)
    head = ["kind", "model", "seeds", *(name.replace("_", " ") for name in names)]
    results.show(head, lines, page)


def main() -> None:
    parser = measuring.parser(__doc__ or "")
    parser.add_argument("--data", type=Path, help="folder with a folder for each data set")
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--model", help="default: bag_of_words, for ranking re2")
    parser.add_argument("--limit", type=int, help="pairs of each part, to try ranking")
    parser.add_argument("--seeds", default="0,1,2")
    args = parser.parse_args()
    if args.limit is not None and args.part != "ranking":
        parser.error("--limit is for --part ranking")
    args.model = args.model or ("re2" if args.part == "ranking" else "bag_of_words")
    if not args.show:
        if args.data is None:
            parser.error("--data is needed to measure anything")
        results = measuring.Results(FILES[args.part])
        for seed in map(int, args.seeds.split(",")):
            for kind in KINDS[args.part]:
                key = dict(zip(KEY, (kind, args.model, str(seed))))
                if results.has(key) and args.limit is None:
                    continue
                start = time.perf_counter()
                found = MEASURES[args.part](args, seed, kind)
                row = key | found | {"seconds": round(time.perf_counter() - start, 1)}
                if args.limit is None:
                    results.add(row)
                else:
                    print(row)
    show(args.part, args.write)


MEASURES = {"audit": planted, "rare": rare, "positives": positives, "ranking": ranking}

if __name__ == "__main__":
    main()
