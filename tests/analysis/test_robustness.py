"""The report of transformed pairs and suites, from answers out of a table; suites from their files."""

import json
from pathlib import Path

import pytest

from keras_sentmatch.analysis.robustness import (
    COLUMNS,
    robustness_report,
    save_report,
    table,
    to_markdown,
)
from keras_sentmatch.analysis.suites import Suite, common_names, read_suite
from keras_sentmatch.data import PairDataset, read_pairs
from keras_sentmatch.errors import InputError
from keras_sentmatch.transformations import Lexicon

pytestmark = pytest.mark.once

NLI = ("entailment", "neutral", "contradiction")
LEXICON = Lexicon(antonyms=[("hot", "cold")])


@pytest.fixture
def pairs():
    one = ["Hot tea.", "Hot tea | pot.", "Cold tea.", "Rain."]
    two = ["Tea is hot.", "Hot tea.", "Tea.", "Sun."]
    labels = ["entailment", "entailment", "entailment", "neutral"]
    return PairDataset(one, two, labels, label_names=NLI, name="snli", split="test")


def believes_all(pairs):
    """Says neutral of rain, entailment of all else."""
    return ["neutral" if "Rain" in one else "entailment" for one in pairs.sentence1]


def test_figures_before_and_after(pairs):
    report = robustness_report(
        believes_all, pairs, names=["SwapAnt", "addsent", "NumWord"], lexicon=LEXICON
    )
    swapped, added, numbers = report["transformations"]
    assert (swapped["name"], swapped["of"], swapped["pairs"]) == ("SwapAnt", 4, 2)
    assert swapped["before"]["accuracy"] == 1 and swapped["after"]["accuracy"] == 0
    assert swapped["after"]["macro_f1"] == 0 and swapped["drop"] == 1
    assert swapped["after"]["not_positive"] == 0 and "not_positive" not in added["after"]
    assert swapped["flips"][1] == {
        "sentence1": "Hot tea | pot.", "sentence2": "Hot tea.", "label": "entailment",
        "changed1": "Hot tea | pot.", "changed2": "Cold tea.", "new_label": "contradiction",
        "answer": "entailment",
    }  # fmt: skip
    assert (added["pairs"], added["drop"], added["flips"]) == (4, 0, [])
    assert (numbers["pairs"], numbers["before"], numbers["drop"]) == (0, None, None)
    assert report["left_out"] == {} and json.loads(json.dumps(report)) == report


def test_accuracy_by_word_counts_each_swap_once():
    """Nine pairs of hot and cold, one of a man and an astronaut."""
    one = [*["Hot tea."] * 8, "Cold tea.", "A man sings."]
    pairs = PairDataset(one, one, ["entailment"] * 10, label_names=NLI)
    lexicon = Lexicon(antonyms=[("hot", "cold"), ("man", "astronaut")])

    def sees_a_change_of_tea(pairs):
        sentences = zip(pairs.sentence1, pairs.sentence2)
        changed = [one != two and "tea" in one for one, two in sentences]
        return ["contradiction" if change else "entailment" for change in changed]

    report = robustness_report(sees_a_change_of_tea, pairs, names=["SwapAnt"], lexicon=lexicon)
    row = report["transformations"][0]
    assert row["words"] == [
        {"words": ["cold", "hot"], "pairs": 9, "before": 1, "after": 1},
        {"words": ["astronaut", "man"], "pairs": 1, "before": 1, "after": 0},
    ]
    assert (row["after"]["accuracy"], row["after"]["accuracy_by_word"]) == (0.9, 0.5)
    page = to_markdown(report)
    assert "2 pairs of words were swapped" in page
    assert "is 1.000 before and 0.500 after" in page and "| cold / hot | 9 |" in page


def test_the_article_of_a_swapped_word_is_not_taken_for_it():
    pairs = PairDataset(
        ["An odd, old hat."] * 2, ["An odd hat."] * 2, ["entailment"] * 2, label_names=NLI
    )
    lexicon = Lexicon(antonyms=[("odd", "normal")])
    report = robustness_report(believes_all, pairs, names=["SwapAnt"], lexicon=lexicon)
    assert [one["words"] for one in report["transformations"][0]["words"]] == [["normal", "odd"]]
    assert "1 pair of words was swapped" in to_markdown(report)


def test_what_cannot_be_used_is_left_out_with_its_reason(pairs):
    report = robustness_report(believes_all, pairs, lexicon=LEXICON)
    assert set(report["left_out"]) == {"BackTrans", "SwapSyn"}
    assert len(report["transformations"]) == 8
    with pytest.raises(InputError, match="SwapSyn needs synonyms"):
        robustness_report(believes_all, pairs, names=["SwapSyn"], lexicon=LEXICON)
    with pytest.raises(InputError, match="labeled with classes"):
        robustness_report(believes_all, PairDataset(["a"], ["b"]))
    with pytest.raises(InputError, match="1 answers for 4 pairs"):
        robustness_report(lambda pairs: ["neutral"], pairs)


