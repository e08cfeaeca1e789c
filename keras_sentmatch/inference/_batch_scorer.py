"""BatchScorer: adds predictions to tables of pairs, for Ray, Spark and the like."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.data.frames import column_names, columns_of, is_frame, with_columns
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.ensemble import load_run
from keras_sentmatch.inference.pairs import check_count
from keras_sentmatch.inference.run_folder import is_packaged

SIDES = ("sentence1", "sentence2")
# The runs of this process by path and engine, and their dates.
_loaded: dict[tuple[str, str | None], tuple[Any, Any]] = {}


class BatchScorer:
    """Adds the predictions of a run to tables of pairs. It can be pickled.

    A table is a pandas DataFrame, an Arrow table or record batch, or a dict of NumPy arrays with the
    columns `sentence1` and `sentence2`. The columns of `Matcher.predict` are added. Each process
    loads the run when it first scores, and again only if the run was trained or calibrated since.

    Args:
        run: A run folder that every worker can read.
        engine: What runs the model: `"keras"` or `"onnx"`. Defaults to `None`, see `Matcher.load`.
        batch_size: Maximum number of pairs per batch. Defaults to `64`.

    Raises:
        InputError: The table has another type or lacks a column, or a sentence is not a string.

    Example:

    ```python
    from keras_sentmatch.inference import BatchScorer

    scorer = BatchScorer("runs/drcn-embedded")
    scorer({"sentence1": ["A dog runs."], "sentence2": ["An animal moves."]})["label"]
    ```
    """

    def __init__(
        self, run: str | os.PathLike[str], *, engine: str | None = None, batch_size: int = 64
    ):
        check_count("batch_size", batch_size)
        self.run = str(run if is_packaged(Path(run)) else Path(run).resolve())
        self.engine = engine
        self.batch_size = batch_size

    def __call__(self, table: Any) -> Any:
        """Return the table with the added columns."""
        if isinstance(table, Mapping):
            return {**table, **self._answers(table, list(table))}
        if is_frame(table):
            sides = columns_of(table, SIDES)
            return with_columns(table, self._answers(sides, column_names(table)))
        raise InputError(
            f"BatchScorer got a {type(table).__name__}. Expected a pandas DataFrame, an Arrow table "
            "or a dict of NumPy arrays."
        )

    def tables(self, tables: Iterable[Any]) -> Iterator[Any]:
        """Score one table after the other, as Spark's `mapInPandas` and `mapInArrow` need it."""
        return map(self, tables)

    def _answers(self, table: Any, names: list[str]) -> dict[str, np.ndarray]:
        if missing := [name for name in SIDES if name not in names]:
            raise InputError(
                f"The table has the columns {', '.join(map(str, names)) or '(none)'}. Expected also "
                f"{' and '.join(map(repr, missing))}. Rename its columns."
            )
        key = self.run, self.engine
        dates = _dates(Path(self.run))
        if key not in _loaded or dates not in ((), _loaded[key][1]):
            _loaded[key] = load_run(self.run, self.engine), dates
        matcher = _loaded[key][0]
        scores = matcher.predict_proba(
            sentence1=table["sentence1"], sentence2=table["sentence2"], batch_size=self.batch_size
        )
        found: dict[str, np.ndarray] = matcher.answer_columns(scores, names)
        return found


def _dates(run: Path) -> tuple[tuple[int, int], ...]:
    """Return when the cards of a run were written, which saving and calibrating do; none if it is gone."""
    cards = [run / "ensemble.json", run / "matcher.json", *sorted(run.glob("seed-*/matcher.json"))]
    found = [card.stat() for card in cards if card.is_file()]
    return tuple((one.st_mtime_ns, one.st_ino) for one in found)
