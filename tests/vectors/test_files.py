import gzip
import tracemalloc
import types

import numpy as np
import pytest

from keras_sentmatch.errors import InputError
from keras_sentmatch.vectors import WordVectors, load_vectors
from keras_sentmatch.vectors.files import read_vectors

LINES = {"the": [0.25, -1.5, 3.0], "Paris": [1.0, 2.0, -4.0], "NATO": [7.0, 8.0, 9.0]}


def text(lines=LINES, end="\n"):
    return "".join(f"{w} {' '.join(map(str, v))}{end}" for w, v in lines.items()).encode()


@pytest.fixture
def read(tmp_path):
    def read(data, words=("the", "paris", "nato", "missing"), name="vectors.txt"):
        (tmp_path / name).write_bytes(data)
        return read_vectors(tmp_path / name, words)

    return read


def check(vectors):
    assert set(vectors.words) == {"the", "paris", "nato"}
    for word, values in LINES.items():
        np.testing.assert_array_equal(vectors[word.lower()], np.float32(values))


@pytest.mark.parametrize(
    "name, data",
    [
        ("glove.txt", text()),
        ("crlf.txt", text(end="\r\n")),
        ("bom.txt", b"\xef\xbb\xbf" + text()),
        ("no_last_newline.txt", text()[:-1]),
        ("fasttext.vec", b"3 3\n" + text(end=" \n")),
        ("tabs.txt", text().replace(b" ", b"\t")),
        ("blanks.txt", text().replace(b" ", b"  ", 1).replace(b"\nParis ", b"\n Paris\t ")),
        ("glove.txt.GZ", gzip.compress(text(), mtime=0)),
        ("gzipped.txt", gzip.compress(text(), mtime=0)),
    ],
)
def test_every_layout_gives_the_same_vectors(read, name, data):
    check(read(data, name=name))


def test_best_case_form_wins_in_any_order(read):
    forms = {"us": [1, 1, 1], "US": [2, 2, 2], "Us": [3, 3, 3], "uS": [4, 4, 4]}
    for names in (["us", "US", "Us", "uS"], ["uS", "US", "Us", "us"]):
        vectors = read(text({n: forms[n] for n in names}), ["us"], name="".join(names))
        assert vectors["us"][0] == 1 and "other case" not in vectors.report
    for names in (["US", "Us"], ["Us", "US"]):
        vectors = read(text({n: forms[n] for n in names}), ["us"], name="".join(names))
        assert vectors["us"][0] == 3 and "1 by another case" in vectors.report
    vectors = read(text({n: forms[n] for n in ("US", "us")}), ["us", "US", "Us"], name="both")
    assert [vectors[w][0] for w in ("us", "US", "Us")] == [1, 2, 1]
    assert "us" not in read(text({"uS": forms["uS"], "a": [0, 0, 0]}), ["us", "a"], name="odd")


def test_words_of_any_kind_and_with_spaces(read):
    lines = {"Éclair": [1, 2, 3], "🙂": [4, 5, 6], "ab\u00a0c": [7, 8, 9]}
    vectors = read(text(lines), ["éclair", "🙂", "ab\u00a0c"])
    assert [vectors[word][0] for word in ("éclair", "🙂", "ab\u00a0c")] == [1, 4, 7]
    data = text({"a": [1, 2, 3], ". . .": [4, 5, 6], "at name@domain.com": [7, 8, 9]})
    vectors = read(data, [". . .", "at name@domain.com", "at"])
    assert vectors[". . ."].tolist() == [4, 5, 6] and "at" not in vectors
    assert read(text({". . .": [4, 5, 6]}), [". . ."], name="first")[". . ."].tolist() == [4, 5, 6]


def test_what_is_skipped_is_counted_and_said(read):
    vectors = read(b"a 1\nb 2\na 3\na 4\n", ["a", "b"])
    assert vectors["a"] == 1
    assert vectors.report == "2 of 2 words found in 4 entries, 2 duplicates dropped"
    with pytest.warns(UserWarning, match="1 words are not UTF-8"):
        assert len(read(text().replace(b"NATO", b"\xff\xfe\xfd\xfc"))) == 2
    with pytest.warns(UserWarning, match="header says 7 words, the file has 3"):
        check(read(b"7 3\n" + text()))
    with pytest.warns(UserWarning, match="none of the 2 words"):
        assert read(text(), ["x", "y"]).matrix.shape == (0, 3)


