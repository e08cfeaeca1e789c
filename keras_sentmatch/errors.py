"""The error for bad input, and how its messages name arguments."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_on_command_line = ContextVar("on_command_line", default=False)


class InputError(ValueError):
    """Bad input. The message says what came, what was expected and how to fix it.

    The command line prints it on one line and exits with code 2. A message of more than 4,000
    characters, which holds what is in a file, loses its middle.
    """

    def __init__(self, message: str = "") -> None:
        whole = len(message) <= 4000
        super().__init__(message if whole else f"{message[:3000]} … {message[-900:]}")


@contextmanager
def naming_options() -> Iterator[None]:
    """Let messages name the options of the command line instead of arguments of functions."""
    token = _on_command_line.set(True)
    try:
        yield
    finally:
        _on_command_line.reset(token)


def wording(python: str, command_line: str) -> str:
    """Return the words for a caller in Python, or those for the command line.

    Example:

    >>> wording('pass on_error="skip"', "use --on-error skip")
    'pass on_error="skip"'
    """
    return command_line if _on_command_line.get() else python


def argument(name: str, value: object = None) -> str:
    """Name an argument, or on the command line an option, with or without its value.

    Example:

    >>> f"{argument('batch_size', 0)} is too small."
    'batch_size=0 is too small.'
    """
    option = f"--{name.replace('_', '-')}"
    if value is None:
        return wording(f"{name}=…", option)
    return wording(f"{name}={value!r:.60}", f"{option} {value!s:.60}")
