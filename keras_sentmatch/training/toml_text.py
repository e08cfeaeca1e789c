"""Writes the TOML that recipes need: tables of strings, numbers, booleans and flat lists."""

import json
import re
from collections.abc import Mapping
from typing import Any

from keras_sentmatch.errors import InputError


def to_toml(tables: Mapping[str, Any]) -> str:
    """TOML text of a mapping of values and (nested) tables.

    Args:
        tables: Strings, booleans, integers, floats, flat lists of these, and mappings of them.

    Returns:
        Text that `tomllib.loads` reads back as an equal mapping (tuples come back as lists).

    Raises:
        InputError: A value that TOML cannot hold, such as None.

    Example:

    ```python
    from keras_sentmatch.training.toml_text import to_toml

    print(to_toml({"name": "drcn", "training": {"epochs": 3}}))
    ```
    """
    return "\n".join(_lines(tables, ())).strip() + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    nested = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    lines = [f"[{'.'.join(map(_key, path))}]"] if path and (plain or not nested) else []
    lines += [f"{_key(key)} = {_value(value, (*path, key))}" for key, value in plain.items()]
    for key, value in nested.items():
        lines += ["", *_lines(value, (*path, key))]
    return lines


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)


def _value(value: Any, path: tuple[str, ...]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # TOML's basic strings have JSON's escapes, and want DEL escaped too.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item, path) for item in value) + "]"
    raise InputError(
        f"{'.'.join(path)} is {value!r}, which a recipe cannot hold; expected a string, a number, "
        "true/false or a list of these. To mean the default, leave the key out."
    )
