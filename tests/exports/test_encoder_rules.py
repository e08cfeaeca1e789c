"""The files beside an ONNX model: `score.py` makes the same ids of text as the encoder."""

import json
import runpy
import warnings

import numpy as np
import pytest

from keras_sentmatch.encoders import PairEncoder, SubwordPairEncoder
from keras_sentmatch.exports._portable import SCORE, rules_of
from tests.encoders.test_subwords import TEXTS, bert
from tests.encoders.test_words import ANTONYMS, HARD, WORDS
from tests.toys.encoders import PREFIXES, SENTENCES, tokenizer

TRICKY = [*HARD, "N'T 's", "\u0130stanbul ẞ", "a" * 300, "100.5,6 1,a", "x\u2019s y\u00adz"]


def encoded_by_score(encoder, folder, first, second):
    module = runpy.run_path(str(SCORE))
    facts = json.loads(json.dumps(rules_of(encoder, folder)))
    made = module["ENCODERS"][facts["kind"]](facts, folder)
    return made.arrays(list(zip(first, second)), encoder.input_names)


def check(encoder, folder, texts):
    first, second = texts, texts[1:] + texts[:1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = encoder.encode(first, second)
    got = encoded_by_score(encoder, folder, first, second)
    assert set(want) == set(got)
    for name, array in want.items():
        assert got[name].dtype == np.int32
        np.testing.assert_array_equal(got[name], array, err_msg=name)


@pytest.mark.parametrize("tokenizer", ["words", "whitespace", "characters"])
@pytest.mark.parametrize("lowercase", [True, False])
def test_words(tmp_path, tokenizer, lowercase):
    encoder = PairEncoder(
        WORDS,
        tokenizer=tokenizer,
        lowercase=lowercase,
        features=("word", "char", "antonym"),
        antonyms=ANTONYMS,
        max_length=50,
        max_word_length=6,
    )
    check(encoder, tmp_path, TRICKY)
    check(encoder, tmp_path, ["", ""])


def test_every_letter(tmp_path):
    codes = [c for c in range(0x30000) if not 0xD800 <= c < 0xE000 and (c < 0x3000 or c % 37 == 0)]
    texts = [" ".join(f"{chr(c)}a{chr(c)}'s" for c in codes[i::400]) for i in range(400)]
    check(PairEncoder(["a", "'s", "é"], max_length=400, features=("char",)), tmp_path, texts)


def test_word_pieces(tmp_path):
    for limit in (16, 64):
        check(bert(max_length=limit), tmp_path, [*TEXTS, "a" * 100, "a" * 101, "\U00100000a"])


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_pieces_of_every_kind(tmp_path, prefix):
    encoder = SubwordPairEncoder(tokenizer(prefix), max_length=40)
    check(encoder, tmp_path, [*SENTENCES, *TEXTS, "\ud800a", "[SEP] </s> <pad>"])
