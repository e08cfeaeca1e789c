"""What a command imports and prints while it starts: each in a process of its own."""

import json
import os
import subprocess
import sys

import keras
import pytest

from keras_sentmatch.cli.backend import keep_compiled_programs

RUN = """
import json, socket, sys
from keras_sentmatch.cli import main

def refuse(*_, **__):
    print("NETWORK", file=sys.stderr)
    raise OSError("there is no network")

for owner, names in (socket.socket, ("connect", "connect_ex")), (socket, ("getaddrinfo",)):
    for name in names:
        setattr(owner, name, refuse)
for arguments in map(json.loads, sys.argv[1:]):
    try:
        main(arguments)
    except SystemExit as ended:
        if ended.code:
            raise
print("IMPORTED", *sorted({"tensorflow", "torch", "jax"} & set(sys.modules)))
"""
TRAIN = [
    *("train", "esim", "--limit", "40", "--epochs", "1", "--set", "model.units=2"),
    *("--set", "encoder.max_length=8"),
]


def start(folder, backend):
    """What training and asking a tiny model prints, and which backends that imports."""
    plain = {n: v for n, v in os.environ.items() if n != "TF_CPP_MIN_LOG_LEVEL" and n[:4] != "JAX_"}
    plain["XDG_CACHE_HOME"] = str(folder)
    plain["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"  # a tiny model compiles at once
    run, page = str(folder / "run"), str(folder / "page.html")
    pair = ["--sentence1", "A dog runs.", "--sentence2", "An animal unknownword."]
    commands = [
        [*TRAIN, "--out", run],
        ["predict", run, *pair],
        ["explain", run, *pair, "--out", page],
    ]
    command = [sys.executable, "-c", RUN, *map(json.dumps, commands)]
    done = subprocess.run(
        command, env={**plain, "KERAS_BACKEND": backend}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stderr, done.stdout.splitlines()[-1].split()[1:]


@pytest.mark.each_backend
def test_commands_import_one_backend_print_only_their_own_messages_and_need_no_network(tmp_path):
    backend = keras.config.backend()
    printed, imported = start(tmp_path, backend)
    assert "tensorflow" not in imported or backend == "tensorflow"
    assert (tmp_path / "page.html").exists() and "NETWORK" not in printed
    assert any((tmp_path / "keras_sentmatch").rglob("*train_step*")) is (backend == "jax")
    noise = ("absl", "oneDNN", "cuda", "cpu_feature_guard", "I0000", "WARNING")
    assert not [line for line in printed.splitlines() if any(word in line for word in noise)]


@pytest.mark.parametrize(
    "given, folder",
    [
        ({"XDG_CACHE_HOME": "/caches"}, "/caches/keras_sentmatch/jax"),
        ({"HOME": "/home/me"}, "/home/me/.cache/keras_sentmatch/jax"),
        ({"XDG_CACHE_HOME": "/caches", "JAX_COMPILATION_CACHE_DIR": "/mine"}, "/mine"),
        ({"XDG_CACHE_HOME": "/caches", "SENTMATCH_JAX_CACHE": "0"}, None),
    ],
)
def test_jax_keeps_what_it_compiles(given, folder, monkeypatch):
    for name in ("XDG_CACHE_HOME", "JAX_COMPILATION_CACHE_DIR", "SENTMATCH_JAX_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    keep_compiled_programs()
    assert os.environ.get("JAX_COMPILATION_CACHE_DIR") == folder
