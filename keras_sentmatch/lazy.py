"""Packages whose names are loaded on first use, so that importing them chooses no backend."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

Lazy = tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]


def lazy(package: str, modules: Mapping[str, str]) -> Lazy:
    """Return `__all__`, `__getattr__` and `__dir__` of a package, from its names and modules."""

    def getattribute(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"keras_sentmatch.{modules[name]}"), name)

    return list(modules), getattribute, lambda: sorted(modules)
