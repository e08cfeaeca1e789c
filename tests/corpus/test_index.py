"""Indexes: ranking from disk, what is kept with a sentence, and which indexes are refused."""

import json
import os
import shutil

import numpy as np
import pytest

from keras_sentmatch.corpus import Index, _cells, _index
from keras_sentmatch.errors import InputError
from tests.corpus.test_mining import SENTENCES
from tests.corpus.test_mining import matcher as matcher


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("index") / "catalog"
    ids = [f"id-{i}" for i in range(len(SENTENCES))]
    Index.build(SENTENCES, folder, columns={"id": ids, "number": np.arange(8)})
    return folder


def test_ranks_what_the_retrievers_find(matcher, folder):
    found = Index(folder, matcher)
    assert len(found) == 8
    best = found.rank("two cats are asleep", top_k=2)
    assert [(one.index, one.id, one.number) for one in best] == [(6, "id-6", 6), (3, "id-3", 3)]
    assert best[0].sentence == SENTENCES[6] and best[0].score == pytest.approx(1)
    assert type(best[0].number) is int
    with pytest.raises(InputError, match="The query is None"):
        found.rank(None)
    matcher.asked = 0
    assert len(found.rank("a dog runs", candidates=3)) == 3 and matcher.asked == 3


def test_many_vectors_are_looked_up_in_the_nearest_lists(matcher, tmp_path, monkeypatch):
    sentences = [f"{a} {b} runs" for a in "dog cat rain park".split() for b in range(40)]
    for name, exact in (("flat", 100_000), ("lists", 100)):
        monkeypatch.setattr(_cells, "EXACT", exact)
        Index.build(sentences, tmp_path / name)
    flat, lists = (Index(tmp_path / name, matcher) for name in ("flat", "lists"))
    monkeypatch.setattr(_index, "PROBES", 6)
    assert len(lists.centroids) == 12 and len(flat.centroids) == 1
    for query in ("dog 7 runs", "rain 31 runs"):
        assert lists.candidates(query, 1) == flat.candidates(query, 1) == [sentences.index(query)]
        assert len(set(flat.candidates(query, 20)) & set(lists.candidates(query, 20))) > 15
    assert lists.rank("", top_k=3) == []


def test_an_index_without_words_and_one_that_is_replaced(matcher, tmp_path):
    Index.build(["", " "], tmp_path / "index")
    assert Index(tmp_path / "index", matcher).rank("") == []
    Index.build(["a dog"], tmp_path / "index")
    assert Index(tmp_path / "index", matcher).rank("a dog")[0].sentence == "a dog"
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def facts(**changes):
    def damage(folder):
        found = json.loads((folder / "index.json").read_text())
        (folder / "index.json").write_text(json.dumps(found | changes))

    return damage


def array(name, change):
    def damage(folder):
        np.save(folder / f"{name}.npy", change(np.load(folder / f"{name}.npy")))

    return damage


def fifo(folder):
    (folder / "rows.npy").unlink()
    os.mkfifo(folder / "rows.npy")


def link(folder):
    (folder / "words.txt").unlink()
    (folder / "words.txt").symlink_to("/etc/hostname")


@pytest.mark.parametrize(
    "damage, message",
    [
        (facts(format=0), "has format 0. .* reads format 2. Build the index again"),
        (facts(count=None), "count is None. Expected an integer"),
        (facts(count=9), "does not fit the other files. Build the index again"),
        (facts(count=1 << 39), "does not fit"),
        (lambda f: (f / "index.json").unlink(), "is no index"),
        (lambda f: (f / "vectors.npy").unlink(), "is damaged: vectors.npy is missing"),
        (lambda f: (f / "rows.npy").write_bytes(b"torn"), "is damaged"),
        (lambda f: (f / "words.txt").write_bytes(b"\xff"), "is damaged"),
        (fifo, "rows.npy is missing"),
        (link, "leads out of its folder"),
        (array("rows", lambda a: a - 9), "rows.npy does not fit"),
        (array("rows", lambda a: a.astype("float32")), "rows.npy does not fit"),
        (array("bm25-rows", lambda a: a + 8), "bm25-rows.npy does not fit"),
        (array("bm25-ends", lambda a: a[::-1].copy()), "bm25-ends.npy does not fit"),
        (array("content-ends", lambda a: a + 1), "content-ends.npy does not fit"),
        (array("list-ends", lambda a: a[:0]), "list-ends.npy does not fit"),
        (array("vectors", lambda a: a[:, :3]), "vectors.npy does not fit"),
        (array("centroids", lambda a: a[0]), "centroids.npy does not fit"),
        (array("content", lambda a: a[::-1].copy()), "is damaged at row"),
        (array("content", lambda a: a * 0), "is damaged at row"),
    ],
)
def test_a_damaged_index_is_one_error(matcher, folder, tmp_path, damage, message):
    shutil.copytree(folder, tmp_path / "index")
    damage(tmp_path / "index")
    with pytest.raises(InputError, match=message):
        Index(tmp_path / "index", matcher).rank("a dog runs")


@pytest.mark.parametrize(
    "sentences, columns, message",
    [
        ([], None, r"corpus is \[\]. Expected at least one string"),
        (["a", None], None, "Expected at least one string"),
        ("a b", None, "corpus is one string"),
        (["a", "b"], {"id": [1]}, "'id' has 1 values for 2 sentences"),
        (["a"], {"score": [1]}, "a name other than index, sentence, score"),
    ],
)
def test_what_cannot_be_indexed_is_refused(tmp_path, sentences, columns, message):
    with pytest.raises(InputError, match=message):
        Index.build(sentences, tmp_path / "index", columns=columns)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "index.json").write_text("{}")
    (tmp_path / "page.html").write_text("of somebody else")
    with pytest.raises(InputError, match="exists and is no index"):
        Index.build(["a"], tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
