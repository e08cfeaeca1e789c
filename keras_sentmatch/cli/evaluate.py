"""`evaluate` and `calibrate`: measure a run on labeled pairs, and fit its probabilities to them."""

import logging
from enum import StrEnum
from typing import Annotated, Any

from keras_sentmatch.cli import options
from keras_sentmatch.cli.console import next_step, print_json, print_table, say, title
from keras_sentmatch.cli.options import option
from keras_sentmatch.cli.runs import LabeledPairs, Scoring, cards_of

log = logging.getLogger(__name__)
Threshold = StrEnum("Threshold", ["ACCURACY", "F1"])


def evaluate(
    run: options.Run, labeled: LabeledPairs, scoring: Scoring, as_json: options.Json = False
) -> None:
    """Measure a run on labeled pairs."""
    pairs, facts = labeled.read_held_out(run, default="test")
    loaded = scoring.load(run)
    from keras_sentmatch.inference.run_folder import calibrated_on

    if calibrated_on(run) == (facts["data"], facts["split"]):
        log.warning(
            "The run was calibrated on these pairs, so its probabilities fit them too well."
        )
    with scoring.working(pairs):
        figures = loaded.matcher.evaluate(pairs, batch_size=scoring.batch_size)
    if pairs is not None:
        loaded.log_encoding()
    if as_json:
        print_json({"backend": scoring.runs_on, **facts, **figures})
        return
    rows = [(key, value) for key, value in figures.items() if key != "primary"]
    print_table(["metric", "value"], rows, title(facts))
    labeled.suggest_report(loaded, pairs)


def calibrate(
    run: options.Run,
    labeled: LabeledPairs,
    scoring: Scoring,
    threshold: Annotated[
        Threshold | None, option("For two classes: choose the best threshold for this metric.")
    ] = None,
    precision: Annotated[
        float | None,
        option(
            "Precision that each label (or --label) must reach; otherwise the matcher abstains.",
            min=0,
            max=1,
        ),
    ] = None,
    recall: Annotated[
        float | None,
        option("For two classes: find this share of the pairs with --label.", min=0, max=1),
    ] = None,
    label: Annotated[
        str | None,
        option(
            "Label of --precision or --recall. Default of a recall: yes, match, … or the rarer one."
        ),
    ] = None,
    temperature: Annotated[bool, option("Fit a temperature, or reset it to 1.")] = True,
    as_json: options.Json = False,
) -> None:
    """Fit a temperature and thresholds to labeled pairs, and save them in the run folder."""
    from keras_sentmatch.metrics.decisions import Goal

    wanted: Any = {"threshold": threshold, "precision": precision, "recall": recall}
    wanted |= {"label": label, "temperature": temperature}
    for card in cards_of(run).values():
        goal = Goal(threshold and threshold.value, precision, recall, label)
        if card["label_names"]:
            goal.check(card["label_names"])
    pairs, facts = labeled.read_held_out(run, default="validation")
    loaded = scoring.load(run)
    from keras_sentmatch.display.figures import reliability_diagram
    from keras_sentmatch.display.rendering import render
    from keras_sentmatch.inference.run_folder import keep_calibration, keep_in_card

    with scoring.working(pairs):
        report = loaded.matcher.calibrate(pairs, batch_size=scoring.batch_size, **wanted)
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
    rows = [(name, before[name], after[name]) for name in before if name != "reliability"]
    print_table(["metric", "before", "after, on the same pairs"], rows, title(facts))
    say(f"temperature {report['temperature']:.4g}")
    if report["threshold"] is not None:
        say(f"{loaded.class_names('a threshold')[1]} is predicted above {report['threshold']:.4g}")
    if cuts:
        print_table(["label", *columns], cuts)
    if report["abstain_below"] is not None:
        share, right = report["coverage"], report["answered_accuracy"]
        say(f"{share:.1%} of the pairs get a prediction, with an accuracy of {right or 0:.4g}")
    data = [] if loaded.first.info.get("source") else labeled.arguments()
    next_step("evaluate", run, *data, why="measure the calibrated run")
