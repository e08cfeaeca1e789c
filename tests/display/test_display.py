"""Pictures, tables, reports and progress."""

import logging

import numpy as np
import pytest
from matplotlib.image import imread

from keras_sentmatch.display import figures, progress
from keras_sentmatch.display.rendering import render
from keras_sentmatch.display.tables import cell, markdown_table, printable, shown, write_report
from keras_sentmatch.metrics.decisions import calibrate_predictions

NAMES = ("no", "yes")


@pytest.fixture
def drawn(monkeypatch):
    """The figures that are drawn, which are written too."""
    found, write = [], figures.save_png
    monkeypatch.setattr(figures, "save_png", lambda f, png: found.append(f) or write(f, png))
    return found


def test_pictures_show_what_they_are_given(drawn, tmp_path):
    history, png = tmp_path / "history.csv", tmp_path / "x.png"
    history.write_text(
        "epoch,accuracy,learning_rate,loss,val_accuracy,val_loss,val_map\n"
        "0,0.5,0.1,1.0,0.4,1.1,0.3\n1,0.6,0.1,0.9,0.5,1.0,nan\n"
    )
    p = np.array([[0.9, 0.1]] * 4)
    assert figures.learning_curve(history, png) == png and imread(png).shape[2] == 4
    figures.confusion_matrix([0, 0, 0, 1], [1, 1, 0, 1], NAMES, png)
    figures.precision_recall([0, 0, 0, 1], p, NAMES, png)
    figures.reliability_diagram(calibrate_predictions([0, 0, 0, 1], p, NAMES), png)
    curves, matrix, recall, (before, after, *counts) = (figure.axes for figure in drawn)
    assert [axis.get_title() for axis in curves] == ["accuracy", "loss", "map"]
    texts = {text.get_position(): text.get_text() for text in matrix[0].texts}
    assert texts == {(0, 0): "1", (1, 0): "2", (0, 1): "0", (1, 1): "1"}  # column, row
    assert len(recall[0].get_legend().get_texts()) == 2
    titles = [axis.get_title() for axis in (before, after)]
    assert titles == ["before: ECE 0.150", "after: ECE 0.000"]
    assert [bar.get_height() for bar in before.patches][13] == 0.75
    assert [bar.get_height() for bar in counts[0].patches][13] == 4


def test_control_characters_are_escapes():
    assert (
        printable("a\x1b[2J\x9b\x7f\u202e\ud800\n") == r"a\u001b[2J\u009b\u007f\u202e\ud800\u000a"
    )
    assert printable("a\tb\x1b\n", keep="\n\t") == "a\tb\\u001b\n"
    plain = "é 中文 👩‍👩‍👧 שלום ΣΑΣ\u200c"
    assert printable(plain) == shown(plain) == plain
    assert cell("a\n b|\x1b") == r"a b\|\\u001b"
    assert "\x1b" not in "".join(markdown_table(["x"], [["\x1b[31m"]]))
    cells = [shown(value) for value in (1234, 0.5, 2.14e-9, -2e-5, 0.0, None)]
    assert cells == ["1,234", "0.5000", "2.1e-09", "-2.0e-05", "0.0000", ""]
    report = {"rows": 3, "metric": "accuracy", "samples": 9}
    text = render("compare.md", data="own\x9b31m\x07", report=report, tables=[(["x"], [["\x1b"]])])
    assert r"own\u009b31m\u0007" in text and not {"\x1b", "\x9b", "\x07"} & set(text)


def test_no_cell_of_a_report_is_a_formula(tmp_path):
    rows = [["=HYPERLINK(1)", -0.5, None], ["+1", 2, "-x"], ["@a", 3, "a=b"]]
    (tmp_path / "secret").write_text("mine")
    for suffix in ("json", "md", "csv"):
        (tmp_path / f"errors.{suffix}").symlink_to("secret")
    columns = ["category", "accuracy", "rule"]
    write_report(tmp_path, "errors", {"odd": "\ud800"}, "\ud800", columns, rows)
    assert (tmp_path / "secret").read_text() == "mine", "links are replaced, not followed"
    lines = (tmp_path / "errors.csv").read_text().splitlines()
    assert lines[1:] == ["'=HYPERLINK(1),-0.5,", "'+1,2,'-x", "'@a,3,a=b"]


def test_without_a_terminal_progress_is_a_line_per_minute(monkeypatch, caplog):
    clock = iter([0.0, 30.0, 61.0, 90.0, 122.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock, 999.0))
    caplog.set_level(logging.INFO, "keras_sentmatch.display.progress")
    with progress.progress_bar("scoring", 0) as show:
        show(10)
        show(20, 80)
        show(30, 80)
        show(40)
    assert [record.getMessage() for record in caplog.records] == [
        "scoring: 20 of 80, 3 min left",
        "scoring: 40",
    ]
    with progress.progress_bar("nothing", 9, enabled=False) as show:
        show(9)
    assert len(caplog.records) == 2
