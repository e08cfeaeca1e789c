"""Every public name keeps the rules of the house: walked, not listed by hand."""

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import keras_sentmatch
import keras_sentmatch.applications
import keras_sentmatch.layers
from keras_sentmatch.applications import get_model_class, list_models
from keras_sentmatch.applications._views import CallWith
from keras_sentmatch.applications.backbone import BackboneModel
from keras_sentmatch.applications.feature_blocks import FeatureHost
from keras_sentmatch.applications.linear_part import WithLinearPart
from keras_sentmatch.layers.base import Layer
from tests.harness import signature_arguments
from tests.test_cross_backend import CASES

INTERNAL = (BackboneModel, CallWith, FeatureHost, Layer, WithLinearPart)  # that others are made of
LAYERS, APPLICATIONS = keras_sentmatch.layers, keras_sentmatch.applications


def classes(package: Any) -> list[type]:
    found = [getattr(package, name) for name in getattr(package, "__all__", [])]
    found = [c for c in found if inspect.isclass(c) and issubclass(c, keras.layers.Layer)]
    bases = {b for c in found for b in c.__mro__[1:]}  # abstract: not made by anybody
    models = [get_model_class(name) for name in list_models()]
    return [c for c in found if c not in bases or c in models]


CLASSES = classes(LAYERS) + classes(APPLICATIONS)
by_name = pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)


def flat(name: str) -> str:
    return name.replace("_", "").lower()


def stem(cls: type) -> str:
    return cls.__module__.rsplit(".", 1)[-1]


def folder(cls: type) -> str:
    return cls.__module__.split(".")[1]


def docstring(cls: type) -> str:
    """Of the class and of its own `__init__`: a model documents its arguments there."""
    docs = [cls.__dict__.get("__doc__"), getattr(cls.__dict__.get("__init__"), "__doc__", None)]
    return "\n\n".join(inspect.cleandoc(doc) for doc in docs if doc)


def documented_arguments(cls: type) -> dict[str, str]:
    """Name -> text, from the `Args:` sections of the class and of its `__init__`."""
    own = [cls.__doc__, cls.__init__.__doc__ if "__init__" in vars(cls) else None]
    return {n: text for doc in own for n, text in _arguments_in(doc or "").items()}


def _arguments_in(doc: str) -> dict[str, str]:
    lines = inspect.cleandoc(doc).splitlines()
    start = next((i for i, line in enumerate(lines) if line.strip() == "Args:"), None)
    found: dict[str, str] = {}
    name = ""
    for line in lines[start + 1 :] if start is not None else []:
        if line and not line.startswith(" "):
            break
        entry = re.match(r" {4}\*{0,2}(\w+)(?: \(.*?\))?: (.*)|^ {4}\*{0,2}(\w+):$", line)
        if entry:
            name = entry[1] or entry[3]
            found[name] = entry[2] or ""
        elif name:
            found[name] += " " + line.strip()
    return found


def stated_default(text: str) -> str | None:
    """The X of "Defaults to X", "default X", "default: X" or "default is X", if it is a value."""
    literal = r"`[^`]+`|\"[^\"]*\"|'[^']*'|[-+]?\d[\d.e+-]*|True|False|None"
    found = re.search(rf"[Dd]efaults?(?: to| is|:)?\s+({literal})", text)
    return found[1].strip("`").rstrip(".") if found else None


def same_default(stated: str, default: Any) -> bool:
    try:
        return ast.literal_eval(stated) == default
    except (ValueError, SyntaxError):
        return stated.strip("\"'") == str(default)


# --- exports ---


@by_name
def test_registered_under_the_package(cls: type) -> None:
    assert keras.saving.get_registered_name(cls) == f"keras_sentmatch>{cls.__name__}"


@by_name
def test_docstring(cls: type) -> None:
    doc = docstring(cls)
    assert doc.partition("\n")[0].endswith("."), "no docstring that opens with one sentence"
    if signature_arguments(cls):
        assert documented_arguments(cls), "no Args: section"
    assert ">>>" in doc or folder(cls) == "applications", "no example"


