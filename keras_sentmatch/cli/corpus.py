"""`mine`, `groups`, `index`, `rank`: matching pairs of many sentences, groups, the best for one."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.console import next_step, print_json, print_table, working
from keras_sentmatch.cli.runs import Scoring, suggest_explain
from keras_sentmatch.errors import InputError

log = logging.getLogger(__name__)
SUFFIXES = (".tsv", ".csv", ".jsonl")
SHOWN = 20
Corpus = Annotated[Path, typer.Argument(metavar="CORPUS.txt", help="The sentences, one per line.")]

Vectors = Annotated[
    str | None,
    typer.Option(
        help="The word vectors that find candidates. table: the built-in ones (English); words: those "
        "of the run. Default: table, if the run's word vectors come from there, otherwise words."
    ),
]


@dataclass
class Mining:
    """The options that say how pairs are found, and which of them match."""

    threshold: Annotated[
        float | None,
        typer.Option(
            help="The score from which on a pair matches. Default: the run's threshold, or 0.5."
        ),
    ] = None
    label: Annotated[
        str | None,
        typer.Option(help="The label whose probability is the score; required for more than two."),
    ] = None
    vectors: Vectors = None
    candidates: Annotated[int, typer.Option(help="Number of candidates per sentence.")] = 10

    def arguments(self, scoring: Scoring) -> dict[str, Any]:
        """The arguments that `mine` and `group` share."""
        return {
            "threshold": self.threshold,
            "label": self.label,
            "vectors": self.vectors,
            "candidates": self.candidates,
            "batch_size": scoring.batch_size,
        }


def mine(
    run: options.Run,
    corpus: Corpus,
    mining: Mining,
    scoring: Scoring,
    against: Annotated[
        Path | None,
        typer.Option(help="Pair each sentence with those of this file, one per line."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="File for the pairs (.tsv, .csv, .jsonl). Default: the first are shown."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Finds the pairs of sentences in a file that match, the best first."""
    _check_out(out, as_json)
    loaded = scoring.load(run)
    from keras_sentmatch import corpus as package

    texts = [read_lines(file) for file in (corpus, against) if file is not None]
    numbers = [list(lines) for lines in texts]
    sentences = [list(lines.values()) for lines in texts]
    found: list[dict[str, Any]] = []
    for pair in package.mine(loaded.matcher, *sentences, **mining.arguments(scoring)):
        lines = {
            "line1": numbers[0][pair.pop("index1")],
            "line2": numbers[-1][pair.pop("index2")],
        }
        found.append({**lines, **pair})
    loaded.log_encoding()
    if as_json:
        print_json(found)
    elif out is not None:
        _write(out, _as_text(found, out.suffix))
        log.info("%d pairs in %s", len(found), out)
    elif found:
        print_table(list(found[0]), [list(row.values()) for row in found[:SHOWN]])
    if len(found) > SHOWN and out is None and not as_json:
        log.info("%d more pairs: write all of them with --out", len(found) - SHOWN)
    if found:
        suggest_explain(run, found[0]["sentence1"], found[0]["sentence2"])
    else:
        log.info("no pairs match")


def _as_text(rows: list[dict[str, Any]], suffix: str) -> str:
    from keras_sentmatch.inference.answer_file import as_text

    columns = {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
    return as_text(columns, suffix.removeprefix("."))


def _write(path: Path, text: str) -> None:
    """Writes a file that is never half written."""
    from keras_sentmatch.inference.run_folder import replace_file

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}.") from error


def _check_out(out: Path | None, as_json: bool) -> None:
    if out is not None and (as_json or out.suffix not in SUFFIXES):
        raise InputError(
            f"--out {out}: expected a name that ends in {', '.join(SUFFIXES)}, and no --json."
        )


def groups(
    run: options.Run,
    corpus: Corpus,
    mining: Mining,
    scoring: Scoring,
    largest: Annotated[int, typer.Option(help="Most different sentences of a group.")] = 200,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File for the groups: a row for each sentence (.tsv, .csv), or an object for each "
            "group (.jsonl). Default: the largest are shown."
        ),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="A page (.html) to look through the groups.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Finds the groups of sentences in a file that match each other."""
    _check_out(out, as_json)
    if page is not None and page.suffix not in (".html", ".htm"):
        raise InputError(f"--page {page}: expected a name that ends in .html.")
    loaded = scoring.load(run)
    from keras_sentmatch.corpus import group, save_groups

    lines = read_lines(corpus)
    numbers, sentences = list(lines), list(lines.values())
    found = group(loaded.matcher, sentences, largest=largest, **mining.arguments(scoring))
    for one in found:
        one["members"] = [{"line": numbers[m.pop("index")], **m} for m in one["members"]]
        if held := one["held_by"]:
            both = {f"line{side}": numbers[held.pop(f"index{side}")] for side in "12"}
            one["held_by"] = both | held
    loaded.log_encoding()
    if as_json:
        print_json(found)
    elif out is not None:
        rows: list[dict[str, Any]] = [*found]
        if out.suffix != ".jsonl":
            rows = [row for one in found for row in _member_rows(one)]
        _write(out, _as_text(rows, out.suffix))
        log.info("%d groups in %s", len(found), out)
    elif found:
        shown = [(one["size"], one["representative"]) for one in found[:SHOWN]]
        print_table(["size", "representative"], shown)
    if page is not None:
        save_groups(page, found, f"Groups of {corpus.name}", len(numbers))
        log.info("next: open %s in a browser", page)
    elif found:
        next_step("groups", run, corpus, "--page", "groups.html", why="look through them")
    else:
        log.info("no sentences match")


