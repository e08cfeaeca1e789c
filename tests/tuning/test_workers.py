"""A chief and its workers: first in threads of this process, with trials that take no time, then in processes."""

import csv
import importlib
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
from keras_sentmatch.tuning import Choice, Space, search
from keras_sentmatch.tuning.workers import VARIABLES, LocalWorkers, role
from tests.toys.fake_training import RECIPE, SPLITS, FakeTrain, space_of_fakes, without_cost
from tests.toys.training import build_tiny, tiny_recipe, tiny_splits

keras_tuner = pytest.importorskip("keras_tuner", reason="KerasTuner is not installed")
study = importlib.import_module("keras_sentmatch.tuning.study")
cluster = importlib.import_module("keras_sentmatch.tuning.cluster")
oracles = importlib.import_module("keras_sentmatch.tuning.oracles")

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
        assert "None of 3 trials completed" in str(error) and "ValueError: the cause" in str(error)


def test_a_bug_in_a_worker_ends_the_search(both, tmp_path):
    fake = FakeTrain(tmp_path / "log", fail={1}, error=TypeError("a bug"))
    led, worked = both(fake, trials=3)
    assert isinstance(worked, TypeError)
    assert isinstance(led, RuntimeError) and "trial 1 on one: TypeError('a bug')" in str(led)
    assert [row["status"] for row in rows_of(tmp_path / "chief")] == ["completed", "running"]


def test_a_worker_of_another_search_is_refused(both, tmp_path, monkeypatch):
    refused = []
    plain = cluster.ChiefGone.__init__

    def note(self, error):
        refused.append(str(error))
        plain(self, error)

    monkeypatch.setattr(cluster.ChiefGone, "__init__", note)
    led, _ = both(FakeTrain(tmp_path / "log"), trials=2, of_worker={"seed": 7})
    assert len(led.trials) == 2
    assert "a different one" in refused[0] and "training.seed was 0, now 7" in refused[0]


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

    def __init__(self, path, port):
        self.port = port
        self.oracle = oracles.GridOracle(
            space_of_fakes(False).fixed({"k": "none"}), path, 0, None,
            objective=keras_tuner.Objective("val_accuracy", "max"),
        )  # fmt: skip
        self.ended, self.lost = [], []
        self.chief = cluster.Chief(
            self.oracle,
            {"seed": 0},
            lambda trial, files: self.ended.append((trial.trial_id, trial.score, files)),
            lambda worker, trial: self.lost.append((worker, trial and trial.trial_id)),
            lambda: {"best": "?"},
        )

    def __enter__(self):
        self._open = self.chief.serving("127.0.0.1", self.port)
        self._open.__enter__()
        self.thread = threading.Thread(target=self.chief.run, args=[lambda: None])
        self.thread.start()
        return self

    def __exit__(self, *error):
        self._open.__exit__(None, None, None)
        self.thread.join(PATIENCE)

    def client(self, name):
        return cluster.Client(("127.0.0.1", self.port), name, {"seed": 0})


def finish(client, trial, score=0.5):
    client.trial_id = trial.trial_id
    client.end_trial(score, None, {"error.txt": trial.trial_id})


def gone(client):
    wait_for(lambda: client.gone is not None)
    with pytest.raises(cluster.ChiefGone) as error:
        client.check()
    return str(error.value.args[0])


@pytest.fixture
def led(tmp_path, port):
    with Led(tmp_path / "oracle.json", port) as found:
        yield found


def test_many_workers_of_a_grid_are_busy_at_once(led):
    clients = [led.client(f"w{i}") for i in range(4)]
    trials = [client.next_trial()[0] for client in clients]
    assert len({trial.trial_id for trial in trials}) == 4


def test_a_trial_whose_worker_dies_is_given_out_again_but_not_for_ever(led):
    other = led.client("other")
    kept, _ = other.next_trial()
    for number in range(oracles.ATTEMPTS):
        client = led.client(f"w{number}")
        trial, _ = client.next_trial()
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
    first.next_trial()
    assert second._ask({})["status"] == "IDLE"
    first.close()
    again, _ = second.next_trial()
    finish(second, again)
    assert second.next_trial() == (None, {"best": "?"})


