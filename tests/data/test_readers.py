"""Readers: official layouts in small, your own files, errors with their line, real folders."""

import gzip
import json
import sys
import types

import numpy as np
import pytest

from keras_sentmatch.data import PairStream, load_pairs, read_pairs
from keras_sentmatch.data.formats import FORMATS, SPLITS
from keras_sentmatch.errors import InputError, naming_options

NLI = ("entailment", "neutral", "contradiction")


def write(path, text, encoding="utf-8"):
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = text.encode(encoding) if isinstance(text, str) else text
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


def jsonl(*records):
    return "".join(json.dumps(record) + "\n" for record in records)


def rows(data):
    labels = [None] * len(data) if data.labels is None else data.labels.tolist()
    return list(zip(data.sentence1, data.sentence2, labels))


SNLI_HEADER = "gold_label\tsentence1_parse\tsentence2_parse\tsentence1\tsentence2\tpairID\tlabel1\n"
GLUE_MNLI = "index\tsentence1_parse\tsentence2_parse\tsentence1\tsentence2\tgold_label\n"
QUOTED = '"id"\t"qid1"\t"qid2"\t"question1"\t"question2"\t"is_duplicate"\n'

# file name -> (content, format, split, rows, label names)
OFFICIAL = {
    "snli_1.0_train.jsonl": (
        jsonl(
            {"gold_label": "neutral", "sentence1": "a", "sentence2": "b", "pairID": "p"},
            {"gold_label": "-", "sentence1": "c", "sentence2": "d", "pairID": "q"},
        ),
        "snli", "train", [("a", "b", 1)], NLI,
    ),
    "snli_1.0_dev.txt": (
        SNLI_HEADER + 'contradiction\t(a)\t(b)\ta "x\tb\tp1\tneutral\n-\t(c)\t(d)\tc\td\tp2\n',
        "snli", "validation", [('a "x', "b", 2)], NLI,
    ),
    "multinli_1.0_dev_matched.jsonl": (
        jsonl({"gold_label": "entailment", "sentence1": "a", "sentence2": ""}),
        "multinli", "validation", [("a", "", 0)], NLI,
    ),
    "multinli_1.0_dev_mismatched.jsonl": (
        jsonl({"gold_label": "neutral", "sentence1": "a", "sentence2": "b"}),
        "multinli-mismatched", "validation", [("a", "b", 1)], NLI,
    ),
    "snli_1.0_test_hard.jsonl": (
        jsonl({"gold_label": "neutral", "sentence1": "a", "sentence2": "b"}),
        "snli-hard", "test", [("a", "b", 1)], NLI,
    ),
    "boolq/dev.jsonl": (
        jsonl({"question": "is it", "title": "t", "answer": True, "passage": "p"}),
        "boolq", "validation", [("p", "is it", 1)], ("no", "yes"),
    ),
    "MNLI/dev_matched.tsv": (
        GLUE_MNLI + "0\t(a)\t(b)\ta\tb\tentailment\n", "multinli", "validation", [("a", "b", 0)], NLI,
    ),
    "SICK_test_annotated.txt": (
        "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\r\n"
        "6\ta\tb\t3.3\tNEUTRAL\r\n",
        "sick", "test", [("a", "b", 1)], NLI,
    ),
    "msr_paraphrase_test.txt": (
        "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t7\t8\tsaid \"x\tb\u2028c\r\n",
        "msrp", "test", [('said "x', "b\u2028c", 1)], ("not_paraphrase", "paraphrase"),
    ),
    "MRPC/test.tsv": (
        "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t7\t8\ta\tb\n",
        "msrp", "test", [("a", "b", None)], ("not_paraphrase", "paraphrase"),
    ),
    "Twitter_URL_Corpus_train.txt": (
        "a\tb\t(4, 6)\thttp://x\nc\td\t(3, 6)\thttp://x\ne\tf\t(2, 6)\thttp://x\n",
        "twitter-url", "train", [("a", "b", 1), ("e", "f", 0)], ("not_paraphrase", "paraphrase"),
    ),
    "WikiQA-dev.tsv.gz": (
        "QuestionID\tQuestion\tDocumentID\tDocumentTitle\tSentenceID\tSentence\tLabel\r\n"
        "Q8\tq?\tD8\tT\tD8-0\ts\t1\r\n",
        "wikiqa", "validation", [("q?", "s", 1)], ("not_answer", "answer"),
    ),
    "SelQA-ass-test.json": (
        json.dumps([{"question": "q?", "candidates": ["x", "y"], "answers": [1]}]),
        "selqa", "test", [("q?", "x", 0), ("q?", "y", 1)], ("not_answer", "answer"),
    ),
    "TRAIN.xml": (
        "<QApairs id='7'>\n<question>\nwho\tis\nWP\tV\n</question>\n<positive>\nit\t's\nP\tV\n"
        "</positive>\n<negative>\nin\t1990\n</negative>\n</QApairs>\n",
        "trecqa", "train", [("who is", "it 's", 1), ("who is", "in 1990", 0)],
        ("not_answer", "answer"),
    ),
    "sts-test.csv": (
        'main\tf\t2012\t1\t2.5\ta "b\tc\textra\n', "stsb", "test", [('a "b', "c", 2.5)], None,
    ),
    "STS-B/train.tsv": (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
        "0\tm\tf\t12\t1\tn\tn\ta\tb\t5.000\n",
        "stsb", "train", [("a", "b", 5.0)], None,
    ),
    "QNLI/train.tsv": (
        "index\tquestion\tsentence\tlabel\n0\tq\ts\tnot_entailment\n",
        "qnli", "train", [("q", "s", 1)], ("entailment", "not_entailment"),
    ),
    "QQP/train.tsv": (
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\tp\tq\t1\n4\t5\t6\tbroken\n",
        "qqp", "train", [("p", "q", 1)], ("not_duplicate", "duplicate"),
    ),
    "quora_duplicate_questions.tsv": (
        QUOTED + '"0"\t"1"\t"2"\t"say ""x""\nagain"\t"q"\t"1"\n"1"\t"1"\t"2"\t"p"\t""\t"0"\n',
        "quora", "train", [('say "x"\nagain', "q", 1), ("p", "", 0)],
        ("not_duplicate", "duplicate"),
    ),
    "quora/test.tsv": (
        '1\tp "x\tq\t77\n', "quora", "test", [('p "x', "q", 1)], ("not_duplicate", "duplicate"),
    ),
    "scitail_1.0_train.tsv": (
        "p\th\tentails\np2\th2\tneutral\n",
        "scitail", "train", [("p", "h", 0), ("p2", "h2", 1)], ("entailment", "neutral"),
    ),
    "paws_wiki/train.tsv": (
        "id\tsentence1\tsentence2\tlabel\n1\ta\tb\t0\n",
        "paws", "train", [("a", "b", 0)], ("not_paraphrase", "paraphrase"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OFFICIAL)
def test_official_layout(name, tmp_path):
    text, known, split, expected, names = OFFICIAL[name]
    path = write(tmp_path / name, text)
    for data in (read_pairs(path), read_pairs(path, format=known)):
        assert rows(data) == expected
        assert (data.name, data.split, data.label_names) == (known, split, names)
        assert data.report.kept == len(data) and data.task == FORMATS[known].task
        assert data.report.rows == data.report.kept + sum(data.report.skipped.values())
        dash = "no gold label ('-')"
        reasons = {"snli": dash, "twitter-url": dash, "qqp": "too few fields"}
        assert data.report.skipped == ({reasons[known]: 1} if known in reasons else {})


def test_parallel_files(tmp_path):
    write(tmp_path / "s1.dev", "a \nc\n")
    write(tmp_path / "s2.dev", "b\n\n")
    with pytest.raises(InputError, match=r"no file .*labels\.dev"):
        read_pairs(tmp_path / "s1.dev")
    write(tmp_path / "labels.dev", "neutral\ncontradiction\n")
    assert rows(load_pairs(tmp_path)["validation"]) == [("a", "b", 1), ("c", "", 2)]
    write(tmp_path / "labels.dev", "neutral\n")
    with pytest.raises(InputError, match=r"lines \[2, 2, 1\]"):
        read_pairs(tmp_path / "s1.dev")


def test_trecqa_clean_drops_questions_and_masks_beside_json(tmp_path):
    block = "<QApairs id='{}'>\n<question>\nin\t1990\n</question>\n<positive>\n{}\n</positive>\n"
    mixed = block.format(1, "a\t2,000") + "<negative>\nc\n</negative>\n</QApairs>\n"
    text = mixed + block.format(2, "only\tright") + "</QApairs>\n"
    for part in ("TRAIN", "DEV", "TEST"):
        write(tmp_path / f"{part}.xml", text)
    line = {"question": "q", "candidates": [{"label": 1, "sentence": "<num> x"}]}
    write(tmp_path / "train-all.jsonl", jsonl(line))
    raw, clean = load_pairs(f"trecqa:{tmp_path}"), load_pairs(f"trecqa-clean:{tmp_path}")
    assert [len(raw[part]) for part in raw] == [3, 3, 3]
    assert [len(clean[part]) for part in clean] == [3, 2, 2]
    assert raw["test"].groups == ("1", "1", "2") and raw["test"].task == "ranking"
    both = load_pairs(f"trecqa-all-clean:{tmp_path}")
    assert rows(both["train"]) == [("q", "<num> x", 1)]
    assert rows(both["test"]) == [("in <num>", "a <num>", 1), ("in <num>", "c", 0)]


@pytest.mark.parametrize(
    "name, text",
    [
        ("x.tsv", "Premise\tHypothesis\tGold_Label\nA dog.\tAn animal.\tEntailment\n"),
        ("x.csv", 'label,text_a,text_b\nentailment,"A dog.",An animal.\n'),
        ("x.csv", "text1\ttext2\tlabel\nA dog.\tAn animal.\tentailment\n"),
        ("x.csv", '"text1"\ttext2\tlabel\n"A dog."\tAn animal.\tentailment\n'),
        ("x.jsonl", jsonl({"s1": "A dog.", "s2": "An animal.", "label": "entailment"})),
        ("x.jsonl.gz", jsonl({"s1": "A dog.", "s2": "An animal.", "label": 0})),
        ("x.csv", "\ufeff\ufefftext1,text2,label\nA dog.,An animal.,entailment\n"),
        ("x.json", json.dumps([{"s1": "A dog.", "s2": "An animal.", "label": "entailment"}])),
        ("x.dat", "sentence1\tsentence2\tlabel\nA dog.\tAn animal.\tentailment\n"),
    ],
)
def test_own_files(name, text, tmp_path):
    data = read_pairs(write(tmp_path / name, text), label_names=NLI)
    assert rows(data) == [("A dog.", "An animal.", 0)] and data.name == "x"


def test_own_columns_named_or_numbered(tmp_path):
    text = "left\tright\tkind\tq\tid\na\tb\tyes\t7\tx\nc\td\tno\t7\ty\n"
    path = write(tmp_path / "x.tsv", text)
    data = read_pairs(path, sentence1="left", sentence2="right", label="kind", group="q")
    assert rows(data) == [("a", "b", 1), ("c", "d", 0)] and data.label_names == ("no", "yes")
    assert data.groups == ("7", "7") and data.task == "ranking" and data.ids == ("x", "y")
    path = write(tmp_path / "bare.tsv", "1\ta\tb\n0\tc\td\n")
    data = read_pairs(path, sentence1=1, sentence2="2", label=0)
    assert rows(data) == [("a", "b", 1), ("c", "d", 0)]


def test_label_names_are_found(tmp_path):
    def names(*labels, column="label", **kwargs):
        text = f"s1\ts2\t{column}\n" + "".join(f"a\tb\t{label}\n" for label in labels)
        data = read_pairs(write(tmp_path / "x.tsv", text), **kwargs)
        return data.label_names, None if data.labels is None else data.labels.tolist()

    assert names("CONTRADICTION", "neutral") == (NLI, [2, 1])
    assert names("not_entailment") == (("entailment", "not_entailment"), [1])
    assert names("b", "a") == (("a", "b"), [1, 0])
    assert names("10", "9", "9.0") == (("9", "10"), [1, 0, 0])
    assert names("-1", "1") == (("-1", "1"), [0, 1])
    assert names("-1", "1", "0") == (("-1", "0", "1"), [0, 2, 1])
    assert names("Yes", "no", "yes", "NO", "no") == (("no", "yes"), [1, 0, 1, 0, 0])
    assert names("True", "FALSE", "TRUE", "False") == (("False", "True"), [1, 0, 1, 0])
    assert names("01", "1", "1e0", "+1.0", "0") == (("0", "1"), [1, 1, 1, 1, 0])
    assert names("not  sure", "Not sure", "sure")[0] == ("not  sure", "sure")
    assert names("ｙｅｓ", "no", "Yes")[1] == [1, 0, 1]
    assert names("e\u0301", "\u00e9", "x")[1] == [1, 1, 0]
    assert names("y\u200bes", "no", "yes")[1] == [1, 0, 1]
    assert names("not-sure", "not_sure", "Not sure", "sure")[1] == [0, 0, 0, 1]
    assert names("1_0", "10", "1")[1] == [2, 1, 0]  # not a spelling of 10
    assert names("true", "0")[0] == ("0", "true")
    assert names("0", "1", label_names=[0, 1]) == (("0", "1"), [0, 1])
    assert names("0", "1", label_names={"1": 5, "0": 3}) == (("5", "3"), [1, 0])
    assert names("\u22121", "1", "-1") == (("-1", "1"), [0, 1, 0])
    assert names("4.5", "1") == (None, [4.5, 1.0])
    assert names("4", "1", column="similarity") == (None, [4.0, 1.0])
    assert names("1", "3", task="regression") == (None, [1.0, 3.0])
    assert read_pairs(tmp_path / "x.tsv", task="ranking").task == "ranking"
    assert names("-", "-")[1] is None
    assert names("+", "-", "+") == (("-", "+"), [1, 0, 1])
    assert names("a", "-", "b") == (("a", "b"), [0, 1])
    assert names(*range(101), task="classification")[1] == list(range(101))
    assert names(*range(100))[0] == tuple(map(str, range(100)))
    assert names("-1", "0", label_names={"-1": "no", "0": "yes"})[1] == [0, 1]
    assert names("1", "0", label_names=["no", "yes"]) == (("no", "yes"), [1, 0])
    assert names("2", "1", label_names={"1": "no", "2": "yes"}) == (("no", "yes"), [1, 0])
    assert names("yes", "1", label_names={"1": "no", "2": "yes"}) == (("no", "yes"), [1, 0])
    assert names("y", "N", label_names={"n": "no", "y": "yes", "maybe": "no"})[1] == [1, 0]
    assert names("Y", "n", label_names=["N", "y"]) == (("N", "y"), [1, 0])
    for first in (  # of two labels the one that denies comes first
        "not_duplicate duplicate", "not_an_answer answer", "irrelevant relevant", "wrong right",
        "nonmatch match", "other answer", "apple pear", "normal nova", "a b not_a",
    ):  # fmt: skip
        assert names(*reversed(first.split()))[0] == tuple(first.split())
    for labels, given, message in (
        (("1", "0"), {"1": "no", "2": "yes"}, "'0' is not one of no, yes"),
        (("1", "0"), ["1", "2"], "'0' is not one of 1, 2"),
        (("a", "A"), ["a", "A"], "'A' is the spelling of two labels"),
    ):
        with pytest.raises(InputError, match=message):
            names(*labels, label_names=given)


def test_scores_are_not_labels(tmp_path, caplog):
    text = "s1\ts2\tlabel\tqid\na\tb\t1\t7\na\tb\t1.0\t7\na\tb\t0.5\t8\n"
    data = read_pairs(write(tmp_path / "x.tsv", text))
    assert data.task == "regression" and data.groups is None
    text = text.replace("label", "score").replace("\t8", "\t")
    assert read_pairs(write(tmp_path / "x.tsv", text)).labels.tolist() == [1, 1, 0.5]
    assert "one label" not in caplog.text and "is read as a label" not in caplog.text
    text = "s1\ts2\tlabel\na\tb\tyes\nc\td\tno\ne\tf\tNone\n"
    assert read_pairs(write(tmp_path / "x.tsv", text)).num_classes == 3
    assert "'none' is read as a label" in caplog.text
    read_pairs(write(tmp_path / "x.tsv", text.replace("None", "-1")))
    assert "'-1' is read as a label" in caplog.text


def test_own_spellings_of_official_labels_keep_their_order(tmp_path):
    text = jsonl(*({"gold_label": g, "sentence1": "a", "sentence2": "b"} for g in "ne"))
    path = write(tmp_path / "snli_1.0_train.jsonl", text)
    data = read_pairs(path, label_names={"n": "neutral", "e": "entailment"})
    assert data.label_names == NLI and data.labels.tolist() == [1, 0]


def test_many_whole_numbers_are_scores_and_that_is_said(tmp_path, caplog):
    text = "s1\ts2\tlabel\n" + "".join(f"a{i}\tb\t{i}\n" for i in range(3000))
    data = read_pairs(write(tmp_path / "x.tsv", text))
    assert data.task == "regression" and data.labels[7] == 7
    assert "3,000 different whole numbers, which are read as scores" in caplog.text


TSV = "s1\ts2\tlabel\na\tb\tneutral\n"
# A file whose second row is bad: words that the message must have, and the reason that is counted.
FINE = '{"s1": "a", "s2": "b", "label": 1}\n'
ASKED = '{"qid": 7, "s1": "a", "s2": "b", "label": 1}\n'
BAD = [
    ("x.tsv", TSV + "c\td\n", r"x\.tsv:3: there are 2 tab-separated.*3 were.*on_error", "too few"),
    ("x.tsv", TSV + "c\td\te\tf\n", r"x\.tsv:3: there are 4 tab-separated", "too many fields"),
    ("x.tsv", TSV + "c\td\tmaybe\n", r"x\.tsv:3: the label 'maybe' is not one of", "unknown"),
    ("x.tsv", TSV + "c\td\t\n", r"x\.tsv:3: the label is empty", "empty label"),
    ("x.tsv", TSV + "s1\ts2\tlabel\n", r"x\.tsv:3: the row repeats the names of the columns", "header"),
    ("x.tsv", TSV.encode() + b"caf\xe9\tb\tneutral\n", r":3: character 4 is the byte 0xe9.*latin-1", "not"),
    ("x.csv", b"s1,s2,label\na,b,neutral\ncaf\xe9,b,neutral\n", r"x\.csv:3: character 4", "not UTF-8"),
    ("x.csv", 's1,s2,label\na,b,neutral\n"c,d,neutral\n', r"x\.csv:3: the record .* quotes that do not close", "broken"),
    ("x.jsonl", FINE.encode() + b'{"s1": "caf\xe9"}\n', r"x\.jsonl:2: character 12 ", "not UTF-8"),
    ("x.jsonl", FINE + "3\n", r"x\.jsonl:2: this is '3'. Expected a JSON object", "not JSON"),
    ("x.jsonl", FINE + '{"s1"\n', r"x\.jsonl:2: this is not a JSON object", "not JSON"),
    ("x.jsonl", FINE + '{"s1": "\\ud83d", "s2": "b", "label": 0}\n', r"2: .*'s1' holds half a", "half a"),
    ("x.jsonl", FINE + '{"s1": "c", "s2": null, "label": 0}\n', r"2: .*'s2' holds None", "no text"),
    ("x.jsonl", FINE + '{"s1": "c", "label": 0}\n', r"x\.jsonl:2: the column 's2'", "missing column"),
    ("x.jsonl", FINE + '{"s1": "c", "s2": "d", "s2": "e"}\n', "2: .*has a key twice", "not JSON"),
    ("x.jsonl", ASKED + '{"qid": null, "s1": "c", "s2": "d", "label": 0}\n', "2: .*'qid' is empty", "no question"),
    ("x.jsonl", ASKED + '{"qid": NaN, "s1": "c", "s2": "d", "label": 0}\n', "2: .*'qid' is empty", "no question"),
    ("x.tsv", "s1\ts2\tlabel\tqid\na\tb\t1\t7\nc\td\t0\t \n", "3: .*'qid' is empty", "no question"),
    ("x.tsv", "s1\ts2\tlabel\tqid\na\tb\t1\t7\nc\td\t0\tNaN\n", "3: .*'qid' holds 'NaN'", "no question"),
    ("x.tsv", "s1\ts2\tlabel\tqid\na\tb\t1\t7\nc\td\t0\tNone\n", "3: .*'qid' holds 'None'", "no question"),
    ("x.jsonl", FINE + '{"s1": "c", "s2": "d", "label": [0]}\n', r"2: .*'label' holds \[0\]", "no text"),
    ("x.jsonl", FINE + '{"s1": "c", "s2": "d", "label": 0, "qid": 7}\n', "'qid' is missing in the f", "late"),
    ("x.tsv", TSV + "c\td\tNaN\n", "3: the label 'NaN' is not one of ", "unknown label"),
    ("x.tsv", "s1\ts2\tlabel\na\tb\t1\nc\td\tinf\n", "3: the label 'inf' is not one of 1", "unknown label"),
    ("x.csv", "s1,s2,label,weight\na,b,1,2\nc,d,0,\n", "3: the weight '' is not a number", "bad weight"),
]  # fmt: skip


@pytest.mark.parametrize("name, text, message, reason", BAD)
def test_a_bad_row_is_an_error_or_counted(name, text, message, reason, tmp_path):
    path = write(tmp_path / name, text)
    names = NLI if "maybe" in message else None
    with pytest.raises(InputError, match=message):
        read_pairs(path, label_names=names)
    data = read_pairs(path, label_names=names, on_error="skip")
    assert len(data) == 1 and (data.report.rows, data.report.kept) == (2, 1)
    ((found, count),) = data.report.skipped.items()
    assert found.startswith(reason) and count == 1


# A bad file or argument, and words that the message must have.
BAD_FILES = [
    ("x.tsv", "", {}, "has no rows"),
    ("x.tsv", "s1\ts2\tlabel\n", {}, "has no rows"),
    ("x.tsv", "left\tright\n1\t2\n", {}, "has the columns left, right.*sentence1='left'"),
    ("x.tsv", TSV, {"label": "kind"}, r"no column 'kind'. Its columns are s1, s2, label"),
    ("x.tsv", TSV, {"sentence1": "s3"}, "no column 's3'.* Perhaps sentence1='s1', sentence2='s2', label='label'"),
    ("x.csv", "s1,s2,label,label\na,b,1,0\n", {}, "two columns of the same name 'label'"),
    ("x.csv", "s1,s2,Label,label\na,b,1,0\n", {}, "has Label and label, which differ"),
    ("x.tsv", "\n" * 100_002 + TSV, {}, "more than 100,000 blank lines in a row"),
    ("x.tsv", TSV + '"c\td"\te\tneutral\n', {}, "3: there are 4 tab.*3 were expected.*tsv-quoted"),
    ("x.tsv", TSV, {"on_error": "ignore"}, 'Use "raise" or "skip"'),
    ("x.tsv", TSV, {"format": "snil"}, r"mean 'snli'\?"),
    ("x.tsv", TSV, {"format": "snli"}, r"not a file of the format 'snli'. .* snli_1\.0"),
    ("x.tsv", TSV.encode("utf-16")[:-1], {}, "truncated data. If the file has another enc"),
    ("x.tsv", TSV.encode("utf-16"), {"encoding": "utf-8"}, "not UTF-8"),
    ("x.tsv", TSV.encode("utf-8-sig"), {"encoding": "latin-1"}, "mark of utf-8, so it is not LATIN-1"),
    ("x.tsv", TSV.encode("utf-16-le"), {}, "zero bytes as in UTF-16. Name .*encoding='utf-16-le'"),
    ("x.tsv", TSV.encode("utf-16-be"), {}, "encoding='utf-16-be'"),
    ("x.tsv", '"s1"\t"s2"\n"a"\t"b"\n', {}, "Or read quotes as in CSV with format=.tsv-quoted"),
    ("x.tsv", "s1\ts2\tlabel\na\tb\tTrue\nc\td\tNone\n", {}, ":3: the label 'None' is not one of True"),
    ("x.tsv", TSV, {"encoding": "utf-9"}, "'utf-9' does not exist"),
    ("x.tsv", TSV, {"encoding": "hex"}, "'hex' does not exist"),
    ("x.tsv", TSV, {"encoding": "undefined"}, "'undefined' does not exist"),
    ("x.tsv", TSV, {"label": "s2"}, "column 's2' is named twice"),
    ("x.tsv", TSV, {"delimiter": ";"}, r"no two are known .*separator of fields with delimiter="),
    ("x.tsv", TSV, {"delimiter": ";;"}, "';;' is not accepted. Give one character"),
    ("x.tsv", TSV.replace("\t", "|"), {}, "separator of fields with delimiter=…"),
    ("x.jsonl", '{"s1": "a", "s2": "b"}', {"delimiter": ";"}, "not a table .* Leave out delimiter"),
    ("x.tsv", TSV.replace("neutral", "x"), {"label_names": NLI, "on_error": "skip"}, "no usable lab"),
    ("x.pdf", "%PDF\n", {}, "not a known kind of file"),
    ("x.csv", b"PK\3\4" + bytes(60), {}, "is a zip archive, an Excel file or a Parquet file, not"),
    ("x.csv", f"s1,s2,label\n{'x' * 200_000},b,1\n", {}, "a field of more than 131,072 characters"),
    ("x.csv", "s1,s2,label\na,b,1\nc,d,nan\ne,f,0\n", {}, ":3: the label 'nan' is not one of 0, 1"),
    ("x.tsv.gz", gzip.compress(TSV.encode(), mtime=0)[:-6], {}, "not a whole gzip file"),
    ("x.json", "[1", {}, r"x\.json:1: this is not valid JSON"),
    ("x.json", b'[\n{"s1": "\xe9"}]', {}, r"x\.json:2: character 9 is the byte 0xe9"),
    ("x.tsv", "s1\ts2\tlabel\na\tb\n", {"on_error": "skip"}, r"no usable row \(.*too few fields"),
    ("x.tsv", TSV, {"task": "regression"}, "the score 'neutral' is not a number"),
    ("x.tsv", TSV.replace("neutral", "0.5\na\tb\t-"), {}, ":3: the score '-' is not a number"),
    ("x.tsv", TSV.replace("neutral", "0.5"), {"task": "ranking"}, "fractions .* ranking needs classes"),
    ("x.csv", "s1;s2;label\na;b;0,5\nc;d;1\n", {}, "'0,5', which looks like a number. Write .* 0.5"),
    ("x.tsv", TSV.replace("neutral", "50%"), {}, "'50%', which looks like a number"),
    ("x.tsv", TSV.replace("neutral", "1e39"), {"task": "regression"}, ":2: the score '1e39' is not a"),
    ("x.tsv", TSV.replace("neutral", "1_0"), {"task": "regression"}, "'1_0' is not a number"),
    ("x.tsv", TSV.replace("neutral", "1\na\tb\ttrue\na\tb\t0"), {}, "0, 1, true have several names"),
    ("x.tsv", TSV.replace("neutral", "y\na\tb\tyes\na\tb\tn"), {}, "several names .*label_names"),
    ("x.tsv", TSV + "a\tb\tN/A\n", {}, "3: the label 'N/A' is not one of "),
    ("x.csv", "s1,s2,label\na,b,1\nc,d,#N/A\n", {}, ":3: the label '#N/A' is not one of 1"),
    ("x.tsv", TSV, {"label_names": "no"}, "'no' is one string. Give a list"),
    ("x.json", '[{"question": "q", "candidates": ["x"], "answers": ["x"]}]', {}, "Expected numbers of cand"),
    ("x.json", '[{"question": "q", "candidates": ["x"], "answers": [1]}]', {}, "Expected numbers of cand"),
    ("TRAIN.xml", "<QApairs id='7'>\n<positive>\nit\n", {}, ":3: a <positive> stands before the <q"),
    ("TRAIN.xml", b"<QApairs id='7'>\n<question>\n\xe9\n", {}, ":3: character 1 is the byte 0xe9"),
    ("x.tsv", "s1\ts2\tlabel\n" + "".join(f"a\tb\tt{i}\n" for i in range(101)), {}, "101 diff"),
]  # fmt: skip


@pytest.mark.parametrize("name, text, kwargs, message", BAD_FILES)
def test_bad_files(name, text, kwargs, message, tmp_path):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=message):
        read_pairs(path, **kwargs)


def test_missing_paths_and_what_cannot_be_loaded(tmp_path):
    for source in (None, [{"s1": "a", "s2": "b"}], iter("ab")):
        for read in (read_pairs, load_pairs):
            with pytest.raises(InputError, match=f"The pairs are a {type(source).__name__}. Exp"):
                read(source)
    write(tmp_path / "train.tsv", TSV)
    write(tmp_path / "empty" / "notes.md", "x")
    bare = write(tmp_path / "bare.tsv", "sentence1\tsentence2\n" + "a\tb\n" * 30)
    odd = write(tmp_path / "odd.tsv", "text_1\ttext_2\tmatch\n" + "a\tb\tyes\n" * 30)
    assert read_pairs(bare).labels is None and len(str(InputError("x" * 9000))) < 4000
    for refused, message in (
        (lambda: read_pairs(tmp_path / "trian.tsv"), r"trian\.tsv. Did you mean train"),
        (lambda: read_pairs(tmp_path), "is a folder"),
        (lambda: load_pairs("snil:somewhere"), "no format 'snil'. The formats are tfds, snli"),
        (lambda: load_pairs(tmp_path / "empty"), r"contains notes\.md.*snli, snli-hard"),
        (lambda: load_pairs(f"sick:{tmp_path}"), "no file of the format 'sick'. .* SICK_train"),
        (lambda: load_pairs(bare), "have no labels. Name their column, such as sentence1='sent"),
        (lambda: load_pairs(odd), "such as .*sentence2='text_2', label='match'"),
        (lambda: load_pairs("embedded", label="x"), "not a file of yours. Leave out label"),
        (lambda: load_pairs("embedded", fractions=[0.7, 0.15, 0.15]), "its own validation and"),
        (lambda: load_pairs(bare, fractions=[0.4, 0.3, 0.2, 0.1]), "two or three shares"),
    ):
        with pytest.raises(InputError, match=message):
            refused()


def own_file(path, n=100, offset=0):
    body = "".join(f"a{i}\tb{i}\t{'yes' if i % 2 else 'no'}\n" for i in range(offset, offset + n))
    return write(path, "sentence1\tsentence2\tlabel\n" + body)


def test_one_own_file_is_split_three_ways(tmp_path):
    path = own_file(tmp_path / "pairs.tsv")
    parts = load_pairs(path, seed=1)
    assert [(k, len(data)) for k, data in parts.items()] == [*zip(SPLITS, (85, 5, 10))]
    assert all(data.split == part and data.name == "pairs" for part, data in parts.items())
    assert len({s for data in parts.values() for s in data.sentence1}) == 100
    again = load_pairs(str(path), seed=1)
    assert all(parts[part].fingerprint() == again[part].fingerprint() for part in parts)
    assert load_pairs(path, seed=2)["test"].fingerprint() != parts["test"].fingerprint()
    assert load_pairs("embedded")["test"].fingerprint().startswith("32361433ff29")
    cut = load_pairs(path, fractions=np.array([0.5, 0.2, 0.3]))
    assert [len(data) for data in cut.values()] == [50, 20, 30]
    assert [*load_pairs(path, fractions=[0.5, 0.5])] == ["train", "validation"]
    assert list(load_pairs(own_file(tmp_path / "alone" / "train.tsv").parent)) == list(parts)


def test_own_folder_keeps_its_parts_and_names(tmp_path):
    own_file(tmp_path / "mine" / "train.tsv")
    write(tmp_path / "mine" / "test.tsv", "sentence1\tsentence2\tlabel\nx\ty\tyes\n")
    parts = load_pairs(tmp_path / "mine")
    assert [(k, len(data)) for k, data in parts.items()] == [*zip(SPLITS, (95, 5, 1))]
    assert parts["test"].label_names == ("no", "yes") and parts["test"].labels.tolist() == [1]
    assert {data.name for data in parts.values()} == {"mine"}
    write(tmp_path / "mine" / "test.tsv", "sentence1\tsentence2\tlabel\nx\ty\tmaybe\n")
    with pytest.raises(InputError, match="'maybe' is not one of no, yes"):
        load_pairs(tmp_path / "mine")


def test_parts_of_a_folder_may_be_files_of_several_kinds(tmp_path, caplog):
    pair = {"sentence1": "x", "sentence2": "y", "label": "yes"}
    for name in ("test.jsonl", "dev.csv", "train.tsv"):
        text = jsonl(pair) if "json" in name else ""
        text = text or ",".join(pair) + "\n" + ",".join(pair.values()) + "\n"
        write(tmp_path / name, text)
    own_file(tmp_path / "train.tsv")
    parts = load_pairs(tmp_path)
    assert [(k, len(data)) for k, data in parts.items()] == [*zip(SPLITS, (100, 1, 1))]
    assert parts["test"].labels.tolist() == [1] and "not read" not in caplog.text
    own_file(tmp_path / "val.tsv")
    own_file(tmp_path / "testing.tsv")
    assert len(load_pairs(tmp_path)["validation"]) == 100
    assert "dev.csv, testing.tsv not read. Parts are called train" in caplog.text


def test_official_parts_are_not_invented(tmp_path):
    header = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    body = "".join(f"{i}\ta{i}\tb{i}\t3\t{NLI[i % 3].upper()}\n" for i in range(60))
    write(tmp_path / "SICK_train.txt", header + body)
    found = [(k, len(data)) for k, data in load_pairs(tmp_path).items()]
    assert found == [*zip(SPLITS, (57, 3))]
    path = write(tmp_path / "paws" / "dev.tsv", "id\tsentence1\tsentence2\tlabel\n1\ta\tb\t0\n")
    assert list(load_pairs(path)) == list(load_pairs(path.parent)) == ["validation"]


def test_common_file_names_are_told_apart_by_columns(tmp_path):
    path = write(
        tmp_path / "any" / "dev.tsv", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n"
    )
    assert load_pairs(f"rte:{path.parent}")["validation"].name == "rte"
    write(path, OFFICIAL["QNLI/train.tsv"][0])
    assert load_pairs(path.parent)["validation"].name == "qnli"


def test_tensorflow_datasets(monkeypatch):
    tfds = pytest.importorskip("tensorflow_datasets")
    parts = {"train": [1, -1, 0], "validation_matched": [0], "test": [-1, -1]}
    first = "é".encode()
    label = types.SimpleNamespace(names=["not_equivalent", "equivalent"])

    def as_dataset(split):
        facts = {"sentence1": first, "sentence2": b"", "marks": np.array([1, 2])}
        return [{"label": np.int64(label), **facts} for label in parts[split]]

    def builder(error=None):
        found = types.SimpleNamespace(as_dataset=as_dataset, download_and_prepare=lambda: None)
        found.info = types.SimpleNamespace(features={"label": label}, splits=parts)
        if error:
            found.download_and_prepare = lambda: (_ for _ in ()).throw(error)
        monkeypatch.setattr(tfds, "builder", lambda name: found)

    with pytest.raises(InputError, match="tfds:no_such_dataset_here cannot be loaded"):
        load_pairs("tfds:no_such_dataset_here")
    monkeypatch.setattr(tfds, "as_numpy", lambda rows: rows)
    builder()
    found = load_pairs("tfds:tiny/pairs")
    assert list(found) == ["train", "validation", "test"]
    assert rows(found["train"]) == [("é", "", 1), ("é", "", 0)]
    assert found["train"].label_names == ("not_equivalent", "equivalent")
    assert found["train"].report.skipped == {"no gold label ('-1')": 1}
    assert len(found["test"]) == 2 and found["test"].labels is None
    assert found["test"].name == "tiny/pairs" and found["test"].split == "test"
    first = b"\xff"
    with pytest.raises(InputError, match=r"row 0: .*'sentence1' holds b'.xff'. Expected text"):
        load_pairs("tfds:tiny/pairs")
    parts = {"unsupervised": [0]}
    builder()
    with pytest.raises(InputError, match=r"has other parts \(unsupervised\). Expected train"):
        load_pairs("tfds:tiny/pairs")
    for error, message in (
        (ImportError(name="mwparser"), "pip install mwparser"),
        (OSError("no route"), r"cannot be loaded \(no route\). Check the name, the network"),
    ):
        builder(error)
        with pytest.raises(InputError, match=f"^tfds:tiny.*{message}"):
            load_pairs("tfds:tiny")
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(InputError, match=r"pip install .keras-sentmatch\[datasets\]"):
        load_pairs("tfds:tiny")


# The counts of the official files. Formats are found by themselves where the source is only a folder.
REAL = {
    "sick": {"train": 4500, "validation": 500, "test": 4927},
    "msrp": {"train": 3872, "validation": 204},
    "twitter_url": {"train": 40090, "validation": 2110},
    "trecqa:trecqa": {"train": 4718, "validation": 1148, "test": 1517},
    "trecqa-clean:trecqa": {"train": 4718, "validation": 1117, "test": 1442},
    "trecqa-all-clean:trecqa": {"train": 53417, "validation": 1117, "test": 1442},
    "wikiqa": {"train": 20360, "validation": 2733},
    "selqa": {"validation": 9377},
    "stsb": {"train": 5749, "validation": 1500, "test": 1379},
    "rte": {"train": 2490, "validation": 277, "test": 3000},
    "multinli": {"train": 20000, "validation": 9815},
    "snli": {"validation": 9842},
    "quora": {"train": 19723, "validation": 10000},
    "scitail": {"validation": 1304},
    "paws_wiki": {"validation": 8000},
    "qnli": {"validation": 5463},
    "boolq": {"validation": 3270},
}


def test_your_own_table_in_a_folder_with_a_known_name(tmp_path):
    text = "sentence1\tsentence2\tlabel\na\tb\tyes\nc\td\tno\n"
    for part in ("train", "dev"):
        write(tmp_path / "quora" / f"{part}.tsv", text)
    assert rows(load_pairs(tmp_path / "quora")["train"]) == [("a", "b", 1), ("c", "d", 0)]


@pytest.mark.parametrize("source", REAL)
def test_real_folder(source, data_dir):
    known, _, folder = source.rpartition(":")
    if not (data_dir / folder).is_dir():
        pytest.skip(f"no {folder}")
    parts = load_pairs(f"{known}:{data_dir / folder}" if known else data_dir / folder)
    assert {part: len(data) for part, data in parts.items()} == REAL[source]
    for data in parts.values():
        assert data.report.rows >= data.report.kept
        if data.label_names and data.labels is not None:
            assert all(data.label_counts().values())


def test_real_details(data_dir):
    if not (data_dir / "trecqa" / "xml").is_dir():
        pytest.skip("no trecqa")
    clean = load_pairs(f"trecqa-all-clean:{data_dir / 'trecqa'}")
    assert len(set(clean["validation"].groups)) == 65 and len(set(clean["test"].groups)) == 68
    # The published clean test says the same, row by row.
    published = read_pairs(data_dir / "trecqa" / "test-filtered.jsonl")
    assert rows(published) == rows(clean["test"])
    with_two_empty_labels = read_pairs(data_dir / "quora" / "quora-dev.csv")
    assert len(with_two_empty_labels) == 20212
    assert with_two_empty_labels.report.skipped == {"no gold label ('')": 2}
    tokenized, raw = (read_pairs(data_dir / "snli" / f) for f in ("s1.dev", "validation.tsv"))
    assert np.array_equal(tokenized.labels, raw.labels)
    assert len(read_pairs(data_dir / "selqa" / "selqa-ass-dev.json")) == 9419
    assert len(read_pairs(data_dir / "breaking_nli" / "bnli.jsonl")) == 8193


CAFE = [("A café, so?", "Oui; naïve", 0), ("b", "c", 1)]


@pytest.mark.parametrize(
    ("name", "separator", "end", "encoding", "options"),
    [
        ("x.tsv", "\t", "\r", "utf-8", {}),
        ("x.csv", ",", "\r", "utf-8-sig", {}),
        ("x.tsv.gz", "\t", "\r", "utf-16", {}),
        ("x.csv", ";", "\n", "utf-8", {}),
        ("x.tsv", ";", "\r\n", "utf-8", {}),
        ("x.txt", ",", "\n", "utf-8", {}),
        ("x.csv", "|", "\n", "utf-8", {"delimiter": "|"}),
        ("x.csv", "\t", "\n", "utf-8", {"delimiter": "tab"}),
        ("x.tsv", "\t", "\r\n", "utf-16", {}),
        ("x.csv", ",", "\n", "utf-32", {}),
        ("x.tsv", "\t", "\n", "utf-16-be", {"encoding": "utf-16-be"}),
        ("x.tsv", "\t", "\n", "latin-1", {"encoding": "latin-1"}),
        ("x.csv", ";", "\r", "cp1252", {"encoding": "cp1252"}),
    ],
)
def test_tables_as_other_programs_write_them(name, separator, end, encoding, options, tmp_path):
    cells = [("s1", "s2", "label"), *((a, b, str(label)) for a, b, label in CAFE)]
    quote = "" if separator == "\t" else '"'
    table = [separator.join(f"{quote}{cell}{quote}" for cell in row) for row in cells]
    path = write(tmp_path / name, end.join(table) + end, encoding)
    assert rows(read_pairs(path, **options)) == CAFE
    columns = {"sentence1": 0, "sentence2": 1, "label": 2}
    path = write(tmp_path / name, end.join(table[1:]) + end, encoding)
    if quote and separator != "|":
        return  # what separates a first row that has both characters is a guess
    assert rows(read_pairs(path, **columns, **options)) == CAFE


def test_messages_name_options_on_the_command_line(tmp_path):
    bad = write(tmp_path / "bad.tsv", TSV + "c\td\n")
    odd = write(tmp_path / "odd.tsv", "left\tright\n1\t2\n")
    for path, how, message in (
        (bad, {}, "bad rows out with --on-error skip"),
        (odd, {}, "such as --columns left,right"),
        (odd, {"format": "snil"}, "--format snil does not exist"),
    ):
        with naming_options(), pytest.raises(InputError, match=message):
            read_pairs(path, **how)


HEADED = "left\tright\tverdict\n"
HEADER_ALONE = "premise\thypothesis\tlabel\n"


@pytest.mark.parametrize(
    "body, kwargs, want",
    [
        ("".join(f"a{i}\tb{i}\t{i % 2}\n" for i in range(8)), {}, ("0", "1")),
        ("".join(f"a{i}\tb{i}\t{i / 4}\n" for i in range(8)), {}, None),
        ("".join(f"a{i}\tb{i}\t{'yn'[i % 2]}\n" for i in range(8)), {}, ("n", "y")),
        ("a\tb\tyes\nc\td\tno\n", {"label_names": ["no", "yes"]}, ("no", "yes")),
        ("a\tb\tneutral\nc\td\tentailment\n", {}, NLI),
    ],
)
def test_numbered_columns_of_a_file_with_a_header(body, kwargs, want, tmp_path, caplog):
    path = write(tmp_path / "x.tsv", HEADED + body)
    numbered = {"sentence1": 0, "sentence2": 1, "label": 2}
    data = read_pairs(path, **numbered, **kwargs)
    assert data.sentence1[0][0] == "a" and data.label_names == want
    assert data.report.skipped == {"header": 1} and "is read as a header" in caplog.text
    stream = PairStream(path, **numbered, **kwargs)
    (window,) = stream.windows(100)
    assert window.pairs.sentence1 == data.sentence1 and stream.report == data.report
    for alone in (HEADER_ALONE, HEADER_ALONE + "\t\t\n"):
        with pytest.raises(InputError, match="no usable row"):
            list(PairStream(write(path, alone), **numbered, **kwargs, on_error="skip").windows(9))


@pytest.mark.parametrize(
    "labels, kwargs",
    [
        ("maybe no yes no yes", {"label_names": ["no", "yes", "maybe"]}),
        ("m n y n y", {"label_names": {"n": "no", "y": "yes", "m": "maybe"}}),
        ("1 no yes no yes", {"label_names": ["no", "yes"]}),
        ("- no yes no yes", {}),
        (" no yes no yes", {"on_error": "skip"}),
        ("not_entailment entailment entailment", {}),
        ("contradiction entailment entailment", {}),
    ],
)
def test_a_first_pair_is_not_a_header(labels, kwargs, tmp_path, caplog):
    text = "".join(f"a{i}\tb\t{label}\n" for i, label in enumerate(labels.split(" ")))
    path = write(tmp_path / "x.tsv", text)
    kwargs |= {"sentence1": 0, "sentence2": 1, "label": 2}
    assert "header" not in read_pairs(path, **kwargs).report.skipped
    (window,) = PairStream(path, **kwargs).windows(9)
    assert window.pairs.sentence1[0] == "a0" and "header" not in caplog.text


def test_a_first_row_that_may_be_a_pair_is_kept_with_a_warning(tmp_path, caplog):
    path = write(tmp_path / "x.tsv", "a\tb\todd\nc\td\tyes\ne\tf\tno\n")
    assert len(read_pairs(path, sentence1=0, sentence2=1, label=2)) == 3
    assert "only row 1 has the label 'odd'" in caplog.text
    path = write(tmp_path / "y.tsv", "premise\thypothesis\na\tb\n")
    assert len(read_pairs(path, sentence1=0, sentence2=1)) == 1


@pytest.mark.parametrize("inside", [",", ";", "\t", "\n", ";;;"])
@pytest.mark.parametrize("separator", [",", ";"])
def test_quoted_separators_and_line_breaks_in_the_first_records(inside, separator, tmp_path):
    cells = [f"s1{inside}x", f's2{inside}"y"', "label"]
    table = [cells, [f"a{inside}b", f"c{inside}", "1"], ["d", "e", "0"]]
    quoted = [[f'"{cell.replace(chr(34), chr(34) * 2)}"' for cell in row] for row in table]
    for name in ("x.csv", "x.txt"):
        path = write(tmp_path / name, "\n".join(map(separator.join, quoted)) + "\n")
        data = read_pairs(path, sentence1=cells[0], sentence2=cells[1])
        assert rows(data) == [(table[1][0].strip(), f"c{inside}".strip(), 1), ("d", "e", 0)]
        path = write(tmp_path / name, "\n".join(map(separator.join, quoted[1:])) + "\n")
        assert rows(read_pairs(path, sentence1=0, sentence2="1", label=2)) == rows(data)


def test_a_broken_record_costs_no_other_record(tmp_path):
    text = b's1,s2\na,b\n"c,d\ne,"f\ng"\n"h\n\xff\nh",i\nj,k\n"l,m\nn,o\n'
    data = read_pairs(write(tmp_path / "x.csv", text), on_error="skip")
    assert data.sentence1 == ("a", "e", "j", "n") and data.sentence2[1] == "f\ng"
    assert data.report.skipped == {"broken quotes": 2, "not UTF-8": 1}
    assert data.report.rows == data.report.kept + 3


def test_rows_of_empty_cells_between_rows_are_rows(tmp_path, caplog):
    path = write(tmp_path / "x.tsv", "\t\ns1\ts2\na\tb\n\n\t\n \n\t\nc\td\n\t\n")
    assert read_pairs(path).sentence1 == ("a", "", "", "c")
    assert "1 rows without text at the end are left out" in caplog.text


def test_doubled_quotes_in_a_file_whose_quotes_are_text_are_said(tmp_path, caplog):
    for cell, said in (('"a ""b"" c"', True), ('"a"', False), ('""a"" b', False), ('""', False)):
        caplog.clear()
        data = read_pairs(write(tmp_path / "x.tsv", f"s1\ts2\n{cell}\tb\n"))
        assert data.sentence1 == (cell,) and ("tsv-quoted" in caplog.text) == said
    read_pairs(write(tmp_path / "x.tsv", '"a"\t"b"\n'), sentence1=0, sentence2=1)
    assert 'x.tsv:1: "a" is quoted as in CSV, and is read as it stands' in caplog.text


def test_candidates_keep_the_columns_of_their_question(tmp_path):
    records = [
        {"question": "q", "question_id": n, "candidates": ["x", {"sentence": "y"}], "note": "z"}
        for n in (1, 2)
    ]
    path = write(tmp_path / "x.jsonl", jsonl(*records))
    data = read_pairs(path)
    assert data.labels is None and data.groups == ("1", "1", "2", "2")
    (window,) = PairStream(path).windows(9)
    assert window.given["note"] == ["z"] * 4 and "gold" not in window.given
    path = write(tmp_path / "x.jsonl", jsonl(*({**record, "answers": [1]} for record in records)))
    assert read_pairs(path).labels.tolist() == [0, 1, 0, 1]


def test_all_parts_are_scores_if_the_training_part_is(tmp_path):
    head = "s1,s2,label\n"
    write(tmp_path / "train.csv", head + "".join(f"a{i},b,{i / 4}\n" for i in range(9)))
    write(tmp_path / "dev.csv", head + "c,d,2\ne,f,1\n")
    write(tmp_path / "test.csv", head + "g,h,-1\ni,j,-1\n")
    parts = load_pairs(tmp_path)
    assert {part.task for part in parts.values()} == {"regression"}
    assert parts["validation"].labels.tolist() == [2, 1] and parts["test"].labels is None


@pytest.mark.parametrize("names", ["text_1 text_2", "q1 q2", "a b", "query passage", "S1 S2"])
def test_usual_names_of_columns(names, tmp_path):
    one, two = names.split()
    path = write(tmp_path / "x.csv", f"id,{one},{two},label\n7,x,y,1\n,z,w,0\n")
    data = read_pairs(path)
    assert rows(data) == [("x", "y", 1), ("z", "w", 0)] and data.ids == ("7", "")
    write(path, path.read_text().replace("\n,", "\nnan,"))
    assert read_pairs(path).ids == data.ids


def test_gzip_is_known_by_its_first_bytes(tmp_path):
    for name in ("x.TSV.GZ", "x.tsv", "train.csv.GZ", "x.jsonl.gz"):
        text = FINE if "json" in name else TSV.replace("\t", "," if "csv" in name else "\t")
        (tmp_path / name).write_bytes(gzip.compress(text.encode()))
        assert rows(read_pairs(tmp_path / name))[0][:2] == ("a", "b")


def test_a_window_has_all_columns_of_the_file(tmp_path, caplog):
    path = write(tmp_path / "x.csv", "s1,s2,Label,note\na,b,Yes,n1\nc,d,no,n2\n")
    (window,) = PairStream(path, label_names=["no", "yes"]).windows(9)
    assert window.given == {
        "s1": ["a", "c"], "s2": ["b", "d"], "gold": ["yes", "no"], "note": ["n1", "n2"]
    }  # fmt: skip
    assert window.pairs.columns["gold"] == ("yes", "no") and window.rows == 2
    path = write(tmp_path / "y.csv", ",s1,s2,,\n0,a,b,x,y\n")  # columns without a name
    (window,) = PairStream(path).windows(9)
    assert [*window.given.values()] == [["0"], ["a"], ["b"], ["x"], ["y"]]
    odd = {"tags": ["x", None], "more": {"y": [1.5, True]}, "far": float("inf"), "none": None}
    path = write(tmp_path / "y.jsonl", jsonl({"s1": "a", "s2": "b", **odd}))
    (window,) = PairStream(path).windows(9)
    assert {name: window.given[name] for name in odd} == {
        name: [value] for name, value in {**odd, "far": "inf"}.items()
    }
    path = write(tmp_path / "y.tsv", "s1\ts2\tlabel\na\tb\t1\nc\td\t2\n")
    for names in (["1", "2"], {"1": "1", "2": "2"}):
        (window,) = PairStream(path, label_names=names).windows(9)
        assert window.given["gold"] == ["1", "2"]
    path = write(
        tmp_path / "x.jsonl", jsonl({"s1": "a", "s2": "b"}, {"s1": "c", "s2": "d", "x": 1})
    )
    first, second = PairStream(path).windows(1)
    assert first.given.keys() == second.given.keys() == {"s1", "s2"}
    assert "the first row has no x" in caplog.text
