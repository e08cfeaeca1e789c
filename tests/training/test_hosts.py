"""The programs of docs/hosts.md for several hosts: two processes of this machine train as one does."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import keras
import pytest

from keras_sentmatch.inference import Matcher

BACKEND = keras.config.backend()
pytestmark = [pytest.mark.slow, pytest.mark.backend("jax", "tensorflow")]
ROOT = Path(__file__).resolve().parents[2]
NAMES = {"jax": "JAX", "tensorflow": "TensorFlow"}
LOSSES = {"jax": "history.history['loss']", "tensorflow": "history"}


def program() -> str:
    """The block of the page, with few pairs, a small model and no dropout; it prints its losses."""
    page = (ROOT / "docs" / "hosts.md").read_text("utf-8")
    section = page.split(f"## {NAMES[BACKEND]}\n")[1]
    code = re.findall(r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)[0]
    for old, new in (
        ("import load_pairs", "import natural_logic_pairs"),
        ('load_pairs("embedded")["train"]', "natural_logic_pairs(256, seed=0)"),
        ("embedding_dim=100, units=100", "embedding_dim=6, units=5, dropout=0.0"),
    ):
        assert old in code
        code = code.replace(old, new)
    return code + f"\nimport json\nprint(json.dumps({LOSSES[BACKEND]}))\n"


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("localhost", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


def variables(hosts: int) -> list[dict[str, str]]:
    """The environment of each process, as the page has it."""
    ports = free_ports(hosts)
    if BACKEND == "tensorflow":
        cluster = {"worker": [f"localhost:{port}" for port in ports]}
        tasks = [{"type": "worker", "index": i} for i in range(hosts)]
        return [{"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})} for task in tasks]
    shared = {
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": f"localhost:{ports[0]}",
        "KERAS_DISTRIBUTION_NUM_PROCESSES": str(hosts),
        "JAX_ENABLE_PREEMPTION_SERVICE": "0",
    }
    return [shared | {"KERAS_DISTRIBUTION_PROCESS_ID": str(i)} for i in range(hosts)]


def test_two_processes_train_as_one(tmp_path):
    (tmp_path / "hosts.py").write_text(program())
    losses = []
    for hosts in (1, 2):
        processes = [
            subprocess.Popen(
                [sys.executable, "hosts.py"],
                cwd=tmp_path,
                env={**os.environ, "KERAS_BACKEND": BACKEND, "PYTHONPATH": str(ROOT), **more},
                stdout=subprocess.PIPE,
                text=True,
            )
            for more in variables(hosts)
        ]
        found = [process.communicate(timeout=500)[0] for process in processes]
        assert [process.returncode for process in processes] == [0] * hosts
        losses += [json.loads(output.splitlines()[-1]) for output in found]
    one, *two = losses
    assert len(one) == 3 and one[2] < one[0]
    for other in two:
        assert other == pytest.approx(one, abs=1e-5)
    answer = Matcher.load(tmp_path / "runs" / "hosts").predict(sentence1="a", sentence2="b")
    assert sum(answer.probabilities.values()) == pytest.approx(1, abs=1e-5)
