"""Exports models trained on each backend in each format, and compares them with Matcher.predict.

    python benchmarks/export_table.py --data path/to/sick --encoder path/to/encoder
    python benchmarks/export_table.py --show --write docs/results.md

Each model is trained briefly on each backend, with the command that the row records, and exported
by `keras-sentmatch export` in a process of that backend. A process without this library answers the
built-in pairs (empty, 10,000 words, emoji, right-to-left, control characters) and the first
`--pairs` of the data's test part. A cell of the table is the largest difference of a probability;
above 1e-5 nothing is exported. An existing row (same model, backend, format) is not made again; run
folders and artifacts stay in `--runs`.
"""

import argparse
import json
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import measuring

RESULTS = measuring.Results("export")
MODELS = ("drcn", "esim-sfa", "ladra_net")
FORMATS = ("saved_model", "onnx", "litert")


def options(name: str, encoder: str) -> list[str]:
    """The arguments of `keras-sentmatch train`."""
    if name == "esim-sfa":
        return ["esim", "--set", "model.feature_attention=sfa"]
    if name == "ladra_net":
        return [name, "--backbone", encoder]
    return [name]


def command(*words: Any, backend: str) -> list[str]:
    code = "from keras_sentmatch.cli import main; main()"
    return [sys.executable, "-c", code, *map(str, words), "--backend", backend]


def run(words: list[str], backend: str) -> subprocess.CompletedProcess:
    environment = measuring.environment(backend)
    return subprocess.run(words, env=environment, capture_output=True, text=True)


def last_line(done: subprocess.CompletedProcess) -> str:
    return (done.stderr.strip() or f"status {done.returncode}").splitlines()[-1]


def write_pairs(data: str, count: int, path: Path) -> None:
    """The first pairs of the test part as TSV without labels."""
    from keras_sentmatch.data import load_pairs

    test = load_pairs(data)["test"].select(range(count))
    rows = [("sentence1", "sentence2"), *zip(test.sentence1, test.sentence2)]
    lines = ("\t".join(" ".join(text.split()) for text in row) for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def trained(name: str, backend: str, args: argparse.Namespace) -> tuple[Path, str]:
    """The run folder, made if it does not exist, and the command that makes it."""
    folder = args.runs / f"{name}-{backend}"
    words = ["train", *options(name, args.encoder), "--data", args.data, "--epochs", args.epochs]
    words += ["--limit", args.limit, "--seed", args.seed, "--out", folder]
    if not (folder / "metrics.json").exists():
        print("training", folder, flush=True)
        done = run(command(*words, backend=backend), backend)
        if done.returncode:
            sys.exit(f"{folder}: {last_line(done)}")
    shown = [Path(str(word)).name if Path(str(word)).is_absolute() else word for word in words]
    return folder, shlex.join(["keras-sentmatch", *map(str, shown), "--backend", backend])


def export(name: str, backend: str, format: str, args: argparse.Namespace) -> dict[str, Any]:
    folder, how = trained(name, backend, args)
    out = args.runs / f"{name}-{backend}-{format}"
    words = ["export", folder, "--format", format, "--out", out, "--json"]
    start = time.perf_counter()
    done = run(command(*words, "--pairs", args.runs / "pairs.tsv", backend=backend), backend)
    report = json.loads(done.stdout) if done.returncode == 0 else {}
    files = [path for path in out.rglob("*") if path.is_file()] if report else []
    return {
        "model": name,
        "backend": backend,
        "format": format,
        "pairs": report.get("pairs", ""),
        "largest_difference": report.get("largest_difference", ""),
        "error": "" if report else last_line(done),
        "signatures": " ".join(report.get("signatures", ())),
        "seconds": round(time.perf_counter() - start, 1),
        "mib": round(sum(path.stat().st_size for path in files) / 2**20, 1),
        "trained": how,
    }


def run_all(args: argparse.Namespace) -> None:
    args.runs.mkdir(parents=True, exist_ok=True)
    args.runs = args.runs.resolve()
    if not (args.runs / "pairs.tsv").exists():
        write_pairs(args.data, args.pairs, args.runs / "pairs.tsv")
    for name in args.models.split(","):
        for backend in args.backends.split(","):
            for format in args.formats.split(","):
                key = {"model": name, "backend": backend, "format": format}
                if RESULTS.has(key):
                    continue
                RESULTS.add(export(name, backend, format, args))


def table() -> tuple[list[str], list[list[str]]]:
    head = ["model", "trained on", "pairs", *FORMATS]
    rows = RESULTS.rows()
    lines = []
    for name, backend in dict.fromkeys((row["model"], row["backend"]) for row in rows):
        mine = {r["format"]: r for r in rows if (r["model"], r["backend"]) == (name, backend)}
        cells = []
        for format in FORMATS:
            found = mine.get(format)
            if found is None:
                cells.append("")
            else:
                exact, error = found["largest_difference"], found["error"]
                too_far = re.search(r"difference of ([^,;]+)", error)
                why = f"refused: {too_far[1]}" if too_far else f"no: {error[:80]}"
                cells.append(f"{float(exact):.1e}" if exact else why)
        counts = sorted({row["pairs"] for row in mine.values() if row["pairs"]})
        lines.append([name, backend, ", ".join(counts), *cells])
    return head, lines


def main() -> None:
    parser = measuring.parser(__doc__)
    parser.add_argument("--data", default="embedded", help="what the models are trained on")
    parser.add_argument("--encoder", default="", help="of ladra_net: a folder or a preset")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--backends", default=",".join(measuring.BACKENDS))
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--pairs", type=int, default=1000, help="of the test part")
    parser.add_argument("--limit", type=int, default=500, help="training pairs")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=Path, default=Path("runs/exported"))
    args = parser.parse_args()
    if not args.show:
        run_all(args)
    RESULTS.show(*table(), args.write)


if __name__ == "__main__":
    main()
