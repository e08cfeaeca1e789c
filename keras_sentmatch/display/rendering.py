"""Text from the jinja2 templates in `templates/`."""

import base64
import hashlib
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

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
_TEMPLATES.globals["table"] = lambda columns, rows: "\n".join(markdown_table(columns, rows))
_TEMPLATES.globals["source"] = lambda name: _TEMPLATES.get_template(name).render()
_TEMPLATES.globals["script_file"] = ""  # of pages that have no script


def _csp_hash(script: str) -> str:
    """What a Content Security Policy calls an inline script, so that only this one runs."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


_TEMPLATES.filters["csp_hash"] = _csp_hash


def render(template: str, **values: Any) -> str:
    """The text of a template, such as `run_card.md`, filled with values."""
    return _TEMPLATES.get_template(template).render(values)
