"""Of two labels the one that denies comes first, so that the other counts as positive."""

import pytest

from keras_sentmatch.data import read_pairs


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        ("duplicate not_duplicate", ("not_duplicate", "duplicate")),
        ("answer not_an_answer", ("not_an_answer", "answer")),
        ("relevant irrelevant", ("irrelevant", "relevant")),
        ("wrong right", ("wrong", "right")),
        ("match nonmatch", ("nonmatch", "match")),
        ("apple pear", ("apple", "pear")),
        ("normal nova", ("normal", "nova")),
        ("a b not_a", ("a", "b", "not_a")),
    ],
)
def test_order(labels, want, tmp_path):
    rows = [f"one\ttwo\t{label}" for label in labels.split()]
    file = tmp_path / "pairs.tsv"
    file.write_text("\n".join(["sentence1\tsentence2\tlabel", *rows]) + "\n")
    assert read_pairs(file).label_names == want
