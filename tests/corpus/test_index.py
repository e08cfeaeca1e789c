"""Indexes: ranking from disk, what is kept with a sentence, and which indexes are refused."""

import json
import shutil

import numpy as np
import pytest

from keras_sentmatch.corpus import Index, _index, build_index
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.unseen_words import word_tables
from tests.corpus.test_mining import SENTENCES, make_matcher
from tests.corpus.test_mining import matcher as matcher

pytest.importorskip("bm25s")
pytest.importorskip("faiss")
pytestmark = pytest.mark.once

IDS = [f"id-{i}" for i in range(len(SENTENCES))]


@pytest.fixture(scope="module")
def folder(matcher, tmp_path_factory):
    folder = tmp_path_factory.mktemp("index") / "catalog"
    build_index(matcher, SENTENCES, folder, columns={"id": IDS, "none": [""] * 8}, vectors="words")
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
        monkeypatch.setattr(_index, "EXACT", exact)
        build_index(matcher, sentences, tmp_path / name, vectors="table")
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
    with pytest.raises(InputError, match="word vectors of another run"):
        Index(folder, other)
    build_index(matcher, SENTENCES, tmp_path / "any", vectors="table")
    assert len(Index(tmp_path / "any", other)) == 8  # these vectors are of no run


def test_an_index_whose_file_has_changed_is_refused(matcher, tmp_path):
    source = tmp_path / "corpus.txt"
    source.write_text("two cats\nrain\n")
    build_index(matcher, ["two cats", "rain"], tmp_path / "index", source=source)
    source.write_text("two cats\nsnow\n")
    with pytest.raises(InputError, match="corpus.txt has changed since .* Build the index again"):
        Index(tmp_path / "index", matcher)
    build_index(matcher, ["two cats", "snow"], tmp_path / "index", source=source)
    source.unlink()
    assert Index(tmp_path / "index", matcher).rank("snow")[0].sentence == "snow"
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def damage_format(folder):
    facts = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps(facts | {"format": 0}))


@pytest.mark.parametrize(
    "damage, message",
    [
        (damage_format, "has format 0 .* reads format 1. Build the index again"),
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
        build_index(matcher, [], tmp_path / "index")
    with pytest.raises(InputError, match="'id' has 1 values for 2 sentences"):
        build_index(matcher, ["a", "b"], tmp_path / "index", columns={"id": [1]})
    with pytest.raises(InputError, match="exists and is no index"):
        build_index(matcher, ["a", "b"], tmp_path)
