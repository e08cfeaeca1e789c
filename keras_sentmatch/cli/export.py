"""`export`: a run in a format that does not need this library."""

import logging
from pathlib import Path
from typing import Annotated

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.backend import use_backend
from keras_sentmatch.cli.console import ended_by_sigterm, print_json, print_table, working
from keras_sentmatch.cli.runs import Run
from keras_sentmatch.cli.sources import Source
from keras_sentmatch.errors import InputError

log = logging.getLogger(__name__)


def export(
    run: options.Run,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder to create. Without it, --format onnx makes the model of --engine onnx in the "
            "run folder.",
        ),
    ] = None,
    format: Annotated[str, typer.Option(help="saved_model, onnx or litert.")] = "saved_model",
    pairs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Pairs to verify the export with, in addition to the built-in ones.",
        ),
    ] = None,
    tolerance: Annotated[float, typer.Option(help="Maximum difference of a probability.")] = 1e-5,
    backend: options.Backend = None,
    as_json: options.Json = False,
) -> None:
    """Export a run, and verify in a fresh process that it predicts as the run does."""
    use_backend(backend)
    if out is None:
        if format != "onnx" or pairs is not None:
            raise InputError("Name the folder to create with --out.")
        from keras_sentmatch.exports.loading import make_onnx
        from keras_sentmatch.inference.matcher import run_folder

        with ended_by_sigterm(), working(f"making the ONNX model of {run} and verifying it"):
            report = make_onnx(run_folder(run))
        if as_json:
            print_json(report)
        log.info("next: keras-sentmatch predict %s --engine onnx", run)
        return
    more = None if pairs is None else Source(str(pairs)).rows()
    with working(f"loading {run}"):
        loaded = Run.load(run)
    from keras_sentmatch.exports import export as export_to

    with ended_by_sigterm(), working(f"exporting to {out} and verifying it in a fresh process"):
        report = export_to(loaded.matcher, out, format, pairs=more, tolerance=tolerance)
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
    log.info("next: read %s (how to load it, and how to ask it)", out / "README.md")
