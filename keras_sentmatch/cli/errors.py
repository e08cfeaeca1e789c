"""`errors`: where a run errs, by linguistic category."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_sentmatch.cli.backend import BackendOption, use_backend
from keras_sentmatch.cli.catalog import JsonOption
from keras_sentmatch.cli.console import give_report, print_table, say
from keras_sentmatch.cli.robustness import lexicon_or_none
from keras_sentmatch.cli.runs import (
    BatchSizeOption,
    DataOption,
    Run,
    RunArgument,
    SplitOption,
    WordEncoderOption,
    check_reading,
    labelled_pairs,
    load_run,
    noted_source,
)
from keras_sentmatch.cli.sources import ColumnsOption, FormatOption, OnError, OnErrorOption, Source
from keras_sentmatch.errors import InputError

BASELINES = {"bag of words": "all", "second sentence only": "sentence2", "word overlap": "overlap"}


def errors(
    run: RunArgument,
    data: DataOption = None,
    split: SplitOption = None,
    lexicon: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH", help="For the category of antonyms: antonyms=FILE, a folder, or wordnet. "
            "Default: WordNet, if it is installed."
        ),
    ] = None,
    annotations: Annotated[
        Path | None,
        typer.Option(help="Categories that people gave, by pair id, in place of the rules."),
    ] = None,
    baselines: Annotated[
        bool, typer.Option(help="Train the baselines on the run's training pairs.")
    ] = True,
    symmetric: Annotated[
        bool, typer.Option(help="No label depends on the order of the sentences.")
    ] = False,
    top: Annotated[int, typer.Option(help="How many of the most confident errors to list.")] = 20,
    limit: Annotated[
        int | None, typer.Option(help="Take so many pairs, of each class its share.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for errors.md, .csv, .json and .png.")
    ] = None,
    format: FormatOption = None,
    columns: ColumnsOption = None,
    on_error: OnErrorOption = OnError.RAISE,
    batch_size: BatchSizeOption = 64,
    word_encoder: WordEncoderOption = None,
    backend: BackendOption = None,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Shows where a run errs: linguistic categories, baselines, the surest errors."""
    reading = format, columns, on_error
    check_reading(data, *reading)
    if top < 0:
        raise InputError(f"--top {top}: at least 0 is needed.")
    from keras_sentmatch.analysis.categories import read_annotations
    from keras_sentmatch.analysis.errors import error_report, save_report, symmetric_labels

    tags = None if annotations is None else read_annotations(annotations)
    words = lexicon_or_none(lexicon)
    use_backend(backend)
    loaded = load_run(run, word_encoder)
    names = loaded.first.label_names
    if names is None:
        raise InputError(f"{run} gives scores; errors are looked for among answers of classes.")
    pairs, source = labelled_pairs(loaded, run, data, split, "test", *reading)
    pairs = loaded.first.relabel(pairs if limit is None else pairs.limit(limit))
    scores = loaded.matcher.predict_proba(pairs, batch_size=batch_size)
    same = names if symmetric else symmetric_labels(names)
    swapped = _swapped_scores(loaded, pairs, batch_size) if same else None
    trained, left_out = _baselines(loaded, run, data, reading, pairs) if baselines else ({}, {})
    report = {
        "run": str(run),
        "data": pairs.name or source,
        "split": pairs.split,
        "left_out": left_out,
        **error_report(
            pairs,
            scores,
            threshold=loaded.matcher.threshold,
            lexicon=words,
            annotations=tags,
            swapped=swapped,
            symmetric=same,
            baselines=trained,
            top=top,
        ),
    }
    say(loaded.first.encoder.report)
    give_report(report, out, save_report, as_json, _print)


def _swapped_scores(loaded: Run, pairs: Any, batch_size: int) -> Any:
    from keras_sentmatch.data import PairDataset

    turned = PairDataset(pairs.sentence2, pairs.sentence1)
    return loaded.matcher.predict_proba(turned, batch_size=batch_size)


def _baselines(
    loaded: Run, run: Path, data: str | None, reading: tuple[Any, ...], pairs: Any
) -> tuple[dict[str, Any], dict[str, str]]:
    """Figures of the baselines, trained where the run was or on the training part of `data`."""
    from keras_sentmatch.training import bag_of_words_baseline

    noted = loaded.first.info.get("source")
    if data is not None and not Path(Source(data, *reading).data).is_file():
        source = Source(data, *reading)
    elif noted:
        source = noted_source(noted, run)
    else:
        return {}, {"baselines": "the run does not say what it was trained on"}
    splits = source.splits()
    if missing := {"train", "validation"} - splits.keys():
        return {}, {"baselines": f"{source.data} has no {' and no '.join(sorted(missing))} part"}
    train, validation = (loaded.first.relabel(splits[part]) for part in ("train", "validation"))
    found = {
        name: bag_of_words_baseline(train, validation, pairs, sees=sees)["test"]
        for name, sees in BASELINES.items()
    }
    return found, {}


def _print(report: Mapping[str, Any]) -> None:
    from keras_sentmatch.analysis.errors import COLUMNS, swap_text, table

    what = " ".join(str(report[key]) for key in ("run", "data", "split") if report.get(key))
    print_table(COLUMNS, table(report), what)
    rows = [(name, found["accuracy"]) for name, found in report["baselines"].items()]
    print_table(["baseline", "accuracy"], rows)
    if report["swap"]:
        print(swap_text(report["swap"]))
    keys = ("probability", "label", "answer", "sentence1", "sentence2")
    if report["errors"]:
        shown = [[row[key] for key in keys] for row in report["errors"][:5]]
        print_table(keys, shown, "the most confident errors")
    for name, why in report["left_out"].items():
        say(f"left out {name}: {why}")
