"""`evaluate` and `calibrate`: a run measured on labeled pairs, and its probabilities fitted to them."""

from enum import StrEnum
from typing import Annotated

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.console import next_step, print_json, print_table, say, title
from keras_sentmatch.cli.runs import LabeledPairs, Scoring


class Threshold(StrEnum):
    """The metric that a threshold maximizes."""

    ACCURACY = "accuracy"
    F1 = "f1"


def evaluate(
    run: options.Run, labeled: LabeledPairs, scoring: Scoring, as_json: options.Json = False
) -> None:
    """Measures a trained matcher on labeled pairs."""
    loaded = scoring.load(run)
    pairs, facts = labeled.read(loaded)
    with scoring.working(len(pairs)):
        figures = loaded.matcher.evaluate(pairs, batch_size=scoring.batch_size)
    loaded.log_encoding()
    if as_json:
        print_json({"backend": scoring.runs_on, **facts, **figures})
        return
    rows = [(key, value) for key, value in figures.items() if key != "primary"]
    print_table(["metric", "value"], rows, title(facts))
    labeled.suggest_errors(loaded)


def calibrate(
    run: options.Run,
    labeled: LabeledPairs,
    scoring: Scoring,
    temperature: Annotated[
        bool, typer.Option(help="Fit a temperature, or set it to 1 again.")
    ] = True,
    threshold: Annotated[
        Threshold | None,
        typer.Option(help="For two classes, choose the best threshold for this metric."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Fits a temperature and a threshold to labeled pairs, and saves them in the run folder."""
    loaded = scoring.load(run)
    from keras_sentmatch.display.figures import reliability_diagram
    from keras_sentmatch.inference.run_folder import keep_calibration

    pairs, facts = labeled.read(loaded, default="validation")
    with scoring.working(len(pairs)):
        report = loaded.matcher.calibrate(
            pairs,
            temperature=temperature,
            threshold=threshold and threshold.value,
            batch_size=scoring.batch_size,
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
    say(f"temperature {report['temperature']:.4g}")
    if report["threshold"] is not None:
        second = loaded.class_names("a threshold")[1]
        say(f"{second} is answered above {report['threshold']:.4g}")
    data = [] if loaded.first.info.get("source") else labeled.arguments()
    next_step("evaluate", run, *data, why="measure it with them")
