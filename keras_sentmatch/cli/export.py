"""`export`: a run in a format that does not need this library."""

import logging
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from keras_sentmatch.cli import options
from keras_sentmatch.cli.backend import use_backend
from keras_sentmatch.cli.console import ended_by_sigterm, print_json, print_table, working
from keras_sentmatch.cli.options import option
from keras_sentmatch.cli.runs import Run, cards_of, source_of
from keras_sentmatch.cli.sources import Source
from keras_sentmatch.errors import InputError

log = logging.getLogger(__name__)
Format = StrEnum("Format", ["SAVED_MODEL", "ONNX", "LITERT"])


def export(
    run: options.Run,
    out: Annotated[Path, option("Folder to create.", metavar="DIR")],
    format: Annotated[Format, option("The format of the model.")] = Format.SAVED_MODEL,
    pairs: Annotated[
        Path | None,
        option(
            "Pairs to verify the export with, in addition to the built-in ones.", metavar="FILE"
        ),
    ] = None,
    tolerance: Annotated[float, option("Maximum difference of a probability.")] = 1e-5,
    backend: options.Backend = None,
    as_json: options.Json = False,
) -> None:
    """Export a run, and verify in a fresh process that it predicts as the run does."""
    more = None if pairs is None else Source(str(pairs)).as_in(source_of(run, needed=False)).rows()
    cards_of(run)
    if out.exists():
        raise InputError(f"{out} exists already. Give the name of a new folder.")
    use_backend(backend)
    with working(f"loading {run}"):
        loaded = Run.load(run)
    from keras_sentmatch.exports import export as export_to

    with ended_by_sigterm(), working(f"exporting to {out} and verifying it in a fresh process"):
        report = export_to(loaded.matcher, out, format.value, pairs=more, tolerance=tolerance)
    if as_json:
        print_json(report)
        return
    rows = [
        (side[:-1], name, spec["dtype"], " ".join(str(size or "any") for size in spec["shape"]))
        for side in ("inputs", "outputs")
        for name, spec in report[side].items()
    ]
    print_table(["", "name", "dtype", "shape"], rows, f"{report['format']} in {out}")
    log.info(
        "a fresh process predicted %d pairs as the run does; largest difference %.1e",
        report["pairs"],
        report["largest_difference"],
    )
    if "note" in report:
        log.warning("%s", report["note"])
    log.info("next: read %s (how to load it and send it pairs)", out / "README.md")
