"""docs/errors.md holds the messages that the tests provoke."""

import importlib.util

import pytest

from tests.cross_backend import ROOT


@pytest.mark.once
def test_the_page_of_errors_is_what_its_script_makes() -> None:
    spec = importlib.util.spec_from_file_location("errors_page", ROOT / "docs/tools/errors.py")
    assert spec and spec.loader
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    made = tool.page()
    assert made.count("\n") > 150, "most tables of messages are gone"
    assert tool.PAGE.read_text("utf-8") == made, "run python docs/tools/errors.py"
