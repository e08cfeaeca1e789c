"""Arguments and options that several commands have; groups of them are dataclasses."""

import dataclasses
import functools
import inspect
import os
import pkgutil
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from keras_sentmatch.errors import InputError

PANEL = "Reading pairs"  # the options of every command that reads pairs, shown apart


def option(help: str, *names: str, **more: Any) -> Any:
    """Return the annotation of an option."""
    return typer.Option(*names, help=help, **more)


Backend = Annotated[
    str | None, option("tensorflow, jax or torch. Default: $KERAS_BACKEND, or what is installed.")
]
Json = Annotated[bool, option("Print JSON only.", "--json")]
Translate = Annotated[
    str | None,
    option(
        "For BackTrans: a function that translates a list of sentences there and back.",
        metavar="MODULE:FUNCTION",
    ),
]
Model = Annotated[
    str,
    typer.Argument(help="A name from `keras-sentmatch models`, or a model of yours from --code."),
]
Run = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        help="A run folder. Without training: `similarity`, the built-in matcher, or `static`, word vectors.",
    ),
]


def _reading(help: str, *names: str, **more: Any) -> Any:
    return option(help, *names, rich_help_panel=PANEL, **more)


BadRow = StrEnum("BadRow", ["RAISE", "SKIP"])
OnError = Annotated[BadRow, _reading("Stop at a bad row, or skip it.")]
Format = Annotated[
    str | None, _reading("A name from `keras-sentmatch models --datasets`. Default: recognized.")
]
Columns = Annotated[
    str | None,
    _reading(
        "Names (without a header numbers from 0) of the columns.",
        metavar="SENTENCE1,SENTENCE2[,LABEL[,QUESTION]]",
    ),
]
Delimiter = Annotated[
    str | None, _reading("Separator of the fields. Default: recognized.", metavar="CHARACTER")
]
Encoding = Annotated[
    str | None, _reading("Such as latin-1. Default: by the byte order mark, or UTF-8.")
]
Labels = Annotated[
    str | None,
    _reading("Names of the labels in order, or of each label.", metavar="A,B,… or 0=A,1=B,…"),
]
Part = Annotated[
    str | None,
    _reading("train, validation or test. Default: all rows of a file, or a part.", "--split"),
]
Shares = Annotated[
    str | None,
    _reading(
        "Percentages into which a single file is split. Default: 85/5/10.",
        "--split",
        metavar="TRAIN/VALIDATION[/TEST]",
    ),
]


class Command(typer.core.TyperCommand):
    """A command whose help shows the options of a panel apart."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[Any]] = {"Arguments": [], "Options": [], PANEL: []}
        for parameter in self.get_params(ctx):
            default = "Arguments" if parameter.param_type_name == "argument" else "Options"
            if (record := parameter.get_help_record(ctx)) is not None:
                panels[getattr(parameter, "rich_help_panel", None) or default].append(record)
        for panel, records in panels.items():
            if records:
                with formatter.section(panel):
                    formatter.write_dl(records)


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the fields of its dataclass parameters as options of their own."""
    groups: dict[str, tuple[type, list[str]]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        kind: type = parameter.annotation
        if dataclasses.is_dataclass(kind):
            fields = dict(inspect.signature(kind).parameters)
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


def own_code() -> list[str]:
    """Return the files of `--code`, which further processes load too."""
    return [file for file in os.environ.get("SENTMATCH_CODE", "").split(os.pathsep) if file]


def name_code(files: list[str] | None) -> None:
    """Let this process, and those that it starts, load the models of Python files."""
    more = [str(Path(file).expanduser().resolve()) for file in files or ()]
    if more:
        os.environ["SENTMATCH_CODE"] = os.pathsep.join(dict.fromkeys([*own_code(), *more]))


def translator(name: str) -> Any:
    """Return the function that `--translate MODULE:FUNCTION` names."""
    try:
        return pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"--translate is {name!r}, which cannot be loaded: {error}. Expected MODULE:FUNCTION of "
            "a module that Python finds (see PYTHONPATH)."
        ) from error
