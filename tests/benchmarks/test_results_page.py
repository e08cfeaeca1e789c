"""docs/results.md holds what its script makes."""

import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("matplotlib")


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    return importlib.import_module("results_page")


def test_the_page_of_results_is_what_its_script_makes(page: ModuleType) -> None:
    """A number that was typed by hand, or rows that the page lacks, fail."""
    text = page.PAGE.read_text("utf-8")
    assert page.filled(text) == text
    assert page.filled(re.sub(r"\d ± ", "9 ± ", text)) == text
    assert page.model_figures() == page.FIGURES.read_text("utf-8")
    assert len(text.split()) <= 3000
    pictures = set(re.findall(r"\(images/([\w.-]+)\)", text))
    assert pictures == {path.name for path in (page.PAGE.parent / "images").iterdir()}
    with pytest.raises(SystemExit, match="0 blocks <!-- defaults -->"):
        page.filled(text.replace("<!-- defaults -->", ""))


def test_the_page_of_papers_is_what_reproduce_made(page: ModuleType) -> None:
    text = page.PAPERS.read_text("utf-8")
    assert page.filled_papers(text) == text
    assert all(f"`{name}`" in text for name in page.list_artefacts())


def test_pictures_are_drawn(page: ModuleType, tmp_path: Path) -> None:
    for block in (page.small_matchers, page.calibration):
        draw = block()[1]
        draw(tmp_path / "picture.png")
        assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
