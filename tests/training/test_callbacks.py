import io
import itertools
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from rich.console import Console

from keras_sentmatch.encoders import PairBatches, PairEncoder
from keras_sentmatch.metrics import mean_average_precision
from keras_sentmatch.training.callbacks import (
    EpochLines,
    TaskMetrics,
    make_callbacks,
    monitor_of,
)
from keras_sentmatch.training.config import TrainingConfig
from keras_sentmatch.training.resume import best_epochs, best_weights, load_weights
from tests.toys.training import build_tiny, tiny_pairs


class Script(keras.callbacks.Callback):
    """Puts given values in the logs as `val_map`, and remembers the weights of every epoch."""

    def __init__(self, values):
        super().__init__()
        self.values = values
        self.weights = []
        self.rates = []

    def on_epoch_end(self, epoch, logs=None):
        logs["val_map"] = self.values[epoch]
        self.weights.append(self.model.get_weights())
        self.rates.append(float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate)))


def small_fit(callbacks, epochs, rows=8):
    x, y = np.ones((rows, 2), "float32"), np.zeros((rows, 1), "float32")
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    history = model.fit(x, y, batch_size=4, epochs=epochs, callbacks=callbacks, verbose=0)
    return model, history.history


def callbacks_of(folder, mode, script, **training):
    made = make_callbacks(
        folder, "val_map", mode, TrainingConfig(**training), 2, tiny_pairs(4, 0), None
    )
    return [script, *(callback for callback in made if not isinstance(callback, TaskMetrics))]


@pytest.mark.parametrize("patience", [{"patience": 3}, {"patience_batches": 5}])  # of 2 an epoch
def test_best_epoch_plateau_stop_and_history(patience, tmp_path):
    script = Script([0.1, 0.5, 0.5, 0.4, 0.6, 0.6, 0.2, 0.3, 0.9])
    callbacks = callbacks_of(tmp_path, "max", script, plateau_factor=0.5, **patience)
    model, history = small_fit(callbacks, 9)
    # 0.9 is never reached: three epochs after the fifth none was better.
    assert history["val_map"] == script.values[:8]
    # Halved after each epoch that does not rise, whether or not the one before did.
    assert script.rates == pytest.approx([0.1, 0.1, 0.1, 0.05, 0.025, 0.025, 0.0125, 0.00625])
    assert not np.array_equal(model.get_weights()[0], script.weights[4][0])
    assert best_epochs(tmp_path) == [1, 2, 5]
    load_weights(model, best_weights(tmp_path, 5))
    np.testing.assert_array_equal(model.get_weights()[0], script.weights[4][0])
    assert history["learning_rate"][7] == pytest.approx(0.00625)


def test_a_loss_is_best_when_lowest(tmp_path):
    folder = tmp_path / "a{b}"  # Keras fills in what stands in braces
    folder.mkdir()
    assert monitor_of("classification") == ("val_accuracy", "max")
    assert monitor_of("ranking") == ("val_map", "max")
    assert monitor_of("regression") == ("val_pearson", "max")
    assert monitor_of("ranking", "val_loss") == ("val_loss", "min")
    script = Script([0.5, 0.2, 0.4])
    callbacks = callbacks_of(folder, "min", script, patience=5)
    model, history = small_fit(callbacks, 3)
    load_weights(model, best_weights(folder, 2))
    np.testing.assert_array_equal(model.get_weights()[0], script.weights[1][0])
    assert "learning_rate" not in history


@pytest.mark.parametrize("task", ["ranking", "regression", "classification"])
def test_task_metrics_are_those_of_the_rows_in_order(task):
    data = tiny_pairs(43, 0, task)
    encoder = PairEncoder.fit(data, features=("word",))
    batches = PairBatches(data, encoder, batch_size=8)
    classes = 1 if task == "regression" else 2
    model = build_tiny("m", vocabulary_size=20, num_classes=classes, embedding_dim=4)
    callback = TaskMetrics(data, batches)
    callback.set_model(model)
    outputs = callback.predict()
    expected = model.predict_on_batch(encoder.encode(data.sentence1, data.sentence2))
    np.testing.assert_allclose(outputs, expected, atol=1e-6)
    logs = {"val_accuracy": 7.0}
    callback.on_epoch_end(0, logs)
    assert logs["val_accuracy"] == 7.0
    if task == "ranking":
        expected = mean_average_precision(data.labels, outputs[:, 1], data.groups)
        assert logs["val_map"] == pytest.approx(expected) and "val_mrr" in logs
        assert "val_questions" not in logs
    else:
        assert ("val_spearman" if task == "regression" else "val_macro_f1") in logs


@pytest.mark.parametrize("terminal", [False, True])
def test_progress(terminal, tmp_path):
    with open(tmp_path / "out", "w+", encoding="utf-8") as file:
        console = Console(file=file, force_terminal=terminal, width=40)
        bar = EpochLines(console, "val_map", "max")
        small_fit([Script([0.25, 0.125]), bar], 2)
        bar.close()  # twice does no harm
        file.seek(0)
        text = file.read()
    lines = [line for line in text.splitlines() if "val_map" in line]
    assert len(lines) == 2 and "epoch 1/2" in lines[0]
    assert "val_map 0.25" in lines[0] and lines[0].rstrip().endswith("*")
    assert "loss " in lines[1] and not lines[1].rstrip().endswith("*")
    assert terminal == ("\x1b[" in text)


@pytest.mark.parametrize("rows", [8, 100])  # in batches of 4: fewer or more steps than are measured
def test_the_time_is_estimated_once(rows, monkeypatch):
    clock, file = itertools.count(0, 60), io.StringIO()
    time = SimpleNamespace(perf_counter=lambda: next(clock))
    monkeypatch.setattr("keras_sentmatch.training.callbacks.time", time)
    small_fit([EpochLines(Console(file=file), "loss", "min")], 2, rows=rows)
    steps = rows // 4
    said = f"about {steps} min per epoch, at most {2 * steps} min for 2 epochs"
    assert " ".join(file.getvalue().split()).count(said) == 1
