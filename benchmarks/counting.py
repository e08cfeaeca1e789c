"""Whether rule-based augmentation teaches antonyms, numbers and irrelevant sentences.

    python benchmarks/counting.py --data path/to/data --seeds 0,1,2
    python benchmarks/counting.py --data path/to/data --models cross_encoder --encoder path/to/minilm

Each model is trained on SICK and on 7,600 pairs of Quora (as in `first_hour.py`), without and with
`training.augment`. Then it is measured on the test pairs as they are, and changed by SwapAnt, NumWord and
AppendIrr with antonyms, numbers and sentences that training never used. On SICK an entailed pair
with an antonym or another number counts as neutral, as its annotators have it. `by word` is the mean
over the pairs of words that were swapped, each counted once. `--validation` measures on validation
pairs, to choose settings. Each run is one row, and existing rows are not run again.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import first_hour
import measuring

RESULTS = measuring.Results("counting")
KEY = ("data", "model", "augment", "settings", "split", "backend", "seed")
RULES = ("SwapAnt", "NumWord", "AppendIrr")
SETTINGS = {"re2": ["model.units=75"], "cross_encoder": ["training.learning_rate=5e-5"]}
OPPOSITE = {"sick": "entailment,neutral", "quora": "duplicate,not_duplicate"}


def data_of(name: str, args: argparse.Namespace, folder: Path) -> Path:
    """Return the folder for `--data`: SICK as it is, or Quora in train.tsv, dev.tsv and test.tsv."""
    if name == "sick":
        return Path(args.data, name)
    folder.mkdir(exist_ok=True)
    first_hour.prepare(name, "all", False, args.data, folder)
    lines = (folder / "train.tsv").read_text("utf-8").splitlines(keepends=True)
    cut = len(lines) // 20  # they are shuffled
    (folder / "dev.tsv").write_text("".join(lines[:1] + lines[-cut:]), "utf-8")
    (folder / "train.tsv").write_text("".join(lines[:-cut]), "utf-8")
    return folder


def rounded(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def run(args: argparse.Namespace, name: str, model: str, augment: bool, seed: str) -> None:
    rules = " ".join(RULES) if augment else ""
    split = "validation" if args.validation else "test"
    values = (name, model, rules, " ".join(args.set), split, args.backend, seed)
    key = dict(zip(KEY, values))
    if RESULTS.has(key):
        return
    with tempfile.TemporaryDirectory() as temporary:
        data, out = data_of(name, args, Path(temporary, name)), Path(temporary, "run")
        train = ["keras-sentmatch", "train", model, "--data", str(data), "--out", str(out)]
        train += ["--backend", args.backend, "--seed", seed]
        for setting in SETTINGS.get(model, []) + args.set:
            train += ["--set", setting]
        if model == "cross_encoder":
            train += ["--backbone", args.encoder]
        if augment:
            train += ["--set", f"training.augment={json.dumps(RULES)}"]
            train += ["--set", f"training.augment_labels={json.dumps(OPPOSITE[name].split(','))}"]
        subprocess.run(train, check=True)
        measure = ["keras-sentmatch", "report", str(out), "--no-baselines", "--data", str(data)]
        measure += ["--split", split]
        measure += ["--held-out", "--opposite", OPPOSITE[name], "--lexicon", "wordnet", "--json"]
        measure += [word for rule in RULES for word in ("--transform", rule)]
        measure += ["--backend", args.backend]
        done = subprocess.run(measure, stdout=subprocess.PIPE, check=True, text=True)
        metrics = json.loads((out / "metrics.json").read_text("utf-8"))
    found: dict[str, Any] = {}
    for report in json.loads(done.stdout)["transformations"]:
        rule = report["name"]
        found[f"{rule}_pairs"] = report["pairs"]
        found[f"{rule}_before"] = rounded(report["before"])
        found[f"{rule}_after"] = rounded(report["accuracy"])
    made = sum(metrics.get("made_pairs", {}).values())
    RESULTS.add(
        {
            **key,
            "accuracy": rounded(metrics[split]["accuracy"]),
            "train_rows": metrics["rows"]["train"],
            "made_pairs": made,
            **found,
            "command": measuring.public(train).replace(f"{temporary}/", ""),
        }
    )


def main() -> None:
    parser = measuring.parser(__doc__)
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with a folder for each data set"
    )
    parser.add_argument("--sets", default="sick,quora")
    parser.add_argument("--models", default="re2,hybrid,drcn")
    parser.add_argument("--encoder", help="of cross_encoder: a preset or a folder")
    parser.add_argument("--validation", action="store_true", help="measure on validation pairs")
    parser.add_argument(
        "--set", action="append", default=[], help="passed to keras-sentmatch train"
    )
    parser.add_argument("--backend", default="tensorflow", choices=measuring.BACKENDS)
    parser.add_argument("--seeds", default="0")
    args = parser.parse_args()
    for seed in args.seeds.split(","):
        for name in args.sets.split(","):
            for model in args.models.split(","):
                for augment in (False, True):
                    run(args, name, model, augment, seed)


if __name__ == "__main__":
    main()
