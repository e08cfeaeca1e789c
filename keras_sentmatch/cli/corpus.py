"""`mine` and `rank`: the matching pairs or groups of many sentences, and the best matches of one."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.console import next_step, print_json, print_table, working
from keras_sentmatch.cli.runs import Run, Scoring, suggest_explain
from keras_sentmatch.errors import InputError

log = logging.getLogger(__name__)
SUFFIXES = (".tsv", ".csv", ".jsonl")
SHOWN = 20
Corpus = Annotated[Path, typer.Argument(metavar="CORPUS.txt", help="The sentences, one per line.")]

Vectors = Annotated[
    str | None,
    typer.Option(
        help="Word vectors that find candidates: table (built-in, English) or words (the run's). "
        "Default: table if the run's vectors come from it, else words."
    ),
]


@dataclass
class Mining:
    """The options on how pairs are found, and which of them match."""

    threshold: Annotated[
        float | None,
        typer.Option(help="Score from which a pair matches. Default: the run's threshold, or 0.5."),
    ] = None
    label: Annotated[
        str | None,
        typer.Option(
            help="Label whose probability is the score; required for more than two labels."
        ),
    ] = None
    vectors: Vectors = None
    candidates: Annotated[int, typer.Option(help="Number of candidates per sentence.")] = 10

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that `mine` and `group` share."""
        return dict(vars(self))


def mine(
    run: options.Run,
    corpus: Corpus,
    mining: Mining,
    scoring: Scoring,
    against: Annotated[
        Path | None,
        typer.Option(help="Pair each sentence with those of this file, one per line."),
    ] = None,
    groups: Annotated[
        bool, typer.Option("--groups", help="Find groups of sentences that match each other.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="File for the pairs or groups (.tsv, .csv, .jsonl). Default: show some."),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="With --groups: a page (.html) to look through them.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Find the matching pairs of sentences in a file, the best first, or groups of them."""
    if out is not None and (as_json or out.suffix not in SUFFIXES):
        raise InputError(
            f"--out is {out}. Expected a name that ends in {', '.join(SUFFIXES)}, and no --json."
        )
    if page is not None and (not groups or page.suffix not in (".html", ".htm")):
        raise InputError(f"--page is {page}. Expected a name that ends in .html, with --groups.")
    if groups and against is not None:
        raise InputError("--groups cannot be combined with --against.")
    texts = [read_lines(file) for file in (corpus, against) if file is not None]
    loaded = scoring.load(run)
    given = {**mining.arguments(), "batch_size": scoring.batch_size}
    if groups:
        _mine_groups(run, loaded, corpus, texts[0], given, out, page, as_json)
        return
    from keras_sentmatch.corpus import mine as mine_pairs

    numbers = [list(lines) for lines in texts]
    found: list[dict[str, Any]] = []
    for pair in mine_pairs(loaded.matcher, *(list(lines.values()) for lines in texts), **given):
        first, second = pair.pop("index1"), pair.pop("index2")
        found.append({"line1": numbers[0][first], "line2": numbers[-1][second], **pair})
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


def _mine_groups(
    run: Path,
    loaded: Run,
    corpus: Path,
    lines: dict[int, str],
    given: dict[str, Any],
    out: Path | None,
    page: Path | None,
    as_json: bool,
) -> None:
    from keras_sentmatch.corpus import group, save_groups

    numbers = list(lines)
    found = group(loaded.matcher, list(lines.values()), **given)
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
        next_step("mine", run, corpus, "--groups", "--page", "groups.html", why="look through them")
    else:
        log.info("no sentences match")


def _as_text(rows: list[dict[str, Any]], suffix: str) -> str:
    from keras_sentmatch.inference.answer_file import as_text

    columns = {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
    return as_text(columns, suffix.removeprefix("."))


def _write(path: Path, text: str) -> None:
    """Write a file that is never half written."""
    from keras_sentmatch.safety import replace_file

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text)
    except OSError as error:
        raise InputError(f"Cannot write {path}: {error.strerror}.") from error


def _member_rows(one: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield one row per sentence of a group."""
    facts = {name: one[name] for name in ("group", "size", "representative")}
    held = one["held_by"]["score"] if one["held_by"] else ""
    for member in one["members"]:
        score = "" if member["score"] is None else member["score"]
        yield {**facts, "held_by": held, **member, "score": score}


def rank(
    run: options.Run,
    query: Annotated[str, typer.Argument(help="The first sentence of every pair.")],
    scoring: Scoring,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="CANDIDATES",
            help="Second sentences, one per line; with --save-index also a table (.tsv, .csv, "
            ".jsonl), whose other columns are kept.",
        ),
    ] = None,
    index: Annotated[
        Path | None,
        typer.Option(help="Folder of an index, instead of CANDIDATES: only the best are scored."),
    ] = None,
    save_index: Annotated[
        Path | None, typer.Option(help="Build an index of CANDIDATES in this folder, and use it.")
    ] = None,
    column: Annotated[
        str, typer.Option(help="With --save-index: the column of a table with the sentences.")
    ] = "sentence",
    vectors: Vectors = None,
    candidates: Annotated[
        int | None, typer.Option(help="Number of sentences of the index to score. Default: 100.")
    ] = None,
    top_k: Annotated[int, typer.Option(help="Number of sentences to show.")] = 10,
    label: Annotated[
        str | None, typer.Option(help="The label to rank by; required for more than two labels.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Order the lines of a file, or the sentences of an index, by how well they match a sentence."""
    if (file is None) == (index is None) or (index is not None and save_index is not None):
        raise InputError("Give the candidates either as a file, or as an index with --index.")
    if candidates is not None and index is save_index:
        raise InputError(f"--candidates is {candidates}, which needs --index or --save-index.")
    given: Any = {"top_k": top_k, "label": label, "batch_size": scoring.batch_size}
    sentences, columns, lines = [], {}, {}  # type: ignore[var-annotated]
    if save_index is not None:
        assert file is not None
        sentences, columns = read_corpus(file, column)
    elif file is not None:
        lines = read_lines(file)
    loaded = scoring.load(run)
    if save_index is not None:
        from keras_sentmatch.corpus import build_index

        more: Any = {"columns": columns, "vectors": vectors}
        with working(f"indexing {len(sentences):,} sentences"):
            build_index(loaded.matcher, sentences, save_index, source=file, **more)
        log.info("%s sentences in %s", f"{len(sentences):,}", save_index)
    if found := index or save_index:
        from keras_sentmatch.corpus import Index

        opened = Index(found, loaded.matcher)
        with scoring.working(candidates or 100):
            rows = [dict(one) for one in opened.rank(query, candidates=candidates or 100, **given)]
    else:
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
        log.info("no sentence of the index has anything in common with this one")


def read_corpus(path: Path, column: str) -> tuple[list[str], dict[str, list[Any]]]:
    """Return the sentences of a file, and its other columns; of a text file the line numbers."""
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
                f"under {column!r}. Name the column of the sentences with --column."
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
    """Return the lines of a text file by number, without blank lines."""
    try:
        lines = path.read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: byte {error.start} is not UTF-8. Save the file as UTF-8."
        ) from error
    kept = {number: line for number, line in enumerate(lines, start=1) if line.strip()}
    if not kept:
        raise InputError(f"{path} contains no sentences. Write one sentence per line.")
    if blank := len(lines) - len(kept):
        log.info("%s: %d blank lines skipped", path, blank)
    return kept
