"""`audit`: errors in labeled pairs, found before training."""

import logging
from pathlib import Path
from typing import Annotated

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.backend import use_backend
from keras_sentmatch.cli.console import Report, next_step, print_report, print_table, say
from keras_sentmatch.cli.options import option
from keras_sentmatch.cli.sources import Reading, Source
from keras_sentmatch.errors import InputError

log = logging.getLogger(__name__)

FOLDS = 5
SHOWN = 20  # suspect rows in the table


def audit(
    data: Annotated[
        str,
        typer.Argument(
            metavar="PAIRS",
            help="Labeled pairs: a file; or a folder or a name from `keras-sentmatch models --datasets`, "
            "of which the training part is audited.",
        ),
    ],
    reading: Reading,
    test: Annotated[
        list[str] | None,
        option("Pairs that should share nothing with these. Repeatable.", metavar="FILE"),
    ] = None,
    out: Annotated[Path | None, option("Folder for audit.html, .json, .csv and .md.")] = None,
    as_json: options.Json = False,
    backend: options.Backend = None,
) -> None:
    """Find errors in pairs: labels that are probably wrong, duplicates, leaks, shortcuts."""
    source = Source(data, **reading.reading())
    others = {}
    if source.is_file:
        pairs = source.rows()
    else:
        parts = source.splits()
        if "train" not in parts:
            raise InputError(f"{source.data} has no train part. It has {', '.join(parts)}.")
        pairs = parts.pop("train")
        others.update(parts)
    for file in test or ():
        name = Path(file).name
        others[file if name in others else name] = Source(file, **reading.reading()).rows()
    if pairs.labels is None:
        guess = pairs.report.guess if pairs.report else ""
        how = guess or "--columns FIRST,SECOND,LABEL"
        raise InputError(f"{source.data} has no labels. Name their column, such as {how}.")
    if len(pairs) < FOLDS:
        raise InputError(f"{source.data} has {len(pairs)} pairs. An audit needs at least {FOLDS}.")
    use_backend(backend)
    from keras_sentmatch.analysis.auditing import audit as find
    from keras_sentmatch.analysis.auditing import save_audit
    from keras_sentmatch.training import load_recipe

    plan = load_recipe("bag_of_words", overrides=["model.matching_features=true"])
    log.info(f"auditing {len(pairs):,} pairs")
    report = find(pairs, plan, folds=FOLDS, others=others)
    print_report(report, out, save_audit, as_json, _print)
    if not as_json and out is None:
        next_step(
            "audit", data, *reading.given(), "--out", "audit", why="write the whole audit as a page"
        )


def _print(report: Report) -> None:
    for note in report["notes"]:
        say(f"- {note}")
    if report["suspects"]:
        names = ("row", "label", "answer", "probability", "sentence1", "sentence2")
        suspects = [[found[name] for name in names] for found in report["suspects"][:SHOWN]]
        title = "rows whose label is probably wrong, the most certain first"
        if report["task"] == "regression":
            title = "rows whose score is far from the prediction, the farthest first"
        print_table(names, suspects, title)
