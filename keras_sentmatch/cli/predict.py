"""`predict`: pairs answered with named probabilities."""

import json
import logging
import os
import sys
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.console import next_step, print_json, print_table, say
from keras_sentmatch.cli.runs import Run, Scoring, digest_of, suggest_explain
from keras_sentmatch.cli.sources import AskedPairs
from keras_sentmatch.display.tables import printable, shown, without_formula
from keras_sentmatch.errors import InputError, naming_options

if TYPE_CHECKING:
    from keras_sentmatch.data import PairDataset, PairStream
    from keras_sentmatch.data.load import Window
    from keras_sentmatch.encoders.base import EncodingReport
    from keras_sentmatch.inference.answer_file import AnswerFile

log = logging.getLogger(__name__)
STANDARD_OUTPUT = Path("-")
WINDOW = 4096  # pairs that are read, answered and written at a time
FORGET = 50_000  # new words learned, after which a run is loaded again without them


def predict(
    run: options.Run,
    asked: AskedPairs,
    scoring: Scoring,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File for the answers to FILE (.tsv, .csv, .jsonl, .parquet, .arrow, .feather). "
            "Default: standard output, -."
        ),
    ] = None,
    out_format: Annotated[
        str | None,
        typer.Option(
            help="Format of the answers: tsv, csv, jsonl, parquet, arrow or feather. Default: the "
            "suffix of --out, or tsv for standard output."
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue from the answers of an interrupted run."),
    ] = False,
    workers: Annotated[
        int,
        typer.Option(
            help="Number of processes; each loads the run, and uses one GPU if there are any."
        ),
    ] = 1,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER/OF",
            help="Answer only one part of FILE, such as 3/16 (the third of 16).",
        ),
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
    """Answers one pair, or every pair of a file, which may be larger than memory."""
    if out == STANDARD_OUTPUT:
        out = None
    if asked.file is None:
        given: dict[str, Any] = {
            "--out": out,
            "--out-format": out_format,
            "--resume": resume or None,
        }
        given |= {"--workers": None if workers == 1 else workers, "--shard": shard}
        if wrong := [name for name, value in given.items() if value is not None]:
            raise InputError(f"{wrong[0]} is for the answers to a FILE; a single pair is printed.")
        if safe_csv:
            raise InputError("--safe-csv is for the answers to a FILE as .csv or .tsv.")
        pairs = asked.read()
        loaded = scoring.load(run)
        with scoring.working(1):
            answer = scoring.answers(loaded, pairs)[0]
        loaded.log_encoding()
        show_one(answer, as_json)
        if not as_json:
            suggest_explain(run, pairs.sentence1[0], pairs.sentence2[0])
        return
    options.check_at_least(1, workers=workers)
    format = _format(out, out_format, as_json)
    if safe_csv and format not in ("csv", "tsv"):
        raise InputError("--safe-csv is for the answers to a FILE as .csv or .tsv.")
    if resume and (out is None or asked.standard_input):
        raise InputError("--resume needs a FILE, and a file for --out.")
    stream = asked.stream(_shard(shard))
    scoring.use_backend()
    made = digest_of(run)
    answerer = Answerer(run, scoring, format, safe_csv)
    if out is None:
        _print(stream, answerer, workers)
    else:
        from keras_sentmatch.inference.answer_file import AnswerFile

        facts = {"run": made, "--out-format": format, "--safe-csv": safe_csv, "--shard": shard}
        facts |= {"--backend": scoring.use_backend(), "--engine": scoring.engine.value}
        facts |= {"--batch-size": scoring.batch_size, "--word-encoder": scoring.word_encoder}
        facts |= {f"--{name}": value for name, value in asked.reading().items()}
        _write(stream, answerer, workers, AnswerFile(out, format, facts, resume=resume))
    if not asked.standard_input:
        some = *asked.arguments(), "--limit", 5, "--out", "pages"
        next_step("explain", run, *some, why="see what the first answers are based on")


def _format(out: Path | None, given: str | None, as_json: bool) -> str:
    from keras_sentmatch.inference.answer_file import FORMATS, TEXT

    if as_json:
        if out is not None or given is not None:
            raise InputError("--json prints the answers: leave --out and --out-format out.")
        return "json"
    found = given or ("tsv" if out is None else out.suffix.removeprefix("."))
    if found not in FORMATS:
        if given is not None:
            raise InputError(f"--out-format {given}: expected {', '.join(FORMATS)}.")
        raise InputError(
            f"--out {out}: expected a name that ends in .{', .'.join(FORMATS)}; or --out-format."
        )
    if out is None and found not in TEXT:
        raise InputError(
            f"--out-format {found} is not text, as standard output needs: name a file with --out."
        )
    return found


