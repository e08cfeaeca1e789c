"""PairDataset: columns, labels and their names, subsets, fingerprints."""

import json

import numpy as np
import pytest

from keras_sentmatch.data import PairDataset
from keras_sentmatch.data.dataset import ReadReport
from keras_sentmatch.errors import InputError


def make(n=12, **kwargs):
    kwargs.setdefault("labels", [i % 3 for i in range(n)])
    return PairDataset([f"a{i}" for i in range(n)], [f"b{i}" for i in range(n)], **kwargs)


def test_labels_names_and_task():
    data = make(4, labels=["no", "yes", "no", "no"], label_names=["no", "yes"])
    assert data.labels.dtype == np.int32 and data.labels.tolist() == [0, 1, 0, 0]
    assert data.label_counts() == {"no": 3, "yes": 1}
    assert data.task == "classification" and data.num_classes == 2
    assert make(3, labels=["x", "y", "x"]).label_names == ("x", "y")
    assert make(2, labels=[True, False]).labels.tolist() == [1, 0]
    assert make(3, labels=[0, 2, 1]).label_names == ("0", "1", "2")
    assert make(2, labels=[0, 1], groups=["q", "q"]).task == "ranking"
    scores = make(2, labels=[0.5, 5])
    assert scores.task == "regression" and scores.labels.dtype == np.float32
    assert scores.label_names is None and scores.label_counts() == {}
    assert make(2, labels=[1.0, 0.0], label_names=["no", "yes"]).labels.tolist() == [1, 0]
    weighted = make(2, columns={"weight": np.array([0.5, 2], "float32")})
    assert json.loads(json.dumps(weighted.to_dict()))["columns"] == {"weight": [0.5, 2]}
    assert weighted.fingerprint() == make(2, columns={"weight": [0.5, 2.0]}).fingerprint()
    assert make(2, labels=np.array([1, 0], object)).labels.tolist() == [1, 0]
    pandas = pytest.importorskip("pandas")
    assert make(2, ids=pandas.array(["x", None], dtype="string")).ids == ("x", "")
    bare = make(2, labels=None, label_names=["no", "yes"])
    assert bare.labels is None and bare.label_names == ("no", "yes") and bare.label_counts() == {}
    with pytest.raises(ValueError, match="read-only"):
        data.labels[0] = 2


def test_select_keeps_every_column():
    data = make(
        6, groups=list("aabbcc"), ids=list("uvwxyz"), columns={"genre": list("123456")}, name="n"
    )
    part = data.select([4, 1], split="test")
    assert part.sentence1 == ("a4", "a1") and part.sentence2 == ("b4", "b1")
    assert part.labels.tolist() == [1, 1] and part.label_names == data.label_names
    assert part.groups == ("c", "a") and part.ids == ("y", "v")
    assert part.columns == {"genre": ("5", "2")}
    assert (part.name, part.split, part.task) == ("n", "test", "ranking")
    assert data.select(np.arange(6) == 2).ids == ("w",)
    assert len(data.select([])) == 0


def test_limit_keeps_shares_and_whole_groups():
    data = make(300, labels=[0] * 200 + [1] * 100)
    part = data.limit(30, seed=1)
    assert part.label_counts() == {"0": 20, "1": 10}
    rows = [int(s[1:]) for s in part.sentence1]
    assert rows == sorted(rows) and len(set(rows)) == 30
    assert part.fingerprint() == data.limit(30, seed=1).fingerprint()
    assert part.fingerprint() != data.limit(30, seed=2).fingerprint()
    assert data.limit(1000) is data
    ranked = make(40, labels=[0, 1] * 20, groups=[str(i // 4) for i in range(40)]).limit(15)
    assert len(ranked) == 12 and all(ranked.groups.count(g) == 4 for g in ranked.groups)
    assert len(make(8, labels=[0] * 8, groups=["q"] * 8).limit(3)) == 8


def test_dict_round_trip_through_json():
    for data in (make(3, ids="abc", name="n"), make(2, labels=[0.5, 1]), make(2, labels=None)):
        again = PairDataset.from_dict(json.loads(json.dumps(data.to_dict())))
        assert again.fingerprint() == data.fingerprint() and again.to_dict() == data.to_dict()


def test_fingerprint_sees_content_only():
    base = make(3)
    assert base.fingerprint() == make(3, name="other", report=ReadReport("f")).fingerprint()
    others = [make(3, labels=labels) for labels in (None, [0.0, 1, 2])]
    others += [make(3, labels=[0, 1, 1], label_names="012")]
    for first in (["a0a", "1", "a2"], ["a0", "a1", "\ud800"]):
        others += [PairDataset(first, base.sentence2, base.labels)]
    assert len({base.fingerprint(), *(other.fingerprint() for other in others)}) == 6


def test_report_is_one_line():
    report = ReadReport("f.tsv", rows=3, kept=1)
    report.skip("empty label")
    report.skip("empty label")
    assert str(report) == "f.tsv: 1 of 3 rows (skipped: 2 empty label)"


# Bad arguments, and words that the message must have.
BAD = [
    ({"sentence1": "a dog"}, "is a single string. .* sentence1="),
    ({"sentence1": ["a", "b"]}, "'sentence1': 2.*equal length"),
    ({"sentence1": {"a"}}, "is a set. Expected a list"),
    ({"sentence2": {"c": 1}}, "is a dict. Expected a list"),
    ({"labels": [0, 1]}, "'labels': 2"),
    ({"sentence1": [None]}, r"sentence1\[0\] is None"),
    ({"task": "sorting"}, "task='sorting' does not exist"),
    ({"labels": [2], "label_names": ["n", "y"]}, "0 to 1"),
    ({"labels": [300_000]}, "labels go up to 300,000, .* 300,001 classes.*task='regression'"),
    ({"labels": [2**40]}, "labels go up to 1,099,511,627,776"),
    ({"labels": [2**32], "label_names": ["n", "y"]}, r"labels\[0\] is 4294967296. Expected 0 to 1"),
    ({"columns": {"weight": [1e39]}}, r"columns\['weight'\]\[0\] is 1e"),
    ({"labels": [-1]}, r"labels\[0\] is -1"),
    ({"labels": ["?"], "label_names": ["n"]}, "'\\?'.*n"),
    ({"labels": [float("nan")]}, "finite number"),
    ({"labels": [0.5], "task": "classification"}, "task='regression'"),
    ({"labels": [0.5], "label_names": ["n", "y"]}, "has fractions or missing .* no label_names"),
    ({"labels": [float("nan")], "label_names": ["n", "y"]}, "has fractions or missing values"),
    ({"labels": [[1]]}, r"shape \(1, 1\)"),
    ({"labels": [0], "label_names": "xx"}, "repeats a name"),
    ({"groups": [None]}, r"groups\[0\] is empty"),
    ({"groups": [" "]}, r"groups\[0\] is empty"),
    (
        {"sentence1": ["a", "b"], "sentence2": ["a", "b"], "labels": ["x", None]},
        r"labels\[1\] is None",
    ),
    ({"columns": {"weight": [-1]}}, r"columns\['weight'\]\[0\] is -1"),
]


@pytest.mark.parametrize("kwargs, message", BAD)
def test_bad_input(kwargs, message):
    with pytest.raises(InputError, match=message):
        PairDataset(**{"sentence1": ["a"], "sentence2": ["c"], **kwargs})
    with pytest.raises(InputError, match="limit=0"):
        make().limit(0)
