"""How much each training pair counts: class weights and the column of weights."""

from collections.abc import Mapping

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.training.config import TrainingConfig, did_you_mean


def check_weights(training: TrainingConfig, train: PairDataset) -> None:
    """Refuses class weights that do not fit the labels of the training pairs."""
    classes = training.class_weight
    if train.weights is not None and not train.weights.any():
        raise InputError("All training pairs have the weight 0: nothing would be learned.")
    if classes == "none":
        return
    if train.task == "regression":
        raise InputError(
            f"training.class_weight is {classes!r}, but the pairs have scores, not labels: "
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


def pair_weights(pairs: PairDataset, by_class: np.ndarray | None) -> np.ndarray | None:
    """Return the weight of each pair, float32 with a mean of 1. None if all are equal.

    Args:
        pairs: Labeled pairs; their column of weights counts.
        by_class: The weights that `class_weights` returns.
    """
    if by_class is None and pairs.weights is None:
        return None
    found = np.ones(len(pairs)) if pairs.weights is None else pairs.weights.astype("float64")
    if by_class is not None:
        found = found * by_class[np.asarray(pairs.labels)]
    if not found.any():
        raise InputError(
            "Every training pair has the weight 0, by its own weight or by that of its label: nothing "
            "would be learned."
        )
    return np.asarray(found / found.mean(), "float32")
