"""`rank`: candidates from a file, ordered by how well they match one query."""

import logging
from pathlib import Path
from typing import Annotated

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.backend import use_backend
from keras_sentmatch.cli.console import print_json, print_table
from keras_sentmatch.cli.runs import Run
from keras_sentmatch.errors import InputError

log = logging.getLogger(__name__)


def rank(
    run: options.Run,
    query: Annotated[str, typer.Argument(help="The first sentence of every pair.")],
    candidates: Annotated[
        Path, typer.Argument(metavar="CANDIDATES.txt", help="Second sentences, one per line.")
    ],
    top_k: Annotated[int, typer.Option(help="How many to show.")] = 10,
    label: Annotated[
        str | None, typer.Option(help="The label to rank by; required for more than two labels.")
    ] = None,
    batch_size: options.BatchSize = 64,
    word_encoder: options.WordEncoder = None,
    backend: options.Backend = None,
    as_json: options.Json = False,
) -> None:
    """Orders the lines of a file by how well they match one sentence."""
    lines = read_lines(candidates)
    use_backend(backend)
    loaded = Run.load(run, word_encoder)
    best = loaded.matcher.rank(
        query, list(lines.values()), top_k=top_k, label=label, batch_size=batch_size
    )
    numbers = list(lines)
    rows = [{"line": numbers[row.pop("index")], **row} for row in best]
    loaded.log_encoding()
    if as_json:
        print_json(rows)
    else:
        print_table(["line", "sentence", "score"], [list(row.values()) for row in rows])


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
