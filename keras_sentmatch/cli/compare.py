"""`compare`: runs beside each other on the same pairs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_sentmatch.cli.backend import BackendOption, use_backend
from keras_sentmatch.cli.catalog import JsonOption
from keras_sentmatch.cli.console import give_report, print_table, say
from keras_sentmatch.cli.runs import (
    BatchSizeOption,
    SplitOption,
    WordEncoderOption,
    check_reading,
    labelled_pairs,
    load_run,
)
from keras_sentmatch.cli.sources import ColumnsOption, FormatOption, OnError, OnErrorOption
from keras_sentmatch.errors import InputError


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN RUN…", help="Run folders; those of one recipe are its seeds."),
    ],
    data: Annotated[
        str | None,
        typer.Option(
            help="Name or path of labelled pairs. Default: what the first run was trained on."
        ),
    ] = None,
    split: SplitOption = None,
    samples: Annotated[int, typer.Option(help="Draws of the bootstrap.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for compare.md, .csv, .json and .png.")
    ] = None,
    format: FormatOption = None,
    columns: ColumnsOption = None,
    on_error: OnErrorOption = OnError.RAISE,
    batch_size: BatchSizeOption = 64,
    word_encoder: WordEncoderOption = None,
    backend: BackendOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tests whether runs differ on the same pairs by more than chance."""
    reading = format, columns, on_error
    check_reading(data, *reading)
    if samples < 1:
        raise InputError(f"--samples {samples}: at least 1 is needed.")
    use_backend(backend)
    from keras_sentmatch.analysis.comparing import (
        comparison_report,
        group_runs,
        save_report,
        values_of,
    )

    entries = group_runs(runs)
    if len(entries) < 2:
        raise InputError(
            f"{len(entries)} matcher in {', '.join(map(str, runs))}: give runs of at least two "
            "recipes (runs that differ only in their seed count as one)."
        )
    pairs: Any = None
    values: dict[str, list[Any]] = {}
    for entry in entries:
        for folder in entry.folders:
            loaded = load_run(folder, word_encoder)
            if pairs is None:
                pairs, source = labelled_pairs(loaded, folder, data, split, "test", *reading)
            labelled = loaded.first.relabel(pairs)
            scores = loaded.matcher.predict_proba(labelled, batch_size=batch_size)
            found = values_of(labelled, scores, loaded.matcher.threshold)
            values.setdefault(entry.name, []).append(found)
            say(f"{folder}: {found.mean():.4f}")
    report = comparison_report(values, samples=samples, seed=seed)
    report = {"data": pairs.name or source, "split": pairs.split, **report}
    give_report(report, out, save_report, as_json, _print)


def _print(report: Mapping[str, Any]) -> None:
    from keras_sentmatch.analysis.comparing import COLUMNS, matcher_columns, matcher_table, table

    title = " ".join(str(part) for part in ("on", report["data"], report["split"]) if part)
    print_table(matcher_columns(report), matcher_table(report), title)
    print_table([name.replace("_", " ") for name in COLUMNS], table(report))
