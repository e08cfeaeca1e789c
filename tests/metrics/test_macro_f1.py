import keras
import numpy as np
import pytest
from sklearn.metrics import f1_score

from keras_sentmatch.metrics import SparseMacroF1

pytestmark = pytest.mark.each_backend

rng = np.random.default_rng(0)
LABELS = rng.integers(0, 3, 96)
PROBABILITIES = rng.dirichlet(np.ones(4), 96).astype("float32")  # class 3 never a label
PREDICTED = PROBABILITIES.argmax(-1)


@pytest.mark.parametrize("weights", [None, np.array([0, 1, 2] * 32)])
def test_batches_equal_scikit_learn_on_all_rows(weights):
    metric = SparseMacroF1(4)
    for part in np.array_split(np.arange(96), 5):
        weight = None if weights is None else weights[part]
        metric.update_state(LABELS[part, None], PROBABILITIES[part], sample_weight=weight)
    expected = f1_score(LABELS, PREDICTED, average="macro", sample_weight=weights)
    assert float(metric.result()) == pytest.approx(expected, abs=1e-6)
    metric.reset_state()
    assert float(metric.result()) == 0.0


def test_inside_compiled_fit_and_through_a_keras_file(tmp_path):
    x = rng.normal(size=(96, 5)).astype("float32")
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(4, activation="softmax")])
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=[SparseMacroF1(4)])
    logs = model.fit(x, LABELS, validation_data=(x, LABELS), verbose=0).history
    expected = f1_score(LABELS, model.predict(x, verbose=0).argmax(-1), average="macro")
    assert logs["val_macro_f1"][0] == pytest.approx(expected, abs=1e-6)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    found = again.evaluate(x, LABELS, verbose=0, return_dict=True)
    assert found["macro_f1"] == pytest.approx(expected, abs=1e-6)
