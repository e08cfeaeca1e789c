"""The page in Chromium: typing, the keyboard alone, bad input, and what strangers write."""

import time
from collections.abc import Iterator

import pytest

from keras_sentmatch.service.gate import Limits
from tests.browser import BROWSER, Browser, started
from tests.service.live import on_a_port
from tests.service.stub import Stub, served
from tests.toys.matchers import make

pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no Chromium"),
    pytest.mark.backend("torch"),
]
EVIL = "<script>document.title = 'bad'</script>"
SAID = "document.getElementById('said').textContent"
PROBLEM = "document.getElementById('problem').textContent"
FOCUSED = "document.activeElement.id || document.activeElement.textContent.trim()"
PAST = "document.querySelectorAll('#history li').length"


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Browser]:
    with started(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    runs = [
        served(make("re2"), "re2"),
        served(Stub((EVIL, "yes")), EVIL),
        served(Stub(None), "scores"),
    ]
    examples = [("A dog runs.", "</option><b>An animal"), ("no", "yes")]
    with on_a_port(runs, Limits(characters=200), examples=examples) as port:
        yield f"http://127.0.0.1:{port}/"


def until(browser: Browser, code: str) -> None:
    end = time.monotonic() + 100
    while not browser.js(code):
        assert time.monotonic() < end, (code, browser.js("document.body.innerText"))
        time.sleep(0.02)


def write(browser: Browser, text: str) -> None:
    browser.call("Input.insertText", text=text)


DONE = "document.getElementById('explanation').getAttribute('aria-busy') === 'false'"


def test_the_keyboard_alone_is_enough(browser, address):
    browser.open(address)
    until(browser, f"({FOCUSED}) === 're2' || ({FOCUSED}) === 'one'")
    write(browser, "A dog runs.")
    browser.press("Tab")
    assert browser.js(FOCUSED) == "two"
    write(browser, "no small cat")
    browser.press("Enter")
    until(browser, f"{SAID} && {DONE} && !!document.querySelector('.sentences')")
    want = make("re2").predict(sentence1="A dog runs.", sentence2="no small cat")
    assert browser.js(SAID) == f"{want.label} {want.probabilities[want.label]:.1%}"
    bars = browser.js(
        "[...document.querySelectorAll('#shares span')].map(s => s.textContent).join()"
    )
    assert bars == ",".join(f"{name},{p:.3f}" for name, p in want.probabilities.items())
    width = "document.querySelector('#shares .chosen i').style.width"
    assert float(browser.js(width).rstrip("%")) == pytest.approx(
        100 * want.probabilities[want.label], abs=0.01
    )
    assert browser.js("document.querySelector('details').open") is False
    browser.js("document.getElementById('two').focus()")
    browser.call("Input.insertText", text=" two")
    browser.press("Tab")
    assert browser.js(FOCUSED) == "Compare"
    browser.press("Enter")
    until(browser, f"{PAST} === 2 && {DONE}")
    browser.js("document.querySelector('#history li:last-child button').focus()")
    browser.press("Enter")
    until(browser, f"{PAST} === 3 && {DONE}")
    assert browser.js("document.getElementById('two').value") == "no small cat"
    assert browser.console == []


def test_shift_and_enter_begin_a_line(browser, address):
    browser.open(address)
    browser.js("document.getElementById('one').focus()")
    write(browser, "a")
    enter = {"key": "Enter", "code": "Enter", "text": "\r", "windowsVirtualKeyCode": 13}
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, modifiers=8, **enter)
    write(browser, "b")
    assert browser.js("document.getElementById('one').value") == "a\nb" and browser.js(PAST) == 0


def test_an_empty_sentence_is_asked_for(browser, address):
    browser.open(address)
    browser.js("document.getElementById('one').focus()")
    write(browser, "  ")
    browser.press("Enter")
    assert browser.js(PROBLEM) == "Sentence 1 is empty." and browser.js(FOCUSED) == "one"
    write(browser, "a dog")
    assert browser.js(PROBLEM) == ""
    browser.press("Enter")
    assert browser.js(PROBLEM) == "Sentence 2 is empty." and browser.js(FOCUSED) == "two"
    assert browser.js("document.getElementById('two').getAttribute('aria-invalid')") == "true"
    assert browser.js("document.getElementById('answer').hidden") is True


def test_a_very_long_sentence(browser, address):
    browser.open(address)
    browser.js("document.getElementById('one').focus()")
    write(browser, "dog " * 49)
    assert browser.js(PROBLEM) == ""
    browser.press("Tab")
    write(browser, "cat" * 50)
    browser.press("Enter")
    until(browser, f"{SAID} && {DONE}")
    assert "too long for the model" in browser.js("document.body.innerText")
    assert browser.js("document.documentElement.scrollWidth <= innerWidth")
    write(browser, "x" * 100_000)
    assert "may have 200 characters; this one has 100150" in browser.js(PROBLEM)
    browser.press("Enter")
    until(browser, f"{PROBLEM}.includes('sentence2: string should have at most 200')")
    assert browser.js(PAST) == 1


def test_what_strangers_write_is_text(browser, address):
    browser.open(address)
    browser.js("document.getElementById('run').selectedIndex = 1")
    browser.js("document.getElementById('one').focus()")
    write(browser, f"{EVIL * 3}<img src=x onerror=\"document.title='bad'\">")
    browser.press("Tab")
    write(browser, "</textarea><b>")
    browser.press("Enter")
    until(browser, f"{SAID} && {DONE}")
    assert browser.js(SAID).startswith(EVIL)
    assert browser.js("document.querySelector('#shares span').textContent") == EVIL
    assert EVIL in browser.js("document.querySelector('#history').textContent")
    assert "cannot explain" in browser.js("document.getElementById('explanation').textContent")
    browser.js("document.getElementById('run').selectedIndex = 0")
    browser.js("document.getElementById('one').focus()")
    browser.press("Enter")
    until(browser, f"{PAST} === 2 && {DONE} && !!document.querySelector('.sentences')")
    assert EVIL in browser.js(
        "const copy = document.querySelector('.sentence').cloneNode(true);"
        "copy.querySelectorAll('small').forEach(number => number.remove()); copy.textContent"
    )
    assert browser.js("document.title") == "Compare two sentences"
    assert (
        browser.js(
            "document.querySelectorAll('main b b, main img[src=x], main script:not([type])').length"
        )
        == 0
    )
    assert browser.console == []


def test_scores_examples_and_a_cleared_list(browser, address):
    browser.open(address)
    browser.js("document.getElementById('run').selectedIndex = 2")
    browser.js(
        "const box = document.getElementById('example'); box.selectedIndex = 1;"
        "box.dispatchEvent(new Event('change'))"
    )
    until(browser, f"{SAID} && {DONE}")
    assert browser.js("document.getElementById('two').value") == "</option><b>An animal"
    assert browser.js(SAID) == "Score 0.3529"
    assert browser.js("document.querySelectorAll('#shares i').length") == 1
    browser.js("document.getElementById('forget').click()")
    assert browser.js(PAST) == 0 and browser.js("document.getElementById('past').hidden") is True


def test_a_service_that_has_ended_is_said(browser):
    with on_a_port([served(Stub())]) as port:
        browser.open(f"http://127.0.0.1:{port}/")
    browser.js("for (const id of ['one', 'two']) document.getElementById(id).value = 'a'")
    browser.js("document.getElementById('one').focus()")
    browser.press("Enter")
    until(browser, f"{PROBLEM} === 'The service does not answer.'")
