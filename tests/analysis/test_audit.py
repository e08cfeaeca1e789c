"""`audit` finds what was planted in pairs."""

import json
import re

import numpy as np
import pytest

from keras_sentmatch.analysis.auditing import audit, save_audit
from keras_sentmatch.cli import main
from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.training import load_recipe

NAMES = ("no", "yes")


def pairs_with(rows=200, seed=0, flipped=0, **more):
    """Label yes where sentence 2 repeats sentence 1; the first `flipped` rows say the opposite."""
    rng = np.random.default_rng(seed)
    words = [f"word{i}" for i in range(40)]
    labels = rng.integers(0, 2, rows)
    first = [" ".join(rng.choice(words, 5, replace=False)) + f" {i}" for i in range(rows)]
    second = [
        text if label else " ".join(rng.choice(words, 6, replace=False))
        for text, label in zip(first, labels)
    ]
    labels[:flipped] = 1 - labels[:flipped]
    return PairDataset(first, second, labels, label_names=NAMES, **more)


def recipe():
    return load_recipe("bag_of_words", "pairs")


@pytest.fixture(scope="module")
def found():
    base = pairs_with(flipped=12, ids=[f"id{i}" for i in range(200)])
    more = PairDataset(
        [base.sentence1[50], base.sentence1[60].upper(), "a", ""],
        [base.sentence2[50], base.sentence2[60], "b", "c"],
        [1 - base.labels[50], base.labels[60], 0, 1],
        label_names=NAMES,
    )
    pairs = PairDataset(
        base.sentence1 + more.sentence1,
        base.sentence2 + more.sentence2,
        [*base.labels, *more.labels],
        label_names=NAMES,
        ids=[*base.ids, *"wxyz"],
        name="<script>alert(1)</script>",
    )
    other = PairDataset([base.sentence1[3], "new"], [base.sentence2[3], base.sentence2[4]], [0, 1])
    return pairs, audit(pairs, recipe(), folds=3, others={"test": other}, progress=False)


def test_planted_labels_are_among_the_first_suspects(found):
    pairs, report = found
    rows = [one["row"] for one in report["suspects"]]
    planted = set(range(1, 13))
    assert len(planted & set(rows[:14])) >= 6  # by chance: fewer than one
    assert len(rows) < 30
    first = report["suspects"][0]
    assert first["label"] != first["answer"] and first["probability"] > first["of_label"]
    assert first["sentence1"] == pairs.sentence1[first["row"] - 1]
    assert first["id"] == pairs.ids[first["row"] - 1]
    assert f"{len(rows):,} labels" in " ".join(report["notes"])


def test_repeats_conflicts_and_leaks_are_counted(found):
    pairs, report = found
    (conflict,) = report["conflicts"]
    assert sorted(row for rows in conflict["labels"].values() for row in rows) == [51, 201]
    counts = report["repeats"]
    assert counts["repeated"] == 2 and counts["conflicting"] == 2 and counts["empty"] == 1
    assert counts["same_sentence"] > 50
    leak = report["leaks"]["test"]
    assert (leak["shared_pairs"], leak["shared_sentences"]) == (1, leak["sentences"] - 1)
    notes = " ".join(report["notes"])
    assert "1 of 2 test pairs are also among the audited ones" in notes
    assert "2 rows have a pair that also has another label" in notes


def test_shortcuts_and_balance(found):
    pairs, report = found
    assert report["balance"] == pairs.label_counts()
    # Words that both have decide; sentence 2 alone does too, by the number at its end.
    assert report["shortcuts"]["word overlap only"] > 0.85
    assert "A model that sees word overlap only reaches" in " ".join(report["notes"])
    assert report["answers"]["majority"] == max(report["balance"].values()) / len(pairs)


