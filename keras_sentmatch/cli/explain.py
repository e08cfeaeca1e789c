"""`explain`: what a prediction is based on, as a page or text."""

import logging
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from keras_sentmatch.cli import options
from keras_sentmatch.cli.console import next_step, print_json, print_table, working
from keras_sentmatch.cli.options import option
from keras_sentmatch.cli.runs import Scoring, source_of, suggest_explain
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
        Path | None, option("Page for one pair (.html), or folder for the pages of a FILE.")
    ] = None,
    limit: Annotated[
        int | None, option("Maximum number of pairs of FILE, from its start.", min=1)
    ] = None,
    probing: Annotated[
        bool,
        option("Measure over FILE whether each mechanism of the model acts at all.", "--probe"),
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Show what a prediction is based on: attention, re-read words, occlusion."""
    file = asked.file
    if as_json and not probing:
        raise InputError("--json needs --probe. A page is written with --out.")
    if probing:
        _probe(run, asked, scoring, out, limit, as_json)
        return
    if out is not None and (out.suffix in (".html", ".htm")) != (file is None):
        wanted = "a name that ends in .html" if file is None else "a folder, for the pages of FILE"
        raise InputError(f"--out is {out}. Expected {wanted}.")
    if limit is not None and file is None:
        raise InputError("--limit needs a FILE of pairs.")
    asked.source = asked.source.as_in(source_of(run, needed=False))
    pairs = asked.read()
    matcher = scoring.load(run, "keras").matcher
    from keras_sentmatch.explanations.explanation import explain as explain_pairs
    from keras_sentmatch.explanations.explanation import save_overview

    pages: list[tuple[str, Explanation]] = []
    reread: list[Sequence[Any]] = []
    for number in range(min(limit or len(pairs), len(pairs))):
        pair = pairs.select([number])
        with working(f"explaining pair {number + 1}") if number == 0 else nullcontext():
            explained = explain_pairs(matcher, pair, batch_size=scoring.batch_size)
        (found,) = cast("list[Explanation]", explained)
        found.facts = {"run": str(run), **found.facts}
        if file is None or out is None:
            _print_answer(found, asked_one=file is None)
            reread += _reread_rows(found)
        if out is None:
            continue
        name = f"pair-{number + 1:03}.html"
        found.save(out if file is None else out / name)
        found.values, found.pictures = {}, []  # not needed for the list of pages
        pages.append((name, found))
    if reread:
        heads = ["sentence", "re-read words", "label", "prediction"]
        if len(reread[0]) > len(heads):
            heads.insert(1, "unit")
        print_table(heads, reread)
    if out is not None:
        page = out
        if file is not None:
            page = out / "index.html"
            save_overview(page, pages, f"{run} on {file.name}")
        log.info("next: open %s in a browser", page)
    elif file is None:
        suggest_explain(run, pairs.sentence1[0], pairs.sentence2[0])
    else:
        pages_of = *asked.arguments(), "--limit", 5, "--out", "pages"
        next_step("explain", run, *pages_of, why="see it as pages")


def _probe(
    run: Path,
    asked: AskedPairs,
    scoring: Scoring,
    out: Path | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """Print a line for each measure of each mechanism, and the accuracy without it."""
    if asked.file is None:
        raise InputError("--probe needs a FILE of pairs; with labels it measures accuracy too.")
    asked.source = asked.source.as_in(source_of(run, needed=False))
    pairs = asked.read()
    loaded = scoring.load(run, "keras")
    from keras_sentmatch.explanations.probe import COLUMNS
    from keras_sentmatch.explanations.probe import probe as measure

    pairs = pairs if limit is None else pairs.limit(limit)
    if loaded.matcher is not loaded.first:
        log.info("%s is an ensemble: its first member is measured", run)
    with working(f"probing {len(pairs):,} pairs"):
        found = measure(loaded.first, pairs, batch_size=scoring.batch_size)
    if out is not None:
        found.save(out)
        log.info("written: %s", out)
    if as_json:
        print_json(
            {"run": str(run), "pairs": found.pairs, "accuracy": found.accuracy, "rows": found.rows}
        )
        return
    print_table(
        COLUMNS, [[row[name] for name in COLUMNS] for row in found.rows], f"{run} on {asked.file}"
    )
    print("\n".join(found.summary()))


def _print_answer(found: "Explanation", asked_one: bool) -> None:
    """Print the prediction and the words that decided it, after the pair if there are several."""
    if not asked_one:
        print(f"{shown(found.sentence1)} / {shown(found.sentence2)}")
    print("\n".join(map(shown, found.summary().splitlines())) + "\n" * (not asked_one))
    if found.effects and asked_one:
        print("₁ ₂: in sentence 1, in sentence 2; the number is what the word adds to the score")


def _reread_rows(found: "Explanation") -> list[Sequence[Any]]:
    """Return one row per sentence or unit that a model read again (LadRa-Net, Table VIII)."""
    sides = {"1": found.sentence1, "2": found.sentence2}
    return [
        (
            sides.get(picture.axes[1], f"{found.sentence1} {found.sentence2}"),
            *([picture.title.partition(": ")[2]] if ": " in picture.title else []),
            "  ".join(f"{word} {weight:.2f}" for word, weight in picture.steps),
            "" if found.gold is None else found.gold,
            found.label or found.score,
        )
        for picture in found.pictures
        if picture.reread
    ]