def _member_rows(one: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A row for each sentence of a group."""
    facts = {name: one[name] for name in ("group", "size", "representative")}
    held = one["held_by"]["score"] if one["held_by"] else ""
    for member in one["members"]:
        score = "" if member["score"] is None else member["score"]
        yield {**facts, "held_by": held, **member, "score": score}


def index(
    run: options.Run,
    corpus: Annotated[
        Path,
        typer.Argument(
            metavar="CORPUS",
            help="The sentences: one per line (.txt), or a table with a header (.tsv, .csv) or .jsonl, "
            "whose other columns are kept.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder of the index.")],
    column: Annotated[
        str, typer.Option(help="The column of a table that holds the sentences.")
    ] = "sentence",
    vectors: Vectors = None,
    backend: options.Backend = None,
) -> None:
    """Builds an index of sentences, for `rank --index`."""
    sentences, columns = read_corpus(corpus, column)
    loaded = Scoring(backend=backend).load(run)
    from keras_sentmatch.corpus import build_index

    given: Any = {"columns": columns, "vectors": vectors}
    with working(f"indexing {len(sentences):,} sentences"):
        build_index(loaded.matcher, sentences, out, source=corpus, **given)
    log.info("%s sentences in %s", f"{len(sentences):,}", out)
    next_step("rank", run, sentences[0], "--index", out, why="find what matches a sentence")


def rank(
    run: options.Run,
    query: Annotated[str, typer.Argument(help="The first sentence of every pair.")],
    scoring: Scoring,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="CANDIDATES.txt", help="Second sentences, one per line."),
    ] = None,
    index: Annotated[
        Path | None,
        typer.Option(
            help="The folder of an index, in place of the file: all candidates are not scored."
        ),
    ] = None,
    candidates: Annotated[
        int | None,
        typer.Option(help="How many sentences of the index are scored. Default: 100."),
    ] = None,
    top_k: Annotated[int, typer.Option(help="How many to show.")] = 10,
    label: Annotated[
        str | None, typer.Option(help="The label to rank by; required for more than two labels.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Orders the lines of a file, or what an index holds, by how well they match one sentence."""
    if (file is None) == (index is None):
        raise InputError("Give the candidates as a file, or an index with --index; not both.")
    if candidates is not None and index is None:
        raise InputError(f"--candidates {candidates}: only --index chooses what is scored.")
    given: Any = {"top_k": top_k, "label": label, "batch_size": scoring.batch_size}
    if index is not None:
        loaded = scoring.load(run)
        from keras_sentmatch.corpus import Index

        found = Index(index, loaded.matcher)
        with scoring.working(candidates or 100):
            rows = [dict(one) for one in found.rank(query, candidates=candidates or 100, **given)]
    else:
        assert file is not None
        lines = read_lines(file)
        loaded = scoring.load(run)
        with scoring.working(len(lines)):
            best = loaded.matcher.rank(query, list(lines.values()), **given)
        numbers = list(lines)
        rows = [{"line": numbers[row.pop("index")], **row} for row in best]
    loaded.log_encoding()
    if as_json:
        print_json(rows)
    elif rows:
        print_table(list(rows[0]), [list(row.values()) for row in rows])
        suggest_explain(run, query, rows[0]["sentence"])
    else:
        log.info("nothing in the index has anything in common with the sentence")


def read_corpus(path: Path, column: str) -> tuple[list[str], dict[str, list[Any]]]:
    """The sentences of a file, and its other columns: of a text file the line numbers."""
    if path.suffix not in (".tsv", ".csv", ".jsonl"):
        lines = read_lines(path)
        return list(lines.values()), {"line": list(lines)}
    from keras_sentmatch.data.files import HEADER, BadRow, TextFile, json_records, table

    source = json_records if path.suffix == ".jsonl" else table(separator=None, quoted=None)
    sentences: list[str] = []
    columns: dict[str, list[Any]] = {}
    for where, row in source(TextFile(path)):
        if isinstance(row, BadRow):
            raise InputError(f"{path}{where}: {row.message}.")
        if not isinstance(row.get(column), str):
            raise InputError(
                f"{path}{where.removesuffix(HEADER)} has the columns {', '.join(row)}, and no text "
                f"under {column!r}: name the column of the sentences with --column."
            )
        if where == HEADER:
            continue
        for name in row:
            if name not in columns and name != column:
                columns[name] = [""] * len(sentences)
        sentences.append(row[column])
        for name, values in columns.items():
            values.append(row.get(name, ""))
    if not sentences:
        raise InputError(f"{path} contains no sentences.")
    return sentences, columns


def read_lines(path: Path) -> dict[int, str]:
    """The lines of a text file by number, without the blank ones."""
    try:
        lines = path.read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8."
        ) from error
    kept = {number: line for number, line in enumerate(lines, start=1) if line.strip()}
    if not kept:
        raise InputError(f"{path} contains no sentences; write one candidate per line.")
    if blank := len(lines) - len(kept):
        log.info("%s: %d blank lines skipped", path, blank)
    return kept