def test_the_page_and_the_files(found, tmp_path):
    _, report = found
    (tmp_path / "out").mkdir()
    (tmp_path / "out/audit.html").symlink_to(tmp_path / "secret")
    save_audit(report, tmp_path / "out")
    assert not (tmp_path / "secret").exists()
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"audit.html", "audit.json", "audit.csv", "audit.md"}
    page = (tmp_path / "out/audit.html").read_text("utf-8")
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page
    assert "http" not in page.replace("http-equiv", "") and "default-src 'none'" in page
    assert json.loads((tmp_path / "out/audit.json").read_text("utf-8")) == report
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="Cannot write"):
        save_audit(report, tmp_path / "file")


def test_scores_and_what_cannot_be_audited(tmp_path):
    base = pairs_with(80)
    scores = base.labels * 4 + 0.5
    scores[7] = 4.5 - scores[7] + 0.5
    scored = PairDataset(base.sentence1, base.sentence2, scores)
    report = audit(scored, recipe(), folds=2, progress=False)
    assert report["suspects"][0]["row"] == 8
    assert re.search(r"\(.*\) are predicted far from their score", "\n".join(report["notes"]))
    for one, two in (
        ("a", "b"),
        ("b", "a"),
    ):  # two scores in one order, one of them in the other order
        more = PairDataset(
            [*base.sentence1, one, one, two],
            [*base.sentence2, two, two, one],
            [*(base.labels * 4 + 0.1), 0.4, 0.8, 0.4],
        )
        report = audit(more, recipe(), folds=2, progress=False)
        assert {"0.4": [81], "0.8": [82]} in [found["labels"] for found in report["conflicts"]]
        assert report["repeats"]["other_order_other_label"] == 1
    save_audit(report, tmp_path / "scores")
    with pytest.raises(InputError, match="All 20 pairs have the same label"):
        audit(PairDataset(["a"] * 20, ["b"] * 20, [1] * 20, label_names=NAMES), recipe())
    with pytest.raises(InputError, match="folds=300; expected 2 to 80"):
        audit(base, recipe(), folds=300)
    with pytest.raises(InputError, match="have no labels"):
        audit(PairDataset(["a"] * 9, ["b"] * 9), recipe())


def test_the_command(tmp_path, capsys):
    def write(path, pairs):
        rows = zip(pairs.sentence1, pairs.sentence2, pairs.labels)
        lines = [f"{one}\t{two}\t{NAMES[label]}" for one, two, label in rows]
        path.write_text("\n".join(["sentence1\tsentence2\tlabel", *lines]))
        return str(path)

    def run(status, *arguments):
        with pytest.raises(SystemExit, match=f"^{status}$"):
            main(["audit", *arguments])
        return capsys.readouterr()

    pairs = pairs_with(60, flipped=2)
    folder, out = tmp_path / "data", tmp_path / "out"
    folder.mkdir()
    file = write(folder / "train.tsv", pairs)
    other = write(folder / "test.tsv", pairs.select(range(3)))
    text = run(0, file, "--test", other, "--out", str(out)).out
    assert "3 of 3 test.tsv pairs are also among" in text
    again = write(tmp_path / "test.tsv", pairs.select(range(5)))
    text = run(0, file, "--test", other, "--test", again).out
    assert "3 of 3 test.tsv pairs" in text and f"5 of 5 {again} pairs" in text
    few = run(2, write(tmp_path / "few.tsv", pairs.select(range(4)))).err
    bare = tmp_path / "bare.tsv"
    bare.write_text("s1\ts2\tverdict\n" + "a\tb\tyes\n" * 9)
    line = run(2, str(bare)).err
    assert "has no labels. Name their column, such as --columns s1,s2,verdict" in line
    assert "backend" not in line
    assert "has 4 pairs. An audit needs at least 5" in few
    text = run(0, file, "--test", other, "--out", str(out)).out
    assert "rows whose label is probably wrong" in text
    assert json.loads((out / "audit.json").read_text())["rows"] == 60
    shown = run(0, str(folder))
    assert re.search("auditing 5. pairs", shown.err)
    assert re.search("[1-3] of 3 test pairs are also among", shown.out)
    assert f"next: keras-sentmatch audit {folder} --out audit" in shown.err
    (folder / "train.tsv").unlink()
    assert "no train part. It has test" in run(2, str(folder)).err
