"""Markdown and HTML pages from the jinja2 templates in `templates/`."""

import base64
import hashlib
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from keras_sentmatch.display.colors import css_colors
from keras_sentmatch.display.tables import markdown_table, printable

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")),
    autoescape=select_autoescape(),  # HTML only
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    finalize=lambda value: printable(value, "\n\t") if type(value) is str else value,
)


def source(script_file: str) -> str:
    """Return the text of a script in `templates/`; "" if there is no name."""
    return _TEMPLATES.get_template(script_file).render() if script_file else ""


def content_policy(script_file: str = "", asks: bool = False) -> str:
    """Return the Content Security Policy of a page, which may run only its own inline script.

    Args:
        script_file: The name of the inline script, or "".
        asks: Whether the script may send requests to the server of the page.
    """
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    if script_file:
        digest = hashlib.sha256(source(script_file).encode()).digest()
        policy += f"; script-src 'sha256-{base64.b64encode(digest).decode()}'"
    return policy + "; connect-src 'self'" * asks


_TEMPLATES.globals.update(
    table=lambda columns, rows: "\n".join(markdown_table(columns, rows)),
    source=source,
    content_policy=content_policy,
    script_file="",  # a page without a script
    asks=False,
)


def render(template: str, **values: Any) -> str:
    """Fill a template, such as `run_card.md`, with values."""
    return _TEMPLATES.get_template(template).render(values)


def render_page(template: str, title: str, **values: Any) -> str:
    """Fill a template that extends `page.html`: one HTML document that loads no other file."""
    light, dark = css_colors()
    return render(template, title=title, light=light, dark=dark, **values)
