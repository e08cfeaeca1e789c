"""split_pairs: shares, classes, groups; leak_report: what parts share."""

import tracemalloc

import numpy as np
import pytest

from keras_sentmatch.data import PairDataset, leak_report, load_pairs, read_pairs, split_pairs
from keras_sentmatch.data.dataset import numbered, rows_by_group
from keras_sentmatch.data.splits import log_repeats
from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics import evaluate_predictions


def make(n=1000, seed=0, **kwargs):
    rng = np.random.default_rng(seed)
    kwargs.setdefault("labels", rng.choice(3, n, p=[0.6, 0.3, 0.1]).tolist())
    return PairDataset([f"a{i}" for i in range(n)], [f"b{i}" for i in range(n)], **kwargs)


def test_every_row_once_and_shares_kept():
    data = make()
    parts = split_pairs(data, [0.8, 0.05, 0.15], seed=3)
    assert [len(part) for part in parts] == pytest.approx([800, 50, 150], abs=2)
    assert sorted(s for part in parts for s in part.sentence1) == sorted(data.sentence1)
    one, same, other = (split_pairs(data, [0.5, 0.5], seed=s)[0].fingerprint() for s in (1, 1, 2))
    assert one == same != other
    whole = np.array(list(data.label_counts().values())) / len(data)
    for part in parts:
        share = np.array(list(part.label_counts().values())) / len(part)
        np.testing.assert_allclose(share, whole, atol=1.5 / len(part))


def test_groups_stay_whole_and_classes_still_match():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(300), rng.integers(1, 12, 300)).astype(str).tolist()
    n = len(groups)
    data = make(n, labels=(rng.random(n) < 0.1).astype(int).tolist(), groups=groups)
    parts = split_pairs(data, [0.8, 0.1, 0.1], seed=0)
    names = [set(part.groups) for part in parts]
    assert not (names[0] & names[1] or names[0] & names[2] or names[1] & names[2])
    for part, share in zip(parts, (0.8, 0.1, 0.1)):
        assert len(part) == pytest.approx(share * n, rel=0.05)
        assert part.labels.mean() == pytest.approx(data.labels.mean(), abs=0.02)
        # small parts get questions of the same size as the big one
        assert len(part) / len(set(part.groups)) == pytest.approx(n / 300, rel=0.25)


def test_pairs_with_one_first_sentence_stay_together():
    data = PairDataset(
        [f"a{i // 3}" for i in range(300)], [f"b{i}" for i in range(300)], [0, 1, 2] * 100
    )
    train, test = split_pairs(data, [0.7, 0.3], seed=0)
    assert not set(train.sentence1) & set(test.sentence1)
    assert set(test.label_counts().values()) == {30}


def test_pairs_that_count_as_one_stay_together(caplog):
    """Case and spacing do not count, nor does the order of a pair: no part leaks into another."""
    caplog.set_level("INFO")
    first = [text for i in range(100) for text in (f"A dog {i}", f"a  DOG {i} ", f"cat {i}")]
    second = [text for i in range(100) for text in (f"x {i}", f"y {i}", f"a dog {i}")]
    second[1::3] = [f"Cat {i}" for i in range(100)]  # mirrored in every third row
    data = PairDataset(first, second, [0, 0, 0] * 100, groups=None)
    parts = dict(zip(("train", "test"), split_pairs(data, [0.7, 0.3], seed=1)))
    assert leak_report(*parts.values())["shared_pairs"] == 0
    one, two = ({s.casefold().split()[-1] for s in part.sentence1} for part in parts.values())
    assert not one & two
    log_repeats(parts)
    assert caplog.text == ""


def test_numbers_are_those_of_numpy():
    values = ["b", "ä", "", "b", "Z", "a", "日"]
    assert numbered(values).tolist() == np.unique(values, return_inverse=True)[1].tolist()
    assert numbered([]).tolist() == []
    rows = [some.tolist() for some in rows_by_group(["b", "a", "b", "c", "a"])]
    assert rows == [[0, 2], [1, 4], [3]]


def test_one_long_text_takes_no_room_in_every_row():
    first = ["w " * 50_000, *(f"a{i}" for i in range(999))]  # 400 MB, were all as long
    data = PairDataset(first, ["b"] * 1000, [1, 0] * 500, groups=first)
    tracemalloc.start()
    split_pairs(PairDataset(data.sentence1, data.sentence2), [0.5, 0.5], seed=0)
    split_pairs(data, [0.5, 0.5], seed=0)
    data.limit(500, seed=0)
    evaluate_predictions(data, np.linspace(0, 1, len(data)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6


def test_scores_are_spread():
    data = make(500, labels=np.linspace(0, 5, 500).tolist())
    _, test = split_pairs(data, [0.9, 0.1], seed=0)
    assert test.labels.mean() == pytest.approx(2.5, abs=0.2)
    assert np.histogram(test.labels, 5, (0, 5))[0].tolist() == [10] * 5


@pytest.mark.parametrize("fractions", [[0.5, 0.4], [1.2, -0.2], [], [1, 0], [0.5, np.nan]])
def test_bad_fractions(fractions):
    with pytest.raises(InputError, match="sum to 1"):
        split_pairs(make(10), fractions, seed=0)
    with pytest.raises(InputError, match="1 groups are too few"):
        split_pairs(make(10, groups=["q"] * 10, labels=[0] * 10), [0.8, 0.2], seed=0)


def test_leak_report_counts():
    a = PairDataset(["A  dog", "x"], ["runs", "y"], groups=["1", "2"])
    b = PairDataset(["Runs", "x", "new"], ["a dog", "z", "newer"], groups=["2", "2", "3"])
    assert leak_report(a, b) == {"shared_pairs": 1, "shared_groups": 1, "shared_sentences": 3}


def test_repeats_are_counted_and_said(caplog, tmp_path):
    """Identical files, and pairs under two labels: a warning above 1% of the pairs."""
    caplog.set_level("INFO")
    rows = [f"A  dog {i}\ta cat {i}\t{i % 2}" for i in range(200)]
    rows += ["a dog 1\ta CAT 1\t0"]
    text = "\n".join(["sentence1\tsentence2\tlabel", *rows]) + "\n"
    for part in ("train", "dev", "test"):
        (tmp_path / f"{part}.tsv").write_text(text if part != "dev" else text.replace("dog", "gnu"))
    load_pairs(tmp_path)
    said = {(record.levelname, record.getMessage()) for record in caplog.records}
    torn = "1 of 200 (0.5%) pairs have more than one label, such as 'a dog 1' / 'a cat 1'"
    assert ("INFO", f"train: {torn}. Correct the labels.") in said
    assert ("INFO", f"validation: {torn.replace('dog', 'gnu')}. Correct the labels.") in said
    (leak,) = [message for level, message in said if level == "WARNING"]
    assert leak.startswith("test: 201 of 201 (100.0%) pairs are also training pairs")
    caplog.clear()
    few = tmp_path / "few.tsv"
    few.write_text("s1\ts2\tlabel\na\tb\tyes\na\tb\tno\nc\td\tno\n")
    read_pairs(few)
    assert "WARNING" in caplog.text and "1 of 2 (50.0%) pairs have more" in caplog.text
    caplog.clear()
    load_pairs("embedded")
    assert caplog.text == ""
