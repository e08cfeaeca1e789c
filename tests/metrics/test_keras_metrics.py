import keras
import numpy as np
import pytest

from keras_sentmatch.metrics import PositiveF1, SparseMacroF1
from keras_sentmatch.metrics.scores import f1, macro_f1

rng = np.random.default_rng(0)
LABELS = rng.integers(0, 3, 96)
PROBABILITIES = rng.dirichlet(np.ones(4), 96).astype("float32")  # class 3 never a label
PREDICTED = PROBABILITIES.argmax(-1)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        (SparseMacroF1(4), macro_f1(LABELS, PREDICTED)),
        (PositiveF1(2), f1(LABELS, PREDICTED, positive=2)),
    ],
)
def test_streams_equal_the_whole(metric, expected):
    metric.reset_state()
    for start in range(0, 96, 20):
        part = slice(start, start + 20)
        metric.update_state(LABELS[part, None], PROBABILITIES[part])
    assert float(metric.result()) == pytest.approx(expected, abs=1e-6)
    copy = type(metric).from_config(metric.get_config())
    copy.update_state(LABELS, PROBABILITIES)
    assert float(copy.result()) == pytest.approx(expected, abs=1e-6)
    copy.reset_state()
    assert float(copy.result()) == 0.0


@pytest.mark.parametrize("metric", [SparseMacroF1(4), PositiveF1(1)])
def test_a_weight_of_zero_leaves_the_row_out_and_of_two_counts_it_twice(metric):
    weights = np.array([0, 1, 2] * 32)
    metric.reset_state()
    metric.update_state(LABELS, PROBABILITIES, sample_weight=weights)
    weighted = float(metric.result())
    metric.reset_state()
    metric.update_state(np.repeat(LABELS, weights), np.repeat(PROBABILITIES, weights, axis=0))
    assert weighted == pytest.approx(float(metric.result()), abs=1e-6)


def test_inside_compiled_fit_and_through_a_keras_file(tmp_path):
    x = rng.normal(size=(96, 5)).astype("float32")
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(4, activation="softmax")])
    metrics = [SparseMacroF1(4), PositiveF1()]
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=metrics)
    logs = model.fit(x, LABELS, validation_data=(x, LABELS), verbose=0).history
    assert {"macro_f1", "f1", "val_macro_f1", "val_f1"} <= set(logs)
    predicted = model.predict(x, verbose=0).argmax(-1)
    assert logs["val_macro_f1"][0] == pytest.approx(macro_f1(LABELS, predicted), abs=1e-6)
    assert logs["val_f1"][0] == pytest.approx(f1(LABELS, predicted), abs=1e-6)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.evaluate(x, LABELS, verbose=0, return_dict=True)["macro_f1"] == pytest.approx(
        logs["val_macro_f1"][0], abs=1e-6
    )
