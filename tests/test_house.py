"""What files import. `.ci/static` checks the layers of the packages, and that there are no circles."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator

import keras
import pytest

from tests.cross_backend import ROOT

PACKAGES = {"keras_sentmatch": "keras_sentmatch"} | {
    folder: f"keras_sentmatch.{folder}" for folder in ("applications", "tuning")
}
# What a module may import inside a function: what is optional, or heavy.
LAZY = set(
    "ai_edge_litert datasets h5py jax keras keras_hub keras_tuner matplotlib nltk onnxruntime "
    "openpyxl pandas pyarrow regex rich safetensors scipy sentencepiece sklearn spacy tensorboard tensorflow "
    "tensorflow_datasets tensorflow_text tokenizers torch".split()
)
# The same in the library: what loads Keras, needed or not.
LAZY_OWN = {
    ("keras_sentmatch.service.app", "keras_sentmatch.explanations"),
    ("keras_sentmatch.applications.backbone", "keras_sentmatch.text.backbones"),
    ("keras_sentmatch.inference.matcher", "keras_sentmatch.inference.compiled"),
    ("keras_sentmatch.inference.run_folder", "keras_sentmatch.applications"),
    ("keras_sentmatch.inference.matcher", "keras_sentmatch.applications"),
    ("keras_sentmatch.inference.loading", "keras_sentmatch.inference.onnx_export"),
    ("keras_sentmatch.analysis.comparing", "keras_sentmatch.inference.run_folder"),
    ("keras_sentmatch.training.recipe", "keras_sentmatch.applications"),
    ("keras_sentmatch.training.recipe", "keras_sentmatch.applications.hyperparameters"),
    ("keras_sentmatch.tuning._search", "keras_sentmatch.tuning._tuner"),
}
# Folders whose modules load without these packages.
WITHOUT = {
    "keras_sentmatch/ops": {"tensorflow", "keras_hub"},
    "keras_sentmatch/layers": {"tensorflow", "keras_hub"},
    "applications": {"tensorflow", "keras_hub"},
    "tuning": {"tensorflow", "jax", "torch", "keras_hub"},
    "keras_sentmatch/data": {"tensorflow", "keras_hub", "keras"},
    "keras_sentmatch/analysis": {"tensorflow", "keras_hub", "keras"},
    "keras_sentmatch/transformations": {"tensorflow", "keras_hub", "keras"},
}


def modules(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    """Name and syntax tree of each module."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            top, *rest = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join([PACKAGES.get(top, top), *rest]).removesuffix(".__init__")
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def imports(tree: ast.AST) -> Iterator[tuple[str, str, bool]]:
    """(module, name, whether inside a function) of each import, but for those of type checkers."""

    def walk(node: ast.AST, inside: bool) -> Iterator[tuple[str, str, bool]]:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.Import):
            yield from ((alias.name, "", inside) for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert node.module and not node.level, "a relative import"
            yield from ((node.module, alias.name, inside) for alias in node.names)
        inside = inside or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for child in ast.iter_child_nodes(node):
            yield from walk(child, inside)

    yield from walk(tree, False)


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def is_module(package: str, name: str) -> bool:
    """Whether `name` is a module of `package`."""
    folder = {target: source for source, target in PACKAGES.items()}
    place = folder.get(package) or package.replace(".", "/")
    return (ROOT / place / f"{name}.py").is_file()


def private_names(tree: ast.AST, importer: str = "", attributes: bool = True) -> list[str]:
    """Return the private names that a module imports or reads from another module.

    A `_module` may be imported within its own package, and by tests.
    """
    ours = [(module, name) for module, name, _ in imports(tree) if module.startswith("keras_sent")]
    found = []
    for module, name in ours:
        package = module.split("._")[0] if "._" in module else module
        own = importer.startswith((package, "tests."))
        if is_private(name) and not (own and is_module(module, name)):
            found.append(f"{module}.{name}")
        elif any(map(is_private, module.split("."))) and not own:
            found.append(f"{module}.{name}")
    imported = {name for _, name in ours}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if attributes and node.value.id in imported and is_private(node.attr):
                found.append(f"{node.value.id}.{node.attr}")
    return found


def test_no_private_name_crosses_a_file() -> None:
    found = {name: private_names(tree, name) for name, tree in modules(*PACKAGES, "benchmarks")}
    found |= {name: private_names(tree, name, attributes=False) for name, tree in modules("tests")}
    assert {name: private for name, private in found.items() if private} == {}


def test_imports_stand_at_the_top() -> None:
    found = [
        f"{importer} imports {module}"
        for importer, tree in modules(*PACKAGES)
        if not importer.startswith("keras_sentmatch.cli.")
        for module, _, inside in imports(tree)
        if inside and module.split(".")[0] not in LAZY and (importer, module) not in LAZY_OWN
    ]
    assert found == []


@pytest.mark.parametrize("folder", WITHOUT)
def test_heavy_packages_are_imported_lazily(folder: str) -> None:
    found = [
        f"{importer} imports {module}"
        for importer, tree in modules(folder)
        for module, _, inside in imports(tree)
        if not inside and module.split(".")[0] in WITHOUT[folder]
    ]
    assert found == []


def test_constructors_of_models_are_short() -> None:
    def lines_of(function: ast.FunctionDef) -> int:
        """Without the docstring, which describes the arguments."""
        doc = function.body[0] if ast.get_docstring(function) else None
        documented = 0 if doc is None else (doc.end_lineno or 0) - doc.lineno + 1
        return (function.end_lineno or 0) - function.lineno + 1 - documented

    found = {
        f"{name}.{cls.name}": lines_of(function)
        for name, tree in modules("applications")
        for cls in tree.body
        if isinstance(cls, ast.ClassDef)
        for function in cls.body
        if isinstance(function, ast.FunctionDef) and function.name == "__init__"
    }
    assert found
    assert {name: lines for name, lines in found.items() if lines > 90} == {}  # one per attribute


def python(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize(
    "module, forbidden",
    [
        ("keras_sentmatch", "keras matplotlib tensorflow jax torch"),
        ("keras_sentmatch.data", "keras tensorflow jax torch keras_hub"),
        ("keras_sentmatch.metrics", "keras sklearn scipy tensorflow jax torch"),
        ("keras_sentmatch.tuning", "keras keras_tuner tensorflow jax torch"),
    ],
)
def test_import_is_silent_and_light(module: str, forbidden: str) -> None:
    code = f"import sys, {module}; print(*(set('{forbidden}'.split()) & set(sys.modules)), end='')"
    done = python(code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.backend("jax", "torch")
def test_works_where_tensorflow_cannot_be_imported() -> None:
    backend = keras.backend.backend()
    code = """
import sys
sys.modules["tensorflow"] = None
import keras_sentmatch.layers, keras_sentmatch.applications, keras
print(keras.backend.backend())
"""
    done = python(code, KERAS_BACKEND=backend)
    assert (done.returncode, done.stdout.strip()) == (0, backend), done.stderr[-2000:]


def test_these_checks_can_fail() -> None:
    tree = ast.parse("""
import tensorflow.io as io
try:
    from keras_hub import models
except ImportError: pass
class A:
    import torch
    def f(self):
        from keras_sentmatch.data import _hidden
        from keras_sentmatch.encoders import words
        return words._private, words.public, self._own
if TYPE_CHECKING:
    import numpy
""")
    assert list(imports(tree)) == [
        ("tensorflow.io", "", False),
        ("keras_hub", "models", False),
        ("torch", "", False),
        ("keras_sentmatch.data", "_hidden", True),
        ("keras_sentmatch.encoders", "words", True),
    ]
    assert private_names(tree) == ["keras_sentmatch.data._hidden", "words._private"]
    tree = ast.parse("from keras_sentmatch.text._pieces import cut, _secret")
    within, elsewhere = (private_names(tree, f"keras_sentmatch.{p}.x") for p in ("text", "data"))
    assert within == ["keras_sentmatch.text._pieces._secret"]
    assert elsewhere == [f"keras_sentmatch.text._pieces.{name}" for name in ("cut", "_secret")]
