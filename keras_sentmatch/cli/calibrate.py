"""`calibrate`: reliable probabilities, from labeled pairs that training did not see."""

from enum import StrEnum
from typing import Annotated

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.backend import use_backend
from keras_sentmatch.cli.console import print_json, print_table, title
from keras_sentmatch.cli.runs import LabeledPairs, Run


class Threshold(StrEnum):
    """The metric that a threshold maximizes."""

    ACCURACY = "accuracy"
    F1 = "f1"


def calibrate(
    run: options.Run,
    data: options.Data = None,
    split: Annotated[
        str | None,
        typer.Option(help="A part of it. Default: validation; all rows of a single file."),
    ] = None,
    temperature: Annotated[
        bool, typer.Option(help="Fit a temperature, or set it to 1 again.")
    ] = True,
    threshold: Annotated[
        Threshold | None,
        typer.Option(help="For two classes, choose the best threshold for this metric."),
    ] = None,
    format: options.Format = None,
    columns: options.Columns = None,
    on_error: options.OnBadRow = options.OnError.RAISE,
    batch_size: options.BatchSize = 64,
    word_encoder: options.WordEncoder = None,
    backend: options.Backend = None,
    as_json: options.Json = False,
) -> None:
    """Fits a temperature and a threshold to labeled pairs, and saves them in the run folder."""
    labeled = LabeledPairs(data, split, format, columns, on_error)
    use_backend(backend)
    from keras_sentmatch.display.figures import reliability_diagram
    from keras_sentmatch.inference.run_folder import keep_calibration

    loaded = Run.load(run, word_encoder)
    pairs, facts = labeled.read(loaded, default="validation")
    report = loaded.matcher.calibrate(
        pairs,
        temperature=temperature,
        threshold=None if threshold is None else threshold.value,
        batch_size=batch_size,
    )
    reliability_diagram(report, run / "reliability.png")
    keep_calibration(run, {"data": facts["data"], "split": facts["split"], **report})
    loaded.log_encoding()
    if as_json:
        print_json({**facts, **report})
        return
    before, after = report["before"], report["after"]
    rows = [(name, before[name], after[name]) for name in before if name != "reliability"]
    print_table(["metric", "before", "after"], rows, title(facts))
    print(f"temperature {report['temperature']:.4g}")
    if report["threshold"] is not None:
        second = loaded.class_names("a threshold")[1]
        print(f"{second} is answered above {report['threshold']:.4g}")
