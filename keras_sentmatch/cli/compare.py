"""`compare`: runs next to each other on the same pairs."""

import logging
from pathlib import Path
from typing import Annotated

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.console import Report, next_step, print_report, print_table, title
from keras_sentmatch.cli.options import option
from keras_sentmatch.cli.runs import LabeledPairs, Scoring
from keras_sentmatch.errors import InputError

log = logging.getLogger(__name__)


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN RUN…", help="Run folders. Runs of one recipe count as its seeds."
        ),
    ],
    labeled: LabeledPairs,
    scoring: Scoring,
    out: Annotated[Path | None, option("Folder for compare.md, .csv and .json.")] = None,
    as_json: options.Json = False,
) -> None:
    """Test whether runs differ on the same pairs by more than chance."""
    import numpy as np

    from keras_sentmatch.analysis import comparing

    groups = comparing.group_runs(runs)
    if len(groups) < 2:
        raise InputError(
            f"Expected runs of at least two recipes, but {', '.join(map(str, runs))} have one. Runs "
            "that differ only in their seed count as one."
        )
    pairs, facts = labeled.read(next(iter(groups.values()))[0])
    values: dict[str, list[np.ndarray]] = {name: [] for name in groups}
    for name, folders in groups.items():
        for folder in folders:
            loaded = scoring.load(folder)
            loaded.matcher.warn_of_learned(pairs)
            relabeled = loaded.first.relabel(pairs)
            with scoring.working(relabeled):
                scores = loaded.matcher.predict_proba(relabeled, batch_size=scoring.batch_size)
            metric, found = comparing.values_of(relabeled, scores, loaded.matcher.threshold)
            values[name].append(found)
            log.info("%s: %s %.4f", folder, metric, found.mean())
    report = comparing.comparison_report(metric, values)
    report = {"data": facts["data"], "split": facts["split"], **report}
    print_report(report, out, comparing.save_comparison, as_json, _print)
    if not as_json:
        best = max(groups, key=lambda name: np.mean(values[name]))
        next_step("report", groups[best][0], *labeled.arguments(), why="see where the best errs")


def _print(report: Report) -> None:
    from keras_sentmatch.analysis.comparing import tables

    for (columns, rows), heading in zip(tables(report), (title(report), "")):
        print_table(columns, rows, heading)
