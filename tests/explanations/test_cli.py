"""`keras-sentmatch explain`: what it prints and writes."""

import keras
import pytest

from keras_sentmatch.cli import main
from keras_sentmatch.explanations import explain
from tests.toys.matchers import make

pytestmark = pytest.mark.backend("torch")
PAIR = ["--sentence1", "A dog runs.", "--sentence2", "no cat"]


def test_pages_and_re_read_words(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("KERAS_BACKEND", keras.config.backend())
    run, data, out = tmp_path / "run", tmp_path / "pairs.tsv", tmp_path / "pages"
    make("drr_net").save(run)
    lines = [f"a dog\tcat {word}\tneutral" for word in ("runs", "moves", "<b>")]
    data.write_text("sentence1\tsentence2\tlabel\n" + "\n".join(lines) + "\n")

    def command(*arguments):
        with pytest.raises(SystemExit, match="^0$"):
            main(["explain", str(run), *map(str, arguments)])
        return capsys.readouterr().out

    printed = command(*PAIR, "--out", tmp_path / "page.html")
    found = explain(make("drr_net"), PAIR[1], PAIR[3])
    assert printed.startswith(found.summary())
    for picture in found.pictures[:2]:
        assert "  ".join(f"{word} {weight:.2f}" for word, weight in picture.steps) in printed
    page = (tmp_path / "page.html").read_text("utf-8")
    assert f"run: {run}" in page and "support the prediction" in page
    command(data, "--out", out, "--limit", 2)
    names = ["index.html", "pair-001.html", "pair-002.html"]
    assert sorted(path.name for path in out.iterdir()) == names
    listed = (out / "index.html").read_text("utf-8")
    assert 'href="pair-002.html"' in listed and "cat moves" in listed and "neutral" in listed
    page = (out / "pair-001.html").read_text("utf-8")
    assert "The data says <b><bdi>neutral</bdi></b>." in page
    blocks = command(data).strip().split("\n\n")
    assert [block.splitlines()[0] for block in blocks][:3] == [
        "a dog / cat runs", "a dog / cat moves", "a dog / cat <b>",
    ]  # fmt: skip
