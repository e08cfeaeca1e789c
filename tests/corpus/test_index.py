"""Indexes: ranking from disk, what is kept with a sentence, and which indexes are refused."""

import json
import shutil

import numpy as np
import pytest

from keras_sentmatch.cli import main
from keras_sentmatch.corpus import Index, index
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.new_words import word_tables
from tests.corpus.test_mining import SENTENCES, make_matcher
from tests.corpus.test_mining import matcher as matcher

pytest.importorskip("bm25s")
pytest.importorskip("faiss")
pytestmark = pytest.mark.once

IDS = [f"id-{i}" for i in range(len(SENTENCES))]


@pytest.fixture(scope="module")
def folder(matcher, tmp_path_factory):
    folder = tmp_path_factory.mktemp("index") / "catalog"
    Index.build(matcher, SENTENCES, folder, columns={"id": IDS, "none": [""] * 8}, vectors="words")
    return folder


def test_ranks_what_the_retrievers_find(matcher, folder):
    found = Index(folder, matcher)
    assert len(found) == 8 and "8 sentences" in repr(found)
    best = found.rank("two cats are asleep", top_k=2)
    assert [(one.index, one.id, one.none) for one in best] == [(6, "id-6", ""), (3, "id-3", "")]
    assert best[0].sentence == SENTENCES[6] and best[0].score == pytest.approx(1)
    matcher.asked = 0
    assert len(found.rank("a dog runs", candidates=3)) == 3 and matcher.asked == 3
    assert {path.suffix for path in folder.rglob("*") if path.is_file()} == {".npy", ".json"}


def test_many_vectors_are_looked_up_in_the_nearest_lists(matcher, tmp_path, monkeypatch):
    sentences = [f"{a} {b} runs" for a in "dog cat rain park".split() for b in range(40)]
    for name, exact in (("flat", 100_000), ("lists", 100)):
        monkeypatch.setattr(index, "EXACT", exact)
        Index.build(matcher, sentences, tmp_path / name, retriever="dense", vectors="table")
    flat, lists = (Index(tmp_path / name, matcher) for name in ("flat", "lists"))
    assert len(lists.centroids) == 50 and len(flat.centroids) == 1
    for query in ("dog 7 runs", "rain 31 runs"):
        assert lists.candidates(query, 1) == flat.candidates(query, 1) == [sentences.index(query)]
        assert len(set(flat.candidates(query, 20)) & set(lists.candidates(query, 20))) > 15
    assert lists.rank("🙂🙂🙂", top_k=3) == []


def test_an_index_of_another_run_is_refused(matcher, folder, tmp_path):
    other = make_matcher()
    (table,) = word_tables(other.model)
    table.assign(-table)
    with pytest.raises(InputError, match="holds other vectors"):
        Index(folder, other)
    Index.build(matcher, SENTENCES, tmp_path / "any", vectors="table")
    assert len(Index(tmp_path / "any", other)) == 8  # these vectors are of no run


def test_an_index_whose_file_has_changed_is_refused(matcher, tmp_path):
    source = tmp_path / "corpus.txt"
    source.write_text("two cats\nrain\n")
    Index.build(matcher, ["two cats", "rain"], tmp_path / "index", source=source)
    source.write_text("two cats\nsnow\n")
    with pytest.raises(InputError, match="corpus.txt has changed since .*: build the index again"):
        Index(tmp_path / "index", matcher)
    Index.build(matcher, ["two cats", "snow"], tmp_path / "index", source=source)
    source.unlink()
    assert Index(tmp_path / "index", matcher).rank("snow")[0].sentence == "snow"
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def damage_format(folder):
    facts = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps(facts | {"format": 0}))


@pytest.mark.parametrize(
    "damage, message",
    [
        (damage_format, "has format 0 .* reads format 1: build the index again"),
        (lambda f: (f / "vectors.npy").unlink(), "is damaged"),
        (lambda f: (f / "rows.npy").write_bytes(b"torn"), "is damaged"),
        (lambda f: np.save(f / "sentences-ends.npy", np.arange(3)), "other sizes"),
        (lambda f: np.save(f / "rows.npy", np.arange(3)), "vectors has other sizes"),
        (lambda f: (f / "index.json").write_text("{}"), "has format None"),
        (lambda f: (f / "index.json").write_text('{"format": 1}'), "index.json lacks .*count"),
        (lambda f: (f / "index.json").unlink(), "is no index"),
    ],
)
def test_a_damaged_index_is_one_error(matcher, folder, tmp_path, damage, message):
    shutil.copytree(folder, tmp_path / "index")
    damage(tmp_path / "index")
    with pytest.raises(InputError, match=message):
        Index(tmp_path / "index", matcher)


def test_what_cannot_be_indexed_is_refused(matcher, tmp_path):
    with pytest.raises(InputError, match="corpus has no sentences"):
        Index.build(matcher, [], tmp_path / "index")
    with pytest.raises(InputError, match="'id' has 1 values for 2 sentences"):
        Index.build(matcher, ["a", "b"], tmp_path / "index", columns={"id": [1]})
    with pytest.raises(InputError, match="exists and is no index"):
        Index.build(matcher, ["a", "b"], tmp_path)


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.txt", b"rain\n\xff", "byte 5 is not UTF-8"),
        ("a.csv", b"sentence,price\nrain,3\nsnow\n", "a.csv:3: "),
        ("a.csv", b"sentence,price\n", "a.csv contains no sentences"),
        ("a.jsonl", b'{"sentence": "rain"}\n{\n', "a.jsonl:2: "),
    ],
)
def test_a_corpus_that_cannot_be_read_is_one_error(tmp_path, capsys, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SystemExit, match="^2$"):
        main(["index", "run", str(tmp_path / name), "--out", str(tmp_path / "index")])
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_commands(matcher, tmp_path, capsys):
    matcher.save(tmp_path / "run")
    run, out = str(tmp_path / "run"), str(tmp_path / "index")
    catalog = tmp_path / "catalog.csv"
    catalog.write_text('title,price\ntwo cats,3\n"rain, rain",4\n')
    for name, text in (("a.jsonl", '{"title": "rain", "n": 1}\n'), ("a.txt", "rain\n\nsnow\n")):
        (tmp_path / name).write_text(text)
        with pytest.raises(SystemExit, match="^0$"):
            main(["index", run, str(tmp_path / name), "--out", out, "--column", "title"])
    with pytest.raises(SystemExit, match="^2$"):
        main(["index", run, str(catalog), "--out", out])
    assert "has the columns title, price, and no text under 'sentence'" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="^0$"):
        main(["index", run, str(catalog), "--out", out, "--column", "title"])
    with pytest.raises(SystemExit, match="^0$"):
        main(["rank", run, "rain", "--index", out, "--json", "--top-k", "1"])
    printed = capsys.readouterr()
    (row,) = json.loads(printed.out)
    assert (row["index"], row["sentence"], row["price"]) in [
        (0, "two cats", "3"),
        (1, "rain, rain", "4"),
    ]
    with pytest.raises(SystemExit, match="^0$"):
        main(["rank", run, "🙂🙂🙂", "--index", out])
    printed = capsys.readouterr()
    assert printed.out == "" and "nothing in the index has anything in common" in printed.err
    for wrong in ([], [str(catalog), "--index", out], [str(catalog), "--candidates", "3"]):
        with pytest.raises(SystemExit, match="^2$"):
            main(["rank", run, "rain", *wrong])
