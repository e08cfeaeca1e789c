"""What a search does around its trials: kills, failures, going on, seeds. The trials are fakes."""

import csv
import itertools
import json
import os
import signal

import pytest

from keras_sentmatch.errors import InputError
from tests.toys.fake_training import RECIPE, FakeTrain, fake_search, space_of_fakes, trained

pytest.importorskip("keras_tuner", reason="KerasTuner is not installed")

# Whatever the backend, no trial runs on it; and a process that TensorFlow or JAX has threads in is no good to fork.
pytestmark = pytest.mark.backend("torch")
TUNERS = {
    "bayesian": {"trials": 9, "fine": True},
    "random": {"trials": 9, "fine": True},
    "hyperband": {"fine": True},
    "grid": {"trials": 9},
}
each_tuner = pytest.mark.parametrize("tuner", TUNERS)


def rows_of(folder):
    with open(folder / "trials.csv", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The trials of each tuner when nothing goes wrong."""
    found = {}
    for tuner, options in TUNERS.items():
        home = tmp_path_factory.mktemp(tuner)
        result = fake_search(home / "a", FakeTrain(home / "log"), tuner=tuner, **options)
        assert trained(home / "log") == [row["trial"] for row in result.trials]
        found[tuner] = result
    return found


def killed(run):
    """Runs in a child process, which must end by `kill -9`."""
    child = os.fork()
    if not child:
        try:
            run()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("moment", ["in a trial", "after a trial", "in the state"])
@each_tuner
def test_kill_9_and_resume(tuner, moment, undisturbed, tmp_path, monkeypatch):
    out, log, options = tmp_path / "a", tmp_path / "log", {"tuner": tuner, **TUNERS[tuner]}
    at = 4

    def begin():
        if moment == "in the state":
            replaced = itertools.count()
            plain = os.replace

            def replace(source, target):
                if target.name == "oracle.json" and next(replaced) == 2 * at:
                    os.kill(os.getpid(), signal.SIGKILL)
                plain(source, target)

            os.replace = replace
        kill = None if moment == "in the state" else at
        fake_search(out, FakeTrain(log, kill=kill, late=moment == "after a trial"), **options)

    killed(begin)
    before = trained(log)
    assert len(before) == (at if moment == "in the state" else at + 1)
    result = fake_search(out, FakeTrain(log), resume=True, **options)
    assert result.trials == undisturbed[tuner].trials
    runs = trained(log)
    again = {name for name in runs if runs.count(name) > 1}
    assert again == ({before[-1]} if moment == "in a trial" else set())
    assert len(rows_of(out)) == len(result.trials) == len(set(runs))
    assert result.score == undisturbed[tuner].score


@each_tuner
def test_trials_are_allowed_and_differ(tuner, undisturbed):
    result = undisturbed[tuner]
    space = space_of_fakes(TUNERS[tuner].get("fine", False))
    names = list(space.parameters)
    tried = [{n: row[n] for n in names if row[n] is not None} for row in result.trials]
    assert all(space.conflict(written) is None for written in tried)
    keys = [(*written.items(), row["epochs"]) for written, row in zip(tried, result.trials)]
    assert len(set(keys)) == len(keys)
    for written in tried:
        assert ("model.size" in written) == (written["model.kind"] != "none")
    assert result.score == max(row["score"] for row in result.trials)


def test_the_grid_tries_all_that_is_allowed(tmp_path):
    result = fake_search(tmp_path / "a", FakeTrain(tmp_path / "log"), trials=None)
    space = space_of_fakes(False)
    lists = [[*p.values, None] for p in space.parameters.values()]
    expected = set()
    for values in itertools.product(*lists):
        written = {n: v for n, v in zip(space.parameters, values) if v is not None}
        whole = all(
            (n in written) == space.matters(p, written) for n, p in space.parameters.items()
        )
        if whole and space.conflict(written) is None:
            expected.add(tuple(sorted(written.items())))
    tried = {
        tuple(sorted((n, row[n]) for n in space.parameters if row[n] is not None))
        for row in result.trials
    }
    assert tried == expected and len(result.trials) == len(expected) == 54
    assert result.configuration["model.steps"] == 3


def test_a_search_ends_when_all_was_tried(tmp_path):
    for tuner in ("random", "bayesian"):
        more = {"tuner": tuner, "fix": {"B": 10, "k": "none"}, "trials": 20}
        result = fake_search(tmp_path / tuner, FakeTrain(tmp_path / f"{tuner}.log"), **more)
        assert sorted(row["model.steps"] for row in result.trials) == [1, 2, 3, 4]


def test_hyperband_trains_fewer_for_longer(undisturbed):
    rounds = [row["epochs"] for row in undisturbed["hyperband"].trials]
    assert set(rounds) == {1, 3, 9} and rounds.count(1) > rounds.count(9) > 0
    best = max(undisturbed["hyperband"].trials, key=lambda row: row["score"])
    assert undisturbed["hyperband"].best.training.epochs == best["epochs"]


@pytest.mark.slow
@pytest.mark.parametrize("tuner", ["bayesian", "random", "hyperband"])
def test_seed_0_is_seed_0(tuner, undisturbed, tmp_path):
    options = {"tuner": tuner, **TUNERS[tuner]}
    again = fake_search(tmp_path / "a", FakeTrain(tmp_path / "log"), **options)
    assert again.trials == undisturbed[tuner].trials
    other = fake_search(
        tmp_path / "b", FakeTrain(tmp_path / "log2"), recipe=RECIPE.with_training(seed=1), **options
    )
    assert other.trials != again.trials
    state = json.loads((tmp_path / "a/oracle.json").read_text())["oracle"]
    assert state["seed"] == 0


# --- failures ---


def test_a_failed_trial_is_noted_and_left(tmp_path):
    out, log = tmp_path / "a", tmp_path / "log"
    fake = FakeTrain(log, fail={1}, error=ValueError("a grid\ntoo small"))
    result = fake_search(out, fake, trials=3)
    assert [row["status"] for row in result.trials] == ["completed", "failed", "completed"]
    assert result.trials[1]["error"] == "ValueError: a grid too small"
    assert "Traceback" in (out / "trials/1/error.txt").read_text()
    assert rows_of(out)[1]["score"] == ""
    again = fake_search(out, fake, trials=3, resume=True)
    assert again.trials == result.trials and len(trained(log)) == 3


def test_no_trial_that_finishes(tmp_path):
    fake = FakeTrain(tmp_path / "log", fail=range(99), error=MemoryError("the first cause"))
    message = (
        "None of 3 trials completed. The first, .*B=25 T=2 k=none: MemoryError: the first cause"
    )
    with pytest.raises(InputError, match=message):
        fake_search(tmp_path / "a", fake)
    with pytest.raises(InputError, match="None of 1 trials completed"):
        fake_search(tmp_path / "b", fake, trials=1)


@pytest.mark.parametrize(
    "error", [TypeError, AttributeError, KeyError, NotImplementedError, OSError]
)
def test_a_bug_ends_the_search_and_the_trial_runs_again(error, tmp_path):
    fake = FakeTrain(tmp_path / "log", fail={1}, error=error("a bug"))
    with pytest.raises(error, match="a bug"):
        fake_search(tmp_path / "a", fake, trials=3)
    assert [row["status"] for row in rows_of(tmp_path / "a")] == ["completed", "running"]
    result = fake_search(tmp_path / "a", fake, trials=3, resume=True)
    assert [row["status"] for row in result.trials] == ["completed"] * 3
    assert trained(tmp_path / "log") == ["0", "1", "1", "2"]


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
    with pytest.raises(KeyboardInterrupt):  # there is nothing to show
        fake = FakeTrain(tmp_path / "other", fail={0}, error=KeyboardInterrupt())
        fake_search(tmp_path / "b", fake)


@pytest.mark.parametrize("left", ["{", '{"identity": {"training": "another"}}'])
def test_what_a_killed_trial_left_half_written_is_trained_again(left, tmp_path):
    out, log = tmp_path / "a", tmp_path / "log"
    fake = FakeTrain(log, fail={1}, error=KeyError("a bug"))
    with pytest.raises(KeyError):
        fake_search(out, fake, trials=2)
    (out / "trials/1").mkdir()
    (out / "trials/1/metrics.json").write_text(left)
    (out / "trials/1/matcher.json").write_text("{}")
    result = fake_search(out, fake, trials=2, resume=True)
    assert [row["status"] for row in result.trials] == ["completed"] * 2
    assert trained(log) == ["0", "1", "1"]


def test_going_on_with_more_trials(tmp_path):
    out, log = tmp_path / "a", tmp_path / "log"
    fake = FakeTrain(log)
    first = fake_search(out, fake, trials=2, retrain=1, keep=2)
    with pytest.raises(InputError, match="already holds a search: continue it with --resume"):
        fake_search(out, fake, trials=3)
    with pytest.raises(InputError, match="another search: tuner was grid, now random"):
        fake_search(out, fake, trials=3, resume=True, tuner="random")
    with pytest.raises(InputError, match="another search: training.seed was 0, now 1"):
        fake_search(out, fake, trials=3, resume=True, recipe=RECIPE.with_training(seed=1))
    again = fake_search(out, fake, trials=30, retrain=1, keep=2, resume=True)
    assert again.trials[:2] == first.trials and len(again.trials) == 30
    assert again.score > first.score, "so there is another best to train"
    names = [row["trial"] for row in again.trials]
    assert trained(log) == [*names[:2], "best", *names[2:], "best"]
    fake_search(out, fake, trials=30, retrain=1, keep=2, resume=True)
    assert len(trained(log)) == 32, "there was nothing left to do"
    best = sorted(again.trials, key=lambda row: -row["score"])[:2]
    kept = {path.parent.name for path in out.glob("trials/*/model.keras")}
    assert kept == {row["trial"] for row in best}
    small = {path.name for path in (out / "trials/0").iterdir()}
    assert small == {"history.csv", "metrics.json"}


def test_the_state_is_never_half_written(tmp_path):
    """What is written is written beside the file, which then takes its place."""
    out = tmp_path / "a"
    fake_search(out, FakeTrain(tmp_path / "log"), trials=2)
    assert not [path for path in out.iterdir() if path.name.startswith(".")]
    assert set(json.loads((out / "oracle.json").read_text())) == {"oracle", "trials"}
