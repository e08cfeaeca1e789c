"""An extension of griffe: sections of docstrings that it does not know, as the reference shows them."""

import re
import textwrap
from typing import Any

import griffe

SECTION = re.compile(
    r"^(Example|Call arguments|Output shape|Masking|References):\n(.*?)(?=^[A-Z][\w ]+:\n|\Z)",
    re.DOTALL | re.MULTILINE,
)
ENTRY = re.compile(r"^(\w+(?:, \w+)*): ", re.MULTILINE)


class Sections(griffe.Extension):
    """Turn an example into code, and every other section into a title with text or a list."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring:
            obj.docstring.value = SECTION.sub(shown, obj.docstring.value)


def shown(match: re.Match[str]) -> str:
    title, text = match[1], textwrap.dedent(match[2]).strip()
    if title == "Example":
        return f"Examples:\n{textwrap.indent(text, '    ')}\n\n"
    if title == "Call arguments":
        text = ENTRY.sub(r"- **`\1`**: ", text)
    return f"**{title}:**\n\n{text}\n\n"
