"""The page in a real browser, without a network: it skips where there is no Chromium."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from keras_sentmatch.data import PairDataset, load_pairs
from keras_sentmatch.explanations import explain
from tests.browser import BROWSER, Browser, started
from tests.explanations.test_explanation import Cells, cells_of, each_variant
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


@pytest.fixture(scope="module")
def real_pair(data_dir: Path) -> PairDataset:
    return load_pairs(str(data_dir / "sick"))["validation"].select([0])


@each_variant
def test_the_page_of_every_model_opens(name, options, real_pair, tmp_path, browser):
    (found,) = explain(make(name, **options), real_pair)
    browser.open(found.save(tmp_path / "page.html"))
    seen = Cells(browser.js("document.documentElement.outerHTML"))
    assert browser.console == [] and seen.counts == cells_of(found)
    assert bool(seen.counts) == (name != "hyper_lstm")
    assert seen.text.index("The prediction is") < seen.text.index(f"The data says {found.gold}.")
    assert browser.js("document.documentElement.scrollWidth <= innerWidth")


def test_nothing_from_elsewhere_is_loaded_or_run(tmp_path, browser):
    found = explain(
        make("esim", feature_attention="sfa"), sentence1=LONG, sentence2="The <b> animal"
    )
    page = found.save(tmp_path / "page.html")
    browser.open(page)
    seen = Cells(browser.js("document.documentElement.outerHTML"))
    assert browser.console == [] and seen.counts == cells_of(found) and sum(seen.counts) > 500
    assert "שלום" in seen.text and "🐕" in seen.text
    bad = "<body><img src='http://localhost:9/x.png'><script>document.title = 'bad'</script>"
    page.write_text(found.html.replace("<body>", bad))
    browser.open(page)
    assert sum("Content Security Policy" in line for line in browser.console) == 2
    assert browser.js("document.title") != "bad"


LINES = "document.querySelectorAll('.sentences path').length"
CHOSEN = "(document.querySelector('[aria-pressed]') || {firstChild: {}}).firstChild.textContent"
FOCUSED = "document.activeElement.firstChild.textContent"
SAID = "document.querySelector('output').textContent"


def test_a_word_draws_lines_by_mouse_and_by_keyboard(tmp_path, browser):
    found = explain(make("re2"), sentence1="A dog runs.", sentence2="no small cat")
    browser.open(found.save(tmp_path / "page.html"))
    assert browser.js(LINES) > 0, "a word is chosen at first"
    first = "document.querySelectorAll('.sentence')[0].querySelectorAll('button')"
    browser.js(f"{first}[1].click()")
    assert browser.js(CHOSEN) == "dog" and browser.js(LINES) == 3
    shares = sorted(found.pictures[2].values[1], reverse=True)  # the mean of two layers
    said = browser.js(SAID)
    assert f"{shares[0]:.0%}, " in said and "dog" in said.split(" attends to ")[0]
    browser.js("document.querySelector('[name=layer]').click()")
    assert browser.js(SAID) != said and browser.js(LINES) > 0
    widths = "[...document.querySelectorAll('.sentences path')].map(p => +p.getAttribute('stroke-width'))"
    assert browser.js(f"Math.max(...{widths})") == pytest.approx(
        1 + 11 * found.pictures[0].values[1].max(), abs=1e-2
    )
    browser.js(f"{first}[1].focus()")
    for key, focused, chosen in (
        ("ArrowRight", "runs", "runs"),
        ("End", ".", "."),
        ("ArrowDown", "cat", "cat"),
        ("Home", "no", "no"),
        ("Escape", "no", None),
        ("ArrowRight", "small", None),
        ("Enter", "small", "small"),
        ("Enter", "small", None),
    ):
        browser.press(key)
        assert (browser.js(FOCUSED), browser.js(CHOSEN)) == (focused, chosen), key
    assert browser.js(LINES) == 0


def test_the_page_can_be_read_without_its_script(tmp_path, browser):
    found = explain(make("re2"), sentence1="A dog runs.", sentence2="no small cat")
    path = tmp_path / "page.html"
    path.write_text(found.html.replace("'sha256-", "'sha256-0"))
    browser.open(path)
    assert any("Content Security Policy" in line for line in browser.console)
    assert browser.js("document.querySelectorAll('.word small').length") == 6
    assert browser.js("document.querySelector('fieldset').offsetHeight") == 0
    assert browser.js(LINES) == 0 and "No" in found.html
