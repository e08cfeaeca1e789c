"""The site: it builds without a warning, loads nothing from a network, and its reference is whole."""

import html
import os
import re
import subprocess
import sys
import zlib
from pathlib import Path
from urllib.parse import unquote

import pytest

import keras_sentmatch
from tests.cross_backend import ROOT

pytest.importorskip("mkdocs")
# What a browser loads by itself: scripts, pictures and frames; styles and icons; fonts of styles.
LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*?src=[\"']?([^\"'\s>]+)"
    r"|<link\b(?![^>]*rel=[\"']?canonical)[^>]*?href=[\"']?([^\"'\s>]+)"
    r"|url\([\"']?([^\"')]+)|@import [\"']([^\"']+)"
)
ANCHOR = re.compile(r"""\b(?:id|name)=["']?([^"'\s>]+)""")
PRIVATE = re.compile(r"\._(?!_)\w*$")  # the last part: a `_module` may hold what is public


def build(folder: Path) -> None:
    """Build the site, as strictly as mkdocs can."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]


def network_sources(text: str) -> list[str]:
    """What a page or a style sheet loads from another host."""
    found = (next(filter(None, groups), "") for groups in LOADED.findall(text))
    return [source for source in found if re.match(r"(\w+:)?//", source)]


def dead_links(site: Path) -> list[str]:
    """The links between pages whose file or anchor does not exist."""
    texts = {path: path.read_text("utf-8") for path in site.rglob("*.html") if path.stem != "404"}
    anchors = {path: set(ANCHOR.findall(text)) for path, text in texts.items()}
    found = []
    for path, text in texts.items():
        for link in set(re.findall(r"""<a\b[^>]*?href=["']?([^"'\s>]+)""", text)):
            name, _, anchor = unquote(html.unescape(link)).partition("#")
            target = (path.parent / name).resolve() if name else path
            if re.match(r"\w+:", link):
                continue
            if not target.exists() or (anchor and anchor not in anchors.get(target, {anchor})):
                found.append(f"{path.relative_to(site)}: {link}")
    return sorted(found)


def public_names() -> set[str]:
    """Each name that a public package exports."""
    packages = {f"keras_sentmatch.{name}" for name in keras_sentmatch.__all__}
    found = set(packages)
    for package in packages:
        name = package.partition(".")[2]
        exported = getattr(getattr(keras_sentmatch, name), "__all__", [])
        found |= {f"{package}.{one}" for one in exported}
    return found


def inventory(site: Path) -> list[str]:
    """Every name of the API reference, from the index that other documentation links to."""
    compressed = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    lines = zlib.decompress(compressed).decode().splitlines()
    return [line.split(" ")[0] for line in lines if " py:" in line]


@pytest.mark.slow
def test_the_site(tmp_path: Path) -> None:
    """One test, since it takes 15 s to build the site, and each process would build one."""
    build(tmp_path)
    names = inventory(tmp_path)
    assert sorted(public_names() - set(names)) == [], "the reference lacks a public name"
    assert [name for name in names if PRIVATE.search(name)] == [], "it has a private one"

    files = [path for kind in ("html", "css") for path in tmp_path.rglob(f"*.{kind}")]
    assert len(files) > 60
    found = {path.name: network_sources(path.read_text("utf-8")) for path in files}
    needs = {name: sources for name, sources in found.items() if sources}
    assert needs == {}, "reading the site needs a network"
    assert dead_links(tmp_path) == []

    pages = [path.read_text("utf-8") for path in tmp_path.rglob("*.html")]
    drawn = sum(text.count("<math ") for text in pages)
    assert not [text for text in pages if 'class="arithmatex"' in text], (
        "an equation needs a script"
    )
    assert drawn > 50


# --- these tests can fail ---


def test_sources_of_the_network_are_seen() -> None:
    page = '<script src="https://a.example/x.js"></script><link rel="stylesheet" href="x.css">'
    page += '<a href="https://b.example"></a><link href=//c.example/f.woff><style>@import "d.css";'
    assert network_sources(page) == ["https://a.example/x.js", "//c.example/f.woff"]
    assert network_sources("p { src: url(https://a.example/f) }") == ["https://a.example/f"]


def test_dead_links_are_seen(tmp_path: Path) -> None:
    links = '<a href="b.html#x"></a><a href="b.html#no"></a><a href="no.html"></a><a href="#y"></a>'
    (tmp_path / "a.html").write_text(links)
    (tmp_path / "b.html").write_text('<p id="x"></p><a href="https://example.org/#z"></a>')
    assert dead_links(tmp_path) == ["a.html: #y", "a.html: b.html#no", "a.html: no.html"]


def test_public_names_are_found() -> None:
    names = public_names()
    assert {"keras_sentmatch.Matcher", "keras_sentmatch.ops.masked_mean"} <= names
    assert PRIVATE.search("keras_sentmatch._a") and PRIVATE.search("a.B._c")
    assert not PRIVATE.search("a.B.__init__") and not PRIVATE.search("a._b.C")
