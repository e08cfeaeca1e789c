"""`PairHyperModel` under KerasTuner's own tuners."""

import csv

import pytest

from keras_sentmatch.training import train
from keras_sentmatch.tuning import Choice, PairHyperModel, Space
from tests.toys.training import build_tiny, tiny_recipe, tiny_splits

keras_tuner = pytest.importorskip("keras_tuner")


def recipe_of(**training):
    return tiny_recipe(**{"epochs": 2, "batch_size": 25, "seed": 0, **training})


def hypermodel_of(recipe, parameters, rules=(), splits=None):
    space = Space(recipe, parameters, rules, {"model.dropout": 0.1})
    return PairHyperModel(recipe, splits or tiny_splits(), space, build=build_tiny)


def test_a_trial_is_what_train_makes_of_its_recipe(tmp_path):
    """Batches, weights, dropout, the falling learning rate and the stopping are all those of `train`."""
    recipe = recipe_of(epochs=4, patience=1, plateau_factor=0.5)
    hypermodel = hypermodel_of(recipe, [Choice("training.batch_size", (10, 50))])
    hp = keras_tuner.HyperParameters()
    hypermodel.declare_hyperparameters(hp)
    hp.values["training.batch_size"] = 10
    model = hypermodel.build(hp)
    history = hypermodel.fit(hp, model).history
    chosen = hypermodel.recipe(hp)
    assert chosen.training.batch_size == 10
    train(chosen, tiny_splits(), tmp_path / "a", progress=False, baseline=False, build=build_tiny)
    with open(tmp_path / "a/history.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for name in ("loss", "val_loss", "val_accuracy", "learning_rate"):
        expected = [float(row[name]) for row in rows]
        assert [float(value) for value in history[name]] == pytest.approx(expected, rel=1e-5), name


def test_a_task_whose_figures_fit_has_not():
    recipe = recipe_of(epochs=1)
    parameters = [Choice("training.batch_size", (25, 50))]
    hypermodel = hypermodel_of(recipe, parameters, splits=tiny_splits("ranking"))
    hp = keras_tuner.HyperParameters()
    assert "val_map" in hypermodel.fit(hp, hypermodel.build(hp)).history


def test_what_is_not_allowed_is_not_built():
    rules = [lambda recipe: "too large" if recipe.training.batch_size == 50 else None]
    hypermodel = hypermodel_of(recipe_of(), [Choice("training.batch_size", (25, 50))], rules)
    hp = keras_tuner.HyperParameters()
    hp.values["training.batch_size"] = 50
    with pytest.raises(keras_tuner.errors.FailedTrialError, match="too large"):
        hypermodel.build(hp)


@pytest.mark.slow
@pytest.mark.backend("torch")
def test_under_hyperband(tmp_path):
    """It chooses the epochs, and takes over weights."""
    parameters = [
        Choice("model.kind", {"none": None, "soft": "soft"}),
        Choice("model.dropout", (0.0, 0.1, 0.2), when={"model.kind": ["soft"]}),
    ]
    hypermodel = hypermodel_of(recipe_of(epochs=9), parameters)
    tuner = keras_tuner.Hyperband(
        hypermodel, "val_accuracy", max_epochs=2, factor=2, seed=3, directory=tmp_path
    )
    tuner.search(verbose=0)
    chosen = [trial.hyperparameters for trial in tuner.oracle.trials.values()]
    assert {trial.status for trial in tuner.oracle.trials.values()} == {"COMPLETED"}
    assert {hypermodel.recipe(hp).training.epochs for hp in chosen} == {1, 2}
    for hp in chosen:
        written = hypermodel.configuration(hp)
        assert ("model.dropout" in written) == (written["model.kind"] == "soft")
