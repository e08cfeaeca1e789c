"""The losses of labels that Keras does not have."""

from typing import Any

import keras
from keras import ops

FLOOR = 1e-30  # of the probabilities whose log odds rank: the gradient of a lower one is 0


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class RankingLoss(keras.losses.Loss):
    """A loss of the order of each question's candidates, not of each candidate alone.

    The score of a candidate is the log odds of the right answer, `s = log p[1] - log p[0]`. Of the
    right candidates R and the wrong ones W of a question:

    - `"pairwise"` is the mean of `log(1 + exp(s_w - s_r))` over all r in R and w in W;
    - `"listwise"` is the cross-entropy between the labels, normalized to sum to 1, and the softmax
      of the scores over R and W.

    The loss of a batch is the mean over its questions that have both; the others add nothing.

    Args:
        kind: `"pairwise"` or `"listwise"`. Defaults to `"pairwise"`.
        name: of the loss. Defaults to `"ranking"`.
        reduction: as in Keras. Defaults to `"sum_over_batch_size"`.

    Call arguments:
        y_true: `[B, 2]`: the label (1 right, 0 wrong, -1 a row that does not count) and the number
            of the question, as `PairBatches(questions=...)` yields them.
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
        others = ops.where(same, wrong[None, :], 0.0)  # [B, B]: the wrong ones of a row's question
        count_wrong = ops.sum(others, axis=1)
        count_right = ops.sum(ops.where(same, right[None, :], 0.0), axis=1)
        # Of each right row, its share of its question: they sum to 1 in a question that counts.
        share = ops.where(count_wrong > 0, right, 0.0) / ops.maximum(count_right, 1.0)
        if self.kind == "pairwise":
            costs = ops.softplus(scores[None, :] - scores[:, None])
            costs = ops.sum(others * costs, axis=1) / ops.maximum(count_wrong, 1.0)
        else:
            candidates = ops.logical_and(same, label[None, :] >= 0)
            costs = ops.logsumexp(ops.where(candidates, scores[None, :], -1e9), axis=1) - scores
        # So that the mean over the rows is that over the questions.
        return share * costs / ops.maximum(ops.mean(share), keras.config.epsilon())

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "kind": self.kind}


def cross_entropy(labels: Any, log_p: Any) -> Any:
    """`[B]` from class numbers `[B, 1]` and log-probabilities `[B, C]`."""
    numbers = ops.arange(log_p.shape[-1], dtype=labels.dtype)
    named = ops.cast(ops.equal(labels, numbers), log_p.dtype)
    return -ops.sum(named * log_p, axis=-1)


def log_of(p: Any) -> Any:
    """The logarithms of probabilities, which may be 0."""
    return ops.log(ops.maximum(p, keras.config.epsilon()))
