"""A chief and its workers: first in threads of this process, with trials that take no time, then in processes."""

import csv
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

if multiprocessing.parent_process() or "pytest" not in sys.modules:
    sys.modules["tensorflow"] = None  # type: ignore[assignment]  # workers on another backend need none

import keras
import pytest

from keras_sentmatch.errors import InputError
from keras_sentmatch.tuning import Choice, Space, search, study
from keras_sentmatch.tuning.workers import VARIABLES, LocalWorkers, role
from tests.toys.fake_training import RECIPE, SPLITS, FakeTrain, space_of_fakes, without_cost
from tests.toys.training import build_tiny, tiny_recipe, tiny_splits

cygrpc = pytest.importorskip("grpc._cython.cygrpc", reason="gRPC is not installed")
chief = pytest.importorskip("keras_sentmatch.tuning.chief", reason="KerasTuner is not installed")
engine = pytest.importorskip("keras_sentmatch.tuning.engine")

pytestmark = pytest.mark.backend("torch")  # it imports fastest
SIZES = (10, 20, 25, 50)
PATIENCE = 300  # seconds, on a busy machine


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def variables(name, port):
    return dict(zip(VARIABLES, (name, "127.0.0.1", str(port))))


@pytest.fixture
def named(port, monkeypatch):
    """Makes this process the one of that name, to what asks next."""

    def rename(name):
        for variable, value in variables(name, port).items():
            monkeypatch.setenv(variable, value)

    return rename


def rows_of(folder):
    path = folder / "trials.csv"
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def wait_for(found):
    end = time.monotonic() + PATIENCE
    while not found():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)


# --- a whole search in two threads, each with a folder of its own ---


@pytest.fixture
def both(tmp_path, port, named, monkeypatch):
    """Searches with a chief in a thread and a worker in this one; what either gave or raised."""

    def run(fake, *, of_worker=None, **more):
        without_cost(monkeypatch, fake)
        found = {}

        def call(name, **more):
            options = {"tuner": "grid", "retrain": 0, "progress": False, **more}
            fine = options.pop("fine", False)
            folder = tmp_path / name
            try:
                found[name] = search(RECIPE, SPLITS, folder, space=space_of_fakes(fine), **options)
            except Exception as error:
                found[name] = error

        named("chief")
        thread = threading.Thread(target=call, args=["chief"], kwargs=more)
        thread.start()
        wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
        named("one")
        call("one", **{**more, **(of_worker or {})})
        if of_worker:  # it was refused
            call("one", **more)
        thread.join(PATIENCE)
        return found["chief"], found["one"]

    return run


def test_the_seed_proposes_the_same_and_no_folder_is_shared(both, tmp_path, monkeypatch):
    """Every figure crosses the net whole, in 64 bits."""
    options = {"tuner": "random", "trials": 8, "fine": True}
    led, worked = both(FakeTrain(tmp_path / "log"), **options)
    for variable in VARIABLES:
        monkeypatch.delenv(variable)
    options.pop("fine")
    alone = search(
        RECIPE, SPLITS, tmp_path / "alone", space=space_of_fakes(True), retrain=0, progress=False,
        **options,
    )  # fmt: skip
    assert led.trials == alone.trials == worked.trials and len(led.trials) == 8
    assert (led.best, led.score) == (alone.best, alone.score) == (worked.best, worked.score)
    kept = [p.parent.name for p in tmp_path.glob("one/trials/*/model.keras")]
    assert kept == [max(led.trials, key=lambda row: row["score"])["trial"]]
    assert not list(tmp_path.glob("chief/trials/*/model.keras"))
    assert {p.name for p in (tmp_path / "one").iterdir()} == {"trials"}


def test_the_cause_of_a_failure_reaches_the_table(both, tmp_path, capsys):
    fake = FakeTrain(tmp_path / "log", fail={1}, error=ValueError("a grid\ntoo small"))
    led, worked = both(fake, trials=3)
    assert [row["status"] for row in led.trials] == ["completed", "failed", "completed"]
    assert capsys.readouterr().out == "", "KerasTuner prints what it sends"
    assert rows_of(tmp_path / "chief")[1]["error"] == "ValueError: a grid too small"
    assert "Traceback" in (tmp_path / "chief/trials/1/error.txt").read_text()


