"""`training.ema_momentum`: what is validated, kept and resumed is the moving average of the weights."""

import keras
import numpy as np
import pytest

from keras_sentmatch.training import load_recipe
from keras_sentmatch.training.resume import best_epochs, best_weights
from tests.toys.training import build_tiny, struck_build, tiny_recipe, tiny_run

MOMENTUM = 0.8
SETTINGS = {"epochs": 4, "patience": 4, "ema_momentum": MOMENTUM}


class Oracle(keras.callbacks.Callback):
    """Computes the averages by itself, in float64, and keeps those of every epoch."""

    def __init__(self):
        super().__init__()
        self.average, self.weights, self.epochs = None, [], []

    def on_train_batch_end(self, batch, logs=None):
        if keras.config.backend() == "jax":
            self.model.jax_state_sync()
        now = [np.array(w, "float64") for w in self.model.get_weights()]
        old = now if self.average is None else self.average
        self.average = [MOMENTUM * a + (1 - MOMENTUM) * w for a, w in zip(old, now)]
        self.now = now

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append(self.average)
        self.weights.append(self.now)


def run(out, build=build_tiny, resume=False, **more):
    oracle = Oracle()
    options = {"resume": resume, "callbacks": [oracle]}
    return tiny_run(out, build=build, options=options, **(SETTINGS | more)), oracle


@pytest.fixture(scope="module")
def averaged(tmp_path_factory):
    return run(tmp_path_factory.mktemp("averages") / "whole")


def test_the_kept_weights_are_the_averages(averaged):
    result, oracle = averaged
    best = result.metrics["best_epoch"] - 1
    kept = result.matcher.model.get_weights()
    for ours, average in zip(kept, oracle.epochs[best]):
        np.testing.assert_allclose(ours, average, rtol=1e-4, atol=1e-5)
    assert max(np.abs(a - w).max() for a, w in zip(kept, oracle.weights[best])) > 0.01


def test_an_epoch_is_measured_with_the_averages(averaged):
    result, _ = averaged
    best = result.metrics["best_epoch"] - 1
    figures = result.metrics["validation"]
    assert result.history["val_accuracy"][best] == pytest.approx(figures["accuracy"])
    assert result.history["val_loss"][best] == pytest.approx(figures["nll"], abs=1e-4)


def test_training_goes_on_with_the_weights_themselves(averaged, tmp_path):
    result, _ = averaged
    plain, _ = run(tmp_path / "plain", ema_momentum=0.0)
    assert result.history["loss"] == plain.history["loss"]
    assert result.history["val_loss"] != plain.history["val_loss"]


def test_other_optimizers_and_metrics_of_the_whole_set(tmp_path):
    more = {"optimizer": "adamw", "weight_decay": 0.01, "monitor": "val_f1"}
    result, oracle = run(tmp_path / "a", epochs=2, **more)
    best = result.metrics["best_epoch"] - 1
    for ours, average in zip(result.matcher.model.get_weights(), oracle.epochs[best]):
        np.testing.assert_allclose(ours, average, rtol=1e-4, atol=1e-5)
    assert result.history["val_f1"][best] == pytest.approx(result.metrics["validation"]["f1"])


class Killed(BaseException):
    """Nothing catches it, as nothing catches a kill."""


def assert_same(result, whole):
    for now, then in zip(result.matcher.model.get_weights(), whole.matcher.model.get_weights()):
        np.testing.assert_array_equal(now, then)
    assert result.history == whole.history


def test_a_killed_run_ends_as_an_undisturbed_one(averaged, tmp_path):
    with pytest.raises(Killed):
        run(tmp_path / "a", struck_build(Killed, 2))
    assert best_weights(tmp_path / "a", max(best_epochs(tmp_path / "a"))).exists()
    result, _ = run(tmp_path / "a", resume=True)
    assert_same(result, averaged[0])


def test_a_finished_run_goes_on_with_more_epochs(averaged, tmp_path):
    first, _ = run(tmp_path / "a", epochs=2)
    assert first.metrics["rising"]
    assert_same(run(tmp_path / "a", resume=True)[0], averaged[0])


@pytest.mark.backend("torch")
def test_weights_in_half_precision_are_averaged_too(tmp_path):
    result, oracle = run(tmp_path / "a", dtype_policy="mixed_float16", epochs=2)
    best = result.metrics["best_epoch"] - 1
    for ours, average in zip(result.matcher.model.get_weights(), oracle.epochs[best]):
        np.testing.assert_allclose(ours, average, rtol=1e-3, atol=1e-4)


@pytest.mark.once
def test_an_average_of_weights_that_never_change_is_refused():
    with pytest.raises(ValueError, match="ema_momentum is 1; expected .*below 1"):
        tiny_recipe(ema_momentum=1)
    recipe = load_recipe("re2", "sick", overrides=["training.ema_momentum=0.9"])
    assert recipe.training.ema_momentum == 0.9
