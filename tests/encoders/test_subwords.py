import json
import sys
import warnings

import numpy as np
import pytest

from keras_sentmatch.encoders import PairEncoder, SubwordPairEncoder
from keras_sentmatch.encoders.subwords import load_encoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.text.backbones import load_tokenizer
from keras_sentmatch.text.word_pieces import BertText
from tests.encoders.test_words import HARD
from tests.lazily import Lazily

hub = Lazily("keras_hub")

PIECES = ["a", "dog", "cat", "run", "##s", "un", "##do", ".", "cafe", "[", "]", "ß", "…", "中"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
A, DOG, CAT, RUN, S, UN, DO, DOT = range(5, 13)
TEXTS = [*HARD, "A Café… un\u00a0dog", "undog runs", "ß STRASSE", "a\u200bb", "dog's cat(s)"]


def bert(**options) -> SubwordPairEncoder:
    tokenizer = hub.models.BertTokenizer([*SPECIAL, *PIECES], lowercase=True, strip_accents=True)
    return SubwordPairEncoder(tokenizer, **{"max_length": 16, **options})


def bert_that_gives(**options) -> SubwordPairEncoder:
    return SubwordPairEncoder(hub.models.BertTokenizer([*SPECIAL, *PIECES], **options))


def roberta(**options) -> SubwordPairEncoder:
    pieces = ["<s>", "<pad>", "</s>", "<mask>", "Ġ", "a", "d", "o", "g", "do", "dog", "Ġa", "Ġdog"]
    merges = ["d o", "do g", "Ġ a", "Ġ dog"]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = hub.models.RobertaTokenizer(vocabulary=vocabulary, merges=merges)
    return SubwordPairEncoder(tokenizer, **{"max_length": 16, **options})


def quietly(encoder, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return encoder.encode(*args, **options)


def test_bert_by_hand():
    encoder = bert()
    got = encoder.encode(["A dog runs.", ""], ["undo", "cats"])
    assert list(got) == list(encoder.input_names) and encoder.features == ("subword",)
    assert {x.dtype.name for x in got.values()} == {"int32"}
    assert got["token_ids"].tolist() == [
        [2, A, DOG, RUN, S, DOT, 3, UN, DO, 3],
        [2, 3, CAT, S, 3, 0, 0, 0, 0, 0],
    ]
    assert got["segment_ids"].tolist() == [[0] * 7 + [1] * 3, [0, 0, 1, 1, 1] + [0] * 5]
    assert got["padding_mask"].tolist() == [[1] * 10, [1] * 5 + [0] * 5]
    assert encoder.tokens("a dogs") == ["a", "dog", "##s"]
    assert encoder.vocabulary_size == 19
    padded = encoder.encode(["a"], ["dog"], length=7)
    assert padded["token_ids"].tolist() == [[2, A, 3, DOG, 3, 0, 0]]
    assert encoder.encode([], [])["token_ids"].shape == (0, 3)


def test_roberta_by_hand():
    got = roberta().encode(["a dog", "a"], ["dog", "a a a"])
    assert got["token_ids"].tolist() == [[0, 5, 12, 2, 2, 10, 2, 1], [0, 5, 2, 2, 5, 11, 11, 2]]
    assert not got["segment_ids"].any()  # it has none
    assert got["padding_mask"].tolist() == [[1] * 7 + [0], [1] * 8]


@pytest.mark.parametrize("make", [bert, roberta])
def test_cut_and_packed_as_keras_hub_does(make):
    encoder = make()
    rng = np.random.default_rng(0)
    first, second = ([" ".join(["a"] * n) for n in rng.integers(0, 25, 60)] for _ in range(2))
    for length in (None, 9, 10):
        got = quietly(encoder, first, second, length=length)
        size = got["token_ids"].shape[1]
        assert size == (length or 16)
        end = encoder.tokenizer.end_token_id
        special = encoder.tokenizer.start_token_id, end, [end] * (1 if make is bert else 2)
        pad = encoder.tokenizer.pad_token_id
        packer = hub.layers.MultiSegmentPacker(size, *special, pad_value=pad)
        pieces = tuple(encoder.tokenizer(column) for column in (first, second))
        token_ids, segment_ids = (np.asarray(x) for x in packer(pieces))
        np.testing.assert_array_equal(got["token_ids"], token_ids)
        np.testing.assert_array_equal(got["segment_ids"], segment_ids * (make is bert))


def test_report():
    encoder = bert(max_length=7)
    with pytest.warns(UserWarning, match=r"2 of 4 sentences \(50.0%\) were truncated.*7 tokens"):
        encoder.encode(["a a a a gnu", "a"], ["a a a gnu", "gnu"])
    report = encoder.report
    assert (report.sentences, report.truncated) == (4, 2)
    assert (report.tokens, report.dropped, report.unknown) == (6, 5, 1)
    assert roberta().encode(["dog"], ["gnu"]) and roberta().report.unknown == 0


def test_cleaning():
    text = "Un\u00a0CAFÉ…\tİ ß Σς\u200b\x00\ufffd e\u0301 가"
    assert text.translate(BertText(True, True)) == "un cafe… i ß σς e \u1100\u1161"
    assert text.translate(BertText(False, False)) == "Un CAFÉ… İ ß Σς e\u0301 가"
    encoder = bert()
    assert encoder.tokens("Un\u00a0CAFÉ… ß") == ["un", "cafe", "…", "ß"]
    assert encoder.tokens("[SEP]中") == ["[", "[UNK]", "]", "中"]
    cased = hub.models.BertTokenizer([*SPECIAL, "Café", "cafe"], lowercase=False)
    assert SubwordPairEncoder(cased).tokens("Café cafe CAFE") == ["Café", "cafe", "[UNK]"]


def test_like_the_original(minilm):
    library = pytest.importorskip("tokenizers")
    original = library.Tokenizer.from_file(f"{minilm}/tokenizer.json")
    original.no_truncation()
    original.no_padding()
    encoder = SubwordPairEncoder.from_preset(minilm)
    assert encoder.tokenizer.strip_accents and encoder.vocabulary_size == 30522
    texts = [text for text in TEXTS if "[PAD]" not in text and "\U0010ffff" not in text]
    texts += [
        "naïve Ångström ½ ² ™ © Ⅳ ﬁne",
        "ἀρχή हिन्दी ไทย 한국어 日本語 が",
        "“U.S.” – co-op—$1^~|",
    ]
    texts += ["".join(map(chr, range(start, start + 256))) for start in range(0, 0x500, 256)]
    for text in texts:
        got = encoder.pieces.ids([text])[0]
        assert list(got) == original.encode(text, add_special_tokens=False).ids, text[:40]
    got = encoder.encode(["A man's café."], ["Nobody is unhappier."])
    want = original.encode("A man's café.", "Nobody is unhappier.")
    assert got["token_ids"].tolist() == [want.ids]
    assert got["segment_ids"].tolist() == [want.type_ids]


def test_accents_are_kept_where_the_vocabulary_has_them(tmp_path):
    for piece, strips in (("cafe", True), ("café", False)):
        folder = str(tmp_path / piece)
        tiny_backbone().save_to_preset(folder)
        hub.models.BertTokenizer([*SPECIAL, piece], lowercase=True).save_to_preset(folder)
        assert load_tokenizer(folder).strip_accents is strips
        assert SubwordPairEncoder.from_preset(folder).tokens("Café") == [piece]


def tiny_backbone():
    sizes = {"num_layers": 1, "num_heads": 1, "hidden_dim": 4, "intermediate_dim": 4}
    return hub.models.BertBackbone(vocabulary_size=19, max_sequence_length=8, **sizes)


def test_folders_that_do_not_load(tmp_path):
    bert().save(tmp_path)
    PairEncoder(["a"]).save(tmp_path / "words")
    with pytest.raises(InputError, match="kind 'word', not 'subword'"):
        SubwordPairEncoder.load(tmp_path / "words")
    with pytest.raises(InputError, match="kind 'subword', not 'word'"):
        PairEncoder.load(tmp_path)
    described = tmp_path / "encoder.json"
    config = json.loads(described.read_text())
    for change, message in (
        ({"kind": "letters"}, "unknown kind 'letters'. Expected 'word' or 'subword'"),
        ({"format": 9}, "has the format 9"),
        ({"width": 1}, "does not describe an encoder"),
        ({"max_length": 2}, "needs at least 5"),
    ):
        described.write_text(json.dumps(config | change))
        with pytest.raises(InputError, match=message):
            load_encoder(tmp_path)
    described.write_text(json.dumps(config))
    (tmp_path / "tokenizer" / "tokenizer.json").unlink()
    with pytest.raises(InputError, match="tokenizer.json cannot be read"):
        SubwordPairEncoder.load(tmp_path)


def test_errors(monkeypatch, tmp_path):
    encoder = bert()
    for refused, message in (
        (lambda: encoder.encode(["a"], ["a"], tags=(["D"], ["D"])), "Omit the tags"),
        (lambda: encoder.encode(["a"], ["a"], length=4), "length=4 is too short. .* at least 5"),
        (lambda: encoder.encode_pairs(["a"], None), "Give sentence2 as well"),
        (encoder.tf_tables, "cannot be made in a TensorFlow graph"),
        (lambda: bert(max_length=4), "max_length=4 is too short"),
        (lambda: roberta(max_length=5), "needs at least 6: 4 special tokens"),
        (lambda: SubwordPairEncoder(str.split), "Expected a KerasHub tokenizer"),
        (lambda: bert_that_gives(sequence_length=5), "sequence_length=5. Make it with .*=None"),
        (lambda: bert_that_gives(split=False), "split=False. Make it with split=True"),
        (lambda: bert_that_gives(dtype="string"), "dtype='string'. Make it with dtype='int32'"),
        (lambda: load_tokenizer(tmp_path), "cannot be loaded"),
        (lambda: load_tokenizer(tmp_path / "nosuch"), "There is no folder"),
    ):
        with pytest.raises(InputError, match=message):
            refused()
    monkeypatch.setitem(sys.modules, "keras_hub", None)
    with pytest.raises(InputError, match=r'pip install "keras-sentmatch\[bert\]"'):
        SubwordPairEncoder.from_preset("bert_tiny_en_uncased")
