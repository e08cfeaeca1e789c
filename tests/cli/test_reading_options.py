"""The options that say how a file of pairs is read, and messages that name them."""

import json
from types import SimpleNamespace

import pytest

from keras_sentmatch.cli import runs
from keras_sentmatch.cli.runs import LabeledPairs, recorded_source
from keras_sentmatch.cli.sources import Source, parse_labels
from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError, argument, naming_options, wording
from keras_sentmatch.inference.base import BaseMatcher
from tests.cli.test_cli import error_of


@pytest.fixture
def odd(tmp_path):
    """A table as nothing recognizes it: Latin-1, bars, numbers for labels, other column names."""
    rows = [f"café {i}|was ist {i}?|{i % 2}" for i in range(100)]
    path = tmp_path / "odd.csv"
    path.write_text("\n".join(["eins|zwei|urteil", *rows]) + "\n", encoding="latin-1")
    return path


HOW = {"columns": "eins,zwei,urteil", "delimiter": "|", "encoding": "latin-1"}


def test_every_option_reaches_the_reader_and_is_recorded(odd, tmp_path):
    source = Source(str(odd), "70/15/15", labels="0=nein,1=ja", **HOW)
    facts = json.loads(json.dumps(source.facts()))
    for again in (source, recorded_source(facts, tmp_path)):
        parts = again.splits()
        assert {name: len(part) for name, part in parts.items()} == {
            "train": 70, "validation": 15, "test": 15
        }  # fmt: skip
        assert parts["test"].label_names == ("nein", "ja")
        assert all(text.startswith("café ") for text in parts["test"].sentence1)
    rows = LabeledPairs(str(odd), labels="nein,ja", **HOW).named.rows()
    assert rows.label_counts() == {"nein": 50, "ja": 50}


def test_a_part_is_the_one_that_training_split_off(odd, tmp_path, monkeypatch):
    """`evaluate --data FILE --split test` of a run that split the same file otherwise."""
    trained = Source(str(odd), "60/20/20", **HOW)
    monkeypatch.setattr(runs, "source_of", lambda folder, needed: Source(**trained.facts()))
    labeled = LabeledPairs(str(odd), "test", labels="nein,ja", **HOW)
    assert labeled.read(tmp_path)[0].sentence1 == trained.splits()["test"].sentence1
    parts = ["--data", str(odd), "--split", "test", "--columns", "eins,zwei,urteil"]
    assert labeled.arguments()[:6] == parts
    assert labeled.arguments()[6:] == "--delimiter | --encoding latin-1 --labels nein,ja".split()


def test_labels_that_a_matcher_does_not_know_are_named_with_the_option():
    data = PairDataset(["a", "b"], ["c", "d"], [0, 1])
    matcher = SimpleNamespace(label_names=("nein", "ja"))
    spelled = PairDataset(["a", "b"], ["c", "d"], ["JA", "Nein"])
    assert BaseMatcher.relabel(matcher, spelled).labels.tolist() == [1, 0]
    with naming_options(), pytest.raises(InputError, match="--labels THEIRS=OURS"):
        BaseMatcher.relabel(matcher, data)
    with pytest.raises(InputError, match='label_names={"THEIRS": "OURS"'):
        BaseMatcher.relabel(matcher, data)


def test_labels_as_typed():
    assert parse_labels(None) is None
    assert parse_labels("no, yes") == ["no", "yes"]
    assert parse_labels("0=no, 1=yes") == {"0": "no", "1": "yes"}
    for text in ("0=no,yes", "no,,yes", "0=no=yes", "=no", ""):
        with pytest.raises(InputError, match="--labels .*such as 0=no,1=yes"):
            parse_labels(text)
    for text in ("no,yes,no", "0=no,0=yes"):
        with pytest.raises(InputError, match="twice. Name each label once"):
            parse_labels(text)


@pytest.mark.parametrize(
    "shares", ["70/15", "70-15-15", "100", "70/15/10/5", "110/-5/-5", "a/b", "nan/50/50"]
)
def test_shares_that_are_none(odd, shares):
    with pytest.raises(InputError, match=f"--split is {shares}. Expected the shares"):
        Source(str(odd), shares, **HOW).splits()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "--delimiter | --columns eins,zwei,urteil",
            "If the file has another encoding, name it (--encoding latin-1",
        ),
        ("--encoding latin-1", "Name them, such as --columns FIRST,SECOND,LABEL"),
        ("--encoding latin-1", "Or name the separator of fields with --delimiter"),
        ("--encoding latin-9000", "--encoding latin-9000 does not exist. Common encodings are"),
        ("--encoding latin-1 --delimiter ab", "--delimiter ab is not accepted. Give one character"),
        ("--encoding latin-1 --delimiter | --columns eins,drei,urteil", "no column 'drei'"),
        ("--encoding latin-1 --delimiter | --columns eins,zwei", "--columns eins,zwei,urteil"),
    ],
)
def test_one_error_that_names_the_option(capsys, odd, options, message):
    assert message in error_of(capsys, "train", "--data", odd, *options.split())


def test_options_that_would_change_nothing(capsys, tmp_path):
    line = error_of(capsys, "train", "--delimiter", ";")
    assert "embedded is not a file of yours. Leave out --columns, --delimiter" in line
    line = error_of(capsys, "train", "--split", "70/15/15")
    assert "embedded has its own validation and test pairs. Leave out --split" in line
    with pytest.raises(InputError, match="--encoding, --labels need --data, which"):
        LabeledPairs(encoding="utf-8", labels="a,b")


def test_labels_that_are_all_the_same(capsys, tmp_path):
    path = tmp_path / "same.tsv"
    path.write_text("s1\ts2\tlabel\n" + "".join(f"a{i}\tb\tno\n" for i in range(50)))
    for labels in ([], ["--labels", "yes,no"]):
        line = error_of(capsys, "train", "--data", path, *labels)
        assert (
            "All 43 train pairs have the label no, so there is nothing to learn. Add pairs" in line
        )
        assert "with --columns FIRST,SECOND,LABEL and --labels" in line


def test_arguments_in_messages():
    in_python = [wording("pass x=1", "use --x 1"), argument("batch_size", 0), argument("label")]
    assert in_python == ["pass x=1", "batch_size=0", "label=…"]
    with naming_options():
        named = [wording("pass x=1", "use --x 1"), argument("batch_size", 0), argument("label")]
    assert named == ["use --x 1", "--batch-size 0", "--label"]
    assert argument("label") == "label=…", "the words are those of Python again"