def test_a_chief_that_comes_back(tmp_path, port, monkeypatch):
    monkeypatch.setattr(cluster, "HEAD_START", 0.5)
    with Led(tmp_path / "oracle.json", port) as before:
        ended, running = (before.client(name).next_trial()[0] for name in ("one", "two"))
        three = before.client("three")
        wait_for(lambda: "three" in before.chief.workers)
        finish(three, ended)  # not its own
        assert not before.ended
    after = Led(tmp_path / "oracle.json", port)
    still, fresh = after.client("two"), after.client("four")
    still.trial_id = running.trial_id
    with after:
        others = {client.next_trial()[0].trial_id for client in (fresh, after.client("five"))}
        assert ended.trial_id in others and running.trial_id not in others
        finish(still, running)
        assert [name for name, *_ in after.ended] == [running.trial_id]


def test_a_connection_that_breaks_loses_nothing(led):
    client = led.client("one")
    trial, _ = client.next_trial()
    client._connection.close()  # the chief may notice before the worker is back, or after
    finish(client, trial)
    assert [name for name, *_ in led.ended] == [trial.trial_id]


def test_refusals(led):
    first = led.client("same")
    trial, _ = first.next_trial()
    assert "already: give each another KERASTUNER_TUNER_ID" in gone(led.client("same"))
    for trial_id, why in ((trial.trial_id, "given to another worker"), ("99", "knows no trial 99")):
        assert why in led.chief._refusal("late", {"seed": 0}, trial_id)


def test_a_stranger_at_the_port_does_no_harm(led):
    for sent in (b"GET / HTTP/1.1\r\n\r\n", b"{}\n", b""):
        with socket.create_connection(("127.0.0.1", led.port)) as stranger:
            stranger.sendall(sent)
            stranger.shutdown(socket.SHUT_WR)
            assert stranger.recv(1) == b""
    assert led.client("one").next_trial()[0].status == "RUNNING"
    assert set(led.chief.joined) == {"one"}


def test_a_chief_that_stays_away(port, monkeypatch):
    monkeypatch.setattr(cluster, "WAIT", 0.5)
    client = cluster.Client(("127.0.0.1", port), "w", {})
    assert f"No chief answered at 127.0.0.1:{port} for" in gone(client)


def test_ctrl_c_at_the_chief_is_ctrl_c_for_its_workers(port, tmp_path):
    led = Led(tmp_path / "oracle.json", port)
    client = led.client("w")

    def watch():
        if led.chief.workers:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), led.chief.serving("127.0.0.1", port):
        led.chief.run(watch)
    gone(client)
    assert isinstance(client.gone, KeyboardInterrupt)


@pytest.mark.skipif(sys.platform != "linux", reason="the names of the options are Linux's")
def test_a_machine_that_vanished_is_noticed(led):
    client = led.client("one")
    client.next_trial()
    for connection in (client._connection, led.chief.workers["one"]):
        assert connection._socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        found = {
            name: connection._socket.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
            for name in cluster.KEEPALIVE
        }
        assert found == cluster.KEEPALIVE


def test_a_port_that_is_taken(led, tmp_path, port):
    with pytest.raises(InputError, match="No chief can listen at .*is there another one"):
        with Led(tmp_path / "other.json", port):
            pass


# --- workers on this machine ---


def test_what_can_not_be_handed_to_a_process(tmp_path, monkeypatch):
    monkeypatch.setattr(study.Study, "_dry_run", lambda self: None)
    with pytest.raises(InputError, match="can't be handed to workers .*top of a module"):
        search(RECIPE, SPLITS, tmp_path / "a", space=space_of_fakes(False), workers=1, retrain=0)


@pytest.mark.parametrize("joined", [{"worker0"}, set()])
def test_a_worker_that_ends_by_itself_ends_the_search(joined, tmp_path):
    with pytest.raises(InputError, match="worker0 ended with 1: the last words"):
        ended(tmp_path, 1).watch({}, joined)


def test_workers_that_are_all_killed_before_they_join_end_the_search(tmp_path):
    local = ended(tmp_path, -9)
    for _ in range(3):
        local.watch({}, set())
        local.running = {"worker0": local.running["worker1"]}
    with pytest.raises(InputError, match="worker0 ended with -9: the last words"):
        local.watch({}, set())


def test_a_worker_that_was_killed_is_replaced_when_the_chief_knows(tmp_path):
    local = ended(tmp_path, -9)
    local.watch({"worker0": "still there"}, {"worker0"})
    assert list(local.running) == ["worker0"]
    local.watch({}, {"worker0"})
    assert list(local.running) == ["worker1"]


def ended(folder, exitcode):
    """Workers of whom the first has ended."""
    local = LocalWorkers(1, search, {}, folder)
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
    without_dry_run = "study.Study._dry_run = lambda self: None"
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
        monkeypatch.setattr(study.Study, "_dry_run", lambda self: None)
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
