"""Ctrl-C at any moment: the best epoch is measured and kept, or, before there is one, nothing."""

import json

import keras
import pytest

from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.training import train
from keras_sentmatch.training.resume import State
from tests.toys.training import build_tiny, tiny_recipe, tiny_splits

# The step, counted over all epochs of five steps (of one in validation), in which it comes.
MOMENTS = {
    "before the first batch": ("train", 0, False),
    "in the first validation": ("test", 0, True),
    "in epoch 2": ("train", 7, True),
    "in the second validation": ("test", 1, True),
}


class Interrupted(keras.Model):
    """A model whose step is interrupted, before it runs or when it has run but nobody has its results."""

    def strike(self, kind, step):
        where, when, ran = self.moment
        count, before = 0, step

        def interrupted(*args):
            nonlocal count
            now = (kind, count) == (where, when)
            count += 1
            if now and not ran:
                raise KeyboardInterrupt
            results = before(*args)
            if now:
                raise KeyboardInterrupt
            return results

        self.struck[kind] = interrupted
        return interrupted

    def make_train_function(self, force=False):
        super().make_train_function(force)
        if self.train_function is not self.struck.get("train"):
            self.train_function = self.strike("train", self.train_function)

    def make_test_function(self, force=False):
        super().make_test_function(force)
        if self.test_function is not self.struck.get("test"):
            self.test_function = self.strike("test", self.test_function)


def interrupted_build(moment):
    built = []

    def build(name, **config):
        plain = build_tiny(name, **config)
        if built:  # a second one, to answer with
            return plain
        model = Interrupted(plain.input, plain.output, name=name)
        model.moment, model.struck = MOMENTS[moment], {}
        built.append(model)
        return model

    return build


@pytest.mark.each_backend
@pytest.mark.parametrize("moment", MOMENTS)
def test_in_a_step(moment, tmp_path, caplog):
    caplog.set_level("INFO")
    out = tmp_path / "run"
    recipe = tiny_recipe(epochs=4)
    if "first" in moment:
        with pytest.raises(KeyboardInterrupt):
            train(recipe, tiny_splits(), out, build=interrupted_build(moment))
        assert not (out / "matcher.json").exists() and not (out / "metrics.json").exists()
        assert "nothing to keep" in caplog.text
        return
    result = train(recipe, tiny_splits(), out, build=interrupted_build(moment))
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics["interrupted"] and metrics["best_epoch"] == metrics["epochs"] == 1
    assert f"is kept in {out}" in caplog.text and "baseline" not in metrics
    assert "stopped by Ctrl-C" in (out / "README.md").read_text()
    assert metrics["validation"]["accuracy"] == pytest.approx(result.history["val_accuracy"][0])
    resumed = train(recipe, tiny_splits(), out, build=build_tiny, resume=True)
    assert not resumed.metrics["interrupted"] and resumed.metrics["epochs"] == 4


@pytest.mark.each_backend
def test_while_saving(tmp_path, monkeypatch):
    """What was saved before stays, and the run goes on from there."""
    out, recipe, save = tmp_path / "run", tiny_recipe(epochs=3), State.save

    def interrupted(state, path):
        if state.epochs == 2:
            raise KeyboardInterrupt
        save(state, path)

    monkeypatch.setattr(State, "save", interrupted)
    metrics = train(recipe, tiny_splits(), out, build=build_tiny).metrics
    assert metrics["interrupted"] and (out / "metrics.json").exists()
    assert Matcher.load(out).predict(sentence1="w1", sentence2="w2")["label"]
    monkeypatch.undo()
    resumed = train(recipe, tiny_splits(), out, build=build_tiny, resume=True)
    assert not resumed.metrics["interrupted"] and resumed.metrics["epochs"] == 3