def _shard(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    number, _, of = text.partition("/")
    if not (number.isdecimal() and of.isdecimal()):
        raise InputError(f"--shard {text}: expected a part and the number of parts, such as 3/16.")
    return int(number), int(of)


class Answered(NamedTuple):
    """The answers to a window."""

    header: bytes
    body: bytes
    answers: int
    rows: int  # of the input, up to their end
    digest: str
    reports: "dict[Any, EncodingReport]"  # what was encoded so far, by who did it


@dataclass
class Answerer:
    """Answers windows of a stream as a piece of a file, in this process or in a worker."""

    run: Path
    scoring: Scoring
    format: str
    safe_csv: bool
    threads: int | None = None  # of a worker
    _loaded: Run | None = field(default=None, init=False)
    _loads: int = field(default=0, init=False)

    def __call__(self, window: "Window") -> Answered:
        from keras_sentmatch.inference.answer_file import encode

        with naming_options():
            loaded = self._run()
            scores = self.scoring.scores(loaded, window.pairs)
            columns: dict[str, Any] = input_columns(window.pairs)
            columns |= loaded.matcher.answer_columns(scores)
            if self.safe_csv:
                columns = {
                    without_formula(name): [*map(without_formula, values)]
                    for name, values in columns.items()
                }
            if self.format == "json":
                header, body = b"", as_json_items(columns)
            else:
                header, body = encode(columns, self.format)
        reports = {(os.getpid(), self._loads): loaded.first.encoder.report}
        return Answered(header, body, len(window.pairs), window.rows, window.digest, reports)

    def _run(self) -> Run:
        """The run, loaded again where it has learned so many words that it could learn no more.

        So an answer does not depend on what came long before it, and memory is bounded.
        """
        if self._loaded is None or self._loaded.learned() > FORGET:
            if self.threads is not None:
                warnings.simplefilter("ignore")  # what was truncated is counted
            self._loaded = None
            self._loaded = self.scoring.load(self.run)
            self._loads += 1
            if self.threads is not None:
                self._loaded.limit_threads(self.threads)
        return self._loaded


def _answers(
    stream: "PairStream", answerer: Answerer, workers: int, **after: Any
) -> Generator[Answered]:
    """The answers to the windows of a stream, in order, with progress on standard error."""
    from keras_sentmatch.display.progress import stream_progress
    from keras_sentmatch.inference.workers import cpus, in_workers

    windows = stream.windows(WINDOW, **after)
    scoring = answerer.scoring
    backend = scoring.use_backend()
    answered: Iterator[Answered] = map(answerer, windows)
    if workers > 1:
        if scoring.engine == "onnx":
            scoring.load(answerer.run)  # so that one process makes the ONNX model, not all of them
        away = replace(
            answerer,
            scoring=replace(scoring, backend=backend),
            threads=max(1, cpus() // workers),
        )
        answered = in_workers(away, windows, workers)
    reports: dict[Any, EncodingReport] = {}
    total = 0
    try:
        with stream_progress() as show:
            for part in answered:
                yield part
                reports |= part.reports
                total += part.answers
                show(total, stream.file.done / stream.file.size if stream.file.size else 0.0)
    finally:
        getattr(answered, "close", lambda: None)()  # ends the workers
    if reports:
        first, *others = reports.values()
        log.info("%s", sum(others, first))
    if stream.report.skipped:
        log.info("%s", stream.report)


def _write(stream: "PairStream", answerer: Answerer, workers: int, file: "AnswerFile") -> None:
    if file.finished:
        log.info("%s is complete already", file.out)
        return
    parts = _answers(stream, answerer, workers, after=file.rows, digest=file.digest)
    try:
        with closing(parts):
            for part in parts:
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


def _print(stream: "PairStream", answerer: Answerer, workers: int) -> None:
    """Writes answers to standard output as they come, until its reader closes it."""
    output, as_json = sys.stdout, answerer.format == "json"
    first = True
    try:
        with closing(_answers(stream, answerer, workers)) as parts:
            for part in parts:
                text = part.body.decode()
                if as_json:
                    text = ("[\n" if first else ",\n") + text
                elif first:
                    text = part.header.decode() + text
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
    """Prints the answer to one pair."""
    if as_json:
        print_json(answer)
    elif "score" in answer:
        say(shown(answer["score"]))
    else:
        print_table(["label", "probability"], list(answer["probabilities"].items()))
        say(answer["label"] or "abstained: no label is sure enough")


def input_columns(pairs: "PairDataset") -> dict[str, Sequence[Any]]:
    """The columns of the file that the answers come with."""
    columns: dict[str, Sequence[Any] | None] = {"id": pairs.ids, "group": pairs.groups}
    columns |= {"sentence1": pairs.sentence1, "sentence2": pairs.sentence2, **pairs.columns}
    return {name: column for name, column in columns.items() if column is not None}


def as_json_items(columns: Mapping[str, Sequence[Any]]) -> bytes:
    """Rows as items of an indented JSON list."""
    plain = [c.tolist() if hasattr(c, "tolist") else c for c in columns.values()]
    rows = (dict(zip(columns, values)) for values in zip(*plain))
    items = (indent(json.dumps(row, indent=2, ensure_ascii=False), "  ") for row in rows)
    return ",\n".join(items).encode("utf-8", "backslashreplace")
