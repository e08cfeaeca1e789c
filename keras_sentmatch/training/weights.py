"""How much each training pair counts: class weights, the column of weights, oversampling."""

from collections.abc import Mapping

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.training.config import TrainingConfig, did_you_mean


def check_weights(training: TrainingConfig, train: PairDataset) -> None:
    """Refuses class weights and oversampling that do not fit the labels of the training pairs."""
    classes, oversample = training.class_weight, training.oversample
    if train.weights is not None and not train.weights.any():
        raise InputError("All training pairs have the weight 0: nothing would be learned.")
    if classes == "none" and not oversample:
        return
    if train.task == "regression":
        key = "oversample" if oversample else "class_weight"
        raise InputError(
            f"training.{key} is {getattr(training, key)!r}, but the pairs have scores, not labels: "
            "leave it out. A column of weights works for scores too."
        )
    names = train.label_names or ()
    if isinstance(classes, Mapping):
        for name in classes:
            if name not in names:
                raise InputError(
                    f"training.class_weight has {name!r}, which is not a label of the training pairs; "
                    f"they have {', '.join(names)}.{did_you_mean(name, names)}"
                )
        counts = train.label_counts()
        if not any(counts[name] and classes.get(name, 1) for name in names):
            raise InputError(
                "training.class_weight is 0 for every label: nothing would be learned."
            )


def class_weights(pairs: PairDataset, setting: str | Mapping[str, float]) -> np.ndarray | None:
    """The weight of each class, or None where all have the same."""
    if setting == "none":
        return None
    names = pairs.label_names or ()
    if isinstance(setting, Mapping):
        return np.array([setting.get(name, 1.0) for name in names])
    counts = np.array([*pairs.label_counts().values()])
    return np.where(counts > 0, len(pairs) / (len(names) * np.maximum(counts, 1)), 1.0)


def pair_weights(
    labels: np.ndarray, by_class: np.ndarray | None, column: np.ndarray | None
) -> np.ndarray | None:
    """The weights of pairs, float32 with a mean of 1, or None where all have the same.

    Args:
        labels: Class numbers; -1 where only a teacher answers, which counts 1.
        by_class: What `class_weights` gives.
        column: The column of weights.
    """
    if by_class is None and column is None:
        return None
    found = np.ones(len(labels)) if column is None else column.astype("float64")
    if by_class is not None:
        numbers = labels.astype(int)
        found = found * np.where(numbers < 0, 1.0, by_class[numbers])
    if not found.any():
        raise InputError(
            "Every training pair has the weight 0, by its own weight or by that of its label: nothing "
            "would be learned."
        )
    return np.asarray(found / found.mean(), "float32")


def oversampled_rows(labels: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Row numbers, in which rows of rarer classes repeat; those without a class (-1) do not.

    Each class has at least `share` times as many as the most frequent one: whole copies of all its
    pairs, and a part of them that is drawn.
    """
    rng, numbers = np.random.default_rng(seed), labels.astype(int)
    counts = np.bincount(numbers[numbers >= 0])
    rows: list[np.ndarray] = [np.arange(len(labels))]
    for number, count in enumerate(counts):
        missing = int(np.ceil(share * counts.max())) - int(count)
        if count and missing > 0:
            mine = np.flatnonzero(numbers == number)
            rows += [np.tile(mine, missing // count), rng.permutation(mine)[: missing % count]]
    return np.concatenate(rows)
