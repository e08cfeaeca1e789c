"""The pages: links lead somewhere, code compiles, commands parse, tables are whole."""

import ast
import importlib
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main

from keras_sentmatch.cli import app
from keras_sentmatch.cli.catalog import BUILT_IN
from keras_sentmatch.data.formats import list_formats
from keras_sentmatch.training.config import CONFIGS
from tests.case import value

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INSTALL_FOR_TESTS = 'pip install -e ".[torch,test]"'

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def blocks(text: str, *languages: str) -> list[str]:
    return [code for language, code in FENCE.findall(text) if language in languages]


def anchors(page: Path) -> set[str]:
    """What GitHub makes of the headings; of code, the functions, classes and `Class.method`."""
    text = page.read_text("utf-8")
    if page.suffix == ".py":
        return {name for node in ast.parse(text).body for name in defined(node)}
    titles = re.findall(r"^#+ +(.+)$", FENCE.sub("", text), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", title.lower()) for title in titles)
    return {title.strip().replace(" ", "-") for title in plain}


def defined(node: ast.AST, prefix: str = "") -> list[str]:
    if not isinstance(node, (ast.ClassDef, ast.FunctionDef)):
        return []
    names = [name for child in node.body for name in defined(child, f"{prefix}{node.name}.")]
    return [prefix + node.name, *names]


def broken_links(page: Path) -> list[str]:
    """The relative links of a page whose file or heading does not exist."""
    text = FENCE.sub("", page.read_text("utf-8"))
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"\w+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        known = target.exists() and (not anchor or anchor in anchors(target))
        if not known:
            broken.append(link)
    return broken


def commands(text: str) -> list[str]:
    """Every `keras-sentmatch …` in a block of shell commands or in a line's code."""
    places = blocks(text, "bash", "sh") + re.findall(r"`([^`\n]+)`", FENCE.sub("", text))
    lines = (line for place in places for line in place.replace("\\\n", " ").splitlines())
    parts = (part.strip() for line in lines for part in re.split(r"&&|\||;", line))
    parts = (re.sub(r"^(\w+=\S+ +)+", "", part) for part in parts)  # KERAS_BACKEND=jax …
    return [part for part in parts if part.startswith("keras-sentmatch ")]


def parse(line: str) -> None:
    """Raises where a command line names no command, or an option or a value it does not take."""
    group = typer.main.get_command(app)
    words = shlex.split(line, comments=True)[1:]
    while words[:1] == ["--code"]:
        del words[:2]
    name, *rest = words
    if name not in ("--version", "--help"):
        command = group.commands[name]  # type: ignore[attr-defined]
        if rest != ["--help"]:
            command.make_context(name, rest)


def faults_of_form(text: str) -> list[str]:
    """Return the faults of a page's Markdown: headings, fences, white space."""
    found = [line for line in text.splitlines() if line != line.rstrip()]
    fences = re.findall(r"^```(.*)$", text, re.MULTILINE)
    found += ["a fence without a language" for mark in fences[::2] if not mark]
    levels = [len(marks) for marks in re.findall(r"^(#+) ", FENCE.sub("", text), re.MULTILINE)]
    found += ["not one title, first"] * (levels[:1] != [1] or levels.count(1) != 1)
    found += [f"level {b} below {a}" for a, b in zip(levels, levels[1:]) if b > a + 1]
    return found + ["no line feed at the end"] * (not text.endswith("\n"))


@each_page
def test_markdown_is_well_formed(page: Path) -> None:
    assert faults_of_form(page.read_text("utf-8")) == []


def test_the_pages_are_short() -> None:
    words = {page.name: len(re.findall(r"\S*\w\S*", page.read_text("utf-8"))) for page in PAGES}
    assert sum(words.values()) <= 35_000
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 120


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


@each_page
def test_named_source_files_exist(page: Path) -> None:
    names = re.findall(r"`([\w.-]+(?:/[\w.-]+)+\.(?:py|toml))`", page.read_text("utf-8"))
    assert [n for n in names if not (ROOT / n).is_file() and not re.search("NAME|means", n)] == []


@each_page
def test_python_blocks_compile_and_import_what_exists(page: Path) -> None:
    for code in blocks(page.read_text("utf-8"), "python"):
        tree = ast.parse(code, str(page))
        compile(tree, str(page), "exec")
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("keras_sent"):
                module = importlib.import_module(node.module or "")
                missing = [alias.name for alias in node.names if not hasattr(module, alias.name)]
                assert not missing, f"{node.module} has no {missing}"


@each_page
def test_command_lines_parse(page: Path) -> None:
    for line in commands(page.read_text("utf-8")):
        try:
            parse(line)
        except Exception as error:
            message = getattr(error, "format_message", lambda error=error: repr(error))()
            pytest.fail(f"{line}: {message}")


def test_the_tests_that_the_page_on_security_names_exist() -> None:
    files = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    named = re.findall(r"`(test_\w+)`", (ROOT / "docs" / "security.md").read_text("utf-8"))
    assert len(named) > 5 and [name for name in named if f"def {name}(" not in files] == []


def test_the_ways_to_the_tests_agree() -> None:
    readme, guide, make, ci = (
        (ROOT / name).read_text("utf-8")
        for name in ("README.md", "CONTRIBUTING.md", "Makefile", ".ci/run")
    )
    assert f"{INSTALL_FOR_TESTS} && pytest\n" in readme and INSTALL_FOR_TESTS in guide
    assert INSTALL_FOR_TESTS in make
    assert 'pip install -e ".[dev]"\n' in ci and " pytest -m " in ci


@pytest.mark.parametrize("row", [*BUILT_IN, *list_formats()], ids=lambda row: row[0])
def test_the_page_on_data_has_every_format(row: tuple) -> None:
    page = (ROOT / "docs" / "data.md").read_text("utf-8")
    assert format_row(row) in page.splitlines()


def format_row(row: tuple) -> str:
    """A row of the table in docs/data.md, as `keras-sentmatch models --datasets` has it."""
    name, description, files, labels, metric = row
    files = ", ".join(f"`{file}`" for file in files.split(", ") if file)
    return f"| `{name}` | {description} | {files} | {', '.join(labels)} | {metric} |"


def test_the_pages_name_everything_public() -> None:
    ops = importlib.import_module("keras_sentmatch.ops")
    layers = importlib.import_module("keras_sentmatch.layers")
    applications = importlib.import_module("keras_sentmatch.applications")
    models = [applications.get_model_class(name) for name in applications.list_models()]
    wanted = {
        "ops-and-layers.md": [*ops.__all__, *layers.__all__],
        "training.md": [key for config in CONFIGS.values() for key in config.keys()],
        "models.md": [preset for model in models for preset in model.presets]
        + applications.list_models(),
        "command-line.md": list(typer.main.get_command(app).commands),  # type: ignore[attr-defined]
    }
    for page, names in wanted.items():
        text = (ROOT / "docs" / page).read_text("utf-8")
        assert [name for name in names if f"`{name}`" not in text] == [], page


def test_the_model_of_the_page_agrees_with_its_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    applications = importlib.import_module("keras_sentmatch.applications")
    registry = importlib.import_module("keras_sentmatch.applications.registry")
    monkeypatch.setattr(registry, "_MODELS", dict(registry._MODELS))
    page = (ROOT / "docs" / "adding-a-model.md").read_text("utf-8")
    (model,), (test,) = blocks(page, "python"), blocks(page, "py")
    (tmp_path / "means.py").write_text(model, "utf-8")
    (name,) = registry.load_models(tmp_path / "means.py")
    monkeypatch.setattr(applications, "Means", registry.get_model_class(name), raising=False)
    names: dict[str, Any] = {}
    exec(compile(test, "test_means.py", "exec"), names)
    (case,) = names["CASES"]
    made = case.make()
    here, there = made(case.inputs), case.oracle(made, **case.inputs)
    np.testing.assert_allclose(value(here), there, rtol=1e-5)


# --- these tests can fail ---


def test_faults_of_form_are_seen() -> None:
    assert faults_of_form("# A\n\n## B\n\n```text\nx\n```\n") == []
    bad = "## A \n#### B\n```\nx\n```"
    assert len(faults_of_form(bad)) == 5


def test_broken_pages_are_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One title\n[a](#one-title) [b](#no) [c](no.md) [d](https://example.org/no)")
    with page.open("a") as file:
        file.write("[e](code.py#A.f) [f](code.py#A.g)")
    (tmp_path / "code.py").write_text("class A:\n    def f(self):\n        pass\n")
    assert broken_links(page) == ["#no", "no.md", "code.py#A.g"]
    text = "Say `A=1 keras-sentmatch models`.\n```bash\npip x && keras-sentmatch \\\n  train\n```\n"
    assert [line.split() for line in commands(text)] == [
        ["keras-sentmatch", "train"],
        ["keras-sentmatch", "models"],
    ]


@pytest.mark.parametrize(
    "line",
    [
        *("fly", "train --fast", "--fast", "evaluate", "train --epochs many", "datasets sick"),
        *("--code a.py", "--code a.py fly", "--code a.py train --fast", "--code a.py models --s"),
    ],
)
def test_wrong_command_lines_are_seen(line: str) -> None:
    for right in ("train drcn --epochs 2 --set training.patience=2  # a note", "--version"):
        parse(f"keras-sentmatch {right}")
    with pytest.raises(Exception):  # noqa: B017  click's own classes differ by version
        parse(f"keras-sentmatch {line}")
