"""Packages that are imported at first use: every process of pytest imports every test file, and they take seconds."""

import importlib
from typing import Any


class Lazily:
    """A package by its name. If it is not installed, `conftest.py` skips the test that uses it."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):  # pytest looks for its own marks
            raise AttributeError(attribute)
        return getattr(importlib.import_module(self._name), attribute)