def test_no_trial_that_finishes(both, tmp_path):
    fake = FakeTrain(tmp_path / "log", fail=range(9), error=ValueError("the cause"))
    for error in both(fake, trials=5):
        assert isinstance(error, InputError)
        assert "None of 3 trials finished" in str(error) and "ValueError: the cause" in str(error)


def test_a_bug_in_a_worker_ends_the_search(both, tmp_path):
    fake = FakeTrain(tmp_path / "log", fail={1}, error=TypeError("a bug"))
    led, worked = both(fake, trials=3)
    assert isinstance(worked, TypeError)
    assert isinstance(led, RuntimeError) and "trial 1 on one: TypeError('a bug')" in str(led)
    assert [row["status"] for row in rows_of(tmp_path / "chief")] == ["completed", "running"]


def test_a_worker_of_another_search_is_refused(both, tmp_path, monkeypatch):
    refused = []
    plain = chief.Gone.__init__

    def note(self, error):
        refused.append(str(error))
        plain(self, error)

    monkeypatch.setattr(chief.Gone, "__init__", note)
    led, _ = both(FakeTrain(tmp_path / "log"), trials=2, of_worker={"seed": 7})
    assert len(led.trials) == 2
    assert "another one" in refused[0] and "training.seed was 0, now 7" in refused[0]


def test_variables(monkeypatch, tmp_path, named):
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    assert role() == ""
    monkeypatch.setenv(VARIABLES[0], "w")
    with pytest.raises(InputError, match="KERASTUNER_TUNER_ID set, but not KERASTUNER_ORACLE_IP"):
        role()
    named("chief")
    assert role() == "chief"
    named("w")
    with pytest.raises(InputError, match="workers is 2, but this process is a worker"):
        search(RECIPE, SPLITS, tmp_path, space=space_of_fakes(False), workers=2)


# --- what the chief does about its workers ---


class Led:
    """A chief with a grid of 12, and clients of it."""

    def __init__(self, path, port, named):
        self.port, self.named = port, named
        self.oracle = engine.GridOracle(
            space_of_fakes(False).fixed({"k": "none"}), path, 0, None,
            objective=engine.keras_tuner.Objective("val_accuracy", "max"),
        )  # fmt: skip
        self.ended, self.lost = [], []
        self.chief = chief.Chief(
            self.oracle,
            {"seed": 0},
            lambda trial, files: self.ended.append((trial.trial_id, trial.score, files)),
            lambda worker, trial: self.lost.append((worker, trial and trial.trial_id)),
            lambda: {"best": "?"},
        )

    def __enter__(self):
        self._open = self.chief.serving(f"127.0.0.1:{self.port}")
        self._open.__enter__()
        self.thread = threading.Thread(target=self.chief.run, args=[lambda: None])
        self.thread.start()
        return self

    def __exit__(self, *error):
        self._open.__exit__(None, None, None)
        self.thread.join(PATIENCE)

    def client(self, name, identity=None):
        self.named(name)
        files = lambda trial_id: {"error.txt": trial_id}  # noqa: E731
        return chief.Client(self.oracle, identity or {"seed": 0}, files)


def trial_of(client):
    found = []

    def running():
        found[:] = [client.create_trial(client.tuner_id)]
        return found[0].status == "RUNNING"

    wait_for(running)
    return found[0]


def finish(client, trial, score=0.5):
    client.update_trial(trial.trial_id, {"val_accuracy": score})
    trial.status = "COMPLETED"
    client.end_trial(trial)


def gone(client):
    wait_for(lambda: client._gone is not None)
    with pytest.raises(chief.Gone) as error:
        client.check()
    return str(error.value.args[0])


@pytest.fixture
def led(tmp_path, port, named):
    with Led(tmp_path / "oracle.json", port, named) as found:
        yield found


def test_many_workers_of_a_grid_are_busy_at_once(led):
    clients = [led.client(f"w{i}") for i in range(4)]
    trials = [trial_of(client) for client in clients]
    assert len({trial.trial_id for trial in trials}) == 4


def test_a_trial_whose_worker_dies_is_given_out_again_but_not_for_ever(led):
    other = led.client("other")
    kept = trial_of(other)
    for number in range(engine.TRIES):
        client = led.client(f"w{number}")
        trial = trial_of(client)
        assert trial.trial_id != kept.trial_id
        client.close()  # what the chief sees of a kill
        wait_for(lambda number=number: len(led.lost) == number + 1)
    assert {name for _, name in led.lost} == {trial.trial_id}
    lost = led.oracle.trials[trial.trial_id]
    assert lost.status == "FAILED" and "its worker died, 3 times" in lost.message
    finish(other, kept, 0.1 + 0.2)
    assert led.ended == [(kept.trial_id, 0.1 + 0.2, {"error.txt": kept.trial_id})]


