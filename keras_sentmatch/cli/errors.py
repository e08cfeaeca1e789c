"""`errors`: where a run errs, by linguistic category."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.console import Report, print_report, print_table, say, title
from keras_sentmatch.cli.robustness import lexicon_or_none
from keras_sentmatch.cli.runs import LabeledPairs, Run, Scoring, suggest_explain

if TYPE_CHECKING:
    from keras_sentmatch.data import PairDataset

log = logging.getLogger(__name__)
BASELINES = {"bag of words": "all", "second sentence only": "sentence2", "word overlap": "overlap"}


def errors(
    run: options.Run,
    labeled: LabeledPairs,
    scoring: Scoring,
    lexicon: options.Lexicon = None,
    annotations: Annotated[
        Path | None,
        typer.Option(help="Categories given by people, by pair id, instead of the rules."),
    ] = None,
    baselines: Annotated[
        bool, typer.Option(help="Train the baselines on the run's training pairs.")
    ] = True,
    symmetric: Annotated[
        bool, typer.Option(help="No label depends on the order of the sentences.")
    ] = False,
    top: Annotated[int, typer.Option(help="How many of the most confident errors to list.")] = 20,
    limit: options.ClassLimit = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for errors.md, .csv, .json and .png.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Shows where a run errs: linguistic categories, baselines, the most confident errors."""
    options.check_at_least(0, top=top)
    from keras_sentmatch.analysis._categories import read_annotations
    from keras_sentmatch.analysis.errors import error_report, save_report, symmetric_labels

    tags = None if annotations is None else read_annotations(annotations)
    words = lexicon_or_none(lexicon)
    loaded = scoring.load(run)
    from keras_sentmatch.data import PairDataset

    names = loaded.class_names("an analysis of errors")
    pairs, facts = labeled.read(loaded)
    pairs = loaded.first.relabel(pairs if limit is None else pairs.limit(limit))
    same = names if symmetric else symmetric_labels(names)
    swapped = None
    with scoring.working(len(pairs)):
        scores = scoring.scores(loaded, pairs)
        if same:
            swapped = scoring.scores(loaded, PairDataset(pairs.sentence2, pairs.sentence1))
    trained, left_out = _baselines(loaded, labeled, pairs) if baselines else ({}, {})
    report = error_report(
        pairs,
        scores,
        threshold=loaded.matcher.threshold,
        lexicon=words,
        annotations=tags,
        swapped=swapped,
        symmetric=same,
        baselines=trained,
        top=top,
    )
    loaded.log_encoding()
    report = {**facts, "left_out": left_out, **report}
    print_report(report, out, save_report, as_json, _print)
    if not as_json:
        first = (
            report["errors"] or [{"sentence1": pairs.sentence1[0], "sentence2": pairs.sentence2[0]}]
        )[0]
        suggest_explain(run, first["sentence1"], first["sentence2"])


def _baselines(
    loaded: Run, labeled: LabeledPairs, pairs: "PairDataset"
) -> tuple[dict[str, Any], dict[str, str]]:
    """The metrics of baselines trained as the run was, or on the training part of `--data`."""
    from keras_sentmatch import training

    source = labeled.given
    if source is None or Path(source.data).is_file():
        source = loaded.source()
    if source is None:
        return {}, {"baselines": "the run does not say what it was trained on"}
    splits = source.splits()
    if missing := {"train", "validation"} - splits.keys():
        return {}, {"baselines": f"{source.data} has no {' and no '.join(sorted(missing))} part"}
    train, validation = (loaded.first.relabel(splits[part]) for part in ("train", "validation"))
    found = {
        name: training.bag_of_words_baseline(train, validation, pairs, sees=sees)["test"]
        for name, sees in BASELINES.items()
    }
    return found, {}


def _print(report: Report) -> None:
    from keras_sentmatch.analysis.errors import COLUMNS, swap_text, table

    print_table(COLUMNS, table(report), title(report))
    rows = [(name, found["accuracy"]) for name, found in report["baselines"].items()]
    print_table(["baseline", "accuracy"], rows)
    if report["swap"]:
        say(swap_text(report["swap"]))
    if report["errors"]:
        keys = ("probability", "label", "answer", "sentence1", "sentence2")
        shown = [[row[key] for key in keys] for row in report["errors"][:5]]
        print_table(keys, shown, "the most confident errors")
    for name, why in report["left_out"].items():
        log.info("left out %s: %s", name, why)
