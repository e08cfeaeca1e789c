"""A file saved by this backend gives the same outputs on every other one, from shared weights."""

import importlib
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tests.cross_backend import ROOT, available_backends, run_on_backend
from tests.harness import Case, as_model, built, close, name_of, values

REGISTER = ["keras_sentmatch.layers", "keras_sentmatch.applications", "tests.test_harness"]


def collected() -> list[Case]:
    """The `CASES` of the tests of layers and applications, and of the harness itself."""
    files = [*ROOT.glob("tests/layers/test_*.py"), *ROOT.glob("tests/applications/test_*.py")]
    names = [".".join(f.relative_to(ROOT).with_suffix("").parts) for f in sorted(files)]
    modules = [importlib.import_module(n) for n in ["tests.test_harness", *names]]
    return [case for m in modules for case in getattr(m, "CASES", [])]


CASES = collected()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: Any) -> list[tuple[Path, Path, list[np.ndarray]]]:
    """By case: the model's file, its inputs' file, and the outputs here."""
    folder, jobs = tmp_path_factory.mktemp("saved"), []
    for i, case in enumerate(CASES):
        model = as_model(case, built(case))
        model.save(folder / f"{i}-{name_of(case)}.keras")
        np.savez(folder / f"{i}.npz", **case.inputs)
        outputs = values(case.call(model, case.inputs))
        jobs.append((folder / f"{i}-{name_of(case)}.keras", folder / f"{i}.npz", outputs))
    return jobs


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_outputs_equal(backend: str, saved: Any) -> None:
    if backend not in available_backends():
        pytest.skip(f"{backend} is not installed")
    if backend == keras.backend.backend():
        pytest.skip("this is the backend that saved the files")
    there = run_on_backend(backend, [(m, i) for m, i, _ in saved], imports=REGISTER)
    wrong = []
    for case, outputs, (_, _, here) in zip(CASES, there, saved):
        try:
            close(outputs, here, name_of(case))
        except AssertionError as error:  # say all that differ, not the first
            wrong.append(str(error).splitlines()[0])
    assert not wrong, "\n".join(wrong)
