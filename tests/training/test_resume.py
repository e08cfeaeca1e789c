"""A run that is cut off and resumed ends as one that is not."""

import csv
import json
import shutil
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from keras import ops

from keras_sentmatch.errors import InputError
from keras_sentmatch.training import train_ensemble
from keras_sentmatch.training.resume import (
    CHECKPOINT,
    State,
    by_name,
    check_folder,
    latest,
    run_identity,
    variables_of,
)
from tests.toys.training import build_tiny, struck_build, tiny_recipe, tiny_run, tiny_splits

SETTINGS = {"epochs": 6, "plateau_factor": 0.5, "patience": 3}


class Killed(BaseException):
    """Nothing catches it, as nothing catches a kill."""


def run(out, build=build_tiny, resume=False):
    return tiny_run(out, build=build, options={"resume": resume}, **SETTINGS)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """One run undisturbed, and the folder of one that was killed in its fourth epoch."""
    home = tmp_path_factory.mktemp("resume")
    whole = run(home / "whole")
    with pytest.raises(Killed):
        run(home / "killed", struck_build(Killed, 3))
    assert len(set(whole.history["learning_rate"])) > 1, "the plateau was met"
    assert whole.metrics["best_epoch"] > 1
    return SimpleNamespace(whole=whole, killed=home / "killed")


def without_seconds(metrics):
    return {name: value for name, value in metrics.items() if not name.endswith("seconds")}


def assert_same(result, whole):
    for now, then in zip(result.matcher.model.get_weights(), whole.matcher.model.get_weights()):
        np.testing.assert_array_equal(now, then)
    assert result.history == whole.history
    assert without_seconds(result.metrics) == without_seconds(whole.metrics)
    csvs = [(one.folder / "history.csv").read_bytes() for one in (result, whole)]
    assert csvs[0] == csvs[1]
    rows = list(csv.DictReader(csvs[0].decode().splitlines()))
    for name, values in result.history.items():
        assert [float(row[name]) for row in rows] == values
    names = [{path.name for path in one.folder.iterdir()} for one in (result, whole)]
    assert names[0] == names[1], "the checkpoints are gone"


@pytest.mark.each_backend
def test_a_killed_run_ends_as_an_undisturbed_one(runs, tmp_path):
    out = tmp_path / "again"
    shutil.copytree(runs.killed, out)
    assert latest(out).epochs == 3
    assert_same(run(out, resume=True), runs.whole)


@pytest.mark.backend("jax", "torch")
def test_a_kill_after_the_last_epoch(runs, tmp_path, monkeypatch):
    out = tmp_path / "late"
    shutil.copytree(runs.killed, out)

    def die(*arguments):
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr("keras_sentmatch.training.results.model_card", die)
        run(out, resume=True)
    assert (out / "matcher.json").exists() and latest(out).epochs == runs.whole.metrics["epochs"]
    with pytest.raises(InputError, match="unfinished run .*Continue it with --resume"):
        run(out)
    assert_same(run(out, resume=True), runs.whole)


