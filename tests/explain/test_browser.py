"""The page in a real browser, without a network: it skips where there is no Chromium."""

import re
import shutil
import subprocess
from pathlib import Path

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


def visit(page: Path) -> tuple[str, list[str]]:
    """The DOM after loading, and what the console said."""
    options = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-extensions --dump-dom"
    options += " --disable-background-networking --enable-logging=stderr"
    done = subprocess.run(
        [str(BROWSER), *options.split(), "--host-resolver-rules=MAP * ~NOTFOUND",
         f"--user-data-dir={page.parent / 'profile'}", page.as_uri()],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    return done.stdout, re.findall(r".*CONSOLE.*", done.stderr)


def test_the_page_opens_without_network(tmp_path):
    found = make("esim", feature_attention="sfa").explain(
        sentence1=LONG, sentence2="The <b> animal"
    )
    page = found.save(tmp_path / "page.html")
    dom, console = visit(page)
    assert console == []
    seen = Cells(dom)
    assert seen.counts == cells_of(found) and sum(seen.counts) > 500
    assert "שלום" in dom and "🐕" in dom and found.label in dom
    # That anything from elsewhere would be noticed
    page.write_text(found.html.replace("<body>", "<body><img src='http://localhost:9/x.png'>"))
    assert any("Content Security Policy" in line for line in visit(page)[1])


@pytest.fixture(scope="module")
def real_pair(data_dir: Path) -> PairDataset:
    return load_pairs(str(data_dir / "sick"))["validation"].select([0])


@each_variant
def test_the_page_of_every_model_opens(name, options, real_pair, tmp_path):
    (found,) = make(name, **options).explain(real_pair)
    dom, console = visit(found.save(tmp_path / "page.html"))
    seen = Cells(dom)
    assert console == [] and seen.counts == cells_of(found)
    assert bool(seen.counts) == (name != "hyper_lstm")
    assert all(sentence in seen.text for sentence in (found.sentence1, found.sentence2))
    assert f"the data says {found.gold}" in " ".join(seen.text.split())
