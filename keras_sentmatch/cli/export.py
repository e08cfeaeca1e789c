"""`export`: a run as an artifact that answers without this library."""

from pathlib import Path
from typing import Annotated

import typer

from keras_sentmatch.cli.backend import BackendOption, use_backend
from keras_sentmatch.cli.catalog import JsonOption
from keras_sentmatch.cli.console import print_json, print_table, say
from keras_sentmatch.cli.runs import RunArgument, load_run
from keras_sentmatch.cli.sources import Source


def export(
    run: RunArgument,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to make.")],
    format: Annotated[str, typer.Option(help="saved_model, onnx or litert.")] = "saved_model",
    pairs: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Pairs to compare on, beside the built-in ones."),
    ] = None,
    tolerance: Annotated[
        float, typer.Option(help="The largest difference of a probability that is allowed.")
    ] = 1e-5,
    backend: BackendOption = None,
    as_json: JsonOption = False,
) -> None:
    """Writes a run as an artifact, once a fresh process has answered with it as the run does."""
    use_backend(backend)
    loaded = load_run(run)
    more = None if pairs is None else Source(str(pairs)).rows()
    report = loaded.matcher.export(out, format, pairs=more, tolerance=tolerance)
    if as_json:
        print_json(report)
        return
    rows = [
        (name, ", ".join(signature["inputs"]), ", ".join(signature["outputs"]))
        for name, signature in report["signatures"].items()
    ]
    print_table(["signature", "takes", "gives"], rows, f"{report['format']} in {out}")
    for name, why in report["left_out"].items():
        say(f"no {name}: {why}")
    say(
        f"{report['pairs']} pairs answered by a fresh process as by the run; largest difference "
        f"{report['largest_difference']:.1e}"
    )
