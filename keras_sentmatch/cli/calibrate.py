"""`calibrate`: probabilities that can be believed, from labelled pairs that training did not see."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from keras_sentmatch.cli.backend import BackendOption, use_backend
from keras_sentmatch.cli.catalog import JsonOption
from keras_sentmatch.cli.console import print_json, print_table, say
from keras_sentmatch.cli.runs import (
    BatchSizeOption,
    DataOption,
    RunArgument,
    WordEncoderOption,
    check_reading,
    labelled_pairs,
    load_run,
)
from keras_sentmatch.cli.sources import ColumnsOption, FormatOption, OnError, OnErrorOption


class Threshold(StrEnum):
    """What a threshold is to score best in."""

    ACCURACY = "accuracy"
    F1 = "f1"


def calibrate(
    run: RunArgument,
    data: DataOption = None,
    split: Annotated[
        str | None,
        typer.Option(help="A part of it. Default: validation; of a single file, all rows."),
    ] = None,
    temperature: Annotated[bool, typer.Option(help="Fit a temperature; else it becomes 1.")] = True,
    threshold: Annotated[
        Threshold | None,
        typer.Option(
            help="Of two classes, choose the threshold that scores best in this. Default: none."
        ),
    ] = None,
    format: FormatOption = None,
    columns: ColumnsOption = None,
    on_error: OnErrorOption = OnError.RAISE,
    batch_size: BatchSizeOption = 64,
    word_encoder: WordEncoderOption = None,
    backend: BackendOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fits a temperature and a threshold on labelled pairs, and keeps them in the run folder."""
    reading = format, columns, on_error
    check_reading(data, *reading)
    use_backend(backend)
    from keras_sentmatch.display.figures import reliability_diagram
    from keras_sentmatch.inference.run_folder import keep_calibration

    loaded = load_run(run, word_encoder)
    pairs, source = labelled_pairs(loaded, run, data, split, "validation", *reading)
    report: dict[str, Any] = loaded.matcher.calibrate(
        pairs,
        temperature=temperature,
        threshold=None if threshold is None else threshold.value,
        batch_size=batch_size,
    )
    facts = {"data": pairs.name or source, "split": pairs.split}
    reliability_diagram(report, run / "reliability.png")
    keep_calibration(run, {**facts, **report})
    say(loaded.first.encoder.report)
    if as_json:
        print_json({"run": str(run), **facts, **report})
        return
    before, after = report["before"], report["after"]
    title = " ".join(str(part) for part in (run, "on", *facts.values()) if part)
    rows = [(name, before[name], after[name]) for name in before if name != "reliability"]
    print_table(["figure", "before", "after"], rows, title)
    print(f"temperature {report['temperature']:.4g}")
    if report["threshold"] is not None:
        second = loaded.first.label_names[1]
        print(f"{second} is answered above {report['threshold']:.4g}")
