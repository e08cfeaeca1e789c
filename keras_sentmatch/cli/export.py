"""`export`: a run in a format that does not need this library."""

import logging
from pathlib import Path
from typing import Annotated, Any

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.backend import use_backend
from keras_sentmatch.cli.console import ended_by_sigterm, print_json, print_table, working
from keras_sentmatch.cli.runs import LabeledPairs, Run
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
    int8: Annotated[
        bool,
        typer.Option(
            "--int8",
            help="With --format onnx: 8-bit weights, compared with float32 on labeled pairs.",
        ),
    ] = False,
    data: Annotated[
        str | None,
        typer.Option(
            help="With --int8: name or path of labeled pairs. Default: the run's validation pairs."
        ),
    ] = None,
    max_drop: Annotated[
        float,
        typer.Option(help="With --int8: maximum drop of the primary metric, in points."),
    ] = 0.5,
    backend: options.Backend = None,
    as_json: options.Json = False,
) -> None:
    """Export a run, and verify in a fresh process that it predicts as the run does."""
    if int8 and (format != "onnx" or out is None):
        raise InputError("--int8 needs --format onnx and --out. --engine onnx always uses float32.")
    if data is not None and not int8:
        raise InputError("--data needs --int8. Name pairs to verify the export with by --pairs.")
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
    labeled: Any = {}
    if int8:
        if data is None and not loaded.first.info.get("source"):
            raise InputError(
                "--int8 needs labeled pairs to compare its predictions with float32, and "
                f"{run} does not record what it was trained on. Name them with --data."
            )
        labeled["int8"], _ = LabeledPairs(data=data).read(loaded, default="validation")
        labeled["max_drop"] = max_drop
    from keras_sentmatch.exports import export as export_to

    with ended_by_sigterm(), working(f"exporting to {out} and verifying it in a fresh process"):
        report = export_to(loaded.matcher, out, format, pairs=more, tolerance=tolerance, **labeled)
    if as_json:
        print_json(report)
        return
    rows = [
        (name, ", ".join(signature["inputs"]), ", ".join(signature["outputs"]))
        for name, signature in report["signatures"].items()
    ]
    print_table(["signature", "inputs", "outputs"], rows, f"{report['format']} in {out}")
    for name, why in report["left_out"].items():
        log.info("no %s: %s", name, why)
    log.info(
        "a fresh process predicted %d pairs as the run does; largest difference %.1e",
        report["pairs"],
        report["largest_difference"],
    )
    if int8:
        log.info(
            "{figure} on {pairs:,} pairs: {float32:.4f} in float32, {int8:.4f} in int8".format_map(
                report["int8"]
            )
        )
    log.info("next: read %s (how to load it, and how to ask it)", out / "README.md")
