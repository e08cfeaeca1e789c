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
Format = Annotated[
    str | None,
    typer.Option(
        help="Layout of the data: a name from `keras-sentmatch datasets`. Default: recognized."
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(
        metavar="A,B[,LABEL[,GROUP]]",
        help="Columns of the two sentences, the label and the question's id, if they have unusual "
        "names; in a file without a header their numbers, from 0.",
    ),
]
Weight = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column that says how much each training pair counts. Default: `weight`, if it is there.",
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        metavar="CHARACTER",
        help="What separates the fields of a table. Default: recognized (tab, comma, semicolon).",
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Encoding of the data, such as latin-1 or cp1252. Default: UTF-8, or what the byte "
        "order mark says.",
    ),
]
Labels = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,… or 0=A,1=B,…",
        help="Names of the labels in order, or what each label of the data is called.",
    ),
]
OnBadRow = Annotated[
    OnError, typer.Option("--on-error", help="Stop at a bad row, or skip and count it.")
]
ClassLimit = Annotated[
    int | None, typer.Option(help="Use only this many pairs, with the same shares of the classes.")
]
Lexicon = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATH",
        help="antonyms=FILE, synonyms=FILE (two words per line), a folder with such files, or "
        "wordnet. Default: WordNet, if it is installed.",
    ),
]


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the fields of its dataclass parameters as options of their own."""
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
    """Lets this process, and those that it starts, load the models of Python files."""
    known = [file for file in os.environ.get("SENTMATCH_CODE", "").split(os.pathsep) if file]
    more = [str(Path(file).expanduser().resolve()) for file in files or ()]
    if more:
        os.environ["SENTMATCH_CODE"] = os.pathsep.join(dict.fromkeys([*known, *more]))


def check_at_least(least: int, **values: int | None) -> None:
    """Refuses the value of an option that is below the least one; a missing one is skipped."""
    for name, value in values.items():
        if value is not None and value < least:
            option = name.replace("_", "-")
            raise InputError(f"--{option} {value}: must be at least {least}.")
