"""A file saved by this backend gives the same outputs on every other one, from shared weights."""

import importlib
import importlib.util
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from tests.case import Case, as_model, built, close, name_of, values
from tests.cross_backend import ROOT


def collected() -> list[Case]:
    """The `CASES` of the tests of layers and applications, and of the harness itself."""
    files = [*ROOT.glob("tests/layers/test_*.py"), *ROOT.glob("tests/applications/test_*.py")]
    names = [".".join(f.relative_to(ROOT).with_suffix("").parts) for f in sorted(files)]
    modules = [importlib.import_module(n) for n in ["tests.test_harness", *names]]
    return [case for m in modules for case in getattr(m, "CASES", [])]


CASES = collected()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with each model and its inputs, and the outputs here."""
    folder, outputs = tmp_path_factory.mktemp("saved"), {}
    for i, case in enumerate(CASES):
        name, model = f"{i}-{name_of(case)}", as_model(case, built(case))
        model.save(folder / f"{name}.keras")
        np.savez(folder / f"{name}.npz", **case.inputs)
        outputs[name] = values(case.call(model, case.inputs))
    return folder, outputs


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_outputs_equal(backend, saved):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    if backend == keras.backend.backend():
        pytest.skip("this is the backend that saved the files")
    folder, outputs = saved
    command = [sys.executable, "-m", "tests.cross_backend", str(folder)]
    env = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    wrong = []
    for name, here in outputs.items():
        with np.load(folder / f"{name}-{backend}.npz") as there:
            try:
                close([there[f"arr_{i}"] for i in range(len(there))], here, name)
            except AssertionError as error:  # say all that differ, not the first
                wrong.append(str(error).splitlines()[0])
    assert not wrong, "\n".join(wrong)