def test_the_end_waits_for_a_trial_whose_worker_may_die(led):
    led.oracle.max_trials = 1
    first, second = led.client("first"), led.client("second")
    trial_of(first)
    wait_for(lambda: "second" in led.chief.workers)
    assert second.create_trial("second").status == "IDLE"
    first.close()
    again = trial_of(second)
    finish(second, again)
    assert second.create_trial("second").status == "STOPPED"
    assert second.outcome == {"best": "?"}


def test_a_chief_that_comes_back(tmp_path, port, named, monkeypatch):
    monkeypatch.setattr(chief, "HEAD_START", 0.5)
    with Led(tmp_path / "oracle.json", port, named) as before:
        ended, running = (trial_of(before.client(name)) for name in ("one", "two"))
        finish(before.client("three"), ended)  # not its own
        assert not before.ended
        before.chief._lose = lambda worker: None  # a kill saves nothing
    after = Led(tmp_path / "oracle.json", port, named)
    still, fresh = after.client("two"), after.client("four")
    still._trial_id = running.trial_id
    with after:
        others = {trial_of(fresh).trial_id, trial_of(after.client("five")).trial_id}
        assert ended.trial_id in others and running.trial_id not in others
        finish(still, running)
        assert [name for name, *_ in after.ended] == [running.trial_id]


def test_refusals(led):
    first = led.client("same")
    trial = trial_of(first)
    assert "already: give each another KERASTUNER_TUNER_ID" in gone(led.client("same"))
    for trial_id, why in ((trial.trial_id, "given to another worker"), ("99", "knows no trial 99")):
        assert why in led.chief._refusal("late", {"seed": 0}, trial_id)


def test_a_chief_that_stays_away(port, named, monkeypatch, tmp_path):
    monkeypatch.setattr(chief, "WAIT", 0.5)
    client = Led(tmp_path / "oracle.json", port, named).client("w")
    assert f"No chief answered at 127.0.0.1:{port} for" in gone(client)


def test_ctrl_c_at_the_chief_is_ctrl_c_for_its_workers(port, named, tmp_path):
    led = Led(tmp_path / "oracle.json", port, named)
    client = led.client("w")

    def look():
        if led.chief.workers:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), led.chief.serving(f"127.0.0.1:{port}"):
        led.chief.run(look)
    gone(client)
    assert isinstance(client._gone, KeyboardInterrupt)


def test_grpc_knows_each_option():
    """It says nothing of one that it does not know: connections once ended after a minute of training."""
    library = Path(cygrpc.__file__).read_bytes()
    unknown = [name for name, _ in chief.OPTIONS if name.encode() + b"\0" not in library]
    assert not unknown


def test_a_port_that_is_taken(led, tmp_path, port, named):
    with pytest.raises(InputError, match="No chief can listen at .*is there another one"):
        with Led(tmp_path / "other.json", port, named):
            pass


# --- workers on this machine ---


def test_what_can_not_be_handed_to_a_process(tmp_path, monkeypatch):
    monkeypatch.setattr(study._Study, "_dry_run", lambda self: None)
    with pytest.raises(InputError, match="can't be handed to workers .*top of a module"):
        search(RECIPE, SPLITS, tmp_path / "a", space=space_of_fakes(False), workers=1, retrain=0)


@pytest.mark.parametrize("joined", [{"worker0"}, set()])
def test_a_worker_that_ends_by_itself_ends_the_search(joined, tmp_path):
    with pytest.raises(InputError, match="worker0 ended with 1: the last words"):
        ended(tmp_path, 1).look({}, joined)


def test_workers_that_are_all_killed_before_they_join_end_the_search(tmp_path):
    local = ended(tmp_path, -9)
    for _ in range(3):
        local.look({}, set())
        local.running = {"worker0": local.running["worker1"]}
    with pytest.raises(InputError, match="worker0 ended with -9: the last words"):
        local.look({}, set())


def test_a_worker_that_was_killed_is_replaced_when_the_chief_knows(tmp_path):
    local = ended(tmp_path, -9)
    local.look({"worker0": "still there"}, {"worker0"})
    assert list(local.running) == ["worker0"]
    local.look({}, {"worker0"})
    assert list(local.running) == ["worker1"]


