"""A sample of `python -m benchmarks.faults`: each fault once, and each command once."""

import random
import subprocess
import sys

import pytest

from tests.cross_backend import ROOT
from tests.faults.harness import COMMANDS, FAULTS, Bench, Command, digest, finish, preload, start

pytestmark = [pytest.mark.slow, pytest.mark.backend("torch")]

# Further commands that only read.
READERS = {
    "evaluate": "evaluate run --data pairs.tsv",
    "predict one pair": "predict run --sentence1 a --sentence2 b",
    "rank": "rank run query lines.txt",
    "models": "models",
}
# An export is verified in a fresh process.
ALLOWED = {"export --format onnx": ("subprocess.Popen", "os.posix_spawn", "os.fork", "socket.")}


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    preload()
    return Bench(tmp_path_factory.mktemp("faults"))


def sample():
    """Pairs of a command and a fault: every command, and every fault at least once."""
    chosen = random.Random(0)
    for i, name in enumerate(COMMANDS):
        yield name, FAULTS[i % len(FAULTS)], chosen.random()


@pytest.mark.parametrize("name, fault, share", [*sample()])
def test_a_disturbed_command(bench, name, fault, share):
    if COMMANDS[name].needs:
        pytest.importorskip(COMMANDS[name].needs)
    assert bench.run(name, fault, share) == ""


@pytest.mark.parametrize("name", [*COMMANDS, *READERS])
def test_reading_files_of_a_stranger_does_nothing_else(bench, name):
    """No connection, process, unpickling, imported file of the folder, or write outside it (docs/security.md)."""
    command = COMMANDS.get(name) or Command(READERS[name], "")
    if command.needs:
        pytest.importorskip(command.needs)
    folder = bench.copy(f"watch {name}")
    assert finish(start(folder, command, fault="watch")) == 0, (folder / "log").read_text()
    allowed = ALLOWED.get(name, ())
    noted = (folder / "watched").read_text().splitlines()
    assert [line for line in noted if not line.startswith(allowed)] == []


def test_the_watch_sees(tmp_path):
    (tmp_path / "mine.py").write_text("import socket; socket.socket(); open('/tmp/outside', 'a')")
    program = (
        "import sys, pathlib; from tests.faults.harness import Watch; folder = pathlib.Path(sys.argv[1]);"
        "sys.addaudithook(Watch(folder)); sys.path.insert(0, str(folder)); import mine"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, check=True)
    noted = (tmp_path / "watched").read_text()
    assert all(word in noted for word in ("socket", "/tmp/outside", "mine.py"))


def test_the_digest_sees_another_result(bench):
    assert digest(bench.base / "run") != digest(bench.base / "other")


def test_a_broken_command_is_seen(bench, monkeypatch):
    """A command that cannot go on after a kill, as `train` without --resume."""
    monkeypatch.setitem(COMMANDS, "train without", Command(COMMANDS["train"].line, "out"))
    assert "again: status 2" in bench.run("train without", "kill", 0.6)
    folder = bench.copy("plain")
    assert finish(start(folder, Command("train nothing", "out"))) == 2
