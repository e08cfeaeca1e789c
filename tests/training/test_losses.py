import keras
import numpy as np
import pytest

from keras_sentmatch.errors import InputError
from keras_sentmatch.training.distillation import DistillationLoss
from keras_sentmatch.training.losses import SmoothedCrossEntropy
from tests.toys.training import tiny_run, tiny_splits

P = np.array([[0.7, 0.2, 0.1], [0.05, 0.9, 0.05], [0.0, 0.5, 0.5]], "float32")


def test_label_smoothing_is_cross_entropy_with_smoothed_labels():
    labels = np.array([0, 2, 1])
    loss = SmoothedCrossEntropy(0.15)
    wanted = 0.85 * np.eye(3)[labels] + 0.05
    by_hand = -(wanted * np.log(np.maximum(P, 1e-7))).sum(1).mean()
    assert float(loss(labels, P)) == pytest.approx(by_hand, rel=1e-5)
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert again.label_smoothing == 0.15
    teacher = np.column_stack([labels, P]).astype("float32")
    only_labels = DistillationLoss(weight=0.0, label_smoothing=0.15)
    assert float(only_labels(teacher, P)) == pytest.approx(by_hand, rel=1e-5)
    unlabeled = np.column_stack([[-1, 2, 1], P]).astype("float32")
    rows = -(wanted * np.log(np.maximum(P, 1e-7))).sum(1)
    assert float(only_labels(unlabeled, P)) == pytest.approx(rows[1:].sum() / 3, rel=1e-5)


def test_training_smooths_labels(tmp_path):
    sure, unsure = (
        tiny_run(tmp_path / str(share), epochs=4, label_smoothing=share, learning_rate=0.1)
        for share in (0.0, 0.4)
    )
    # Of two classes no answer should be surer than 0.8, and none costs less than its entropy.
    entropy = -(0.8 * np.log(0.8) + 0.2 * np.log(0.2))
    assert min(unsure.history["loss"]) > entropy > min(sure.history["loss"])


def test_scores_have_no_labels_to_smooth(tmp_path):
    with pytest.raises(InputError, match="label_smoothing is 0.1, but the pairs have scores"):
        tiny_run(tmp_path / "a", splits=tiny_splits("regression"), label_smoothing=0.1)
    assert not (tmp_path / "a").exists()
