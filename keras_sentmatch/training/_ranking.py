"""Losses that compare the candidates of a question, and the pairs that they learn from."""

import logging
import math
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_sentmatch.data import PairDataset
from keras_sentmatch.data.dataset import numbered
from keras_sentmatch.encoders.batches import Questions
from keras_sentmatch.training.config import TrainingConfig

log = logging.getLogger(__name__)
FLOOR = 1e-30  # least probability: below it the gradient is 0


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class RankingLoss(keras.losses.Loss):
    """Loss that compares the candidates of each question with one another.

    The score of a candidate is the log odds of the right label, `s = log p[1] - log p[0]`. With the
    right candidates R and the wrong candidates W of a question:

    - `"pairwise"` is the mean of `log(1 + exp(s_w - s_r))` over all r in R and w in W;
    - `"listwise"` is the cross-entropy between the labels, normalized to sum to 1, and the softmax
      of the scores over R and W.

    The loss of a batch is the mean over its questions with right and wrong candidates.

    Args:
        kind: `"pairwise"` or `"listwise"`. Defaults to `"pairwise"`.
        name: Name of the loss. Defaults to `"ranking"`.
        reduction: As in Keras. Defaults to `"sum_over_batch_size"`.

    Call arguments:
        y_true: `[B, 2]`: the label (1 right, 0 wrong, -1 for a row that does not count) and the
            number of the question, as `PairBatches(questions=...)` yields them.
        y_pred: `[B, 2]` probabilities.

    References:
        Burges et al. 2005, *Learning to Rank using Gradient Descent*; Cao et al. 2007, *Learning to
        Rank: From Pairwise Approach to Listwise Approach*.
    """

    def __init__(
        self,
        kind: str = "pairwise",
        name: str = "ranking",
        reduction: str = "sum_over_batch_size",
    ):
        super().__init__(name=name, reduction=reduction)
        self.kind = kind

    def call(self, y_true: Any, y_pred: Any) -> Any:
        label, question = y_true[:, 0], y_true[:, 1]
        log_p = ops.log(ops.maximum(y_pred, FLOOR))
        scores = log_p[:, 1] - log_p[:, 0]
        same = ops.equal(question[:, None], question[None, :])
        right, wrong = (ops.cast(ops.equal(label, value), scores.dtype) for value in (1, 0))
        others = ops.where(
            same, wrong[None, :], 0.0
        )  # [B, B]: wrong candidates of a row's question
        count_wrong = ops.sum(others, axis=1)
        count_right = ops.sum(ops.where(same, right[None, :], 0.0), axis=1)
        # The shares of the right rows of a question sum to 1 if the question counts.
        share = ops.where(count_wrong > 0, right, 0.0) / ops.maximum(count_right, 1.0)
        if self.kind == "pairwise":
            costs = ops.softplus(scores[None, :] - scores[:, None])
            costs = ops.sum(others * costs, axis=1) / ops.maximum(count_wrong, 1.0)
        else:
            candidates = ops.logical_and(same, label[None, :] >= 0)
            costs = ops.logsumexp(ops.where(candidates, scores[None, :], -1e9), axis=1) - scores
        # The mean over the rows is then the mean over the questions.
        return share * costs / ops.maximum(ops.mean(share), keras.config.epsilon())

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "kind": self.kind}


def by_question(training: TrainingConfig) -> bool:
    """Return whether the loss compares the candidates of a question."""
    return training.ranking_loss != "pointwise"


def compared_pairs(train: PairDataset, training: TrainingConfig) -> PairDataset:
    """Return the training pairs that a ranking loss learns from, and log which are left out."""
    if not by_question(training):
        return train
    rows = comparable(train)
    kept = train.select(np.flatnonzero(rows))
    before, sizes = len(set(train.groups or ())), _questions(kept, training).sizes
    log.info(
        f"{training.ranking_loss} loss: {len(sizes):,} of {before:,} training questions have right "
        f"and wrong candidates; the other {len(train) - len(kept):,} pairs are left out"
    )
    size = int(training.batch_size)
    if large := int((sizes > size).sum()):
        log.info(
            f"questions with more than {size} candidates (up to {sizes.max():,}): {large:,}; their "
            "batches are larger"
        )
    return kept


def batches_per_epoch(train: PairDataset, training: TrainingConfig) -> int:
    """Return the number of batches of an epoch."""
    if by_question(training):
        return len(_questions(train, training).batches)
    return math.ceil(len(train) / training.batch_size)


def _questions(pairs: PairDataset, training: TrainingConfig) -> Questions:
    return Questions(pairs.groups or (), int(training.batch_size))


def comparable(pairs: PairDataset) -> np.ndarray:
    """Return which pairs belong to a question with right and wrong candidates."""
    numbers = numbered(pairs.groups or ())
    right = np.asarray(pairs.labels) == 1
    counts = [np.bincount(numbers, weights=side)[numbers] for side in (right, ~right)]
    both: np.ndarray = np.minimum(*counts) > 0
    return both
