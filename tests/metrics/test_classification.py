import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score

from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics import accuracy, f1, macro_f1

pytestmark = pytest.mark.once


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_equals_sklearn(classes):
    rng = np.random.default_rng(classes)
    y, pred = rng.integers(0, classes, 50), rng.integers(0, classes, 50)
    assert accuracy(y, pred) == pytest.approx(accuracy_score(y, pred))
    assert macro_f1(y, pred) == pytest.approx(f1_score(y, pred, average="macro"))
    assert f1(y, pred, positive=1) == pytest.approx(f1_score(y, pred, labels=[1], average="macro"))


def test_a_class_that_never_occurs_is_left_out():
    assert macro_f1([0, 2], [0, 2], num_classes=5) == 1.0
    assert f1([0, 0], [0, 0]) == 0.0


def test_bad_input():
    with pytest.raises(InputError, match="dtype float64; expected integer"):
        accuracy([0, 1], [0.2, 0.8])
    with pytest.raises(InputError, match=r"`pred` has shape \(2, 2\)"):
        accuracy([0, 1], [[1, 0], [0, 1]])
    with pytest.raises(InputError, match="expected 0 to 1"):
        macro_f1([0, 2], [0, 1], num_classes=2)
