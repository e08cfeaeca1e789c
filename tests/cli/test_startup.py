"""What a command imports and prints while it starts: each in a process of its own."""

import os
import subprocess
import sys

import keras
import pytest

from keras_sentmatch.cli.backend import keep_compiled_programs

RUN = """
import sys
from keras_sentmatch.cli import main
try:
    main(sys.argv[1:])
finally:
    print("IMPORTED", *sorted({"tensorflow", "torch", "jax"} & set(sys.modules)))
"""
TRAIN = [
    *("train", "esim", "--limit", "40", "--epochs", "1", "--set", "model.units=2"),
    *("--set", "encoder.max_length=8", "--set", "training.jit_compile=false"),
]


def start(folder, backend):
    """What training a tiny model prints, and which backends it imports."""
    plain = {n: v for n, v in os.environ.items() if n != "TF_CPP_MIN_LOG_LEVEL" and n[:4] != "JAX_"}
    plain["XDG_CACHE_HOME"] = str(folder)
    plain["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"  # a tiny model compiles at once
    jit = ("--set", f"training.jit_compile={str(backend == 'jax').lower()}")
    command = [sys.executable, "-c", RUN, *TRAIN, *jit, "--out", str(folder / "run")]
    done = subprocess.run(
        command, env={**plain, "KERAS_BACKEND": backend}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stderr, done.stdout.splitlines()[-1].split()[1:]


@pytest.mark.each_backend
def test_training_imports_one_backend_and_prints_only_its_own_messages(tmp_path):
    backend = keras.config.backend()
    printed, imported = start(tmp_path, backend)
    assert "tensorflow" not in imported or backend == "tensorflow"
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
