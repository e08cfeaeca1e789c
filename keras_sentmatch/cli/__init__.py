"""The command line: `keras-sentmatch train`, `tune`, `evaluate`, `predict`, `export`, ….

No module here imports Keras at its top: each command first chooses the backend.
"""

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from keras_sentmatch import __version__
from keras_sentmatch.cli.audit import audit
from keras_sentmatch.cli.catalog import models
from keras_sentmatch.cli.compare import compare
from keras_sentmatch.cli.console import set_up
from keras_sentmatch.cli.corpus import mine, rank
from keras_sentmatch.cli.evaluate import calibrate, evaluate
from keras_sentmatch.cli.explain import explain
from keras_sentmatch.cli.export import export
from keras_sentmatch.cli.options import Command, name_code, option, with_groups
from keras_sentmatch.cli.predict import predict
from keras_sentmatch.cli.report import report
from keras_sentmatch.cli.reproduce import reproduce
from keras_sentmatch.cli.serve import serve
from keras_sentmatch.cli.train import train
from keras_sentmatch.cli.tune import tune
from keras_sentmatch.display.tables import printable
from keras_sentmatch.errors import InputError, naming_options

app = typer.Typer(
    help="Train and use sentence-pair matchers on TensorFlow, JAX or PyTorch.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)
# Packages that an installation for predictions alone lacks, and the extra that installs each.
EXTRAS = dict.fromkeys(("keras", "sklearn", "matplotlib", "tomli_w"), "train") | {
    "keras_hub": "bert",
    "keras_tuner": "tuner",
    "pandas": "frames",
    "pyarrow": "frames",
}
COMMANDS: tuple[Callable[..., None], ...] = (
    *(train, tune, evaluate, calibrate, report, compare, predict, rank, mine, audit),
    *(explain, serve, export, models, reproduce),
)
for command in COMMANDS:
    app.command(cls=Command)(with_groups(command))


def _version(wanted: bool) -> None:
    if wanted:
        print(f"keras-sentmatch {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, option("Show the version.", "--version", callback=_version, is_eager=True)
    ] = False,
    code: Annotated[
        list[str] | None, option("A Python file with your own models. Repeatable.", metavar="FILE")
    ] = None,
) -> None:
    name_code(code)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: with 0, or with 2 after one line that begins with `error:`.

    Args:
        arguments: The arguments after `keras-sentmatch`. Defaults to those of the process.
    """
    set_up()
    try:
        with naming_options():
            app(arguments, prog_name="keras-sentmatch")
    except InputError as error:
        message = str(error)
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package not in EXTRAS:
            raise
        message = (
            f"This command needs {package}, which is not installed. Run pip install "
            f'"keras-sentmatch[{EXTRAS[package]}]".'
        )
    except OSError as error:  # not writable, disk full
        message = f"{error.filename or 'a file'}: {error.strerror or error}."
    print("error:", printable(" ".join(message.split())), file=sys.stderr)
    sys.exit(2)
