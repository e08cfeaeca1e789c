"""`predict`: pairs answered with named probabilities."""

import csv
import io
import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.console import next_step, print_json, print_table, say
from keras_sentmatch.cli.runs import Scoring, suggest_explain
from keras_sentmatch.cli.sources import AskedPairs
from keras_sentmatch.display.tables import printable, shown, without_formula
from keras_sentmatch.errors import InputError

if TYPE_CHECKING:
    from keras_sentmatch.data import PairDataset

log = logging.getLogger(__name__)
SUFFIXES = (".tsv", ".csv", ".jsonl")


def predict(
    run: options.Run,
    asked: AskedPairs,
    scoring: Scoring,
    out: Annotated[
        Path | None,
        typer.Option(help="File for the answers to FILE (.tsv, .csv, .jsonl). Default: stdout."),
    ] = None,
    safe_csv: Annotated[
        bool,
        typer.Option(
            "--safe-csv",
            help="Put a quote before cells that a spreadsheet would take for a formula (those that "
            "begin with =, +, -, @, a tab or a carriage return).",
        ),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Answers one pair, or every pair of a file."""
    if out is not None and asked.file is None:
        raise InputError("--out is for the answers to a FILE; a single pair is printed.")
    if out is not None and (as_json or out.suffix not in SUFFIXES):
        raise InputError(
            f"--out {out}: expected a name that ends in {', '.join(SUFFIXES)}, and no --json."
        )
    if safe_csv and (asked.file is None or as_json or (out and out.suffix == ".jsonl")):
        raise InputError("--safe-csv is for the answers to a FILE as .csv or .tsv.")
    pairs = asked.read()
    loaded = scoring.load(run)
    with scoring.working(len(pairs)):
        answers = scoring.answers(loaded, pairs)
    loaded.log_encoding()
    if asked.file is None:
        show_one(answers[0], as_json)
        if not as_json:
            suggest_explain(run, pairs.sentence1[0], pairs.sentence2[0])
        return
    rows = [row | answer_columns(answer) for row, answer in zip(input_rows(pairs), answers)]
    if safe_csv:
        rows = [{without_formula(k): without_formula(v) for k, v in row.items()} for row in rows]
    if as_json:
        print_json(rows)
        return
    if out is None:
        text = as_text(rows, ".tsv")  # into a file or a pipe as it is
        sys.stdout.write(printable(text, "\n\t") if sys.stdout.isatty() else text)
    else:
        write_atomically(out, as_text(rows, out.suffix))
        log.info("%d answers in %s", len(rows), out)
    some = *asked.arguments(), "--limit", 5, "--out", "pages"
    next_step("explain", run, *some, why="see what the first answers are based on")


def show_one(answer: dict[str, Any], as_json: bool) -> None:
    """Prints the answer to one pair."""
    if as_json:
        print_json(answer)
    elif "score" in answer:
        say(shown(answer["score"]))
    else:
        print_table(["label", "probability"], list(answer["probabilities"].items()))
        say(answer["label"] or "abstained: no label is sure enough")


def input_rows(pairs: "PairDataset") -> list[dict[str, Any]]:
    """The columns of the file for each pair; a label is called `gold`."""
    columns: dict[str, Sequence[Any] | None] = {"id": pairs.ids, "group": pairs.groups}
    columns |= {"sentence1": pairs.sentence1, "sentence2": pairs.sentence2, **pairs.columns}
    if pairs.labels is not None:
        names = pairs.label_names
        columns["gold"] = [names[i] if names else float(i) for i in pairs.labels]
    kept = {name: column for name, column in columns.items() if column is not None}
    return [dict(zip(kept, values)) for values in zip(*kept.values())]


def answer_columns(answer: dict[str, Any]) -> dict[str, Any]:
    """`label` and a `probability_NAME` for each label, or `score`."""
    if "score" in answer:
        return {"score": answer["score"]}
    shares = answer["probabilities"].items()
    answered = {name: answer[name] for name in ("label", "abstained") if name in answer}
    return answered | {f"probability_{name}": p for name, p in shares}


def as_text(rows: list[dict[str, Any]], suffix: str) -> str:
    """The rows as TSV or CSV with a header line, or as one JSON object per line."""
    if suffix == ".jsonl":
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    names = list(rows[0]) if rows else []
    if suffix == ".tsv":  # quotes are text there: no cell may contain a tab or a line break
        lines = [names, *([" ".join(as_cell(row[name]).split()) for name in names] for row in rows)]
        return "".join("\t".join(line) + "\n" for line in lines)
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_cell(value: Any) -> str:
    return "" if value is None else str(value)


def write_atomically(path: Path, text: str) -> None:
    """Writes another file and renames it, so that there is never half of one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}.") from error
