"""The one error the library raises for bad input, and how its messages name arguments."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_on_command_line = ContextVar("on_command_line", default=False)


class InputError(ValueError):
    """Bad input: the message says what came, what was expected and how to fix it.

    The command line prints it on one line and exits with code 2; Python callers can catch it as a
    `ValueError`.
    """


@contextmanager
def naming_options() -> Iterator[None]:
    """Inside, messages name the options of the command line, not the arguments of functions."""
    token = _on_command_line.set(True)
    try:
        yield
    finally:
        _on_command_line.reset(token)


def wording(python: str, command_line: str) -> str:
    """The words of a message about an argument: for a caller in Python, or for the command line.

    Example:

    >>> wording('pass on_error="skip"', "use --on-error skip")
    'pass on_error="skip"'
    """
    return command_line if _on_command_line.get() else python


def argument(name: str, value: object = None) -> str:
    """An argument in a message, with or without its value; an option on the command line.

    Example:

    >>> f"{argument('batch_size', 0)}: at least 1 is needed."
    'batch_size=0: at least 1 is needed.'
    """
    option = f"--{name.replace('_', '-')}"
    if value is None:
        return wording(f"{name}=…", option)
    return wording(f"{name}={value!r:.60}", f"{option} {value!s:.60}")
