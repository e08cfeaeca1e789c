"""The pairs that `Matcher.predict` accepts: read in one way, or refused."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.data.formats import SENTENCES
from keras_sentmatch.data.frames import column_names, columns_of, is_frame
from keras_sentmatch.errors import InputError, argument

BOTH_SPELLINGS = (
    "Write one pair as predict(sentence1=a, sentence2=b) or predict({'sentence1': a, 'sentence2': b}). "
    "Write many pairs as a list of such dicts, as [(a, b), …] or as "
    "predict(sentence1=[a, …], sentence2=[b, …])."
)


def as_dataset(pairs: Any, sentence1: Any, sentence2: Any) -> tuple[PairDataset, bool]:
    """Return the pairs as a dataset, and whether it is a single pair."""
    if is_frame(pairs):
        return PairDataset(*sentences_of(pairs, sentence1, sentence2)), False
    if sentence1 is None and sentence2 is not None:  # predict(a, b)
        pairs, sentence1 = None, pairs
    if pairs is not None and (sentence1 is not None or sentence2 is not None):
        raise InputError("Both pairs and sentence1= or sentence2= were given. Pass one of them.")
    if isinstance(pairs, PairDataset):
        return pairs, False
    if isinstance(pairs, Mapping):
        sentence1, sentence2 = _sides(pairs, "The pair")
    elif pairs is not None:
        return PairDataset(*_columns_of_rows(pairs)), False
    if sentence1 is None or sentence2 is None:
        raise InputError(f"sentence1 or sentence2 is missing. {BOTH_SPELLINGS}")
    if isinstance(sentence1, str) and isinstance(sentence2, str):
        return PairDataset([sentence1], [sentence2]), True
    for side in (sentence1, sentence2):
        if isinstance(side, str) or not isinstance(side, Iterable):
            raise InputError(
                f"One of the sentences is {side!r:.60}. Expected two strings, or two lists of "
                f"strings. {BOTH_SPELLINGS}"
            )
    return PairDataset(list(sentence1), list(sentence2)), False


def _columns_of_rows(pairs: Any) -> tuple[list[str], list[str]]:
    """Return the two columns of pairs given as dicts or tuples."""
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise InputError(f"{pairs!r:.60} is not a pair. {BOTH_SPELLINGS}")
    sides = []
    for number, row in enumerate(pairs):
        if isinstance(row, Mapping):
            sides.append(_sides(row, f"Pair {number}"))
        elif isinstance(row, tuple) and len(row) == 2 and all(isinstance(x, str) for x in row):
            sides.append(row)
        elif isinstance(row, tuple) and any(x is None or isinstance(x, float) for x in row):
            raise InputError(f"Pair {number} is {row!r:.60}. Expected two strings.")
        elif isinstance(row, str | list | tuple):
            raise InputError(
                f"{pairs!r:.60} can be read in two ways: as pairs (sentence1, sentence2), or as "
                f"columns (all first sentences, all second ones). {BOTH_SPELLINGS}"
            )
        else:
            raise InputError(
                f"Pair {number} is a {type(row).__name__}. Expected a dict. {BOTH_SPELLINGS}"
            )
    return [first for first, _ in sides], [second for _, second in sides]


def _sides(pair: Mapping[str, Any], what: str) -> tuple[Any, Any]:
    if "sentence1" not in pair or "sentence2" not in pair:
        raise InputError(
            f"{what} has the keys {', '.join(map(str, pair)) or '(none)'}. Expected 'sentence1' and "
            "'sentence2'."
        )
    return pair["sentence1"], pair["sentence2"]


def sentences_of(
    frame: Any, sentence1: str | None = None, sentence2: str | None = None
) -> tuple[list[str], list[str]]:
    """Return the two columns of sentences, found by the given or the usual names."""
    names = column_names(frame)
    lower = {name.lower(): name for name in reversed(names)}
    # The columns of a table may be numbers.
    one, two = (None if name is None else str(name) for name in (sentence1, sentence2))
    if one is None and two is None:
        usual = next((pair for pair in SENTENCES if set(pair) <= lower.keys()), (None, None))
        one, two = (name and lower[name] for name in usual)
        if same := [n for n in names if n not in (one, two) and n.lower() in usual]:
            raise InputError(
                f"The {type(frame).__name__} has the columns {', '.join(names)}. {same[0]!r} differs "
                "from another one in case only. Rename it, or name the columns of sentences."
            )
    if one is None or two is None or not {one, two} <= set(names):
        raise InputError(
            f"The {type(frame).__name__} has the columns {', '.join(names) or '(none)'}. Name the "
            "two columns of sentences with sentence1='…' and sentence2='…'."
        )
    columns = columns_of(frame, (one, two))
    for name in (one, two):
        for row, value in enumerate(columns[name]):
            if not isinstance(value, str):
                raise InputError(
                    f"The column {name!r} has {value!r:.60} in row {row}. Expected a string. Fill in "
                    "missing values, or leave the row out."
                )
    return columns[one], columns[two]


def check_count(name: str, value: Any) -> None:
    """Refuse a value that is not an integer ≥ 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(
            f"{argument(name, value)} is too small. Expected an integer of at least 1."
        )