def test_an_answer_may_leave_the_old_label_without_being_the_new_one(pairs):
    def neutral_of_cold(pairs):
        return ["neutral" if "cold" in two.lower() else "entailment" for two in pairs.sentence2]

    report = robustness_report(neutral_of_cold, pairs, names=["SwapAnt"], lexicon=LEXICON)
    after = report["transformations"][0]["after"]
    assert (after["accuracy"], after["not_positive"]) == (0, 1)


@pytest.mark.parametrize("examples, shown", [(5, 5), (0, 0), (20, 9)])
def test_few_of_many_flips_are_shown(examples, shown):
    many = PairDataset(["Hot tea."] * 9, ["Hot tea."] * 9, ["entailment"] * 9, label_names=NLI)
    report = robustness_report(
        believes_all, many, names=["SwapAnt"], lexicon=LEXICON, examples=examples
    )
    assert len(report["transformations"][0]["flips"]) == shown


def test_the_report_says_that_only_held_out_words_were_written(pairs):
    pages = [
        to_markdown(robustness_report(believes_all, pairs, names=["AddPunc"], entries=entries))
        for entries in ("all", "held_out")
    ]
    assert ["never uses were written" in page for page in pages] == [False, True]


def test_the_report_is_written(pairs, tmp_path):
    suite = Suite("rain", pairs, (3,), pairs.select([3]))
    report = robustness_report(believes_all, pairs, suites=[suite], lexicon=LEXICON)
    save_report({"run": "runs/x", "data": "snli", "split": "test", **report}, tmp_path / "new")
    folder = tmp_path / "new"
    assert json.loads((folder / "robustness.json").read_text())["pairs"] == 4
    lines = (folder / "robustness.csv").read_text().splitlines()
    assert lines[0] == ",".join(COLUMNS) and len(lines) == 1 + len(table(report))
    assert lines[1] == "transformation,SwapAnt,4,2,1.0,0.0,1.0,1.0,0.0,0.0"
    page = to_markdown(report)
    assert "| Hot tea \\| pot. | ~~Hot~~ **Cold** tea. | entailment → contradiction |" in page
    assert "](robustness.png)" in page and "\nA word of both sentences becomes" in page
    assert "- BackTrans: BackTrans needs" in page
    written = (folder / "robustness.md").read_text()
    assert written.startswith("# Robustness of runs/x on snli test\n")
    assert (folder / "robustness.png").read_bytes().startswith(b"\x89PNG")
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot write into"):
        save_report(report, tmp_path / "file")


# --- suites ---


def test_a_suite_with_originals_and_categories(pairs):
    changed = PairDataset(
        ["Rainy.", "Hot."], ["a", "b"], ["neutral", "entailment"], label_names=NLI,
        columns={"category": ["typo", ""]},
    )  # fmt: skip
    rain = PairDataset(["Rain"], ["a"], ["neutral"], label_names=NLI)
    suite = Suite("attack", changed, (0,), rain)

    def answers(pairs):
        return ["neutral" if one == "Rain" else "entailment" for one in pairs.sentence1]

    (row,) = robustness_report(answers, suites=[suite], label_names=NLI)["suites"]
    assert row["after"]["accuracy"] == 0.5 and row["before"]["accuracy"] == 1
    assert (row["after_of_these"]["accuracy"], row["drop"]) == (0, 1)
    assert {name: found["pairs"] for name, found in row["categories"].items()} == {
        "others": 1, "typo": 1
    }  # fmt: skip
    assert row["flips"][0]["changed1"] == "Rainy."


def test_names_that_mean_the_same(pairs):
    two_way = ("entailment", "not_entailment")
    answers, labels = common_names(NLI, two_way)
    assert answers["neutral"] == labels["not_entailment"] == "not_entailment"
    assert common_names(("entailment", "neutral"), NLI)[1]["contradiction"] == "not_entailment"
    assert common_names(NLI, NLI)[0]["neutral"] == "neutral"
    answers, labels = common_names(("not_duplicate", "duplicate"), ("not_paraphrase", "paraphrase"))
    assert answers["duplicate"] == labels["paraphrase"]
    assert common_names(("no", "yes"), ("yes", "no")) is not None
    assert common_names(("no", "yes"), NLI) is None and common_names((), NLI) is None
    suite = Suite("mine", PairDataset(["a"], ["b"], ["x"], label_names=["x", "y"]))
    with pytest.raises(InputError, match="mine has the labels x, y, but the answers are entail"):
        robustness_report(believes_all, pairs, names=[], suites=[suite])


