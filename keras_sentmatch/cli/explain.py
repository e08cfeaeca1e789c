"""`explain`: what a prediction is based on, as a page or text."""

import logging
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.console import next_step, print_table, working
from keras_sentmatch.cli.runs import Scoring, suggest_explain
from keras_sentmatch.cli.sources import AskedPairs
from keras_sentmatch.display.tables import shown
from keras_sentmatch.errors import InputError

if TYPE_CHECKING:
    from keras_sentmatch.explanations.explanation import Explanation

log = logging.getLogger(__name__)


def explain(
    run: options.Run,
    asked: AskedPairs,
    scoring: Scoring,
    out: Annotated[
        Path | None,
        typer.Option(help="Page for one pair (.html), or folder for the pages of a FILE."),
    ] = None,
    text: Annotated[
        bool, typer.Option("--text", help="Print the words that a re-reading model read again.")
    ] = False,
    erasure: Annotated[
        bool, typer.Option(help="Measure how the prediction changes without each word.")
    ] = True,
    limit: Annotated[
        int | None, typer.Option(help="Maximum number of pairs of FILE, from its start.")
    ] = None,
) -> None:
    """Show what a prediction is based on: attention, re-read words, occlusion."""
    file = asked.file
    if out is not None and (out.suffix in (".html", ".htm")) != (file is None):
        wanted = "a name that ends in .html" if file is None else "a folder, for the pages of FILE"
        raise InputError(f"--out is {out}. Expected {wanted}.")
    if limit is not None and (limit < 1 or file is None):
        raise InputError(f"--limit is {limit}. Expected at least 1, and a FILE of pairs.")
    pairs = asked.read()
    matcher = scoring.load(run).matcher
    from keras_sentmatch.explanations.explanation import explain as explain_pairs
    from keras_sentmatch.explanations.explanation import save_overview

    pages: list[tuple[str, Explanation]] = []
    reread: list[Sequence[Any]] = []
    for number in range(min(limit or len(pairs), len(pairs))):
        pair = pairs.select([number])
        with working(f"explaining pair {number + 1}") if number == 0 else nullcontext():
            explained = explain_pairs(matcher, pair, erasure=erasure, batch_size=scoring.batch_size)
        (found,) = cast("list[Explanation]", explained)
        found.facts = {"run": str(run), **found.facts}
        name = f"pair-{number + 1:03}"
        if file is None or not (out or text):
            _print_answer(found, asked_one=file is None)
        if text:
            reread += _reread_rows(found, run)
        if out is not None:
            found.save(out if file is None else out / f"{name}.html")
            found.values, found.pictures = {}, []  # not needed for the list of pages
            pages.append((f"{name}.html", found))
    if out is not None and file is not None:
        save_overview(out / "index.html", pages, f"{run} on {file.name}")
    if out is not None:
        log.info("written: %s", out)
    if text:
        heads = ["sentence", "re-read sequence", "label", "answer"]
        if reread and len(reread[0]) > len(heads):
            heads.insert(1, "unit")
        print_table(heads, reread)
    if out is not None:
        log.info("next: open %s in a browser", out / "index.html" if file else out)
    elif file is None:
        suggest_explain(run, pairs.sentence1[0], pairs.sentence2[0])
    else:
        pages_of = *asked.arguments(), "--limit", 5, "--out", "pages"
        next_step("explain", run, *pages_of, why="see it as pages")


def _print_answer(found: "Explanation", asked_one: bool) -> None:
    """Print the prediction and the words that decided it, after the pair if there are several."""
    if not asked_one:
        print(f"{shown(found.sentence1)} / {shown(found.sentence2)}")
    print("\n".join(map(shown, found.summary().splitlines())) + "\n" * (not asked_one))
    if found.effects and asked_one:
        print("₁ ₂: in sentence 1, in sentence 2; the number is what the word adds to the answer")


def _reread_rows(found: "Explanation", run: Path) -> list[Sequence[Any]]:
    """Return one row per sentence or unit, as in Table VIII of the LadRa-Net paper."""
    rereads = [picture for picture in found.pictures if picture.reread]
    if not rereads:
        raise InputError(
            f"{run} does not re-read words. --text is for drr_net and ladra_net. Use --out instead."
        )
    sides = {"1": found.sentence1, "2": found.sentence2}
    both = f"{found.sentence1} {found.sentence2}"
    return [
        (
            sides.get(picture.axes[1], both),
            *([picture.title.partition(": ")[2]] if ": " in picture.title else []),
            "  ".join(f"{word} {weight:.2f}" for word, weight in picture.steps),
            "" if found.gold is None else found.gold,
            found.label or found.score,
        )
        for picture in rereads
    ]
