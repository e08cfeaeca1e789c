"""The trials of a search folder, read back from its files while it runs or when it is over."""

import csv
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.errors import InputError
from keras_sentmatch.safety import read_object

FENCE = 3.0  # interquartile ranges below the quartile: what is worse did not learn
TEXT = {"trial", "status", "backend", "error"}  # columns that hold no numbers
OF_SEED = "score_seed_"  # how the columns of seeds begin

Row = dict[str, Any]


@dataclass
class Trials:
    """What a search has found so far."""

    folder: Path
    model: str
    tuner: str
    objective: str
    data: str  # training and validation pairs, in words
    searched: dict[str, list[Any]]  # the values of each parameter; of a range its ends
    names: dict[str, str]  # short ones
    rows: list[Row]  # of `trials.csv`, numbers as numbers, None where a cell is empty
    completed: list[Row] = field(init=False)  # the best first

    def __post_init__(self) -> None:
        over = [row for row in self.rows if row["status"] == "completed"]
        self.completed = sorted(over, key=lambda row: row["score"], reverse=self.rises)

    @property
    def rises(self) -> bool:
        """Whether more is better."""
        return self.objective != "val_loss"

    @property
    def score_name(self) -> str:
        """The objective in words."""
        return self.objective.replace("val_", "validation ").replace("_", " ")

    @property
    def mattered(self) -> list[str]:
        """The parameters that had a value in any completed trial."""
        return [name for name in self.searched if self.tried(name)]

    def with_status(self, status: str) -> list[Row]:
        """The rows of a status."""
        return [row for row in self.rows if row["status"] == status]

    def scores(self, row: Row) -> list[float]:
        """The score with each seed."""
        found = [v for name, v in row.items() if name.startswith(OF_SEED) and v is not None]
        return found or [row["score"]]

    @property
    def worst(self) -> float:
        """The lowest score that is not far worse than most, which would flatten pictures."""
        scores = np.array([row["score"] for row in self.completed])
        first, third = np.quantile(scores, [0.25, 0.75])
        reach = FENCE * (third - first) or math.inf  # where most are alike
        return float(first - reach if self.rises else third + reach)

    def learned(self, score: Any) -> Any:
        """Whether a score, or each of an array, is not worse than `worst`."""
        return score >= self.worst if self.rises else score <= self.worst

    def is_range(self, name: str) -> bool:
        """Whether a parameter may be any number between two."""
        return any(row[name] not in (None, *self.searched[name]) for row in self.rows)

    def tried(self, name: str) -> list[Any]:
        """The values that finished trials had: of a list in its order, else sorted."""
        values = {row[name] for row in self.completed} - {None}
        if self.is_range(name):
            return sorted(values)
        return [value for value in self.searched[name] if value in values]

    def places(self, name: str) -> np.ndarray:
        """Each completed trial's value as a number, NaN where it did not matter: of a list its place
        among those tried, of a range its logarithm."""
        if self.is_range(name):
            return np.log10([math.nan if r[name] is None else r[name] for r in self.completed])
        place = {value: float(number) for number, value in enumerate(self.tried(name))}
        return np.array([place.get(row[name], np.nan) for row in self.completed])


def read_trials(folder: str | Path) -> Trials:
    """Reads `search.json` and `trials.csv` of a search in which a trial is completed."""
    folder = Path(folder)
    table = folder / "trials.csv"
    if not (folder / "search.json").is_file():
        raise InputError(
            f"{folder} holds no search.json: give the folder that tune --out named, such as "
            "searches/NAME."
        )
    search = read_object(folder / "search.json")
    try:
        searched, monitor = search["space"], search["training"]["monitor"]
        named = {key: search[key] for key in ("name", "tuner", "train pairs", "validation pairs")}
    except (KeyError, TypeError) as error:
        raise InputError(f"{folder / 'search.json'} lacks {error}: it is of no search.") from error
    if not table.is_file():
        raise InputError(f"{folder} has no trials.csv yet: wait until its first trial is over.")
    with open(table, newline="", encoding="utf-8") as file:
        rows = [_typed(row, searched) for row in csv.DictReader(file)]
    lacking = {"trial", "status", "score", "parameters", *searched} - {n for r in rows for n in r}
    if lacking:
        raise InputError(f"{table} has no column {', '.join(sorted(lacking))}: copy it again.")
    counts = [named[f"{part} pairs"].partition(" ")[0] for part in ("train", "validation")]
    data = f"{counts[0]} training and {counts[1]} validation pairs"
    short = {name: name.rpartition(".")[2] for name in searched} | search.get("names", {})
    trials = Trials(folder, named["name"], named["tuner"], monitor, data, searched, short, rows)
    if not trials.completed:
        raise InputError(
            f"None of the {len(rows)} trials in {table} is completed: there is nothing to report yet."
        )
    return trials


def _typed(row: dict[str, str], searched: dict[str, list[Any]]) -> Row:
    found: Row = {}
    for name, text in row.items():
        if name in TEXT or not text:
            found[name] = text or None
        elif name in searched:
            known = [value for value in searched[name] if str(value) == text]
            found[name] = known[0] if known else float(text)
        else:
            found[name] = int(text) if text.isdigit() else float(text)
    return found
