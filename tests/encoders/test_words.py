import copy
import json
import pickle
import unicodedata
import warnings

import numpy as np
import pytest

from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.errors import InputError

WORDS = ["a", "dog", "runs", "hot", "cold", "n't", "does", "σ", "é", "🙂", "[PAD]x", "中", "'s"]
ANTONYMS = [("hot", "cold"), ("a", "σ"), ("up", "a")]
HARD = [
    "",
    " ",
    "A dog doesn't run",
    "It's HOT. It isn't cold’s",
    "ΣΑΣ İi ſ K DŽ ẞ",
    "e\u0301\u0323 é",
    "🙂🙃 👩‍👩‍👧 ❤️ 🇫🇷",
    "مرحبا \u202eabc שלום",
    "a\x00b\x1f\x7f\x85\u2028\u3000c",
    "中文 dog 𠀀 \U000e0041 \U0010ffff \ufffe",
    "[PAD] [UNK] [PAD]x",
    "donaudampfschifffahrtsgesellschaft" * 3,
    "'s 's'm 'd' '' ' n't nn't n'tn't",
    "hot " * 10_000,
]


def small(**options) -> PairEncoder:
    return PairEncoder(WORDS, **{"max_word_length": 6, **options})


def both(encoder, first, second, length=None):
    tf = pytest.importorskip("tensorflow")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = encoder.encode(first, second, length=length)
    got = encoder.tf_encode(tf.constant(first, tf.string), tf.constant(second, tf.string), length)
    assert list(got) == list(expected) or sorted(got) == sorted(expected)
    for name, array in expected.items():
        assert got[name].dtype == "int32" and array.dtype == np.int32
        np.testing.assert_array_equal(got[name].numpy(), array, err_msg=name)


def test_by_hand():
    encoder = PairEncoder(["a", "dog"], "adog", max_word_length=3)
    got = encoder.encode(["A dog gnus", ""], ["dog", "a"])
    assert got["word_ids_1"].tolist() == [[2, 3, 1], [0, 0, 0]]
    assert got["word_ids_2"].tolist() == [[3, 0, 0], [2, 0, 0]]
    # An unknown word still has its characters; a character nobody knows is 1.
    assert got["char_ids_1"][0].tolist() == [[2, 0, 0], [3, 4, 5], [5, 1, 1]]
    assert got["char_ids_1"][1].tolist() == [[0, 0, 0]] * 3
    assert got["char_ids_2"].shape == (2, 3, 3)
    assert encoder.input_names == list(got)
    again = PairEncoder(encoder.vocabulary, encoder.characters, max_word_length=3)
    assert again.get_config() == encoder.get_config()


def test_accents_as_part_of_a_letter_or_after_it(tmp_path):
    """The NFC and the NFD of a text are the same words, in Python, in a graph and in a run."""
    composed, decomposed = (unicodedata.normalize(form, "Café Việt 각") for form in ("NFC", "NFD"))
    assert composed != decomposed
    encoder = PairEncoder.fit(PairDataset([composed], [decomposed]))
    assert encoder.vocabulary.words[2:] == ["café", "việt", "각"]
    both(encoder, [composed, decomposed], [decomposed, composed])
    encoder.save(tmp_path)
    assert json.loads((tmp_path / "encoder.json").read_text())["normalization"] == "NFC"


def test_composition_in_the_graph_is_that_of_unicode():
    tf = pytest.importorskip("tensorflow")
    from keras_sentmatch.encoders._tensorflow_graph import tf_compose

    rng = np.random.default_rng(0)
    marks = [c for c in range(0x300, 0x20000) if unicodedata.combining(chr(c))]
    second = [0x9BE, 0x9D7, 0xCC2, 0xCD5, 0xDCF, 0x1161, 0x11A8, 0x102E]
    letters = [*map(ord, "aeoVsAΩ\x00 "), 0x212B, 0x9C7, 0xCC6, 0xDD9, 0xAC00, 0x1100, 0x1025]
    texts = ["", "\u0301e\u0301"]
    for _ in range(3000):
        kinds = rng.choice(3, 12, p=[0.35, 0.5, 0.15])
        texts.append("".join(chr(rng.choice([letters, marks, second][kind])) for kind in kinds))
    step = 50
    codes = [chr(c) for c in range(0x30000) if not 0xD800 <= c < 0xE000]
    texts += ["|".join(codes[i : i + step]) for i in range(0, len(codes), step)]
    texts += [unicodedata.normalize("NFD", text) for text in texts]
    got = tf_compose(tf.strings.unicode_decode(tf.constant(texts), "UTF-8")).to_list()
    for text, found in zip(texts, got):
        assert "".join(map(chr, found)) == unicodedata.normalize("NFC", text)


