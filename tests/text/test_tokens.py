import numpy as np
import pytest

from keras_sentmatch.errors import InputError
from keras_sentmatch.text import Tokenizer
from keras_sentmatch.text.tokens import Vocabulary, read_word_pairs


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The dog doesn't run.", "the dog does n't run ."),
        ("John's 'word' isn't ours, they’ve said", "john 's ' word ' is n't ours , they 've said"),
        ("Pre-tokenised : it 's what they do n't", "pre - tokenised : it 's what they do n't"),
        ("the dogs' house at 5 o'clock", "the dogs ' house at 5 o'clock"),
        ("1,000.5 m, 3.5kg a_b v2", "1,000.5 m , 3.5 kg a_b v2"),
        ("İstanbul ΣΑΣ STRASSE", "istanbul σας strasse".replace("ς", "σ")),
        ("中文abc", "中 文 abc"),
        ("a\x00b\tc\u2028d\u00a0e\u0085f\u200bg", "a b c d e f g"),
        ("\ufeffco\u00adoperate \u202eabc", "cooperate abc"),
        ("❤️ 👩‍👩‍👧", "❤ 👩 👩 👧"),
        ("e\u0301 हिन्दी", "\u00e9 हिन्दी"),
        ("lone \ud800 surrogate", "lone \ufffd surrogate"),
        ("", ""),
        (" \t\n", ""),
    ],
)
def test_words(text, tokens):
    assert Tokenizer()(text) == tokens.split()


def test_other_rules():
    assert Tokenizer("whitespace")("Don't  U.S.\u3000(sic)") == ["don't", "u.s.", "(sic)"]
    assert Tokenizer("characters")("我 ist\u2003是") == ["我", "i", "s", "t", "是"]
    assert Tokenizer(lowercase=False)("It DOESN'T") == ["It", "DOES", "N'T"]


def test_fast_patterns_agree():
    # The same text alone (ASCII pattern) and next to a character that asks for the larger patterns.
    rng = np.random.default_rng(0)
    tokenizer = Tokenizer()
    for _ in range(300):
        text = "".join(map(chr, rng.integers(0, 128, 40)))
        plain = tokenizer(text)
        assert tokenizer(text + " é") == [*plain, "é"]
        assert tokenizer(text + " 😀") == [*plain, "😀"]


def test_vocabulary(tmp_path):
    odd = ["dog", "a\u2028b", "x\u0085", "\r", "'s", "🙂", "\ufeff"]
    vocabulary = Vocabulary(odd)
    assert (vocabulary["dog"], vocabulary["gnu"], len(vocabulary)) == (2, 1, 9)
    assert "dog" in vocabulary and "[PAD]" not in vocabulary and list(vocabulary) == odd
    assert vocabulary["[PAD]"] == 1  # a token that is spelled so is no padding
    vocabulary.save(tmp_path / "v.txt")
    assert Vocabulary.load(tmp_path / "v.txt").words == ["[PAD]", "[UNK]", *odd]
    Vocabulary([]).save(tmp_path / "empty.txt")
    assert len(Vocabulary.load(tmp_path / "empty.txt")) == 2
    counts = {"b": 2, "a": 2, "c": 9, "rare": 1, "[UNK]": 5}
    assert Vocabulary.from_counts(counts).words[2:] == ["c", "a", "b", "rare"]


# Bad input of this package: a call on a file with some bytes, and words that the message must have.
BAD = [
    (b"", lambda path: Tokenizer("word"), "no tokenizer 'word'.*'words'"),
    (b"", lambda path: Vocabulary(["a", "a"]), "Entry 2 .* 'a'"),
    (b"", lambda path: Vocabulary([""]), "Entry 2 .* ''"),
    (b"", lambda path: Vocabulary(["[PAD]"]), "Entry 2 .* '\\[PAD\\]'"),
    (b"", lambda path: Vocabulary(["a\nb"]), "line feed"),
    (b"dog\ncat\n", Vocabulary.load, "file.txt is not a vocabulary"),
    (b"[PAD]\r\n[UNK]\r\ndog\r\n", Vocabulary.load, "file.txt is not a vocabulary"),
    (b"[PAD]\n[UNK]\ndog", Vocabulary.load, "file.txt is not a vocabulary"),
    (b"[PAD]\n[UNK]\n\xff\n", Vocabulary.load, "is not UTF-8 text"),
    (b"[PAD]\n[UNK]\na\na\n", Vocabulary.load, "file.txt is damaged: Entry 2"),
    (None, Vocabulary.load, "cannot be read"),
    (b"hot cold\nup\n", read_word_pairs, "file.txt:2: the line 'up' has 1 words. Expected two"),
]


@pytest.mark.parametrize("content, call, message", BAD)
def test_bad_input(tmp_path, content, call, message):
    if content is not None:
        (tmp_path / "file.txt").write_bytes(content)
    with pytest.raises(InputError, match=message):
        call(tmp_path / "file.txt")


def test_word_pairs(tmp_path):
    path = tmp_path / "pairs.txt"
    path.write_text("\ufeffHot cold\n\nhot cold \nup\tdown", encoding="utf-8")
    assert read_word_pairs(path) == [("hot", "cold"), ("up", "down")]


def test_word_pairs_of_the_lexicon(data_dir):
    assert len(read_word_pairs(data_dir / "lexicon" / "wordnet_antonyms.txt")) > 10_000