# A bad file: its name, what it holds, and words that the message must have.
BAD = [
    ("v.txt", b"", "v.txt is empty"),
    ("v.txt", b"word\n", "v.txt:1: .* no numbers after the word"),
    ("v.txt", text() + b"bad 1 2\nok 1 2 3\n", "v.txt:4: 2 numbers, but 3"),
    ("v.txt", text() + b"bad 1 2 3 4\n", "v.txt:4: 4 numbers, but 3"),
    ("v.vec", b"3 5\n" + text(), "v.vec:2: 3 numbers, but 5"),
    ("v.txt", text() + b"torn 1 0.", "v.txt:4: 2 numbers, but 3 .* cut off"),
    ("v.txt", text() + b"nato 1 x 3\n", "v.txt:4: could not convert .*'x'"),
    ("v.txt", text() + b"nato 1 nan 3\n", "v.txt:4: nan is not"),
    ("v.txt", text() + b"nato 1 1e60 3\n", "v.txt:4: inf is not"),
    ("v.bin", b"3 3\nthe \0\0\0\0\1\2\3\4", "not text. .* convert a binary file"),
    ("v.bin", b"\xba\x16\x4f\x2f\x0c\0\0\0", "Unpack an archive"),
    ("v.zip", b"PK\x03\x04\x14\0\0\0", "Unpack an archive"),
    ("v.txt.gz", gzip.compress(text(), mtime=0)[:-9], "cut off or damaged"),
]


@pytest.mark.parametrize("name, data, message", BAD)
def test_bad_files(read, name, data, message):
    with pytest.raises(InputError, match=message):
        read(data, name=name)


def test_missing_file_names_its_neighbor(tmp_path):
    (tmp_path / "glove.6B.50d.txt").write_bytes(text())
    with pytest.raises(InputError, match=r"mean glove.6B.50d.txt\?"):
        read_vectors(tmp_path / "glove.6B.50.txt", ["a"])
    with pytest.raises(InputError, match="a folder.*encoder:"):
        load_vectors(tmp_path, ["a"])


def test_matrix_for():
    vectors = WordVectors({"cat": 0, "Paris": 1}, [[1, 2], [3, 4]])
    words = ["[PAD]", "[UNK]", "paris", "dog", "cat"]
    matrix = vectors.matrix_for(types.SimpleNamespace(words=words), seed=3)
    assert matrix.dtype == np.float32 and matrix[[0, 2, 4]].tolist() == [[0, 0], [3, 4], [1, 2]]
    unknown = matrix[[1, 3]]
    assert (np.abs(unknown) <= 0.05).all() and len(np.unique(unknown)) == 4
    again = vectors.matrix_for(types.SimpleNamespace(words=words), seed=3)
    np.testing.assert_array_equal(matrix, again)
    other = vectors.matrix_for(types.SimpleNamespace(words=words), seed=4)
    assert (other[1] != matrix[1]).all()


def test_coverage_and_single_words(tmp_path):
    vectors = WordVectors({"cat": 0}, [[1, 2]])
    expected = "vectors for 50.0% of 2 words, 75.0% of 4 tokens"
    assert vectors.coverage({"cat": 3, "dog": 1}) == expected
    assert vectors.coverage({}) == "vectors for 0 words"
    vectors = WordVectors({"cat": 0}, [[1, 2]], source="mine")
    assert vectors["Cat"].tolist() == [1, 2] and "1 words × 2, source='mine'" in repr(vectors)
    with pytest.raises(KeyError, match="dog"):
        vectors["dog"]
    with pytest.raises(InputError, match=r"shape \(1, 2\), but there are 2 words"):
        WordVectors({"a": 0, "b": 1}, [[1, 2]])
    assert load_vectors("none", ["a"]) is None
    (tmp_path / "v.txt").write_bytes(text())
    assert load_vectors(str(tmp_path / "v.txt"), ["the"], dim=3).dim == 3
    with pytest.raises(InputError, match="dimension 3, but 300 is wanted. Set dim=3"):
        load_vectors(str(tmp_path / "v.txt"), ["the"], dim=300)


def test_memory_stays_near_the_kept_matrix(tmp_path):
    lines = (b"w%05d " % i + b"0.12345 " * 300 + b"\n" for i in range(5000))
    (tmp_path / "v.txt").write_bytes(b"".join(lines))  # 12 MB, of which 100 words are kept
    tracemalloc.start()
    assert len(read_vectors(tmp_path / "v.txt", [f"w{i:05d}" for i in range(100)])) == 100
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e6


@pytest.mark.parametrize("name, dim", [("glove.840B.300d", 300), ("glove.6B.50d", 50)])
def test_published_vectors(data_dir, name, dim):
    path = data_dir / "vectors" / f"{name}.subset.txt.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        naive = {}
        for line in lines:
            fields = line.rstrip().split(" ")
            naive.setdefault(" ".join(fields[:-dim]), np.float32(fields[-dim:]))
    words = sorted(naive)[::5]
    vectors = read_vectors(path, words)
    assert set(vectors.words) == set(words)
    for word in words:
        np.testing.assert_array_equal(vectors[word], naive[word])
