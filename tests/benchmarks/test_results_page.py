"""The pages of results hold what their script makes."""

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


def test_the_pages_of_results_are_what_their_script_makes(page: ModuleType) -> None:
    """A number that was typed by hand, or rows that a page lacks, fail."""
    texts = {path: path.read_text("utf-8") for path in page.PAGES}
    page.check_places(texts.values())
    for path, text in texts.items():
        assert page.filled(path, text) == text
        assert page.filled(path, re.sub(r"\d ± ", "9 ± ", text)) == text
    assert page.model_figures() == page.FIGURES.read_text("utf-8")
    results = [text for path, text in texts.items() if path.parent.name == "results"]
    assert sum(len(re.findall(r"\S*\w\S*", text)) for text in results) <= 3000
    with pytest.raises(SystemExit, match="0 blocks <!-- defaults -->"):
        page.check_places(text.replace("<!-- defaults -->", "") for text in texts.values())


def test_every_picture_is_shown(page: ModuleType) -> None:
    pages = [*page.PAGES, *page.DOCS.glob("*.md"), *page.PAPERS.glob("*.md")]
    texts = [path.read_text("utf-8") for path in pages]
    shown = set(re.findall(r"images/([\w.-]+)\)", "".join(texts)))
    assert shown == {path.name for path in (page.DOCS / "images").iterdir()}


def test_the_pages_of_papers_are_what_reproduce_made(page: ModuleType) -> None:
    texts = [path.read_text("utf-8") for path in page.PAPERS.glob("*.md")]
    assert [page.filled_papers(text) for text in texts] == texts
    assert all(f"`{name}`" in "".join(texts) for name in page.list_artefacts())


def test_pictures_are_drawn(page: ModuleType, tmp_path: Path) -> None:
    for block in (page.small_matchers, page.calibration):
        draw = block()[1]
        draw(tmp_path / "picture.png")
        assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
