"""What runs get wrong, and whether they differ by more than chance: `errors` and `compare` of the command line as rows.

    python benchmarks/analyses.py errors RUN --data path/to/multinli --split test --lexicon antonyms=words.txt
    python benchmarks/analyses.py compare RUN RUN --backend tensorflow
    python benchmarks/analyses.py errors --show --write docs/results.md

Arguments that are not named here go to `keras-sentmatch`. New rows replace those of the same runs and data.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import measuring

from keras_sentmatch.analysis import comparing, errors
from keras_sentmatch.display.tables import shown

KEYS = {
    "errors": ("run", "data", "split", "category"),
    "compare": ("data", "split", "first", "second"),
}


def of_errors(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of categories, then of baselines."""
    found = [dict(zip(errors.COLUMNS, row)) for row in errors.table(report)]
    empty = dict.fromkeys(errors.COLUMNS, "")
    for name, figures in report["baselines"].items():
        found.append(empty | {"category": f"baseline: {name}", "accuracy": figures["accuracy"]})
    return [{"run": Path(report["run"]).name, **row} for row in found]


def of_compare(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row for each two matchers, and for each two seeds of them."""
    means = {row["name"]: row["mean"] for row in report["matchers"]}
    rows = []
    for row in comparing.table(report):
        found = dict(zip(comparing.COLUMNS, row))
        for side in ("first", "second"):
            found[f"figure_{side}"] = means.get(found[side])
            found[side] = Path(found[side]).name
        rows.append({**found, "figure": report["figure"], "rows": report["rows"]})
    return rows


def measure(what: str, arguments: Sequence[str]) -> list[dict[str, Any]]:
    command = ["keras-sentmatch", what, *arguments]
    done = subprocess.run([*command, "--json"], stdout=subprocess.PIPE, check=True, text=True)
    report = json.loads(done.stdout)
    about = {
        "data": report["data"],
        "split": report["split"],
        "command": measuring.public(command),
    }
    rows = of_errors(report) if what == "errors" else of_compare(report)
    return [{n: rounded(value) for n, value in {**row, **about}.items()} for row in rows]


def rounded(value: Any) -> Any:
    return shown(value) if isinstance(value, float) else "" if value is None else value


def table(what: str, rows: Sequence[Mapping[str, str]]) -> tuple[list[str], list[list[str]]]:
    if what == "errors":
        columns = ["run", "data", "split", "category", "pairs", "accuracy"]
        return [*columns, "95% interval"], [
            [*(row[name] for name in columns), interval(row)] for row in rows
        ]
    names = ("data", "split", "first", "second", "figure_first", "figure_second", "difference", "")
    names += ("bootstrap_p", "only_first_right", "only_second_right", "mcnemar_p")
    head = [name.replace("_", " ") or "95% interval" for name in names]
    return head, [[row[name] if name else interval(row) for name in names] for row in rows]


def interval(row: Mapping[str, str]) -> str:
    return " to ".join(filter(None, (row["low"], row["high"])))


def main() -> None:
    parser = measuring.parser(__doc__, allow_abbrev=False)
    parser.add_argument("what", choices=list(KEYS))
    args, rest = parser.parse_known_args()
    results = measuring.Results(args.what, f"analyses.py {args.what}")
    if rest and not args.show:
        results.replace(measure(args.what, rest), KEYS[args.what])
    results.show(*table(args.what, results.rows()), args.write)


if __name__ == "__main__":
    main()
