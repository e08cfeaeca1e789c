"""Tables, reports and cards show no control characters."""

import pytest

from keras_sentmatch.display.rendering import render
from keras_sentmatch.display.tables import cell, markdown_table, printable, shown, write_report

pytestmark = pytest.mark.once


def test_control_characters_are_escapes():
    assert (
        printable("a\x1b[2J\x9b\x7f\u202e\ud800\n") == r"a\u001b[2J\u009b\u007f\u202e\ud800\u000a"
    )
    assert printable("a\tb\x1b\n", keep="\n\t") == "a\tb\\u001b\n"
    plain = "é 中文 👩‍👩‍👧 שלום ΣΑΣ\u200c"
    assert printable(plain) == shown(plain) == plain
    assert cell("a\n b|\x1b") == r"a b\|\\u001b"
    assert "\x1b" not in "".join(markdown_table(["x"], [["\x1b[31m"]]))


def test_cards_escape_what_names_say():
    report = {"rows": 3, "figure": "accuracy", "samples": 9}
    tables = {"matcher_columns": ["x"], "matchers": [["\x1b[2J"]], "columns": ["y"], "rows": [[1]]}
    text = render("compare.md", data="own\x9b31m\x07", report=report, **tables)
    assert r"own\u009b31m\u0007" in text and r"\u001b[2J" in text
    assert not {"\x1b", "\x9b", "\x07"} & set(text)


def test_no_cell_of_a_report_is_a_formula(tmp_path):
    rows = [["=HYPERLINK(1)", -0.5, None], ["+1", 2, "-x"], ["@a", 3, "a=b"]]
    write_report(tmp_path, "errors", {}, "", ["category", "accuracy", "rule"], rows)
    lines = (tmp_path / "errors.csv").read_text().splitlines()
    assert lines[1:] == ["'=HYPERLINK(1),-0.5,", "'+1,2,'-x", "'@a,3,a=b"]
