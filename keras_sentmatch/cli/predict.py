"""`predict`: named probabilities for pairs."""

import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.console import next_step, print_json, print_table, say
from keras_sentmatch.cli.runs import Scoring, digest_of, suggest_explain
from keras_sentmatch.cli.sources import AskedPairs
from keras_sentmatch.display.tables import printable, shown
from keras_sentmatch.errors import InputError

if TYPE_CHECKING:
    from keras_sentmatch.data import PairDataset, PairStream
    from keras_sentmatch.inference.answer_file import AnswerFile

log = logging.getLogger(__name__)
STANDARD_OUTPUT = Path("-")
WINDOW = 4096  # pairs that are read, predicted and written at a time


def predict(
    run: options.Run,
    asked: AskedPairs,
    scoring: Scoring,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File for the predictions (.tsv, .csv or .jsonl). Default: standard output, -."
        ),
    ] = None,
    out_format: Annotated[
        str | None,
        typer.Option(
            help="Format of the predictions: tsv, csv or jsonl. Default: the suffix of --out, or tsv."
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue an interrupted run."),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Predict one pair, or every pair of a file, which may be larger than memory."""
    if out == STANDARD_OUTPUT:
        out = None
    if asked.file is None:
        given = {"--out": out, "--out-format": out_format, "--resume": resume or None}
        if wrong := [name for name, value in given.items() if value is not None]:
            raise InputError(
                f"{wrong[0]} is for a FILE of pairs. The prediction of a single pair is printed."
            )
        pairs = asked.read()
        loaded = scoring.load(run)
        with scoring.working(1):
            answer = scoring.answers(loaded, pairs)[0]
        loaded.log_encoding()
        show_one(answer, as_json)
        if not as_json:
            suggest_explain(run, pairs.sentence1[0], pairs.sentence2[0])
        return
    format = _format(out, out_format, as_json)
    if resume and (out is None or asked.standard_input):
        raise InputError("--resume needs a FILE, and a file for --out.")
    stream = asked.stream()
    backend = scoring.use_backend()
    if out is None:
        _print(stream, run, scoring, format)
    else:
        from keras_sentmatch.inference.answer_file import AnswerFile

        facts: dict[str, Any] = {"run": digest_of(run), "--out-format": format}
        facts |= {"--backend": backend, "--engine": scoring.engine.value}
        facts |= {"--batch-size": scoring.batch_size}
        facts |= {f"--{name}": value for name, value in asked.reading().items()}
        _write(stream, run, scoring, AnswerFile(out, format, facts, resume=resume))
    if not asked.standard_input:
        some = *asked.arguments(), "--limit", 5, "--out", "pages"
        next_step("explain", run, *some, why="see what the first predictions are based on")


def _format(out: Path | None, given: str | None, as_json: bool) -> str:
    from keras_sentmatch.inference.answer_file import FORMATS

    if as_json:
        if out is not None or given is not None:
            raise InputError("--json prints the predictions. Leave --out and --out-format out.")
        return "json"
    found = given or ("tsv" if out is None else out.suffix.removeprefix("."))
    if found not in FORMATS:
        if given is not None:
            raise InputError(f"--out-format is {given}. Expected {', '.join(FORMATS)}.")
        raise InputError(
            f"--out is {out}. Expected a name that ends in .{', .'.join(FORMATS)}, or --out-format."
        )
    return found


class Answered(NamedTuple):
    """The predictions of a window."""

    header: str
    body: str
    answers: int
    rows: int  # of the input, up to the end of the window
    digest: str


def _answers(
    stream: "PairStream", run: Path, scoring: Scoring, format: str, **after: Any
) -> Iterator[Answered]:
    """Yield the predictions of a stream's windows in order, with progress on standard error."""
    from keras_sentmatch.display.progress import progress_bar
    from keras_sentmatch.inference.answer_file import as_text

    loaded = None
    total = 0
    with progress_bar("scoring", 0) as show:
        for window in stream.windows(WINDOW, **after):
            loaded = loaded or scoring.load(run)
            columns: dict[str, Any] = input_columns(window.pairs)
            columns |= loaded.matcher.answer_columns(scoring.scores(loaded, window.pairs))
            if format == "json":
                header, body = "", as_json_items(columns)
            else:
                header = as_text(dict.fromkeys(columns, ()), format)
                body = as_text(columns, format, header=False)
            yield Answered(header, body, len(window.pairs), window.rows, window.digest)
            total += len(window.pairs)
            done, size = stream.file.done, stream.file.size
            show(total, round(total * size / done) if size and done else 0)
    if loaded is not None:
        loaded.log_encoding()
    if stream.report.skipped:
        log.info("%s", stream.report)


def _write(stream: "PairStream", run: Path, scoring: Scoring, file: "AnswerFile") -> None:
    if file.finished:
        log.info("%s is complete already", file.out)
        return
    after = {"after": file.rows, "digest": file.digest}
    try:
        for part in _answers(stream, run, scoring, file.format, **after):
            file.write(*part[:2], answers=part.answers, rows=part.rows, digest=part.digest)
        file.finish()
    except KeyboardInterrupt:
        if file.answers:
            how = "continue with --resume"
            log.info("%s answers are in %s: %s", f"{file.answers:,}", file.partial, how)
        raise
    finally:
        file.close()
    log.info("%s answers in %s", f"{file.answers:,}", file.out)


def _print(stream: "PairStream", run: Path, scoring: Scoring, format: str) -> None:
    """Write predictions to standard output as they come, until its reader closes it."""
    output, as_json = sys.stdout, format == "json"
    first = True
    try:
        for part in _answers(stream, run, scoring, format):
            text = part.body
            if as_json:
                text = ("[\n" if first else ",\n") + text
            elif first:
                text = part.header + text
            text = text.encode("utf-8", "backslashreplace").decode()
            first = False
            output.write(printable(text, "\n\t") if as_json or output.isatty() else text)
            output.flush()
        if as_json:
            output.write("\n]\n")
    except BrokenPipeError:
        # Python flushes at exit, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())
        raise typer.Exit(141) from None


def show_one(answer: dict[str, Any], as_json: bool) -> None:
    """Print the prediction of one pair."""
    if as_json:
        print_json(answer)
    elif "score" in answer:
        say(shown(answer["score"]))
    else:
        print_table(["label", "probability"], list(answer["probabilities"].items()))
        say(answer["label"] or "abstained: no label is sure enough")


def input_columns(pairs: "PairDataset") -> dict[str, Sequence[Any]]:
    """Return the columns of the input that stand next to the predictions."""
    columns: dict[str, Sequence[Any] | None] = {"id": pairs.ids, "group": pairs.groups}
    columns |= {"sentence1": pairs.sentence1, "sentence2": pairs.sentence2, **pairs.columns}
    return {name: column for name, column in columns.items() if column is not None}


def as_json_items(columns: Mapping[str, Sequence[Any]]) -> str:
    """Return rows as items of an indented JSON list."""
    plain = [c.tolist() if hasattr(c, "tolist") else c for c in columns.values()]
    rows = (dict(zip(columns, values)) for values in zip(*plain))
    items = (indent(json.dumps(row, indent=2, ensure_ascii=False), "  ") for row in rows)
    return ",\n".join(items)
