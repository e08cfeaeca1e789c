"""The pairs that a run learned from, and the predictions of models that did not learn from them."""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.data.splits import plain_sides
from keras_sentmatch.errors import InputError
from keras_sentmatch.safety import COPY, inside, read_arrays

FILE = "learned.npz"  # in a run folder


@dataclass(frozen=True)
class LearnedPairs:
    """Digests of the pairs that a run learned from.

    A run that was trained with folds learned from all its pairs. It also has the out-of-fold
    scores, each of the model of the fold that did not learn from the pair.

    Attributes:
        keys: The digests, `[pairs]`. The pairs with out-of-fold scores come first, `plain_keys` after them.
        scores: Out-of-fold scores before any temperature, `[rows, classes]` or `[rows]`.
        labels: Gold labels of these rows.
        folds: Number of the fold of each of these rows.
        groups: Number of the question of each of these rows, for the task `"ranking"`.
    """

    keys: np.ndarray
    scores: np.ndarray | None = None
    labels: np.ndarray | None = None
    folds: np.ndarray | None = None
    groups: np.ndarray | None = None

    @classmethod
    def read(cls, folder: Path, outputs: int | None = None) -> "LearnedPairs | None":
        """Read the file of a run folder; None if it is missing.

        `outputs` is the number of outputs of its model, if the scores are used: of classes, or 1.
        """
        path = folder / FILE
        if not path.exists():
            return None
        found = read_arrays(inside(folder, FILE))
        keys = found.pop("keys", np.empty(0))
        ok = keys.ndim == 1 and keys.dtype == np.uint64 and len(keys) > 0
        scored = {"scores", "labels", "folds"}
        ok = ok and found.keys() in (set(), scored, scored | {"groups"})
        for name, array in found.items():
            ok = ok and array.dtype.kind in "fi" and array.ndim in (1, 1 + (name == "scores"))
            ok = ok and len(array) == len(found["labels"]) <= len(keys) and np.isfinite(array).all()
        if ok and found and outputs is not None:
            ok = found["scores"].shape[1:] == ((outputs,) if outputs > 1 else ())
            ok = ok and (outputs == 1 or not set(found["labels"].tolist()) - {*range(outputs)})
        if not ok:
            raise InputError(f"{path} is damaged: training writes other arrays. {COPY}.")
        return cls(keys, **found)

    def save(self, folder: Path) -> None:
        """Write the file that `read` reads."""
        np.savez(
            folder / FILE, **{n: array for n, array in vars(self).items() if array is not None}
        )

    def rows(self, pairs: PairDataset) -> np.ndarray:
        """Return the row of each pair in `keys`, -1 for a pair that the run did not learn from.

        A pair with other case or spacing, or with its sentences in the other order, has the row of its
        plain key, which is behind the rows with scores.
        """
        order = np.argsort(self.keys, kind="stable")
        found = np.full(len(pairs), -1)
        for wanted in (plain_keys(pairs), pair_keys(pairs)):
            place = np.minimum(np.searchsorted(self.keys, wanted, sorter=order), len(order) - 1)
            found = np.where(self.keys[order[place]] == wanted, order[place], found)
        return found

    def out_of_fold(self, label_names: tuple[str, ...] | None, task: str) -> Any:
        """Return the pairs with out-of-fold scores as `evaluate_predictions` reads them."""
        if self.scores is None:
            return None
        facts = {"label_names": label_names, "task": task, "name": "", "split": "validation"}
        return SimpleNamespace(labels=self.labels, groups=self.groups, **facts)


def pair_keys(pairs: PairDataset) -> np.ndarray:
    """Return a digest of the sentences of each pair, uint64."""
    return _digests(f"{one}\0{two}" for one, two in zip(pairs.sentence1, pairs.sentence2))


def plain_keys(pairs: PairDataset) -> np.ndarray:
    """Return a digest of each pair without case, spacing and the order of its sentences, uint64."""
    return _digests("\0".join(["plain", *sorted(sides)]) for sides in zip(*plain_sides(pairs)))


def _digests(texts: Iterable[str]) -> np.ndarray:
    digests = (blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8) for text in texts)
    return np.frombuffer(b"".join(digest.digest() for digest in digests), "<u8")
