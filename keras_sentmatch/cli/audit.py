"""`audit`: errors in labeled pairs, found before training."""

import logging
from pathlib import Path
from typing import Annotated

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.backend import use_backend
from keras_sentmatch.cli.console import Report, next_step, print_report, print_table, say
from keras_sentmatch.cli.recipes import RecipeOptions
from keras_sentmatch.cli.sources import Reading, Source
from keras_sentmatch.errors import InputError

log = logging.getLogger(__name__)

LINEAR = "bag_of_words"


def audit(
    data: Annotated[
        str,
        typer.Argument(
            metavar="PAIRS",
            help="A file of labeled pairs; or a folder or a name from `keras-sentmatch models --datasets`, "
            "whose training pairs are audited.",
        ),
    ],
    reading: Reading,
    recipe: RecipeOptions,
    model: Annotated[
        str,
        typer.Option(
            help="Model whose predictions reveal wrong labels. The default is linear and takes seconds; "
            "others are better and slower."
        ),
    ] = LINEAR,
    test: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE", help="Pairs that should share nothing with these. Repeatable."
        ),
    ] = None,
    folds: Annotated[int, typer.Option(help="Number of folds.")] = 5,
    top: Annotated[int, typer.Option(help="Number of suspect rows to print.")] = 20,
    limit: options.ClassLimit = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for audit.html, .json, .csv and .md.")
    ] = None,
    as_json: options.Json = False,
    backend: options.Backend = None,
) -> None:
    """Find errors in pairs: labels that are probably wrong, duplicates, leaks, shortcuts."""
    options.check_at_least(0, top=top)
    options.check_at_least(1, limit=limit)
    use_backend(backend)
    from keras_sentmatch.analysis.auditing import audit as find
    from keras_sentmatch.analysis.auditing import save_audit

    draft = recipe.draft(model)
    source = Source(data, **reading.reading())
    others = {}
    if Path(source.data).is_file():
        pairs = source.rows()
    else:
        parts = source.splits()
        if "train" not in parts:
            raise InputError(f"{source.data} has no train part; it has {', '.join(parts)}.")
        pairs = parts.pop("train")
        others.update(parts)
    for file in test or ():
        others[Path(file).name] = Source(file, **reading.reading()).rows()
    if limit is not None:
        pairs = pairs.limit(limit)
    plan = draft.for_data(pairs.name)
    if plan.name == LINEAR and "matching_features" not in plan.model:
        plan.model["matching_features"] = True  # compares words by their vectors
    log.info(f"auditing {len(pairs):,} pairs")
    report = find(pairs, plan, folds=folds, others=others)
    print_report(report, out, save_audit, as_json, lambda report: _print(report, top))
    if not as_json and out is None:
        next_step("audit", data, "--out", "audit", why="write all of it as a page")


def _print(report: Report, top: int) -> None:
    for note in report["notes"]:
        say(f"- {note}")
    rows = [(name, count, count / report["rows"]) for name, count in report["balance"].items()]
    if rows:
        print_table(["label", "pairs", "share"], rows)
    shown = [*report["shortcuts"].items()]
    for name, value in report["answers"].items():
        shown.append(("the most frequent label" if name == "majority" else report["model"], value))
    print_table(["simple models, by cross-validation", "figure"], shown)
    if report["leaks"]:
        keys = ("rows", "shared_pairs", "sentences", "shared_sentences")
        leaks = [[name, *(found[key] for key in keys)] for name, found in report["leaks"].items()]
        print_table(["part", *keys], leaks, "shared with other parts")
    if report["suspects"] and top:
        names = ("row", "label", "answer", "probability", "sentence1", "sentence2")
        suspects = [[found[name] for name in names] for found in report["suspects"][:top]]
        title = "rows whose label is probably wrong, the most certain first"
        if report["task"] == "regression":
            title = "rows whose score is far from the prediction, the farthest first"
        print_table(names, suspects, title)