@by_name
def test_arguments_are_documented_with_their_defaults(cls: type) -> None:
    signature, documented = signature_arguments(cls), documented_arguments(cls)
    inherited = [a for base in cls.__mro__[1:] for a in documented_arguments(base)]
    missing = [a for a in signature if a not in documented and a not in inherited]
    assert not missing, f"not in Args: {missing}"
    unknown = [a for a in documented if a not in signature and a not in ("kwargs", "name", "dtype")]
    assert not unknown, f"in Args, but not in the signature: {unknown}"
    for name, parameter in signature.items():
        stated = stated_default(documented.get(name, ""))
        if stated is not None:
            assert same_default(stated, parameter.default), (
                f"{name}: Args says {stated}, the signature {parameter.default!r}"
            )


@by_name
def test_tested_by_the_harness(cls: type) -> None:
    """A test file has `CASES` with the class, which check its config."""
    assert cls in {case.cls for case in CASES}


@pytest.mark.parametrize("cls", classes(LAYERS), ids=lambda c: c.__name__)
def test_layer_stands_in_a_file_that_is_named_after_it_or_its_model(cls: type) -> None:
    """A file of one paper has the model's name; any other that of a layer in it."""
    tree = ast.parse(Path(inspect.getfile(cls)).read_text())
    names = {flat(n.name) for n in tree.body if isinstance(n, ast.ClassDef)}
    assert flat(stem(cls)) in names | {flat(model.__name__) for model in classes(APPLICATIONS)}


@pytest.mark.parametrize("package", [APPLICATIONS], ids=lambda p: p.__name__)
def test_every_public_class_is_exported(package: Any) -> None:
    for _, name, _ in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(name)
        for cls in vars(module).values():
            if inspect.isclass(cls) and cls.__module__ == name and not cls.__name__[0] == "_":
                if issubclass(cls, keras.layers.Layer) and cls not in INTERNAL:
                    assert cls.__name__ in package.__all__, f"{name}.{cls.__name__}"


# --- examples ---

PACKAGES = (
    "layers",
    "ops",
    "applications",
    "metrics",
    "text",
    "vectors",
    "data",
    "encoders",
    "transformations",
    "analysis",
)
MODULES = [
    name
    for package in (importlib.import_module(f"keras_sentmatch.{p}") for p in PACKAGES)
    for name in [
        package.__name__,
        *(m.name for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")),
    ]
]


@pytest.mark.backend("tensorflow", "torch")  # JAX compiles each line
@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(name)
    monkeypatch.chdir(tmp_path)  # an example may write a file
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    try:
        doctest.testmod(module, optionflags=flags, raise_on_error=True, extraglobs={"np": np})
    except doctest.UnexpectedException as error:
        raise error.exc_info[1] from None


# --- these tests can fail ---


class Documented(keras.layers.Layer):
    """Says one thing.

    Args:
        units: Width of it all,
            whatever that is. Defaults to 8.
        kind (str): One of `"a"` and `"b"`. Defaults to `"a"`.
        rate: By default nothing is dropped.
        **kwargs: Others.

    Example:
        no: not an argument
    """

    def __init__(self, units: int = 4, kind: str = "a", rate: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)


def test_docstring_parser() -> None:
    documented = documented_arguments(Documented)
    assert list(documented) == ["units", "kind", "rate", "kwargs"]
    stated = {n: stated_default(t) for n, t in documented.items()}
    assert stated == {"units": "8", "kind": '"a"', "rate": None, "kwargs": None}
    assert same_default('"a"', "a") and not same_default("8", 4) and same_default("0.5", 0.5)
    with pytest.raises(AssertionError, match="units: Args says 8, the signature 4"):
        test_arguments_are_documented_with_their_defaults(Documented)
    with pytest.raises(AssertionError):
        test_registered_under_the_package(Documented)
