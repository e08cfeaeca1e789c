"""How the list of antonyms in the package is made: inflected forms, and how the pairs are written."""

from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.once


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import antonyms

    return antonyms


def test_words_stand_next_to_the_same_form_of_the_other_word(script: ModuleType) -> None:
    words = {"opens", "opened", "opening", "shuts", "shutting", "hotter", "hottest", "carries"}
    known = {("v", "shut"): {"shut"}}
    assert script.forms("open", "v", {}, words) == [{"open"}, {"opens"}, {"opened"}, {"opening"}]
    shut = script.forms("shut", "v", known, words)
    assert shut == [{"shut"}, {"shuts"}, set(), {"shutting"}]  # irregular
    assert script.forms("hot", "a", {}, words) == [{"hot"}, {"hotter"}, {"hottest"}]
    assert script.forms("carry", "n", {}, words)[1] == {"carries"}


def test_each_pair_is_written_once(script: ModuleType) -> None:
    pairs = {("big", "small"), ("large", "small"), ("big", "little"), ("lose", "win")}
    written = [line.split() for line in script.lines(pairs)]
    assert {tuple(sorted((word, other))) for word, *rest in written for other in rest} == pairs
    assert sum(len(rest) for _, *rest in written) == len(pairs)
