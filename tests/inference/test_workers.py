"""Processes that compute items: order, deaths, errors, and what each of them sees of the machine."""

import os
import signal
import time
from itertools import count, islice
from pathlib import Path

import pytest

from keras_sentmatch.errors import InputError
from keras_sentmatch.inference import workers
from keras_sentmatch.inference.workers import in_workers

pytestmark = pytest.mark.once


class Square:
    """Squares numbers; dies once at `dies`, if there is a file to note it in, or else each time."""

    def __init__(self, dies=None, note=None):
        self.dies, self.note = dies, note

    def __call__(self, number):
        if number == "bad":
            raise InputError("a bad item")
        if number == "worse":
            raise ValueError("a fault")
        if number == self.dies and not (self.note and Path(self.note).exists()):
            if self.note:
                Path(self.note).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.02 * (number % 2))
        return number**2, os.getpid(), os.environ["OMP_NUM_THREADS"]


def test_results_come_in_order_though_a_process_dies(tmp_path, caplog, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    read = []
    numbers = (read.append(i) or i for i in count())
    results = in_workers(Square(3, tmp_path / "note"), numbers, 2)
    found = list(islice(results, 20))
    results.close()
    assert [square for square, _, _ in found] == [i**2 for i in range(20)]
    assert len({pid for _, pid, _ in found}) == 3
    assert {threads for _, _, threads in found} == {str(max(1, workers.cpus() // 2))}
    assert len(read) <= 20 + workers.AHEAD * 2 and "OMP_NUM_THREADS" not in os.environ
    assert (
        "a worker process died (killed, perhaps for lack of memory); its rows are scored again"
        in caplog.text
    )


def test_what_kills_each_process_is_one_error():
    results = in_workers(Square(1), [0, 1, 2], 2)
    with pytest.raises(InputError, match="3 processes died on the same rows"):
        list(results)


def test_an_error_of_a_process_is_raised():
    assert list(in_workers(Square(), [], 2)) == []
    with pytest.raises(InputError, match="^a bad item$"):
        list(in_workers(Square(), [1, "bad"], 1))
    with pytest.raises(RuntimeError, match="ValueError: a fault"):
        list(in_workers(Square(), ["worse"], 1))


def test_each_process_sees_one_gpu(monkeypatch):
    before = dict(os.environ)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5")
    seen = []
    for number in range(3):
        with workers._environment(number, 3):
            seen.append(os.environ["CUDA_VISIBLE_DEVICES"])
            assert os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    assert seen == ["2", "5", "2"]
    with workers._environment(0, 2):
        assert "XLA_PYTHON_CLIENT_PREALLOCATE" not in os.environ.keys() - before.keys()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    with workers._environment(0, 2):
        assert workers.gpus() == [] and os.environ["CUDA_VISIBLE_DEVICES"] == "-1"
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert "CUDA_VISIBLE_DEVICES" in before or dict(os.environ) == before


def test_gpus_are_asked_of_the_driver(monkeypatch, tmp_path):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 0\necho 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert workers.gpus() == ["0", "1"]
    program.write_text("#!/bin/sh\nexit 9\n")
    assert workers.gpus() == []
