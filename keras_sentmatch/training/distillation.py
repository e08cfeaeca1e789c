"""Knowledge distillation: a loss that compares with the predictions of trained matchers."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_sentmatch.data import PairDataset
from keras_sentmatch.display.progress import progress_bar
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.inference.run_folder import members_of
from keras_sentmatch.training.config import TrainingConfig

log = logging.getLogger(__name__)
_CHUNK = 4096  # pairs between two updates of the progress bar


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class DistillationLoss(keras.losses.Loss):
    """Cross-entropy with the labels plus the divergence from a teacher's probabilities.

    `(1 - weight) CE(label, p) + weight T^2 KL(t_T || p_T)`, where T is the temperature and `x_T` is x
    to the power 1/T, normalized to sum to 1. For scores:
    `(1 - weight) (label - p)^2 + weight (t - p)^2`.

    Args:
        weight: The teacher's share of the loss. Defaults to `0.5`.
        temperature: Temperature; above 1, small probabilities count more. Defaults to `2.0`.
        name: Name of the loss. Defaults to `"distillation"`.
        reduction: As in Keras. Defaults to `"sum_over_batch_size"`.

    Call arguments:
        y_true: `[B, 1 + C]`: the label, and the teacher's probabilities, or its score (C = 1).
        y_pred: `[B, C]` probabilities, or `[B, 1]` scores.

    References:
        Hinton, Vinyals and Dean 2015, arXiv 1503.02531.
    """

    def __init__(
        self,
        weight: float = 0.5,
        temperature: float = 2.0,
        name: str = "distillation",
        reduction: str = "sum_over_batch_size",
    ):
        super().__init__(name=name, reduction=reduction)
        self.weight = weight
        self.temperature = temperature

    def call(self, y_true: Any, y_pred: Any) -> Any:
        label, teacher = y_true[:, :1], y_true[:, 1:]
        if y_pred.shape[-1] == 1:
            hard = ops.square(y_pred - label)[:, 0]
            soft = ops.square(y_pred - teacher)[:, 0]
        else:
            log_p = log_of(y_pred)
            named = ops.cast(
                ops.equal(label, ops.arange(log_p.shape[-1], dtype=label.dtype)), log_p.dtype
            )
            hard = -ops.sum(named * log_p, axis=-1)
            p, t = (ops.log_softmax(x / self.temperature) for x in (log_p, log_of(teacher)))
            soft = self.temperature**2 * ops.sum(ops.exp(t) * (t - p), axis=-1)
        return (1 - self.weight) * hard + self.weight * soft

    def get_config(self) -> dict[str, Any]:
        own = {"weight": self.weight, "temperature": self.temperature}
        return {**super().get_config(), **own}


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class OnLabels(keras.metrics.Metric):
    """Metric of the labels in the first column of `y_true`, next to a teacher's predictions.

    Args:
        metric: Keras metric of integer labels and probabilities, or its serialized config.
        name: Name of the metric. Defaults to `None`, the name of `metric`.
        dtype: Data type of the counts. Defaults to `None`.
    """

    def __init__(self, metric: Any, name: str | None = None, dtype: Any = None):
        if isinstance(metric, dict):
            metric = keras.saving.deserialize_keras_object(metric)
        super().__init__(name=name or metric.name, dtype=dtype)
        self.metric = metric

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        labels = ops.cast(ops.convert_to_tensor(y_true)[:, 0], "int32")
        self.metric.update_state(labels, y_pred, sample_weight=sample_weight)

    def result(self) -> Any:
        return self.metric.result()

    def reset_state(self) -> None:
        self.metric.reset_state()

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "metric": keras.saving.serialize_keras_object(self.metric)}


@dataclass
class TeacherTargets:
    """The predictions of a teacher for the training and validation pairs."""

    targets: dict[str, np.ndarray]  # by split, as `DistillationLoss` reads them
    facts: dict[str, Any]  # for metrics.json


def compute_teacher_targets(
    settings: TrainingConfig, splits: Mapping[str, PairDataset], progress: bool = True
) -> TeacherTargets:
    """Return the mean predictions of a recipe's teachers for the training and validation pairs."""
    train = splits["train"]
    teachers = []
    for name in settings.teacher:
        for folder in members_of(Path(name)):
            teachers.append(teacher := Matcher.load(folder))
            taught, asked = (set(names or ()) for names in (teacher.label_names, train.label_names))
            if taught != asked:
                one, two = (", ".join(sorted(x)) if x else "scores" for x in (taught, asked))
                raise InputError(
                    f"The teacher {folder} predicts {one}, but the training pairs have {two}. Name a "
                    "run trained on the same labels."
                )
    targets = {}
    for role in ("train", "validation"):
        predictions = _predict(teachers, splits[role], role, progress)
        columns = [np.asarray(splits[role].labels), predictions]
        targets[role] = np.column_stack(columns).astype("float32")
    facts = {
        "runs": list(settings.teacher),
        "models": [
            f"{t.info.get('model', t.model.name)} on {t.info.get('data') or 'own data'}, seed "
            f"{t.info.get('seed')}"
            for t in teachers
        ],
        "parameters": sum(teacher.model.count_params() for teacher in teachers),
        "weight": settings.distillation_weight,
        "temperature": settings.distillation_temperature,
    }
    return TeacherTargets(targets, facts)


def with_labels(targets: np.ndarray, more: PairDataset) -> np.ndarray:
    """Append targets for more pairs, whose labels replace the teacher's predictions."""
    labels = np.asarray(more.labels, "float32")[:, None]
    answers = (
        labels if targets.shape[1] == 2 else np.eye(targets.shape[1] - 1)[labels[:, 0].astype(int)]
    )
    return np.concatenate([targets, np.column_stack([labels, answers])]).astype("float32")


def _predict(
    teachers: Sequence[Matcher], pairs: PairDataset, role: str, progress: bool
) -> np.ndarray:
    """Return mean probabilities in the order of the pairs' labels, or mean scores, `[N, C]`."""
    label_names = pairs.label_names
    sums = np.zeros((len(pairs), len(label_names or ("score",))))
    total, done = len(pairs) * len(teachers), 0
    with progress_bar(f"The teacher predicts {role} pairs", total, progress) as show:
        for teacher in teachers:
            if keras.config.backend() == "tensorflow":
                teacher.model.jit_compile = False  # XLA compiles every length again
            for start in range(0, len(pairs), _CHUNK):
                rows = np.arange(start, min(start + _CHUNK, len(pairs)))
                answers = teacher.predict_proba(pairs.select(rows)).reshape(len(rows), -1)
                if teacher.label_names is not None and label_names is not None:
                    answers = answers[:, [teacher.label_names.index(n) for n in label_names]]
                sums[rows] += answers
                show(done := done + len(rows))
    return sums / len(teachers)


def log_of(p: Any) -> Any:
    """The logarithms of probabilities, which may be 0."""
    return ops.log(ops.maximum(p, keras.config.epsilon()))