def ended(folder, exitcode):
    """Workers of whom the first has ended."""
    local = LocalWorkers(1, {}, folder)
    process = SimpleNamespace(exitcode=exitcode, is_alive=lambda: False)
    local.running["worker0"] = process
    local._start = lambda: local.running.update(worker1=process)
    (folder / "worker0.log").write_text("the first words\nthe last words\n\n")
    return local


# --- in processes ---


def grid_of_four(recipe):
    choices = [Choice("model.dropout", (0.0, 0.1, 0.2, 0.3))]
    return Space(recipe, choices, defaults={"model.dropout": 0.1})


def search_tiny(out, build, **more):
    recipe = tiny_recipe(epochs=1, seed=0, jit_compile=False)  # the same on every backend
    more = {"tuner": "grid", "retrain": 0, "progress": False, **more}
    return search(recipe, tiny_splits(), out, space=grid_of_four(recipe), build=build, **more)


def note(line):
    with open(os.environ["NOTES"], "a") as file:
        file.write(f"{line}\n")


def notes(path):
    return path.read_text().split() if path.exists() else []


def build_deadly(name, *, dropout, **config):
    """The first worker that has to do with 0.2 dies of it."""
    if multiprocessing.parent_process() is not None:
        note(dropout)
        if dropout == 0.2 and notes(Path(os.environ["NOTES"])).count("0.2") == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    return build_tiny(name, dropout=dropout, **config)


@pytest.mark.slow
def test_two_workers_of_whom_one_is_killed(tmp_path, monkeypatch):
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    found = search_tiny(tmp_path / "a", build_deadly, workers=2)
    assert [row["status"] for row in found.trials] == ["completed"] * 4
    again = {row["model.dropout"]: row["requeued"] for row in found.trials}
    assert again == {0.1: 0, 0.0: 0, 0.2: 1, 0.3: 0}
    assert sorted(notes(tmp_path / "notes")) == ["0.0", "0.1", "0.2", "0.2", "0.3"]
    assert {"worker0.log", "worker1.log"} <= {p.name for p in (tmp_path / "a").glob("*.log")}
    assert len(list(tmp_path.glob("a/trials/*/model.keras"))) == 1
    assert not multiprocessing.active_children()


def build_when_both_are_there(name, *, dropout, **config):
    """A worker waits in its first trial until there is one on the other backend."""
    if role() == "worker":
        note(f"{keras.config.backend()}={dropout}")
        wait_for(lambda: {"torch", "jax"} <= backends(Path(os.environ["NOTES"])))
    return build_tiny(name, dropout=dropout, **config)


def backends(path):
    return {line.partition("=")[0] for line in notes(path)}


@pytest.mark.slow
@pytest.mark.skipif(not find_spec("jax"), reason="JAX is not installed")
def test_a_killed_chief_goes_on_with_workers_on_two_backends(tmp_path, port, named, monkeypatch):
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    without_dry_run = "study._Study._dry_run = lambda self: None"
    line = "search_tiny(sys.argv[1], build_when_both_are_there)"
    line = f"from tests.tuning.test_workers import *; {without_dry_run}; {line}"
    begun = []

    def start(name, backend):
        environment = {**os.environ, **variables(name, port), "KERAS_BACKEND": backend}
        command = [sys.executable, "-c", line, str(tmp_path / name)]
        begun.append(subprocess.Popen(command, env=environment, cwd=Path(__file__).parents[2]))
        return begun[-1]

    try:
        first, torch = start("chief", "torch"), start("torch", "torch")
        wait_for(lambda: backends(tmp_path / "notes") == {"torch"})
        first.kill()
        first.wait()
        jax = start("jax", "jax")
        named("chief")
        monkeypatch.setattr(study._Study, "_dry_run", lambda self: None)
        found = search_tiny(tmp_path / "chief", build_when_both_are_there, resume=True)
        assert (torch.wait(PATIENCE), jax.wait(PATIENCE)) == (0, 0)
    finally:
        for process in begun:
            process.kill()
    assert [row["status"] for row in found.trials] == ["completed"] * 4
    assert {row["backend"] for row in found.trials} == {"torch", "jax"}
    assert [row["requeued"] for row in found.trials] == [0] * 4
    dropouts = [line.partition("=")[2] for line in notes(tmp_path / "notes")]
    assert sorted(dropouts) == ["0.0", "0.1", "0.2", "0.3"], "none was trained twice"