ADVGLUE = {
    "sst2": [{"sentence": "a", "label": 0}],
    "mnli": [
        dict(premise="p", hypothesis="h!", original_hypothesis="h", label=2, method="T3"),
        dict(premise="q", hypothesis="i", label=0, method="ANLI"),
    ],
    "mnli-mm": [{"premise": "p!", "original_premise": "p", "hypothesis": "h", "label": 1}],
    "qqp": [{"question1": "a", "question2": "b", "label": 1, "idx": 5}],
    "qnli": [{"question": "a", "sentence": "b", "label": 1}],
    "rte": [{"sentence1": "a", "sentence2": "b", "label": 0}],
}


def test_advglue(tmp_path):
    folder = tmp_path / "AdvGLUE"
    folder.mkdir()
    path = folder / "dev.json"
    path.write_text(json.dumps(ADVGLUE, indent=1))
    suites = {suite.name: suite for suite in read_suite(path)}
    assert list(suites) == [f"advglue-{task}" for task in ("mnli", "mnli-mm", "qqp", "qnli", "rte")]
    mnli = suites["advglue-mnli"]
    assert mnli.pairs.labels.tolist() == [2, 0] and mnli.categories == ("T3", "ANLI")
    assert mnli.rows == (0,) and mnli.originals.sentence2 == ("h",)
    assert suites["advglue-mnli-mm"].originals.sentence1 == ("p",)
    assert suites["advglue-qqp"].originals is None
    assert suites["advglue-qqp"].pairs.label_counts()["duplicate"] == 1
    assert [suite.name for suite in read_suite(folder)] == list(suites)
    assert [s.name for s in read_suite(f"advglue-rte:{path}")] == ["advglue-rte"]
    path.write_text(json.dumps({"rte": [{"sentence1": "a", "sentence2": None, "label": 0}, 3]}))
    with pytest.raises(InputError, match="expected a JSON object with a list named 'mnli'"):
        read_suite(path)
    with pytest.raises(InputError, match="rte item 0: .*holds None"):
        read_suite(f"advglue-rte:{path}")
    path.write_text(json.dumps({"rte": [*ADVGLUE["rte"], 3]}))
    with pytest.raises(InputError, match="rte item 1: an object was expected, not '3'"):
        read_suite(f"advglue-rte:{path}")
    left = read_pairs(path, format="advglue-rte", on_error="skip")
    assert len(left) == 1 and left.report.skipped == {"not JSON": 1}
    path.write_bytes(b'{"rte": [\n"\xe9"]}')
    with pytest.raises(InputError, match=r"dev\.json: no usable row .*not UTF-8"):
        read_pairs(path, format="advglue-rte", on_error="skip")
    with pytest.raises(InputError, match=r"dev\.json:2: byte 11 \(0xe9\) is not UTF-8"):
        read_suite(path)
    with pytest.raises(InputError, match="not valid JSON"):
        path.write_text("[")
        read_suite(path)


REVISED = (("P", "a"), ("P", "H"), ("P", "b"), ("c", "H"), ("d", "H"), ("x", "y"))


def test_breaking_nli_and_counterfactual_and_paws(tmp_path):
    path = tmp_path / "bnli.jsonl"
    record = {"sentence1": "a", "sentence2": "b", "gold_label": "neutral", "category": "colors"}
    path.write_text(json.dumps(record) + "\n")
    (suite,) = read_suite(path)
    assert (suite.name, suite.categories) == ("breaking-nli", ("colors",))
    folder = tmp_path / "counterfactual" / "all_combined"
    folder.mkdir(parents=True)
    rows = [f"{one}\t{two}\tneutral\n" for one, two in REVISED]
    (folder / "dev.tsv").write_text("sentence1\tsentence2\tgold_label\n" + "".join(rows))
    (suite,) = read_suite(folder.parent)
    two, one = "revised sentence 2", "revised sentence 1"
    assert suite.categories == (two, "original", two, one, one, "")
    assert read_pairs(folder / "dev.tsv").name == "counterfactual-nli"
    folder = tmp_path / "paws"
    folder.mkdir()
    (folder / "dev.tsv").write_text("id\tsentence1\tsentence2\tlabel\n1\ta\tb\t1\n")
    (suite,) = read_suite(folder)
    assert suite.categories == () and suite.pairs.split == "validation"
    (folder / "dev.tsv").write_text("id\tsentence1\tsentence2\n1\ta\tb\n")
    with pytest.raises(InputError, match="no part of this data is labeled"):
        read_suite(folder)
    with pytest.raises(InputError, match="labeled with classes"):
        read_suite(Path(folder / "dev.tsv"))
