"""Trained runs on pairs changed by rule: accuracy before and after each transformation, the runs beside each other.

    python benchmarks/robustness.py RUN RUN --data path/to/sick --split validation --lexicon antonyms=words.txt
    python benchmarks/robustness.py --show --write docs/results.md

Each run is measured by `keras-sentmatch robustness`, on the same changed pairs. Its rows, one a transformation, replace
those of the same run, data and rule.
"""

import argparse
import json
import statistics
import subprocess
from pathlib import Path
from typing import Any

import measuring

RESULTS = measuring.Results("robustness")
KEY = ("run", "data", "split", "opposite", "transformation")


def rows_of(run: Path, args: argparse.Namespace) -> list[dict[str, Any]]:
    options = ["--data", args.data, "--split", args.split, "--seed", str(args.seed)]
    for source in args.lexicon:
        options += ["--lexicon", source]
    options += ["--opposite", args.opposite] if args.opposite else []
    for name in args.transform:
        options += ["--transform", name]
    options += ["--limit", str(args.limit)] if args.limit else []
    metrics = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
    command = ["keras-sentmatch", "robustness", str(run), *options, "--backend", args.backend]
    done = subprocess.run([*command, "--json"], stdout=subprocess.PIPE, check=True, text=True)
    report = json.loads(done.stdout)
    rows = []
    for found in report["transformations"]:
        before, after = found["before"] or {}, found["after"] or {}
        row = {
            "run": run.name,
            "model": metrics["model"],
            "data": Path(args.data).name,
            "split": args.split,
            "opposite": args.opposite,
            "transformation": found["name"],
            "pairs": found["pairs"],
            "of": found["of"],
            "before": rounded(before.get("accuracy")),
            "after": rounded(after.get("accuracy")),
            "not_positive_after": rounded(after.get("not_positive")),
            "seed": args.seed,
            "backend": args.backend,
            "command": measuring.public(command),
        }
        rows.append(row)
    for name, why in report["left_out"].items():
        print(f"left out {name}: {why}")
    return rows


def rounded(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def table() -> tuple[list[str], list[list[str]]]:
    """A line for each transformation of a data set, a column for each model: the mean over its runs."""
    rows = RESULTS.rows()
    models = list(dict.fromkeys(row["model"] for row in rows))
    lines: dict[tuple[str, ...], dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        rule = f" ({row['opposite'].replace(',', ' → ')})" if row["opposite"] else ""
        data = f"{row['data']}, {row['split']}"
        key = data, row["transformation"] + rule, f"{row['pairs']} of {row['of']}"
        found = lines.setdefault(key, {})
        if row["after"]:  # else no pair to change
            found.setdefault(row["model"], []).append(row)
    head = ["data", "transformation", "pairs changed", *models]
    return head, [[*key, *(said(found.get(m, [])) for m in models)] for key, found in lines.items()]


def said(rows: list[dict[str, Any]]) -> str:
    def mean(name: str) -> str:
        return f"{100 * statistics.fmean(float(row[name]) for row in rows):.1f}"

    if not rows:
        return ""
    negative = f" [{mean('not_positive_after')}]" if rows[0]["not_positive_after"] else ""
    return f"{mean('before')} → {mean('after')}{negative}"


def main() -> None:
    parser = measuring.parser(__doc__)
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--data", help="as for `keras-sentmatch robustness`")
    parser.add_argument("--split", default="validation")
    parser.add_argument("--lexicon", action="append", default=[])
    parser.add_argument("--transform", action="append", default=[], help="by default all")
    parser.add_argument("--opposite", default="", help="positive,negative")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", default="tensorflow", choices=measuring.BACKENDS)
    args = parser.parse_args()
    if args.runs and not args.data:
        parser.error("--data is needed: what the runs are measured on")
    for run in [] if args.show else args.runs:
        RESULTS.replace(rows_of(run, args), KEY)
        print(run, flush=True)
    RESULTS.show(*table(), args.write)


if __name__ == "__main__":
    main()
