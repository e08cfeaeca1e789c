"""A sample of `python -m benchmarks.faults`: each fault once, and each command once."""

import random

import pytest

from tests.faults.harness import COMMANDS, FAULTS, Bench, Command, digest, finish, preload, start

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.backend("torch")]


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    preload()
    return Bench(tmp_path_factory.mktemp("faults"))


def sample():
    """Pairs of a command and a fault: every command, and every fault at least once."""
    chosen = random.Random(0)
    for i, name in enumerate(COMMANDS):
        yield name, FAULTS[i % len(FAULTS)], chosen.random()


@pytest.mark.parametrize("name, fault, share", sample())
def test_a_disturbed_command(bench, name, fault, share):
    if COMMANDS[name].needs:
        pytest.importorskip(COMMANDS[name].needs)
    assert bench.run(name, fault, share) == ""


def test_the_digest_sees_another_result(bench):
    assert digest(bench.base / "run") != digest(bench.base / "other")


def test_a_broken_command_is_seen(bench, monkeypatch):
    """A command that cannot go on after a kill, as `train` without --resume."""
    monkeypatch.setitem(COMMANDS, "train without", Command(COMMANDS["train"].line, "out"))
    assert "again: status 2" in bench.run("train without", "kill", 0.6)
    folder = bench.copy("plain")
    assert finish(start(folder, Command("train nothing", "out"))) == 2
