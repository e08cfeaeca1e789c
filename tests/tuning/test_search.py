"""A search around its trials: kills, failures, resuming. Most trials are fakes."""

import csv
import itertools
import json
import os
import signal
from dataclasses import replace

import numpy as np
import pytest

from keras_sentmatch.applications.hyperparameters import Choice
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.training import encoding, load_recipe, train
from keras_sentmatch.training.config import EncoderConfig
from keras_sentmatch.tuning import SearchSpace, search
from tests.toys.fake_training import RECIPE, FakeTrain, fake_search, space_of_fakes, trained
from tests.toys.training import build_tiny, struck_build, tiny_recipe, tiny_splits

keras_tuner = pytest.importorskip("keras_tuner")

TUNERS = {
    "bayesian": {"trials": 6, "fine": True},
    "random": {"trials": 9, "fine": True},
    "hyperband": {"fine": True},
    "grid": {"trials": 9},
}
each_tuner = pytest.mark.parametrize("tuner", TUNERS)
# Fake trials run on no backend, and a process in which TensorFlow or JAX has threads cannot be forked.
fakes = pytest.mark.backend("torch")


def rows_of(folder):
    with open(folder / "trials.csv", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The result of each tuner when nothing goes wrong."""
    found = {}
    for tuner, options in TUNERS.items():
        home = tmp_path_factory.mktemp(tuner)
        result = fake_search(home / "a", FakeTrain(home / "log"), tuner=tuner, **options)
        assert trained(home / "log") == [row["trial"] for row in result.trials]
        found[tuner] = result
    return found


def killed(run):
    """Run in a child process, which must end by `kill -9`."""
    child = os.fork()
    if not child:
        try:
            run()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@fakes
@pytest.mark.parametrize("moment", ["in a trial", "after a trial", "in the state"])
@each_tuner
def test_kill_9_and_resume(tuner, moment, undisturbed, tmp_path):
    out, log, options = tmp_path / "a", tmp_path / "log", {"tuner": tuner, **TUNERS[tuner]}
    at = 4

    def begin():
        if moment == "in the state":
            replaced, plain = itertools.count(), os.replace

            def replace(source, target):
                if target.name == "oracle.json" and next(replaced) == 3 * at:
                    os.kill(os.getpid(), signal.SIGKILL)
                plain(source, target)

            os.replace = replace
        kill = None if moment == "in the state" else at
        fake_search(out, FakeTrain(log, kill=kill, late=moment == "after a trial"), **options)

    killed(begin)
    before = trained(log)
    result = fake_search(out, FakeTrain(log), resume=True, **options)
    assert result.trials == undisturbed[tuner].trials
    runs = trained(log)
    again = {name for name in runs if runs.count(name) > 1}
    assert again == ({before[-1]} if moment == "in a trial" else set())
    assert len(rows_of(out)) == len(result.trials) == len(set(runs))
    assert result.score == undisturbed[tuner].score


@fakes
@each_tuner
def test_trials_are_allowed_and_differ(tuner, undisturbed, tmp_path):
    result = undisturbed[tuner]
    space = space_of_fakes(TUNERS[tuner].get("fine", False))
    tried = [{n: row[n] for n in space.parameters if row[n] is not None} for row in result.trials]
    assert all(space.conflict(chosen) is None for chosen in tried)
    keys = [(*chosen.items(), row["epochs"]) for chosen, row in zip(tried, result.trials)]
    assert len(set(keys)) == len(keys)
    assert all(("model.size" in c) == (c["model.kind"] != "none") for c in tried)
    assert result.score == max(row["score"] for row in result.trials)
    if tuner == "random":
        for seed in (0, 1):
            recipe, log = RECIPE.with_training(seed=seed), FakeTrain(tmp_path / f"log{seed}")
            options = {"tuner": tuner, "recipe": recipe, **TUNERS[tuner]}
            again = fake_search(tmp_path / str(seed), log, **options)
            assert (again.trials == result.trials) == (seed == 0), "seed 0 is a seed too"


@fakes
def test_the_grid_tries_all_that_is_allowed(tmp_path):
    result = fake_search(tmp_path / "a", FakeTrain(tmp_path / "log"))
    space = space_of_fakes(False)
    expected = set()
    for values in itertools.product(*([*p.values, None] for p in space.parameters.values())):
        chosen = {n: v for n, v in zip(space.parameters, values) if v is not None}
        whole = all((n in chosen) == space.matters(p, chosen) for n, p in space.parameters.items())
        if whole and space.conflict(chosen) is None:
            expected.add(tuple(sorted(chosen.items())))
    tried = [
        tuple(sorted((n, row[n]) for n in space.parameters if row[n] is not None))
        for row in result.trials
    ]
    assert set(tried) == expected and len(tried) == len(expected) == 54
    assert result.configuration["model.steps"] == 3


@fakes
@pytest.mark.parametrize("tuner", ["random", "bayesian"])
def test_a_search_ends_when_all_was_tried(tuner, tmp_path):
    space = space_of_fakes(False).narrowed(["T"])
    result = fake_search(
        tmp_path / "a", FakeTrain(tmp_path / "log"), tuner=tuner, space=space, trials=20
    )
    assert sorted(row["model.steps"] for row in result.trials) == [1, 2, 3, 4]


@fakes
def test_hyperband_trains_fewer_for_longer(undisturbed):
    result = undisturbed["hyperband"]
    rounds = [row["epochs"] for row in result.trials]
    assert set(rounds) == {1, 3, 9} and rounds.count(1) > rounds.count(9) > 0
    best = max(result.trials, key=lambda row: row["score"])
    assert result.best.training.epochs == best["epochs"]


# --- failures ---


@fakes
def test_a_failed_trial_is_noted_and_left(tmp_path):
    out, log = tmp_path / "a", tmp_path / "log"
    fake = FakeTrain(log, fail={1}, error=ValueError("a grid\ntoo small"))
    result = fake_search(out, fake, trials=3)
    assert [row["status"] for row in result.trials] == ["completed", "failed", "completed"]
    assert result.trials[1]["error"] == "ValueError: a grid too small"
    assert "Traceback" in (out / "trial_1/error.txt").read_text()
    assert rows_of(out)[1]["score"] == ""
    again = fake_search(out, fake, trials=3, resume=True)
    assert again.trials == result.trials and len(trained(log)) == 3


@fakes
@pytest.mark.parametrize("trials", [1, 9])
def test_no_trial_completes(trials, tmp_path):
    fake = FakeTrain(tmp_path / "log", fail=range(99), error=MemoryError("the first cause"))
    message = (
        f"None of {min(trials, 3)} trials completed. The first, B=25 T=2 k=none, failed with "
        "MemoryError: the first cause"
    )
    with pytest.raises(InputError, match=message):
        fake_search(tmp_path / "a", fake, trials=trials)


def full_disk(text):
    """The error of a training that could not write."""
    error = InputError(text)
    error.__cause__ = OSError("no space left")
    return error


@fakes
@pytest.mark.parametrize("error", [KeyError, NotImplementedError, full_disk])
def test_a_bug_or_full_disk_ends_the_search_and_the_trial_runs_again(error, tmp_path):
    fake = FakeTrain(tmp_path / "log", fail={1}, error=error("a bug"))
    with pytest.raises(type(fake.error), match="a bug"):
        fake_search(tmp_path / "a", fake, trials=3)
    result = fake_search(tmp_path / "a", fake, trials=3, resume=True)
    assert [row["status"] for row in result.trials] == ["completed"] * 3
    assert trained(tmp_path / "log") == ["0", "1", "1", "2"]


@fakes
def test_ctrl_c_keeps_the_trials_that_ended(tmp_path, caplog):
    caplog.set_level("INFO")
    out, log = tmp_path / "a", tmp_path / "log"
    fake = FakeTrain(log, fail={2}, error=KeyboardInterrupt())
    result = fake_search(out, fake, trials=4)
    assert result.interrupted and "--resume continues" in caplog.text
    assert [row["status"] for row in result.trials] == ["completed", "completed", "running"]
    assert result.score == max(row["score"] for row in result.trials[:2])
    again = fake_search(out, fake, trials=4, resume=True)
    assert not again.interrupted and trained(log) == ["0", "1", "2", "2", "3"]
    assert "Resuming after 2 trials" in caplog.text
    fake = FakeTrain(log, fail={5}, error=KeyboardInterrupt())
    late = fake_search(out, fake, trials=4, resume=True, retrain=1)
    assert late.interrupted and late.retrained is None and late.trials == again.trials
    assert fake_search(out, fake, trials=4, resume=True, retrain=1).retrained
    with pytest.raises(KeyboardInterrupt):  # nothing to show
        fake = FakeTrain(tmp_path / "other", fail={0}, error=KeyboardInterrupt())
        fake_search(tmp_path / "b", fake)


@fakes
def test_resuming_with_more_trials(tmp_path):
    out, log = tmp_path / "a", tmp_path / "log"
    fake = FakeTrain(log)
    first = fake_search(out, fake, trials=2, retrain=1)
    for more, message in [
        ({}, "already holds a search. Continue it with --resume"),
        ({"resume": True, "tuner": "random"}, "another search: tuner was grid, now random"),
        ({"resume": True, "recipe": RECIPE.with_training(seed=1)}, "seed was 0, now 1"),
    ]:
        with pytest.raises(InputError, match=message):
            fake_search(out, fake, trials=3, **more)
    again = fake_search(out, fake, trials=30, retrain=1, resume=True)
    assert again.trials[:2] == first.trials and len(again.trials) == 30
    assert again.score > first.score, "so another best recipe is retrained"
    names = [row["trial"] for row in again.trials]
    assert trained(log) == [*names[:2], "best", *names[2:], "best"]
    for name in ("trial_0/seed-0/model.keras", "best_recipe.toml"):  # killed as a trial ended
        (out / name).write_text("")
    fake_search(out, fake, trials=30, retrain=1, resume=True)
    assert len(trained(log)) == 32, "nothing was left to do"
    assert load_recipe("tiny", file=out / "best_recipe.toml") == again.best
    best = max(again.trials, key=lambda row: row["score"])["trial"]
    assert [path.parent.parent.name for path in out.glob("*/*/model.keras")] == [f"trial_{best}"]
    assert {path.name for path in (out / "trial_0/seed-0").iterdir()} == {
        "history.csv",
        "metrics.json",
    }


# --- real trials ---


def run(out, *, choices=None, build=build_tiny, recipe=None, splits=None, **more):
    recipe = recipe or tiny_recipe(epochs=2, batch_size=25, seed=0)
    choices = choices or [Choice("training.batch_size", (10, 25, 50), aliases=["B"])]
    more = {"tuner": "grid", "retrain": 0, "progress": False, "build": build, **more}
    return search(recipe, splits or tiny_splits(), out, space=SearchSpace(recipe, choices), **more)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return run(tmp_path_factory.mktemp("search") / "a", retrain=2, progress=True)


@pytest.mark.each_backend
def test_a_trial_is_a_run_of_its_recipe(found, tmp_path):
    rows = rows_of(found.folder)
    assert [row["training.batch_size"] for row in rows] == ["25", "10", "50"], "the default first"
    for row in rows:
        metrics = json.loads(
            (found.folder / f"trial_{row['trial']}/seed-0/metrics.json").read_text()
        )
        assert metrics["validation"]["accuracy"] == float(row["score"])
        assert metrics["parameters"] == int(row["parameters"])
        assert metrics["seed"] == 0 and "test" not in metrics
    best = max(found.trials, key=lambda row: row["score"])["trial"]
    again = load_recipe("tiny", file=found.folder / "best_recipe.toml")
    assert again == found.best
    assert again.training.batch_size == found.configuration["training.batch_size"]
    result = train(
        again, tiny_splits(), tmp_path / "a", progress=False, baseline=False, build=build_tiny
    )
    assert result.metrics["validation"]["accuracy"] == found.score
    kept = Matcher.load(found.folder / f"trial_{best}/seed-0")
    for now, then in zip(result.matcher.model.get_weights(), kept.model.get_weights()):
        np.testing.assert_array_equal(now, then)


def test_the_best_is_retrained_with_new_seeds(found):
    assert found.retrained["seeds"] == [1, 2] and "sd" in found.retrained["validation"]
    for seed in (1, 2):
        run_folder = found.folder / f"best/seed-{seed}"
        metrics = json.loads((run_folder / "metrics.json").read_text())
        assert metrics["seed"] == seed and "test" in metrics
        again = load_recipe("tiny", file=run_folder / "recipe.toml")
        assert again == found.best.with_training(seed=seed)
    page = (found.folder / "report.md").read_text()
    mean = found.retrained["test"]["mean"]["accuracy"]
    assert "Retrained with seeds 1, 2: validation" in page and f"test {mean:.4f} ±" in page


@fakes
def test_ctrl_c_in_a_trial_ends_the_search(tmp_path):
    built = []

    def build(name, **config):
        built.append(name)
        make = struck_build(KeyboardInterrupt, 1) if len(built) == 2 else build_tiny
        return make(name, **config)

    result = run(tmp_path / "a", build=build)
    assert result.interrupted
    assert [row["score"] for row in result.trials] == [result.score, None]


@fakes
def test_a_trial_that_diverges_fails(tmp_path):
    result = run(
        tmp_path / "a",
        choices=[Choice("training.learning_rate", (0.02, 1e30))],
        recipe=tiny_recipe(epochs=2, monitor="val_loss", seed=0),
    )
    assert [row["status"] for row in result.trials] == ["completed", "failed"]
    assert "diverged" in result.trials[1]["error"]
    assert result.score == min(row["score"] for row in result.trials[:1])


@fakes
def test_pairs_are_encoded_once_per_encoder(tmp_path, monkeypatch):
    fitted, encoded = [], []
    fit, encode = encoding.fit_encoder, encoding.encode_dataset
    monkeypatch.setattr(encoding, "fit_encoder", lambda *a: fitted.append(a) or fit(*a))
    monkeypatch.setattr(encoding, "encode_dataset", lambda *a: encoded.append(a) or encode(*a))
    recipe = tiny_recipe(epochs=1, batch_size=25, seed=0)
    recipe = replace(recipe, encoder=EncoderConfig(max_length=3))
    choices = [Choice("encoder.max_length", (3, 4)), Choice("training.batch_size", (25, 50))]
    result = run(tmp_path / "a", choices=choices, recipe=recipe, retrain=1)
    assert len(result.trials) == 4
    assert (len(fitted), len(encoded)) == (2, 4)


@fakes
@pytest.mark.parametrize(
    "more, words",
    [
        ({"tuner": "genetic"}, "'genetic'. Expected one of bayesian, random, hyperband, grid"),
        ({"trials": 0}, "trials is 0. Expected at least 1"),
        ({"retrain": -1}, "retrain is -1. Expected at least 0"),
        ({"recipe": RECIPE.with_training(folds=3)}, "folds is 3, but a search compares"),
        ({"recipe": RECIPE.with_training(monitor="val_map")}, "the training pairs are class"),
        ({"space": ["C"]}, "'tiny' declares no search space. Models that do: bag_of_words"),
    ],
)
def test_what_is_refused(more, words, tmp_path):
    with pytest.raises(InputError) as error:
        fake_search(tmp_path / "a", FakeTrain(tmp_path / "log"), **more)
    assert words in str(error.value) and not (tmp_path / "a").exists()


@fakes
def test_half_a_distribution_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("KERASTUNER_ORACLE_IP", "127.0.0.1")
    with pytest.raises(InputError, match="KERASTUNER_TUNER_ID, KERASTUNER_ORACLE_PORT is not"):
        fake_search(tmp_path / "a", FakeTrain(tmp_path / "log"))


@fakes
@pytest.mark.parametrize("module, tuner", [("keras_tuner", "grid"), ("sklearn", "bayesian")])
def test_a_missing_package_is_named(module, tuner, tmp_path, monkeypatch):
    import importlib.util

    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == module else there(name)
    )
    with pytest.raises(InputError, match=r'not installed.*pip install "keras-sentmatch\[tuner\]"'):
        fake_search(tmp_path / "a", FakeTrain(tmp_path / "log"), tuner=tuner)
