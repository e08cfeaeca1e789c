"""Commands on corpora: line numbers, files, indexes, and training from matching pairs."""

import json

import pytest

from keras_sentmatch.cli import main
from tests.corpus.test_mining import SENTENCES
from tests.corpus.test_mining import matcher as matcher
from tests.corpus.test_positives import matches

pytest.importorskip("bm25s")
pytest.importorskip("faiss")
pytestmark = pytest.mark.once


@pytest.fixture
def command(matcher, tmp_path, capsys):
    matcher.save(tmp_path / "run")

    def call(name, *arguments, code=0):
        with pytest.raises(SystemExit) as end:
            main([name, *map(str, arguments)])
        assert (end.value.code or 0) == code
        return capsys.readouterr()

    return call


def test_pairs_and_groups_have_line_numbers(command, tmp_path):
    run, corpus, page = tmp_path / "run", tmp_path / "corpus.txt", tmp_path / "page.html"
    corpus.write_text("\n".join(SENTENCES[:7]) + "\n\na dog runs in the park\n")
    mine = "mine", run, corpus, "--threshold", 0
    found = json.loads(command(*mine, "--json").out)
    assert {(p["line1"], p["line2"]) for p in found} >= {(1, 6), (1, 9), (1, 3)}
    command(*mine, "--out", tmp_path / "pairs.tsv")
    assert len((tmp_path / "pairs.tsv").read_text().splitlines()) == len(found) + 1
    shown = command(*mine, "--against", corpus)
    assert "line1" in shown.out and "more pairs" in shown.err
    groups = "mine", run, corpus, "--groups", "--threshold", 0
    (one,) = json.loads(command(*groups, "--json", "--page", page).out)
    assert sorted(m["line"] for m in one["members"]) == [1, 2, 3, 4, 5, 6, 7, 9]
    assert "1 groups hold 8 of 8" in page.read_text("utf-8").replace("\n", " ")
    for suffix, lines in (("tsv", 9), ("jsonl", 1)):
        command(*groups, "--out", tmp_path / f"groups.{suffix}")
        assert len((tmp_path / f"groups.{suffix}").read_text("utf-8").splitlines()) == lines
    corpus.write_text("one\ntwo\n")
    nothing = command("mine", run, corpus, "--groups", "--threshold", 1.1)
    assert "no sentences match" in nothing.err


def test_rank_from_an_index_keeps_columns(command, tmp_path):
    run, out, catalog = tmp_path / "run", tmp_path / "index", tmp_path / "catalog.csv"
    catalog.write_text('title,price\ntwo cats,3\n"rain, rain",4\n')

    def index(file):
        return "rank", run, "cats", file, "--save-index", out

    for name, text in (("a.jsonl", '{"title": "rain", "n": 1}\n'), ("a.txt", "rain\n\nsnow\n")):
        (tmp_path / name).write_text(text)
        command(*index(tmp_path / name), "--column", "title")
    refused = command(*index(catalog), code=2)
    assert "has the columns title, price, and no text under 'sentence'" in refused.err
    command(*index(catalog), "--column", "title")
    shown = command("rank", run, "cats", "--index", out, "--json", "--top-k", 1)
    (row,) = json.loads(shown.out)
    rows = [(0, "two cats", "3"), (1, "rain, rain", "4")]
    assert (row["index"], row["sentence"], row["price"]) in rows
    nothing = command("rank", run, "🙂🙂🙂", "--index", out)
    assert nothing.out == "" and "no sentence of the index has anything in common" in nothing.err


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.txt", b"rain\n\xff", "byte 5 is not UTF-8"),
        ("a.csv", b"sentence,price\nrain,3\nsnow\n", "a.csv:3: "),
        ("a.csv", b"sentence,price\n", "a.csv contains no sentences"),
        ("a.jsonl", b'{"sentence": "rain"}\n{\n', "a.jsonl:2: "),
    ],
)
def test_a_corpus_that_cannot_be_read_is_one_error(command, tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    assert (
        message
        in command(*("rank", "run", "a"), tmp_path / name, "--save-index", "index", code=2).err
    )


def test_training_from_matching_pairs(command, tmp_path):
    pairs = matches(40)
    file, out = tmp_path / "matches.tsv", tmp_path / "trained"
    rows = [f"{one}\t{two}" for one, two in zip(pairs.sentence1, pairs.sentence2)]
    file.write_text("\n".join(["sentence1\tsentence2", *rows]))
    train = "train", "bag_of_words", "--positives", file
    shown = command(*train, "--split", "70/30", "--out", out)
    assert "matching pairs, negatives" in shown.out and (out / "matcher.json").exists()
    assert "cannot be combined with --data" in command(*train, "--data", "sick", code=2).err
    lines = [f"{row}\t{i % 2}" for i, row in enumerate(rows)]
    file.write_text("\n".join(["sentence1\tsentence2\tlabel", *lines]))
    assert "has labels (0, 1), but all its pairs must match" in command(*train, code=2).err
