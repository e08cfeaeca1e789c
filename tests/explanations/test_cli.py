"""`keras-sentmatch explain`: what it prints and writes."""

import keras
import pytest

from keras_sentmatch.cli import main
from keras_sentmatch.explanations import explain
from tests.toys.matchers import make

pytestmark = pytest.mark.backend("torch")
PAIR = ["--sentence1", "A dog runs.", "--sentence2", "no cat"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explain") / "run"
    make("drr_net").save(folder)
    return folder


@pytest.fixture
def command(run, monkeypatch, capsys):
    monkeypatch.setenv("KERAS_BACKEND", keras.config.backend())

    def call(*arguments):
        with pytest.raises(SystemExit) as end:
            main(["explain", str(run), *map(str, arguments)])
        return int(end.value.code or 0), *capsys.readouterr()

    return call


def test_one_pair(run, command, tmp_path):
    page = tmp_path / "page.html"
    code, out, err = command(*PAIR, "--out", page, "--text")
    assert code == 0 and f"written: {page}" in err
    text = page.read_text("utf-8")
    assert f"run: {run}" in text and "support the prediction" in text and "model: drr_net" in text
    found = explain(make("drr_net"), PAIR[1], PAIR[3])
    assert out.startswith(found.summary())
    for picture in found.pictures[:2]:
        assert "  ".join(f"{word} {weight:.2f}" for word, weight in picture.steps) in out
    assert command(*PAIR, "--out", page, "--no-erasure")[0] == 0
    assert "support the prediction" not in page.read_text("utf-8")


def test_a_file_gets_a_page_for_each_pair_and_a_list(command, tmp_path):
    data, out = tmp_path / "pairs.tsv", tmp_path / "pages"
    lines = [f"a dog\tcat {word}\tneutral" for word in ("runs", "moves", "<b>")]
    data.write_text("sentence1\tsentence2\tlabel\n" + "\n".join(lines) + "\n")
    assert command(data, "--out", out, "--limit", 2, "--no-erasure")[0] == 0
    names = ["index.html", "pair-001.html", "pair-002.html"]
    assert sorted(path.name for path in out.iterdir()) == names
    listed = (out / "index.html").read_text("utf-8")
    assert 'href="pair-002.html"' in listed and "cat moves" in listed and "neutral" in listed
    assert "The data says <b><bdi>neutral</bdi></b>." in (out / "pair-001.html").read_text("utf-8")
    blocks = command(data)[1].strip().split("\n\n")
    firsts = ["a dog / cat runs", "a dog / cat moves", "a dog / cat <b>"]
    assert [block.splitlines()[0] for block in blocks] == firsts
