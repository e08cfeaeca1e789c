"""`rank`: candidates of a file, ordered by how well they match one query."""

from pathlib import Path
from typing import Annotated, Any

import typer

from keras_sentmatch.cli.backend import BackendOption, use_backend
from keras_sentmatch.cli.catalog import JsonOption
from keras_sentmatch.cli.console import print_json, print_table, say
from keras_sentmatch.cli.runs import BatchSizeOption, RunArgument, WordEncoderOption, load_run
from keras_sentmatch.errors import InputError


def rank(
    run: RunArgument,
    query: Annotated[str, typer.Argument(help="The first sentence of every pair.")],
    candidates: Annotated[
        Path, typer.Argument(metavar="CANDIDATES.txt", help="Second sentences, one a line.")
    ],
    top_k: Annotated[int, typer.Option(help="How many to show.")] = 10,
    label: Annotated[
        str | None, typer.Option(help="The label to rank by; needed with more than two.")
    ] = None,
    batch_size: BatchSizeOption = 64,
    word_encoder: WordEncoderOption = None,
    backend: BackendOption = None,
    as_json: JsonOption = False,
) -> None:
    """Orders the lines of a file by how well they match one sentence."""
    lines = read_lines(candidates)
    use_backend(backend)
    loaded = load_run(run, word_encoder)
    best: list[dict[str, Any]] = loaded.matcher.rank(
        query, [text for _, text in lines], top_k=top_k, label=label, batch_size=batch_size
    )
    best = [{"line": lines[row.pop("index")][0], **row} for row in best]
    say(loaded.first.encoder.report)
    if as_json:
        print_json(best)
    else:
        rows = [list(row.values()) for row in best]
        print_table(["line", "sentence", "score"], rows)


def read_lines(path: Path) -> list[tuple[int, str]]:
    """The lines of a text file with their numbers, without the blank ones (their number is said)."""
    try:
        lines = path.read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8."
        ) from error
    kept = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if not kept:
        raise InputError(f"{path} holds no sentence; write one candidate a line.")
    if blank := len(lines) - len(kept):
        say(f"{path}: {blank} blank lines left out")
    return kept
