"""`evaluate` and `calibrate`: measure a run on labeled pairs, and fit its probabilities to them."""

from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.console import next_step, print_json, print_table, say, title
from keras_sentmatch.cli.runs import LabeledPairs, Scoring


class Threshold(StrEnum):
    """The metric that a threshold maximizes."""

    ACCURACY = "accuracy"
    F1 = "f1"


@dataclass
class Wanted:
    """The options on when to predict a label, and when to abstain."""

    threshold: Annotated[
        Threshold | None,
        typer.Option(help="For two classes: choose the best threshold for this metric."),
    ] = None
    precision: Annotated[
        float | None,
        typer.Option(
            help="Predict a label only with this precision, such as 0.95, and abstain otherwise. With "
            "--label (of two), only that label needs it; otherwise the other one is predicted."
        ),
    ] = None
    recall: Annotated[
        float | None,
        typer.Option(help="For two classes: find this share of the pairs with --label."),
    ] = None
    label: Annotated[
        str | None,
        typer.Option(
            help="The label of --precision or --recall. Default of a recall: the one called yes, match, … or the rarer one."
        ),
    ] = None
    confidence: Annotated[
        float, typer.Option(help="Confidence with which --precision or --recall must hold.")
    ] = 0.95

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `Matcher.calibrate`."""
        found = dict(vars(self))
        found["threshold"] = self.threshold and self.threshold.value
        return found


def evaluate(
    run: options.Run, labeled: LabeledPairs, scoring: Scoring, as_json: options.Json = False
) -> None:
    """Measure a run on labeled pairs."""
    loaded = scoring.load(run)
    pairs, facts = labeled.read_held_out(loaded, default="test")
    with nullcontext() if pairs is None else scoring.working(len(pairs)):
        figures = loaded.matcher.evaluate(pairs, batch_size=scoring.batch_size)
    if pairs is not None:
        loaded.log_encoding()
    if as_json:
        print_json({"backend": scoring.runs_on, **facts, **figures})
        return
    rows = [(key, value) for key, value in figures.items() if key != "primary"]
    print_table(["metric", "value"], rows, title(facts))
    labeled.suggest_report(loaded)


def calibrate(
    run: options.Run,
    labeled: LabeledPairs,
    scoring: Scoring,
    wanted: Wanted,
    temperature: Annotated[bool, typer.Option(help="Fit a temperature, or reset it to 1.")] = True,
    as_json: options.Json = False,
) -> None:
    """Fit a temperature and thresholds to labeled pairs, and save them in the run folder."""
    arguments = wanted.arguments()
    loaded = scoring.load(run)
    from keras_sentmatch.display.figures import reliability_diagram
    from keras_sentmatch.display.rendering import render
    from keras_sentmatch.inference.run_folder import keep_calibration, keep_in_card

    pairs, facts = labeled.read_held_out(loaded, default="validation")
    with nullcontext() if pairs is None else scoring.working(len(pairs)):
        report = loaded.matcher.calibrate(
            pairs,
            temperature=temperature,
            batch_size=scoring.batch_size,
            **arguments,
        )
    reliability_diagram(report, run / "reliability.png")
    keep_calibration(run, {"data": facts["data"], "split": facts["split"], **report})
    columns = list(next(iter(report["labels"].values()), {}))
    cuts = [[name, *cut.values()] for name, cut in report["labels"].items()]
    names, where = loaded.first.label_names, title({**facts, "run": None})
    card = {"r": report, "where": where, "names": names, "first": columns, "cuts": cuts}
    keep_in_card(run, render("calibration_card.md", **card))
    if pairs is not None:
        loaded.log_encoding()
    if as_json:
        print_json({**facts, **report})
        return
    before, after = report["before"], report["after"]
    rows: list[Any] = [
        (name, before[name], after[name]) for name in before if name != "reliability"
    ]
    print_table(["metric", "before", "after"], rows, title(facts))
    say(f"temperature {report['temperature']:.4g}")
    if report["threshold"] is not None:
        say(f"{loaded.class_names('a threshold')[1]} is answered above {report['threshold']:.4g}")
    if cuts:
        print_table(["label", *columns], cuts)
    if report["abstain_below"] is not None:
        share, right = report["coverage"], report["answered_accuracy"]
        say(f"{share:.1%} of the pairs are answered, with an accuracy of {right or 0:.4g}")
    data = [] if loaded.first.info.get("source") else labeled.arguments()
    next_step("evaluate", run, *data, why="measure the calibrated run")
