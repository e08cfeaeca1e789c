"""`reproduce`: a table or figure of a paper, trained, measured and set next to the paper's figures."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.backend import use_backend
from keras_sentmatch.cli.console import print_table, say
from keras_sentmatch.cli.options import option
from keras_sentmatch.errors import InputError

if TYPE_CHECKING:
    from keras_sentmatch.reproduction.artefact import Artefact


def reproduce(
    artefact: Annotated[
        str,
        typer.Argument(
            metavar="PAPER/ARTEFACT", help="Such as drcn/table-6; `list` shows all of them."
        ),
    ],
    data: Annotated[
        Path, option("Folder with a folder for each data set: sick, msrp, snli, ….")
    ] = Path("data"),
    seeds: Annotated[int | None, option("Number of seeds. Default: the paper's.", min=1)] = None,
    limit: Annotated[int | None, option("Maximum number of pairs of each part.", min=1)] = None,
    epochs: Annotated[
        int | None, option("Maximum number of epochs. Default: the recipes'.", min=1)
    ] = None,
    on: Annotated[
        str | None, option("Data set to train and measure on in place of the paper's.")
    ] = None,
    backbone: Annotated[
        list[str] | None,
        option(
            "A preset or folder for the pretrained network that the paper calls NAME. Without NAME "
            "it is base. Repeatable.",
            metavar="[NAME=]FOLDER",
        ),
    ] = None,
    translate: options.Translate = None,
    setting: Annotated[
        list[str] | None,
        option("Change every recipe, as with train. Repeatable.", "--set", metavar="KEY=VALUE"),
    ] = None,
    out: Annotated[
        Path | None, option("Folder of the result. Default: reproduced/PAPER/ARTEFACT[-on-DATA].")
    ] = None,
    dry_run: Annotated[
        bool, option("Only show what would be trained, and about how long.", "--dry-run")
    ] = False,
    backend: options.Backend = None,
) -> None:
    """Make a table or figure of one of the papers; the same command goes on where it was stopped."""
    from keras_sentmatch.reproduction.artefact import load_artefact

    if artefact == "list":
        print_table(["artefact", "shows", "place", "trainings", "data here", "missing"], _all(data))
        return
    found, networks = load_artefact(artefact), _backbones(backbone or ())
    folder = out or Path("reproduced") / (f"{found.name}-on-{on}" if on else found.name)
    found = found.on(on) if on else found
    use_backend(backend)
    if dry_run:
        given = seeds or found.seeds, limit, epochs, networks, tuple(setting or ())
        _print_plan(found, data, given)
        return
    from keras_sentmatch.reproduction import reproduce as make

    options_of_all: dict[str, Any] = {"seeds": seeds, "limit": limit, "epochs": epochs}
    options_of_all["translate"] = options.translator(translate) if translate else None
    result = make(
        found, data, folder, backbones=networks, overrides=setting or (), **options_of_all
    )
    print(Path(folder, "table.md").read_text("utf-8"))
    done, failed = result["runs"]["done"], result["runs"]["failed"]
    for name, error in failed.items():
        say(f"failed: {name}: {error}")
    say(f"trainings done: {done}, failed: {len(failed)}; written: {folder}")
    if failed:
        raise typer.Exit(1)


def _backbones(given: Sequence[str]) -> dict[str, str]:
    found = {}
    for one in given:
        name, equals, folder = one.partition("=")
        found[name if equals else "base"] = folder if equals else one
    return found


def _print_plan(found: "Artefact", data: Path, given: tuple[Any, ...]) -> None:
    """Print each training and about how long it takes, and all of them together."""
    from keras_sentmatch.reproduction.run import plan
    from keras_sentmatch.reproduction.runs import Settings

    settings, lines, total = Settings(*given), [], 0.0
    for run, seconds, reason in plan(found, data, settings):
        minutes = None if seconds is None else settings.seeds * seconds / 60
        total += minutes or 0.0
        value = "" if run.value is None else str(run.value)
        lines.append([run.row.name, run.data, value, settings.seeds, minutes, reason])
    print_table(["row", "data", "value", "seeds", "minutes", "left out"], lines, found.title)
    left_out = sum(1 for line in lines if line[-1])
    say(
        f"{len(lines) * settings.seeds} trainings, {left_out * settings.seeds} of them left out; "
        f"about {total:,.0f} minutes"
    )


def _all(data: Path) -> list[list[Any]]:
    """Return a line for each table and figure, with the data sets that are in the folder."""
    from keras_sentmatch.reproduction.artefact import list_artefacts, load_artefact
    from keras_sentmatch.reproduction.data_sets import find_data

    lines = []
    for name in list_artefacts():
        one, here, missing = load_artefact(name), [], []
        for needed in one.data_names:
            try:
                find_data(data, needed)
                here.append(needed)
            except InputError:
                missing.append(needed)
        shown = ", ".join(here), ", ".join(missing)
        lines.append([name, one.title, one.place, one.trainings, *shown])
    return lines
