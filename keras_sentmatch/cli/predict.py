"""`predict`: one pair, or a file of pairs, answered with named probabilities."""

import csv
import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_sentmatch.cli.backend import BackendOption, use_backend
from keras_sentmatch.cli.catalog import JsonOption
from keras_sentmatch.cli.console import print_json, print_table, say
from keras_sentmatch.cli.runs import BatchSizeOption, RunArgument, WordEncoderOption, load_run
from keras_sentmatch.cli.sources import (
    ColumnsOption,
    FileArgument,
    FormatOption,
    OnError,
    OnErrorOption,
    Sentence1Option,
    Sentence2Option,
    Source,
    check_one_or_file,
)
from keras_sentmatch.display.tables import shown
from keras_sentmatch.errors import InputError

SUFFIXES = (".tsv", ".csv", ".jsonl")


def predict(
    run: RunArgument,
    file: FileArgument = None,
    sentence1: Sentence1Option = None,
    sentence2: Sentence2Option = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Where the answers of FILE go (.tsv, .csv, .jsonl). Default: stdout."),
    ] = None,
    format: FormatOption = None,
    columns: ColumnsOption = None,
    on_error: OnErrorOption = OnError.RAISE,
    batch_size: BatchSizeOption = 64,
    word_encoder: WordEncoderOption = None,
    backend: BackendOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answers one pair, or every pair of a file."""
    check_one_or_file(file, sentence1, sentence2)
    if out is not None and file is None:
        raise InputError("--out is for the answers of a FILE; one pair is printed.")
    if out is not None and (as_json or out.suffix not in SUFFIXES):
        raise InputError(
            f"--out {out}: expected a name that ends in {', '.join(SUFFIXES)}, and no --json."
        )
    use_backend(backend)
    from keras_sentmatch.data import PairDataset

    if file is None:
        pairs = PairDataset([sentence1 or ""], [sentence2 or ""])
    else:
        pairs = Source(str(file), format, columns, on_error).rows()
    loaded = load_run(run, word_encoder)
    answers = loaded.answers(pairs, batch_size)
    say(loaded.first.encoder.report)
    if file is None:
        show_one(answers[0], as_json)
        return
    rows = [given | answer_columns(answer) for given, answer in zip(input_rows(pairs), answers)]
    if as_json:
        print_json(rows)
    elif out is None:
        sys.stdout.write(as_text(rows, ".tsv"))
    else:
        write_whole(out, as_text(rows, out.suffix))
        say(f"{len(rows)} answers in {out}")


def show_one(answer: dict[str, Any], as_json: bool) -> None:
    """Prints the answer to one pair."""
    if as_json:
        print_json(answer)
    elif "score" in answer:
        print(shown(answer["score"]))
    else:
        print_table(["label", "probability"], list(answer["probabilities"].items()))
        print(answer["label"])


def input_rows(pairs: Any) -> list[dict[str, Any]]:
    """What the file said of each pair, by column; its label (if any) is called `gold`."""
    columns: dict[str, Sequence] = {"id": pairs.ids, "group": pairs.groups}
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
    return {"label": answer["label"]} | {f"probability_{name}": p for name, p in shares}


def as_text(rows: list[dict[str, Any]], suffix: str) -> str:
    """The rows as one text: TSV and CSV with a header line, or one JSON object a line."""
    if suffix == ".jsonl":
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    names = list(rows[0]) if rows else []
    if suffix == ".tsv":  # quotes are text there: no cell may hold a tab or a line break
        lines = [names, *([" ".join(str(row[name]).split()) for name in names] for row in rows)]
        return "".join("\t".join(line) + "\n" for line in lines)
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def write_whole(path: Path, text: str) -> None:
    """Writes beside the file and renames, so that a file is never half written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}.") from error
