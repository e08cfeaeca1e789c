"""The page in a real browser, without a network: it skips where there is no Chromium."""

import fcntl
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from keras_sentmatch.data import PairDataset, load_pairs
from tests.explain.test_explanation import Cells, cells_of, each_variant
from tests.toys.matchers import make

BROWSER = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no Chromium"),
    pytest.mark.backend("torch"),
]
LONG = "a big dog runs in the park , and two small cats שלום 🐕 do not run " * 2
OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-extensions "
    "--disable-background-networking --remote-debugging-pipe"
).split()


class Browser:
    """Chromium's DevTools protocol over a pipe: JSON messages that end with a zero byte."""

    def __init__(self, reader: int, writer: int):
        self.reader, self.writer, self.rest, self.number = reader, writer, b"", 0
        self.session = ""
        self.console: list[str] = []

    def call(self, method: str, **parameters: Any) -> Any:
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writer, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                got = os.read(self.reader, 1 << 16)
                assert got, "the browser ended"
                self.rest += got
            line, _, self.rest = self.rest.partition(b"\0")
            answer = json.loads(line)
            if answer["method" if "method" in answer else "id"] in (
                "Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled",
            ):  # fmt: skip
                self.console.append(str(answer["params"]))
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]

    def open(self, page: Path) -> None:
        self.session, self.console = "", []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        self.call("Log.enable")
        self.call("Runtime.enable")
        self.call("Page.navigate", url=page.as_uri())
        end = time.monotonic() + 60
        while self.js("document.readyState + location.protocol") != "completefile:":
            assert time.monotonic() < end
            time.sleep(0.02)

    def js(self, code: str) -> Any:
        return self.call("Runtime.evaluate", expression=code)["result"].get("value")

    def press(self, key: str) -> None:
        text = {"text": "\r"} if key == "Enter" else {}
        code = {"Enter": 13, "Tab": 9, "Escape": 27}.get(key, 0)
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key,
                windowsVirtualKeyCode=code, **text,
            )  # fmt: skip


@contextmanager
def started(profile: Path) -> Iterator[Browser]:
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for pair in (os.pipe(), os.pipe()) for end in pair]
    its_in, writer, reader, its_out = ends
    command = [str(BROWSER), *OPTIONS, "--host-resolver-rules=MAP * ~NOTFOUND"]
    process = subprocess.Popen(
        ["bash", "-c", f'exec "$0" "$@" 3<&{its_in} 4>&{its_out}', *command, f"--user-data-dir={profile}"],
        pass_fds=(its_in, its_out), stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(its_in)
    os.close(its_out)
    yield Browser(reader, writer)
    process.terminate()
    process.wait()


@pytest.fixture(scope="module")
def browser(tmp_path_factory) -> Iterator[Browser]:
    with started(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def real_pair(data_dir: Path) -> PairDataset:
    return load_pairs(str(data_dir / "sick"))["validation"].select([0])


@each_variant
def test_the_page_of_every_model_opens(name, options, real_pair, tmp_path, browser):
    (found,) = make(name, **options).explain(real_pair)
    browser.open(found.save(tmp_path / "page.html"))
    seen = Cells(browser.js("document.documentElement.outerHTML"))
    assert browser.console == [] and seen.counts == cells_of(found)
    assert bool(seen.counts) == (name != "hyper_lstm")
    assert seen.text.index("The answer is") < seen.text.index(f"The data says {found.gold}.")
    assert browser.js("document.documentElement.scrollWidth <= innerWidth")


def test_nothing_from_elsewhere_is_loaded_or_run(tmp_path, browser):
    found = make("esim", feature_attention="sfa").explain(
        sentence1=LONG, sentence2="The <b> animal"
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
    found = make("re2").explain(sentence1="A dog runs.", sentence2="no small cat")
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
    found = make("re2").explain(sentence1="A dog runs.", sentence2="no small cat")
    path = tmp_path / "page.html"
    path.write_text(found.html.replace("'sha256-", "'sha256-0"))
    browser.open(path)
    assert any("Content Security Policy" in line for line in browser.console)
    assert browser.js("document.querySelectorAll('.word small').length") == 6
    assert browser.js("document.querySelector('fieldset').offsetHeight") == 0
    assert browser.js(LINES) == 0 and "No" in found.html
