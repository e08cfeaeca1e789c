"""Packages that are imported at first use: every process of pytest imports every test file, and each takes seconds."""

import importlib
from typing import Any


class Lazily:
    """A package by its name. Where it is not installed, the test that uses it is skipped, by `conftest.py`."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):  # pytest looks for its own marks
            raise AttributeError(attribute)
        return getattr(importlib.import_module(self._name), attribute)