def test_lengths():
    encoder = small(max_length=4, features=("word",))
    assert encoder.encode(["a"], ["a a"], length=7)["word_ids_1"].tolist() == [[2] + [0] * 6]
    assert encoder.encode([""], [""])["word_ids_1"].tolist() == [[0]]
    assert encoder.encode([], [])["word_ids_2"].shape == (0, 1)
    with pytest.warns(UserWarning, match="more than 2 tokens"):
        assert encoder.encode(["a dog runs"], ["a"], length=2)["word_ids_1"].tolist() == [[2, 3]]


def test_truncation_is_counted_and_said_once():
    encoder = small(max_length=2)
    said = r"1 of 4 sentences \(25.0%\) were truncated, because they had more than 2 tokens"
    with pytest.warns(UserWarning, match=said):
        encoder.encode(["a dog runs gnu", "gnu"], ["a", ""])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder.encode(["a dog runs"], ["a"])
    report = encoder.report
    assert (report.sentences, report.truncated, report.tokens) == (6, 2, 7)
    assert (report.dropped, report.unknown) == (3, 1)
    assert "2 (33.3%) sentences truncated" in str(report) and "1 (14.3%) unknown" in str(report)
    assert encoder.tokens("a dog runs") == ["a", "dog"]
    encoder.reset_report()
    with pytest.warns(UserWarning, match="more than 2"):
        encoder.encode(["a dog runs"], ["a"])


@pytest.mark.parametrize("tokenizer", ["words", "whitespace", "characters"])
@pytest.mark.parametrize("lowercase", [True, False])
def test_graph_equals_python(tokenizer, lowercase):
    options = {"features": ("word", "char", "antonym"), "antonyms": ANTONYMS, "max_length": 50}
    encoder = small(tokenizer=tokenizer, lowercase=lowercase, **options)
    both(encoder, HARD, HARD[::-1])
    for length in (3, 70):
        both(encoder, HARD[:4], HARD[3:7], length)
    both(encoder, [], [])
    both(PairEncoder([], []), HARD[:5], HARD[5:10])  # no words


@pytest.mark.parametrize("tokenizer", ["words", "characters"])
def test_graph_equals_python_on_every_code_point(tokenizer):
    tf = pytest.importorskip("tensorflow")
    from keras_sentmatch.encoders._tensorflow_graph import tf_tokenize

    rule = small(tokenizer=tokenizer).tokenizer
    step = 64  # neighbors share a sentence, with what could join or part them
    codes = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000 and (c < 0x3000 or c % 7 == 0)]
    parts = (codes[i : i + step] for i in range(0, len(codes), step))
    texts = [" ".join(f"{chr(c)}a{chr(c)}'s" for c in part) for part in parts]
    got = tf_tokenize(rule, tf.constant(texts)).to_list()
    for text, tokens in zip(texts, got):
        assert [token.decode() for token in tokens] == rule(text)


def test_fit():
    train = PairDataset(["A dog runs", "a gnu"], ["a dog", "ab"], [0, 1])
    test = PairDataset(["a zebra xylophone"], ["gnu lion"], [1])
    encoder = PairEncoder.fit([train, test], keep_words={"zebra", "gnu"}, more_words=["a", "q"])
    words = ["a", "dog", "ab", "gnu", "runs"]
    assert encoder.vocabulary.words[2:] == [*words, "zebra", "q"]
    assert set(encoder.characters.words[2:]) == set("adogrunsb")
    assert PairEncoder.fit([train, test]).vocabulary.words[2:] == words
    assert PairEncoder.fit(train, max_length=1).vocabulary.words[2:] == ["a", "ab"]


def test_antonyms():
    encoder = small(features=("antonym",), antonyms=[("hot", "cold")])
    got = encoder.encode(["a cold dog", "hot", ""], ["hot hot", "a hot", "cold"])
    assert got["antonym_1"].tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0]]
    assert got["antonym_2"].tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 0]]


