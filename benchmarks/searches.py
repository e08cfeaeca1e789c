"""Searches with `keras-sentmatch tune`, and what they say: a row a trial, a table, and the pictures of the sensitivity.

    python benchmarks/searches.py --name drr_net-T -- drr_net --data path/to/sick --space T=1:8 --tuner grid --seeds 3
    python benchmarks/searches.py --show --write docs/results.md

What comes after `--` are the arguments of `keras-sentmatch tune`, without `--out` and `--json`. The search lies in
`runs/searches/NAME`; one that is there goes on, and one that is over is only read. Its rows replace those of that name.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import measuring

RESULTS = measuring.Results("searches")
FOLDER = Path("runs") / "searches"
PICTURES = Path("docs") / "images"


def run(name: str, arguments: list[str]) -> dict[str, Any]:
    """Begins the search, or goes on with it; what `tune --json` prints."""
    folder = FOLDER / name
    command = ["keras-sentmatch", "tune", *arguments, "--out", str(folder), "--json"]
    if (folder / "search.json").exists():
        command.append("--resume")
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)


def rows_of(name: str, arguments: list[str], found: dict[str, Any]) -> list[dict[str, Any]]:
    folder = Path(found["folder"])
    about = json.loads((folder / "search.json").read_text(encoding="utf-8"))
    short = about["names"]
    shared = {
        "command": measuring.public(["keras-sentmatch", "tune", *arguments]),
    }
    rows = []

    def add(trial: str, chosen: dict[str, Any], scores: list[float], **more: Any) -> None:
        row = {
            "search": name,
            "model": found["model"],
            "data": found["data"],
            "train_pairs": about["train pairs"].partition(" ")[0],
            "validation_pairs": about["validation pairs"].partition(" ")[0],
            "objective": found["objective"],
            "trial": trial,
            "configuration": " ".join(
                f"{short.get(k, k)}={v}" for k, v in chosen.items() if v is not None
            ),
            "scores": " ".join(f"{score:.4f}" for score in scores),
            "test": "",
            "parameters": "",
            "seconds": "",
            "backend": "",
            "requeued": "",
        }
        rows.append({**row, **more, **shared})

    for trial in found["trials"]:
        scores = [v for k, v in trial.items() if k.startswith("score_seed_") and v is not None]
        scores = scores or ([] if trial["score"] is None else [trial["score"]])
        facts = {k: trial[k] for k in ("parameters", "seconds", "backend", "requeued")}
        add(trial["trial"], {k: trial[k] for k in about["space"]}, scores, **facts)
    if again := found["retrained"]:
        figure = found["objective"].removeprefix("val_")

        def figures(part: str) -> list[float]:
            return [one[figure] for one in again[part].get("members", [again[part]])]

        tests = " ".join(f"{score:.4f}" for score in figures("test")) if "test" in again else ""
        add("anew", found["configuration"], figures("validation"), test=tests)
    picture = folder / "sensitivity.png"
    if picture.exists():
        PICTURES.mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, PICTURES / f"search-{name}.png")
    return rows


def table() -> tuple[list[str], list[list[str]]]:
    lines = []
    for row in RESULTS.rows():
        scores = [float(score) for score in row["scores"].split()]
        tests = [float(score) for score in row["test"].split()]
        lines.append(
            [
                row["search"],
                row["train_pairs"],
                row["backend"],
                "trained again" if row["trial"] == "anew" else row["trial"],
                row["configuration"],
                str(len(scores)),
                measuring.mean_and_deviation(scores, 4),
                measuring.mean_and_deviation(tests, 4),
                row["parameters"],
                row["seconds"],
            ]
        )
    head = "search,train pairs,backend,trial,configuration,seeds,validation,test,parameters,seconds"
    return head.split(","), lines


def main() -> None:
    parser = measuring.parser(__doc__)
    parser.add_argument("--name", help="of the search: its folder, its rows and its picture")
    parser.add_argument("arguments", nargs="*", help="of `keras-sentmatch tune`, after --")
    args = parser.parse_args()
    if not args.show:
        if not args.name or not args.arguments:
            sys.exit(
                "--name and, after --, the arguments of `keras-sentmatch tune` are needed; or --show."
            )
        rows = rows_of(args.name, args.arguments, run(args.name, args.arguments))
        RESULTS.replace(rows, ["search"])
    RESULTS.show(*table(), args.write)


if __name__ == "__main__":
    main()
