"""`predict`: named probabilities for pairs."""

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.console import next_step, print_json, print_table, say
from keras_sentmatch.cli.options import option
from keras_sentmatch.cli.runs import Scoring, digest_of, source_of, suggest_explain
from keras_sentmatch.cli.sources import AskedPairs
from keras_sentmatch.display.tables import printable, shown
from keras_sentmatch.errors import InputError

if TYPE_CHECKING:
    from keras_sentmatch.data import PairStream
    from keras_sentmatch.inference.answer_file import AnswerFile

log = logging.getLogger(__name__)
WINDOW = 4096  # pairs that are read, predicted and written at a time


def predict(
    run: options.Run,
    asked: AskedPairs,
    scoring: Scoring,
    out: Annotated[
        Path | None,
        option(
            "File for the predictions (.tsv, .csv or .jsonl). Default: standard output, as TSV."
        ),
    ] = None,
    resume: Annotated[bool, option("Continue an interrupted run.", "--resume")] = False,
    as_json: options.Json = False,
) -> None:
    """Predict one pair, or every pair of a file, which may be larger than memory."""
    if asked.file is None:
        _predict_one(run, asked, scoring, out is not None or resume, as_json)
        return
    standard_input = str(asked.file) == "-"
    format = _format(out, as_json)
    if resume and (out is None or standard_input):
        raise InputError("--resume needs a FILE, and a file for --out.")
    if out is not None and out.exists() and asked.file.exists() and out.samefile(asked.file):
        raise InputError(f"--out is {out}, the file of the pairs itself. Name another file.")
    asked.source = asked.source.as_in(source_of(run, needed=False))
    stream = asked.source.stream()
    if out is None:
        _print(stream, run, scoring, format)
    else:
        from keras_sentmatch.inference.answer_file import AnswerFile

        facts: dict[str, Any] = {"run": digest_of(run)}
        facts["--engine or --backend"] = scoring.backend or scoring.engine or "default"
        facts |= {"--batch-size": scoring.batch_size}
        facts |= {f"--{n.replace('_', '-')}": value for n, value in asked.reading().items()}
        _write(stream, run, scoring, AnswerFile(out, format, facts, resume=resume))
    if not standard_input:
        some = *asked.arguments(), "--limit", 5, "--out", "pages"
        next_step("explain", run, *some, why="see what the first predictions are based on")


def _predict_one(run: Path, asked: AskedPairs, scoring: Scoring, file: bool, as_json: bool) -> None:
    if file:
        raise InputError("--out and --resume need a FILE. One prediction is printed.")
    pairs = asked.read()
    loaded = scoring.load(run)
    with scoring.working(pairs):
        (answer,) = loaded.matcher.predict(pairs)
    loaded.log_encoding()
    if as_json:
        print_json(answer)
        return
    if "score" in answer:
        say(shown(answer["score"]))
    else:
        print_table(["label", "probability"], list(answer["probabilities"].items()))
        say(answer["label"] or "abstained: no label is probable enough")
    suggest_explain(run, pairs.sentence1[0], pairs.sentence2[0])


def _format(out: Path | None, as_json: bool) -> str:
    from keras_sentmatch.inference.answer_file import FORMATS

    if out is None:
        return "json" if as_json else "tsv"
    found = out.suffix.removeprefix(".")
    if as_json or found not in FORMATS:
        raise InputError(
            f"--out is {out}. Expected a name that ends in .{', .'.join(FORMATS)}, and no --json."
        )
    return found


Answered = tuple[str, str, dict[str, Any]]  # header, rows, and what AnswerFile.write needs


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
            scores = loaded.matcher.predict_proba(window.pairs, batch_size=scoring.batch_size)
            columns: dict[str, Any] = dict(window.given)
            columns |= loaded.matcher.answer_columns(scores, window.given)
            if format == "json":
                header, body = "", as_text(columns, "jsonl").rstrip("\n").replace("\n", ",\n")
            else:
                header = as_text(dict.fromkeys(columns, ()), format)
                body = as_text(columns, format, header=False)
            facts = {"answers": len(window.pairs), "rows": window.rows, "digest": window.digest}
            yield header, body, facts
            total += len(window.pairs)
            done, size = stream.file.done, stream.file.size
            show(total, round(total * size / done) if size and done else 0)
    if loaded is not None:
        loaded.log_encoding()
    if stream.report.skipped:
        log.info("%s", stream.report)


def _write(stream: "PairStream", run: Path, scoring: Scoring, file: "AnswerFile") -> None:
    after = {"after": file.rows, "digest": file.digest}
    try:
        for header, body, facts in _answers(stream, run, scoring, file.format, **after):
            file.write(header, body, **facts)
        file.finish()
    except KeyboardInterrupt:
        if file.answers:
            how = "continue with --resume"
            log.info("%s predictions are in %s: %s", f"{file.answers:,}", file.partial, how)
        raise
    finally:
        file.close()
    log.info("%s predictions in %s", f"{file.answers:,}", file.out)


def _print(stream: "PairStream", run: Path, scoring: Scoring, format: str) -> None:
    """Write predictions to standard output as they come, until its reader closes it."""
    output, as_json = sys.stdout, format == "json"
    first = True
    try:
        for header, body, _ in _answers(stream, run, scoring, format):
            start = header if first else ""
            if as_json:
                start = "[\n" if first else ",\n"
            text = (start + body).encode("utf-8", "backslashreplace").decode()
            first = False
            output.write(printable(text, "\n\t") if as_json or output.isatty() else text)
            output.flush()
        if as_json:
            output.write("\n]\n")
    except BrokenPipeError:
        # Python flushes at exit, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())
        raise typer.Exit(141) from None
