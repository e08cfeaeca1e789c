"""`explain`: what an answer rests on, as a page, pictures or text."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_sentmatch.cli.backend import BackendOption, use_backend
from keras_sentmatch.cli.console import print_table, say
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
from keras_sentmatch.errors import InputError

PAGES = (".html", ".htm")


def explain(
    run: RunArgument,
    file: FileArgument = None,
    sentence1: Sentence1Option = None,
    sentence2: Sentence2Option = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The page of one pair (.html), or a folder for those of a FILE."),
    ] = None,
    png: Annotated[
        Path | None, typer.Option(help="Folder for the pictures as PNG files, of a FILE one a pair.")
    ] = None,
    text: Annotated[
        bool, typer.Option("--text", help="Print which words a re-reading model read, step by step.")
    ] = False,
    erasure: Annotated[
        bool, typer.Option(help="Answer again without each of the words.")
    ] = True,
    limit: Annotated[int | None, typer.Option(help="Take the first so many pairs of FILE.")] = None,
    format: FormatOption = None,
    columns: ColumnsOption = None,
    on_error: OnErrorOption = OnError.RAISE,
    batch_size: BatchSizeOption = 64,
    word_encoder: WordEncoderOption = None,
    backend: BackendOption = None,
) -> None:  # fmt: skip
    """Shows what the answer to a pair rests on: attention, re-read words, words left out."""
    check_one_or_file(file, sentence1, sentence2)
    if out is None and png is None and not text:
        raise InputError("say what to make: a page (--out), PNG files (--png) or --text.")
    if out is not None and (out.suffix in PAGES) != (file is None):
        wanted = "a name that ends in .html" if file is None else "a folder, for the pages of FILE"
        raise InputError(f"--out {out}: expected {wanted}.")
    if limit is not None and (limit < 1 or file is None):
        raise InputError(f"--limit {limit}: expected at least 1, and a FILE of pairs.")
    use_backend(backend)
    from keras_sentmatch.data import PairDataset
    from keras_sentmatch.explain.explanation import write_page
    from keras_sentmatch.explain.page import index

    if file is None:
        pairs = PairDataset([sentence1 or ""], [sentence2 or ""])
    else:
        pairs = Source(str(file), format, columns, on_error).rows()
        pairs = pairs.select(range(min(limit or len(pairs), len(pairs))))
    matcher = load_run(run, word_encoder).matcher
    pages: list[tuple[str, Any]] = []
    reread: list[Sequence[Any]] = []
    for number in range(len(pairs)):
        one = pairs.select([number])
        (found,) = matcher.explain(one, erasure=erasure, batch_size=batch_size)
        found.facts = {"run": str(run), **found.facts}
        name = f"pair-{number + 1:03}"
        if text:
            reread += _rows(found, run)
        if png is not None:
            found.save_pngs(png if file is None else png / name)
        if out is not None:
            found.save(out if file is None else out / f"{name}.html")
            found.values, found.pictures = {}, []  # the list of pages needs them no more
            pages.append((f"{name}.html", found))
    if out is not None and file is not None:
        write_page(out / "index.html", index(pages, f"{run} on {file.name}"))
    for folder in (out, png):
        if folder is not None:
            say(f"written: {folder}")
    if text:
        _print(reread)


def _rows(found: Any, run: Path) -> list[Sequence[Any]]:
    """A row for each sentence or unit, as in Table VIII of the LadRa-Net paper."""
    rereads = found.rereads()
    if not rereads:
        raise InputError(
            f"{run} re-reads no words: --text is for drr_net and ladra_net; use --out."
        )
    return [
        (
            row["sentence"],
            *([row["title"].partition(": ")[2]] if ": " in row["title"] else []),
            "  ".join(f"{word} {weight:.2f}" for word, weight in row["steps"]),
            "" if found.gold is None else found.gold,
            found.label or found.score,
        )
        for row in rereads
    ]


def _print(rows: Sequence[Sequence[Any]]) -> None:
    heads = ["sentence", "re-read sequence", "label", "answer"]
    if rows and len(rows[0]) > len(heads):
        heads.insert(1, "unit")
    print_table(heads, rows)
