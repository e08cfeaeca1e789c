"""`search-report`: what a search says, over or not: a page, pictures, and TensorBoard's HParams."""

from pathlib import Path
from typing import Annotated

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.console import print_json


def search_report(
    folder: Annotated[Path, typer.Argument(help="Folder of a search: what `tune --out` named.")],
    as_json: options.Json = False,
) -> None:
    """Writes report.md and its pictures into the folder of a search that is over, or still runs."""
    from keras_sentmatch.tuning import write_report

    report = write_report(folder)
    if as_json:
        print_json(report)
        return
    counts = ", ".join(
        f"{number} {status}" for status, number in report["status"].items() if number
    )
    best = report["best"]
    print(f"{counts}; the best: trial {best['trial']}, {report['objective']} {best['score']:.4f}")
    for path in report["files"]:
        print(path)
