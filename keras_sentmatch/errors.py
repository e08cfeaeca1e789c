"""The one error the library raises for bad input."""


class InputError(ValueError):
    """Bad input: the message says what came, what was expected and how to fix it.

    The command line prints it on one line and exits with code 2; Python callers can catch it as a `ValueError`.
    """
