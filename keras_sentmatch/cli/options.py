"""Arguments and options that several commands have; groups of them are dataclasses."""

import dataclasses
import functools
import inspect
import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from keras_sentmatch.errors import InputError


class OnError(StrEnum):
    """What to do with a bad row."""

    RAISE = "raise"
    SKIP = "skip"


Backend = Annotated[
    str | None,
    typer.Option(
        help="tensorflow, jax or torch. Default: $KERAS_BACKEND, Keras's own settings file, or the "
        "first one installed.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON only.")]
Model = Annotated[
    str,
    typer.Argument(help="A name from `keras-sentmatch models`, or FILE.py:CLASS of your own."),
]
Run = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        help="A run folder; or `similarity`, the matcher in the package, which needs no training.",
    ),
]
PANEL = "Reading pairs"  # the options of every command that reads pairs, shown apart
Format = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        help="Format of the data: a name from `keras-sentmatch models --datasets`. Default: "
        "recognized.",
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        metavar="A,B[,LABEL[,GROUP]]",
        help="Columns of the two sentences, the label and the question's id; in a file without a "
        "header their numbers, from 0.",
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        metavar="CHARACTER",
        help="Separator of the fields. Default: recognized (tab, comma, semicolon).",
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        metavar="NAME",
        help="Encoding of the file, such as latin-1 or cp1252. Default: by the byte order mark, else "
        "UTF-8.",
    ),
]
Labels = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=PANEL,
        metavar="A,B,… or 0=A,1=B,…",
        help="Names of the labels in order, or the name of each label of the data.",
    ),
]
OnBadRow = Annotated[
    OnError,
    typer.Option("--on-error", rich_help_panel=PANEL, help="Stop at a bad row, or skip it."),
]
Part = Annotated[
    str | None,
    typer.Option(
        "--split",
        rich_help_panel=PANEL,
        help="train, validation or test. Default: test (calibrate: validation), and all rows of a "
        "single file.",
    ),
]
Shares = Annotated[
    str | None,
    typer.Option(
        "--split",
        rich_help_panel=PANEL,
        metavar="TRAIN/VALIDATION[/TEST]",
        help="Shares in percent into which a single file is split. Default: 85/5/10.",
    ),
]
ClassLimit = Annotated[
    int | None, typer.Option(help="Maximum number of pairs, with the same shares of the classes.")
]

Lexicon = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH",
        help="A file with antonyms or synonyms in its name (two words per line), a folder with such "
        "files, or wordnet. Default: WordNet, if it is installed.",
    ),
]


class Command(typer.core.TyperCommand):
    """A command whose help shows the options of a panel apart."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[Any]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            default = "Arguments" if parameter.param_type_name == "argument" else "Options"
            if record is not None:
                panel = getattr(parameter, "rich_help_panel", None) or default
                panels.setdefault(panel, []).append(record)
        for panel in sorted(panels, key=["Arguments", "Options", PANEL].index):
            with formatter.section(panel):
                formatter.write_dl(panels[panel])


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the fields of its dataclass parameters as options of their own."""
    groups: dict[str, tuple[type, list[str]]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        kind: type = parameter.annotation
        if dataclasses.is_dataclass(kind):
            fields = dict(list(inspect.signature(kind.__init__).parameters.items())[1:])
            groups[parameter.name] = kind, list(fields)
            parameters += fields.values()
        else:
            parameters.append(parameter)

    @functools.wraps(command)
    def run(**values: Any) -> None:
        for name, (group, fields) in groups.items():
            values[name] = group(**{field: values.pop(field) for field in fields})
        try:
            command(**values)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None

    by_name = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    run.__signature__ = inspect.Signature(by_name)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def name_code(files: list[str] | None) -> None:
    """Let this process, and those that it starts, load the models of Python files."""
    known = [file for file in os.environ.get("SENTMATCH_CODE", "").split(os.pathsep) if file]
    more = [str(Path(file).expanduser().resolve()) for file in files or ()]
    if more:
        os.environ["SENTMATCH_CODE"] = os.pathsep.join(dict.fromkeys([*known, *more]))


def check_at_least(least: int, **values: int | None) -> None:
    """Refuse an option whose value is below the least one. None is skipped."""
    for name, value in values.items():
        if value is not None and value < least:
            option = name.replace("_", "-")
            raise InputError(f"--{option} is {value}. Expected at least {least}.")
