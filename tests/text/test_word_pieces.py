"""Each tokenizer's pieces are those that its encoder was pretrained with, without TensorFlow."""

import copy
import json
import os
import pickle
import shutil
import subprocess
import sys
import warnings

import numpy as np
import pytest

from keras_sentmatch.encoders import SubwordPairEncoder
from keras_sentmatch.encoders.subwords import load_encoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.text.word_pieces import pieces_of
from tests.encoders.test_words import HARD
from tests.toys.encoders import FIRST, PREFIXES, SECOND, SENTENCES, byte_pairs, tokenizer

each_kind = pytest.mark.parametrize("prefix", PREFIXES)
NUMBERS = [
    "12345 dogs",
    "I've 3.14, he'S \"hi\"",
    "a  b\t\tc \n\nd ",
    " leading",
    "x\u00a0y\u3000z",
]


def test_byte_pairs_are_those_of_tensorflow_and_of_the_original():
    transformers = pytest.importorskip("transformers")
    vocabulary, merges = byte_pairs()
    original = transformers.RobertaTokenizer(
        vocab=vocabulary, merges=[tuple(m.split(" ")) for m in merges]
    )
    texts = [*SENTENCES, *NUMBERS, *(text for text in HARD if "\ud800" not in text)]
    got = pieces_of(tokenizer("Roberta")).ids(texts)
    want = [original.encode(text, add_special_tokens=False) for text in texts]
    for text, one, two in zip(texts, got, want):
        assert one == two, text[:50]


@each_kind
def test_special_tokens_in_a_sentence_are_plain_text(prefix):
    given = tokenizer(prefix)
    text = f"a {given.start_token} b {given.end_token} {given.pad_token}"
    (ids,) = pieces_of(given).ids([text])
    special = {given.start_token_id, given.end_token_id, given.pad_token_id}
    assert len(ids) > 5 and not special & set(ids)


@each_kind
def test_any_text_is_cut(prefix):
    encoder = SubwordPairEncoder(tokenizer(prefix), max_length=32)
    texts = [*HARD, "\ud800 lone", "x" * 5000]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = encoder.encode(texts, texts[::-1])
    assert found["token_ids"].max() < encoder.vocabulary_size
    assert (found["padding_mask"].sum(1) >= encoder.shortest).all()
    assert encoder.report.truncated


def test_an_uncased_albert_reads_lower_case_without_accents():
    pieces = pieces_of(tokenizer("Albert"))
    assert pieces.ids(["A DOG"]) == pieces.ids(["a dog"])
    assert pieces.ids(["The"])[0].count(pieces.unknown) == 0


def test_byte_pairs_are_shown_as_text():
    encoder = SubwordPairEncoder(tokenizer("Roberta"))
    shown = encoder.pair_tokens("The cat’s 狗 รัก", "a")["1"]
    assert "cat" in shown and "The" in shown
    assert encoder.pieces.readable("Ã©") == "é" and encoder.pieces.readable("ä¸") == "ä¸"
    words = [encoder.pieces.word_ids([word])[0] for word in ("cat", "dog")]
    assert words == encoder.pieces.ids([" cat", " dog"])


@each_kind
def test_kept_and_copied(prefix, tmp_path):
    encoder = SubwordPairEncoder(tokenizer(prefix), max_length=24)
    encoder.save(tmp_path / "here")
    shutil.move(tmp_path / "here", tmp_path / "there")
    texts = FIRST + HARD, SECOND + HARD[::-1]
    others = [load_encoder(tmp_path / "there"), SubwordPairEncoder(**encoder.get_config())]
    others += [copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want, *found = (e.encode(*texts) for e in (encoder, *others))
    assert {other.max_length for other in others} == {24}
    for got in found:
        for name, array in want.items():
            np.testing.assert_array_equal(array, got[name])


def test_a_stranger_s_tokenizer_reads_no_file(tmp_path):
    SubwordPairEncoder(tokenizer("XLMRoberta")).save(tmp_path)
    described = tmp_path / "tokenizer" / "tokenizer.json"
    config = json.loads(described.read_text())
    described.write_text(
        json.dumps({**config, "config": {**config["config"], "proto": "/etc/hosts"}})
    )
    with pytest.raises(InputError, match="names a file under proto .'/etc/hosts'"):
        load_encoder(tmp_path)
    described.write_text(json.dumps(config))
    (tmp_path / "tokenizer" / "assets" / "tokenizer" / "vocabulary.spm").write_bytes(
        b"\x0a\xff\xff"
    )
    with pytest.raises(InputError, match="cannot be loaded"):
        load_encoder(tmp_path)


def test_without_tensorflow(tmp_path):
    """Other backends need none: every kind is loaded, and gives the same ids."""
    want = []
    for prefix in PREFIXES:
        encoder = SubwordPairEncoder(tokenizer(prefix))
        encoder.save(tmp_path / prefix)
        want.append(encoder.encode(FIRST, SECOND)["token_ids"].tolist())
    program = f"""
import json, sys
sys.modules["tensorflow"] = sys.modules["tensorflow_text"] = None
from keras_sentmatch.encoders.subwords import load_encoder
for folder in sys.argv[1:]:
    print(json.dumps(load_encoder(folder).encode({FIRST}, {SECOND})["token_ids"].tolist()))
"""
    backend = os.environ.get("KERAS_BACKEND", "torch").replace("tensorflow", "torch")
    done = subprocess.run(
        [sys.executable, "-c", program, *(tmp_path / prefix for prefix in PREFIXES)],
        capture_output=True,
        text=True,
        env=os.environ | {"KERAS_BACKEND": backend},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert [json.loads(line) for line in done.stdout.splitlines()] == want