def test_a_folder_of_somebody_else_is_refused_before_training(tmp_path):
    (tmp_path / "encoder").mkdir()
    (tmp_path / "encoder/mine.py").write_text("mine")
    with pytest.raises(InputError, match="encoder is not an encoder's, and would be replaced"):
        run(tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == ["encoder", "mine.py"]


def test_another_run_is_not_gone_on_with(runs, tmp_path):
    splits = tiny_splits()
    recipe = tiny_recipe(**SETTINGS)
    fewer = {**splits, "train": splits["train"].select(range(50))}
    for identity, message in [
        (
            run_identity(tiny_recipe(**{**SETTINGS, "epochs": 5}), splits),
            "training.epochs was 6, now 5",
        ),
        (run_identity(tiny_recipe(**SETTINGS, seed=5), splits), "training.seed was 0, now 5"),
        (run_identity(recipe, fewer), r"train pairs was 100 \(\w+\), now 50 \(\w+\)"),
        (run_identity(recipe, splits) | {"backend": "theano"}, "backend was .*, now theano"),
    ]:
        with pytest.raises(InputError, match=message):
            check_folder(runs.killed, identity, resume=True)
    assert check_folder(runs.killed, run_identity(recipe, splits), resume=True).epochs == 3


def test_a_damaged_checkpoint_is_explained(runs, tmp_path):
    data = (runs.killed / CHECKPOINT).read_bytes()
    flipped = bytes(byte ^ 0xFF for byte in data[-3000:-1500])  # the end lists what is inside
    (tmp_path / CHECKPOINT).write_bytes(data[:-3000] + flipped + data[-1500:])
    with pytest.raises(InputError, match="resume.npz is damaged"):
        latest(tmp_path)
    other = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    other.compile("sgd", "mse")
    with pytest.raises(InputError, match="other variables"):
        latest(runs.killed).restore(other)


@pytest.mark.each_backend
def test_a_state_comes_back_as_it_was(tmp_path):
    arrays = {
        "variable0": np.arange(3, dtype="uint32"),
        "variable1": np.array(2.5, "float32"),
        "variable2": np.zeros((2, 0), "float32"),
    }
    history, identity = {"loss": [0.1, float("nan")]}, {"training": {"epochs": 2}}
    state = State(2, True, 1, 0.5, history, {"A": {"best": 0.1}}, identity, arrays)
    state.save(tmp_path / CHECKPOINT)
    again = State.load(tmp_path / CHECKPOINT)
    assert repr(again) == repr(state)
    assert list(again.arrays) == list(arrays)
    for name, array in again.arrays.items():
        assert array.dtype == arrays[name].dtype and np.array_equal(array, arrays[name])
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]


@pytest.mark.each_backend
def test_bfloat16_comes_back(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, dtype="bfloat16")])
    model.compile("sgd", "mse")
    variables = variables_of(model)
    arrays = {f"variable{i}": ops.convert_to_numpy(v) for i, v in enumerate(variables)}
    history, identity = {"loss": [0.1]}, {"training": {"epochs": 1}}
    State(1, True, 1, 0.5, history, {}, identity, arrays).save(tmp_path / CHECKPOINT)
    model.layers[0].kernel.assign(ops.zeros((2, 1)))
    State.load(tmp_path / CHECKPOINT).restore(model)
    for variable, then in zip(variables, arrays.values()):
        assert np.array_equal(ops.convert_to_numpy(variable), then)
    wider = {name: np.zeros(array.shape, "V4") for name, array in arrays.items()}
    with pytest.raises(InputError, match="other variables"):
        State(1, True, 1, 0.5, history, {}, identity, wider).restore(model)


def test_callbacks_of_one_class_are_told_apart():
    two = [keras.callbacks.EarlyStopping("loss") for _ in range(2)]
    assert list(by_name(two).values()) == two


@pytest.mark.backend("torch")
def test_an_ensemble_goes_on_with_the_seed_that_was_killed(tmp_path):
    def ensemble(out, build=build_tiny, **more):
        recipe = tiny_recipe(epochs=2)
        return train_ensemble(
            recipe, tiny_splits(), out, [0, 1], progress=False, baseline=False, build=build, **more
        )

    _, whole = ensemble(tmp_path / "whole")
    builds = iter([build_tiny, struck_build(Killed, 1)])
    with pytest.raises(Killed):
        ensemble(tmp_path / "a", lambda name, **config: next(builds)(name, **config))
    finished = (tmp_path / "a" / "seed-0" / "metrics.json").stat().st_mtime_ns
    _, again = ensemble(tmp_path / "a", resume=True)
    assert again == whole == json.loads((tmp_path / "a" / "ensemble.json").read_text())
    assert (tmp_path / "a" / "seed-0" / "metrics.json").stat().st_mtime_ns == finished
    with pytest.raises(InputError, match="holds a finished ensemble"):
        ensemble(tmp_path / "a", resume=True)


@pytest.mark.backend("torch")
def test_ctrl_c_can_be_gone_on_from(runs, tmp_path):
    out = tmp_path / "a"
    assert run(out, struck_build(KeyboardInterrupt, 3)).metrics["interrupted"]
    assert_same(run(out, resume=True), runs.whole)