def test_tags():
    columns = {"tags_1": [["DT", "NN"], ["X"]], "tags_2": [["NN"], []]}
    data = PairDataset(["a dog", "a"], ["dog", ""], columns=columns)
    encoder = PairEncoder.fit(data, features=("word", "pos"), tokenizer="whitespace")
    assert encoder.tags.words[2:] == ["DT", "NN", "X"]
    got = encoder.encode(data.sentence1, data.sentence2, tags=tuple(columns.values()))
    assert got["pos_1"].tolist() == [[2, 3], [4, 0]]
    assert got["pos_2"].tolist() == [[3, 0], [0, 0]]
    with pytest.raises(InputError, match="needs a tag for every token"):
        encoder.encode(["a"], ["a"])
    with pytest.raises(InputError, match=r"tags_1\[0\] has 1 tags, but the sentence has 2 tokens"):
        encoder.encode(["a dog"], ["a"], tags=([["NN"]], [["NN"]]))
    with pytest.raises(InputError, match="'pos'"):
        encoder.tf_tables()


@pytest.mark.filterwarnings("ignore:.*were truncated:UserWarning")
def test_save_and_load(tmp_path):
    options = {"tokenizer": "characters", "lowercase": False, "max_length": 9, "tags": ["NN"]}
    encoder = small(features=("antonym", "char"), antonyms=ANTONYMS, **options)
    encoder.save(tmp_path / "encoder")
    names = sorted(path.name for path in (tmp_path / "encoder").iterdir())
    assert names == ["characters.txt", "encoder.json", "vocabulary.txt"]
    pairs = HARD[2:4], HARD[4:6]
    want = encoder.encode(*pairs)
    loaded = PairEncoder.load(tmp_path / "encoder")
    copies = copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))
    for twin in (loaded, PairEncoder(**encoder.get_config()), *copies):
        assert twin.get_config() == encoder.get_config()
        for name, array in twin.encode(*pairs).items():
            np.testing.assert_array_equal(array, want[name], err_msg=name)


KIND = '"format": 1, "kind": "word"'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "encoder.json is damaged .*Expected JSON"),
        ("[]", "Expected a JSON object"),
        ("{}", "has the format None, but this version reads format 1"),
        (f'{{{KIND}, "tokenizer": "words", "normalization": "NFC", "color": 3}}', "color"),
        (f'{{{KIND}, "tokenizer": "words"}}', "normalized to None. Expected 'NFC'"),
    ],
)
def test_broken_folder(tmp_path, text, message):
    small().save(tmp_path)
    (tmp_path / "encoder.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        PairEncoder.load(tmp_path)


def test_bad_arguments():
    encode = small().encode
    for refused, message in (
        (lambda: encode("a dog", ["a"]), r"sentence1 is a single string.*sentence1=\[…\]"),
        (lambda: encode(["a", "a"], ["a", None]), r"sentence2\[1\] is None \(NoneType\)"),
        (lambda: encode([b"a"], ["a"]), r"sentence1\[0\] is b'a' \(bytes\). Expected a string"),
        (lambda: encode(["a"], ["a", "b"]), "sentence1 has 1 sentences, but sentence2 has 2"),
        (lambda: encode(["a"], ["a"], length=0), "length=0"),
        (lambda: small(max_length=0), "max_length=0"),
        (lambda: small(features=("words",)), "features="),
        (lambda: small(features="word"), "features="),
        (lambda: small(features=()), "features="),
        (lambda: small(tagger="stanza"), 'Expected "spacy:PIPELINE"'),
        (lambda: small(features=("pos",)), "feature 'pos' needs"),
        (lambda: small(features=("antonym",)), "feature 'antonym' needs"),
    ):
        with pytest.raises(InputError, match=message):
            refused()


def test_the_table_of_tokens_does_not_grow_without_end(monkeypatch):
    monkeypatch.setattr("keras_sentmatch.encoders.words._MAX_ROWS", 20)
    encoder = small()
    pairs = encoder.encode_pairs(["a dog"], ["b"])
    before = pairs.arrays(np.arange(1), 3)
    for i in range(100):
        encoder.encode([f"w{i} w{i}x"], ["a"])
    assert len(encoder._table) < 30
    for name, array in pairs.arrays(np.arange(1), 3).items():
        np.testing.assert_array_equal(array, before[name])
