"""The pairs that `Matcher.predict` accepts, read in one way or refused, and their batches."""

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
    "predict(sentence1=[a, …], sentence2=[b, …])"
)


def as_dataset(
    pairs: Any, sentence1: Any, sentence2: Any, *, start: int = 0
) -> tuple[PairDataset, bool]:
    """Return the pairs as a dataset, and whether it is a single pair; errors count from `start`."""
    if is_frame(pairs):
        return PairDataset(*sentences_of(pairs, sentence1, sentence2)), False
    if sentence1 is None and sentence2 is not None:  # predict(a, b)
        pairs, sentence1 = None, pairs
    if pairs is None:
        if sentence1 is None or sentence2 is None:
            raise InputError(f"sentence1 or sentence2 is missing. {BOTH_SPELLINGS}.")
        pairs = {"sentence1": sentence1, "sentence2": sentence2}
    elif sentence1 is not None or sentence2 is not None:
        raise InputError("Both pairs and sentence1= or sentence2= were given. Pass one of them.")
    if isinstance(pairs, PairDataset):
        return pairs, False
    if isinstance(pairs, Mapping):
        first, second = _sides(pairs, "The pair")
        single = isinstance(first, str) and isinstance(second, str)
        if single:
            first, second = [first], [second]
        for side in (first, second):
            if isinstance(side, str) or not isinstance(side, Iterable):
                raise InputError(
                    f"One of the sentences is {side!r:.60}. Expected two strings, or two lists of "
                    f"strings. {BOTH_SPELLINGS}."
                )
        return PairDataset(list(first), list(second)), single
    if isinstance(pairs, str) or not isinstance(pairs, Iterable):
        raise InputError(f"{pairs!r:.60} is not a pair. {BOTH_SPELLINGS}.")
    sides = []
    for number, row in enumerate(pairs, start):
        if isinstance(row, tuple) and len(row) == 2 and all(isinstance(x, str) for x in row):
            row = {"sentence1": row[0], "sentence2": row[1]}
        if isinstance(row, str | list | tuple):
            raise InputError(
                f"{pairs!r:.60} can be read in two ways: as pairs (sentence1, sentence2), or as "
                f"columns (all first sentences, all second ones). {BOTH_SPELLINGS}."
            )
        if not isinstance(row, Mapping):
            raise InputError(
                f"Pair {number} is a {type(row).__name__}. Expected a dict. {BOTH_SPELLINGS}."
            )
        sides.append(_sides(row, f"Pair {number}"))
        for side, sentence in zip(("sentence1", "sentence2"), sides[-1]):
            if not isinstance(sentence, str):
                raise InputError(f"{side}[{number}] is {sentence!r:.60}. Expected a string.")
    return PairDataset([first for first, _ in sides], [second for _, second in sides]), False


def sentences_of(
    frame: Any, sentence1: str | None = None, sentence2: str | None = None
) -> tuple[list[str], list[str]]:
    """Return the two columns of sentences, found by the given or the usual names."""
    names = column_names(frame)
    lower = {name.lower(): name for name in reversed(names)}
    one, two = sentence1, sentence2
    if one is None and two is None:
        usual = next((pair for pair in SENTENCES if set(pair) <= lower.keys()), (None, None))
        one, two = (name and lower[name] for name in usual)
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


def as_columns(query: Any, candidates: Any) -> tuple[list[str], list[str]]:
    """Return the pairs of one query with each candidate, as two columns."""
    if not isinstance(query, str):
        raise InputError(f"The query is {query!r:.60}. Expected one string.")
    if isinstance(candidates, str):
        raise InputError("The candidates are one string. Expected a list of strings.")
    second = list(candidates)
    return [query] * len(second), second


def check_count(name: str, value: Any) -> None:
    """Refuse a value that is not an integer ≥ 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(
            f"{argument(name, value)} is too small. Expected an integer of at least 1."
        )


def _sides(pair: Mapping[str, Any], what: str) -> tuple[Any, Any]:
    if "sentence1" not in pair or "sentence2" not in pair:
        raise InputError(
            f"{what} has the keys {', '.join(map(str, pair)) or '(none)'}. Expected 'sentence1' and "
            "'sentence2'."
        )
    return pair["sentence1"], pair["sentence2"]
