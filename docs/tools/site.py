"""What mkdocs adds to the pages in docs/: the API reference, source code, rows of results and equations.

`mkdocs.yml` names this file as a hook. README.md becomes the home page and CONTRIBUTING.md a page of its
own, so that each text exists once. Links between files of the repository work on both sides.
"""

import ast
import importlib
import posixpath
import re
import textwrap
from functools import partial
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import keras_sentmatch

ROOT = Path(__file__).resolve().parents[2]
PAGES = {  # files of the repository that are pages of the site
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
}
RESULTS = ROOT / "benchmarks" / "results"
CODE = ("applications", "tuning", "keras_sentmatch/layers", "keras_sentmatch/ops", "docs/tutorials")
CODE_LINK = re.compile(r"^\[`[^`]+`\]\((\S+\.py)#([\w.]+)\)$", re.MULTILINE)  # alone on its line
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")


def link_package() -> None:
    """Put links where griffe looks for the package: pyproject.toml maps two folders into it."""
    package = ROOT / "build" / "package" / "keras_sentmatch"
    package.mkdir(parents=True, exist_ok=True)
    for path in [*(ROOT / "keras_sentmatch").iterdir(), ROOT / "applications", ROOT / "tuning"]:
        link = package / path.name
        link.unlink(missing_ok=True)
        link.symlink_to(path)


link_package()  # before mkdocstrings looks for it


def on_config(config: MkDocsConfig) -> None:
    """Add a page per public package to the navigation."""
    (section,) = (entry["API"] for entry in config.nav or [] if "API" in entry)
    section += [f"api/{package}.md" for package in packages()]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages that are not in docs/."""
    made = {page: (ROOT / name).read_text("utf-8") for name, page in PAGES.items()}
    made |= reference()
    made |= {source_page(path): source(path) for path in code()}
    made["rows.md"] = list_rows()
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    for path in rows():
        files.append(File.generated(config, f"rows/{path}", abs_src_path=str(RESULTS / path)))
    files.append(File.generated(config, "LICENSE.txt", abs_src_path=str(ROOT / "LICENSE")))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to files of the repository lead to their pages."""
    own = {page: name for name, page in PAGES.items()}
    name = own.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def replace(match: re.Match[str]) -> str:
        target, anchor = match[1], match[2] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
        found, anchor = site_path(path, anchor)
        return posixpath.relpath(found, posixpath.dirname(page.file.src_uri)) + anchor

    return LINK.sub(replace, CODE_LINK.sub(partial(with_code, name), markdown))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Write equations as MathML, which browsers draw without a script."""

    def equation(match: re.Match[str]) -> str:
        text = match[2].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        return convert(text, display="block" if match[1] == "[" else "inline")

    return re.sub(
        r'<(?:span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</(?:span|div)>',
        equation,
        html,
        flags=re.S,
    )


def with_code(page: str, match: re.Match[str]) -> str:
    """Add the code of a function, without its docstring, below a link to it."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), match[1]))
    text = (ROOT / path).read_text("utf-8")
    node = definition(path, match[2])
    first, last = node.lineno, node.end_lineno or 0
    lines = text.splitlines()
    if ast.get_docstring(node):
        doc = node.body[0]
        lines[doc.lineno - 1 : doc.end_lineno] = [""] * ((doc.end_lineno or 0) - doc.lineno + 1)
    code = textwrap.dedent("\n".join(line for line in lines[first - 1 : last] if line))
    return f"{match[0]}\n\n```python\n{code}\n```"


def site_path(path: str, anchor: str) -> tuple[str, str]:
    """Return the page of a file of the repository, and the anchor in it."""
    if path in PAGES:
        return PAGES[path], anchor
    if path.endswith(".py") and (ROOT / path).is_file():
        return source_page(
            Path(path)
        ), anchor and f"#__codelineno-0-{definition(path, anchor[1:]).lineno}"
    if path.startswith("benchmarks/results"):
        own = path.removeprefix("benchmarks/results")
        return (f"rows{own}" if own.endswith(".csv") else "rows.md"), anchor
    if path == "LICENSE":
        return "LICENSE.txt", ""
    return path.removeprefix("docs/"), anchor


# === API reference ===


def reference() -> dict[str, str]:
    """Return a page per public package, with each of its public names, and the page that lists them."""
    pages, lines = {}, ["---\ntitle: API\n---", *head("keras_sentmatch")]
    top = [name for name in keras_sentmatch.__all__ if name not in packages()]
    for package in packages():
        module = importlib.import_module(f"keras_sentmatch.{package}")
        text = [f"---\ntitle: {package}\n---", *head(module.__name__)]
        for name in module.__all__:
            text += [f"::: {module.__name__}.{name}", ""]
        pages[f"api/{package}.md"] = "\n".join(text)
        summary = (module.__doc__ or "").strip().partition("\n\n")[0].replace("\n", " ")
        names = ", ".join(f"`{name}`" for name in module.__all__)
        lines += [f"### [`keras_sentmatch.{package}`]({package}.md)", "", summary, "", names, ""]
    lines += [line for name in top for line in (f"::: keras_sentmatch.{name}", "")]
    return {"api/index.md": "\n".join(lines)} | pages


def head(module: str) -> list[str]:
    """Return the top of a page: a module's docstring, without its members."""
    options = ["members: false", "heading_level: 1", "show_root_full_path: true"]
    return [f"::: {module}", "    options:", *(f"      {option}" for option in options), ""]


def packages() -> list[str]:
    return [n for n in keras_sentmatch.__all__ if hasattr(getattr(keras_sentmatch, n), "__all__")]


# === Source code and rows of results ===


def code() -> list[Path]:
    found = [path for folder in CODE for path in (ROOT / folder).glob("*.py")]
    return [path.relative_to(ROOT) for path in sorted(found) if path.name != "__init__.py"]


def source_page(path: Path) -> str:
    return f"source/{path.with_suffix('').as_posix()}.md"


def source(path: Path) -> str:
    text = (ROOT / path).read_text("utf-8")
    head = "---\nsearch: {exclude: true}\nhide: [navigation, toc]\n---\n"
    return f'{head}# {path.name}\n\n`{path.as_posix()}`\n\n````python linenums="1"\n{text}````\n'


def definition(path: str, name: str) -> Any:
    """Return the syntax tree of a function, a class or `Class.method`."""
    found: Any = ast.parse((ROOT / path).read_text("utf-8"))
    for part in name.split("."):
        inside = [node for node in found.body if getattr(node, "name", "") == part]
        if not inside:
            raise SystemExit(f"{path} has no {name}, to which a page links.")
        found = inside[-1]
    return found


def rows() -> list[str]:
    return sorted(path.relative_to(RESULTS).as_posix() for path in RESULTS.glob("**/*.csv"))


def list_rows() -> str:
    """Return the page that lists the files of results."""
    lines = ["# Recorded rows", "", "Each result on this site is computed from these files.", ""]
    for path in rows():
        number = (RESULTS / path).read_text("utf-8").count("\n") - 1
        lines.append(f"- [{path}](rows/{path}): {number:,} rows")
    return "\n".join(lines) + "\n"
