"""Run the tutorials and write their pages, with what they print and draw.

    python docs/tools/tutorials.py [NAME …]

A tutorial is a Python file in docs/tutorials. A string that stands alone is text in Markdown, everything
else is code. A line that ends in `# in a test: VALUE` gets this value in the tests, which run every
tutorial with fewer pairs. What the code prints stands below it, and so does each picture that it writes.
"""

import ast
import contextlib
import io
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "tutorials"
IN_A_TEST = re.compile(r"^(\s*[\w, ]+ = )(.+?)  # in a test: (.+)$", re.MULTILINE)


def cells(source: str) -> Iterator[tuple[str, str]]:
    """Yield each cell of a tutorial: its kind, `text` or `code`, and its content."""
    lines = source.splitlines()
    start = 0
    for node in ast.parse(source).body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield from code_cell(lines[start : node.lineno - 1])
            yield "text", str(node.value.value).strip()
            start = node.end_lineno or 0
    yield from code_cell(lines[start:])


def code_cell(lines: list[str]) -> Iterator[tuple[str, str]]:
    code = "\n".join(lines).strip("\n")
    if code:
        yield "code", code


def shown(code: str) -> str:
    """Return code as the page shows it: without the values of the tests."""
    return IN_A_TEST.sub(r"\1\2", code)


def shortened(source: str) -> str:
    """Return a tutorial as the tests run it."""
    return IN_A_TEST.sub(r"\1\3", source)


def page(path: Path) -> str:
    """Run a tutorial in a new folder, and return its page. Pictures go to its folder of images."""
    images = FOLDER / "images"
    images.mkdir(exist_ok=True)
    text: list[str] = []
    names: dict[str, Any] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for kind, content in cells(path.read_text("utf-8")):
            if kind == "text":
                text += [content, ""]
                continue
            before = set(Path().glob("*.png"))
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(content, str(path), "exec"), names)
            text += ["```python", shown(content), "```", ""]
            if output.getvalue().strip():
                text += ["```text", output.getvalue().strip().replace(folder, "."), "```", ""]
            for picture in sorted(set(Path().glob("*.png")) - before):
                name = f"{path.stem}-{picture.name}"
                shutil.copyfile(picture, images / name)
                text += [f"![{picture.stem.replace('-', ' ')}](images/{name})", ""]
    note = f"This page was made by running [{path.name}]({path.name})."
    return "\n".join([*text, note]) + "\n"


def main() -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    for path in [FOLDER / f"{name}.py" for name in sys.argv[1:]] or sorted(FOLDER.glob("*.py")):
        path.with_suffix(".md").write_text(page(path), "utf-8")


if __name__ == "__main__":
    main()
