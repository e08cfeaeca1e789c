"""`keras-sentmatch explain`."""

import keras
import pytest

from keras_sentmatch.cli import main
from tests.toys.matchers import make

pytestmark = pytest.mark.backend("torch")  # the models are explained on all in test_explanation.py
PAIR = ["--sentence1", "A dog runs.", "--sentence2", "no cat"]


@pytest.fixture(autouse=True)
def same_environment(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", keras.config.backend())
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explain") / "run"
    make("drr_net").save(folder)
    return folder


def explain(*arguments) -> int:
    with pytest.raises(SystemExit) as end:
        main(["explain", *map(str, arguments)])
    return int(end.value.code or 0)


def test_one_pair(run, tmp_path, capsys):
    page, pictures = tmp_path / "page.html", tmp_path / "pictures"
    assert explain(run, *PAIR, "--out", page, "--png", pictures, "--text") == 0
    text = page.read_text("utf-8")
    assert f"run: {run}" in text and "support the answer" in text and "model: drr_net" in text
    assert len(list(pictures.glob("*.png"))) > 3
    seen = capsys.readouterr()
    found = make("drr_net").explain(sentence1=PAIR[1], sentence2=PAIR[3])
    for _, picture in found.rereads():
        assert "  ".join(f"{word} {weight:.2f}" for word, weight in picture.steps) in seen.out
    assert seen.out.startswith(found.summary()) and f"written: {page}" in seen.err
    assert explain(run, *PAIR, "--out", page, "--no-erasure") == 0
    assert "support the answer" not in page.read_text("utf-8")


def test_a_file_gets_a_page_for_each_pair_and_a_list(run, tmp_path, capsys):
    data, out = tmp_path / "pairs.tsv", tmp_path / "pages"
    lines = [f"a dog\tcat {word}\tneutral" for word in ("runs", "moves", "<b>")]
    data.write_text("sentence1\tsentence2\tlabel\n" + "\n".join(lines) + "\n")
    assert explain(run, data, "--out", out, "--png", tmp_path / "png", "--limit", 2) == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "index.html", "pair-001.html", "pair-002.html",
    ]  # fmt: skip
    listed = (out / "index.html").read_text("utf-8")
    assert 'href="pair-002.html"' in listed and "cat moves" in listed and "neutral" in listed
    assert "The data says <b><bdi>neutral</bdi></b>." in (out / "pair-001.html").read_text("utf-8")
    assert (tmp_path / "png" / "pair-002").is_dir()
    assert explain(run, data, "--out", out, "--no-erasure") == 0
    assert "cat &lt;b&gt;" in (out / "index.html").read_text("utf-8")
    capsys.readouterr()
    assert explain(run, data, "--text", "--no-erasure") == 0
    assert capsys.readouterr().out.count("neutral") >= 6


def test_without_options_the_answer_and_then_the_words_are_printed(run, tmp_path, capsys):
    assert explain(run, *PAIR) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("The answer is ") and any(
        "word" in line.lower() for line in lines[1:]
    )
    data = tmp_path / "pairs.tsv"
    data.write_text("sentence1\tsentence2\tlabel\na dog\tcat runs\tneutral\na\tb\tneutral\n")
    assert explain(run, data) == 0
    blocks = capsys.readouterr().out.strip().split("\n\n")
    assert [block.splitlines()[0] for block in blocks] == ["a dog / cat runs", "a / b"]
    assert all("The data says neutral." in block for block in blocks)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--sentence1", "a", "--text"], "give either a FILE"),
        ([*PAIR, "--out", "folder"], "expected a name that ends in .html"),
        (["pairs.tsv", "--out", "page.html"], "expected a folder"),
        ([*PAIR, "--text", "--limit", "2"], "--limit 2"),
        (["pairs.tsv", "--text", "--limit", "0"], "--limit 0"),
    ],
)
def test_mistakes_are_one_line(run, capsys, arguments, message):
    assert explain(run, *arguments) == 2
    assert message in capsys.readouterr().err


def test_text_is_for_models_that_read_again(tmp_path, capsys):
    make("esim").save(tmp_path / "esim")
    assert explain(tmp_path / "esim", *PAIR, "--text") == 2
    assert "re-reads no words" in capsys.readouterr().err
