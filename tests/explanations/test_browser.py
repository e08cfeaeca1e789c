"""The page in a real browser, without a network: it skips where there is no Chromium."""

from collections.abc import Iterator

import pytest

from keras_sentmatch.explanations import explain
from tests.browser import BROWSER, Browser, started
from tests.explanations.test_explanation import Cells, cells_of
from tests.toys.matchers import make

pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no Chromium"),
    pytest.mark.backend("torch"),
]
LONG = "a big dog runs in the park , and two small cats שלום 🐕 do not run " * 2


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Browser]:
    with started(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.mark.parametrize("name", ["esim", "hybrid", "ladra_net"])
def test_the_page_opens_and_fits(name, tmp_path, browser):
    found = explain(make(name), LONG, "The <b> animal")
    browser.open(found.save(tmp_path / "page.html"))
    seen = Cells(browser.js("document.documentElement.outerHTML"))
    assert browser.console == [] and seen.counts == cells_of(found)
    assert "שלום" in seen.text and "🐕" in seen.text
    assert browser.js("document.querySelectorAll('.word small').length") == len(found.effects)
    for state in (False, True):  # the inside of the model is closed at first
        assert browser.js("document.querySelector('details').open") is state
        assert browser.js("document.documentElement.scrollWidth <= innerWidth")
        browser.js("document.querySelector('summary').click()")


def test_nothing_from_elsewhere_is_loaded_or_run(tmp_path, browser):
    page = tmp_path / "page.html"
    bad = "<body><img src='http://localhost:9/x.png'><script>document.title = 'bad'</script>"
    page.write_text(explain(make("esim"), "a dog", "a cat").html.replace("<body>", bad))
    browser.open(page)
    assert sum("Content Security Policy" in line for line in browser.console) == 2
    assert browser.js("document.title") != "bad"
