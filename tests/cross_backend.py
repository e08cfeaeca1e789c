"""Runs saved models on another backend, in a process of its own.

As a module it is that process: `python -m tests.cross_backend JOB.json`.
"""

import importlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
BACKENDS = ("tensorflow", "jax", "torch")


def available_backends() -> list[str]:
    return [b for b in BACKENDS if importlib.util.find_spec(b) is not None]


def flatten(outputs: Any) -> list[Any]:
    """Tensors of a tensor, a list or a dict (by key), in one order on every backend."""
    import keras

    return keras.tree.flatten(outputs)


def run_on_backend(
    backend: str,
    jobs: Sequence[tuple[str | Path, str | Path]],
    imports: Sequence[str] = ("keras_sentmatch.layers", "keras_sentmatch.applications"),
    timeout: float = 900,
) -> list[list[np.ndarray]]:
    """The outputs, flattened, of each (`.keras` file, `.npz` of inputs by name) on `backend`.

    One process runs all the jobs: its start takes longer than a small model. `imports` are the
    modules that register the classes in the files.
    """
    with tempfile.TemporaryDirectory() as folder:
        outs = [str(Path(folder) / f"{i}.npz") for i in range(len(jobs))]
        plan = {"imports": list(imports), "jobs": [(*map(str, j), o) for j, o in zip(jobs, outs)]}
        job_file = Path(folder) / "job.json"
        job_file.write_text(json.dumps({"backend": backend, **plan}))
        done = subprocess.run(
            [sys.executable, "-m", "tests.cross_backend", str(job_file)],
            cwd=ROOT,
            env={**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"},
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if done.returncode:
            raise RuntimeError(f"{backend} failed:\n{done.stderr[-3000:]}")
        results = []
        for out in outs:
            with np.load(out) as arrays:
                results.append([arrays[f"arr_{i}"] for i in range(len(arrays))])
        return results


def main(job_file: str) -> None:
    plan = json.loads(Path(job_file).read_text())
    if plan["backend"] == "torch":
        import torch  # noqa: F401  before anything imports TensorFlow
    import keras

    assert keras.backend.backend() == plan["backend"], keras.backend.backend()
    for module in plan["imports"]:
        importlib.import_module(module)
    for model_file, inputs_file, out in plan["jobs"]:
        with np.load(inputs_file) as inputs:
            tensors = {n: keras.ops.convert_to_tensor(a) for n, a in inputs.items()}
        try:
            model = keras.saving.load_model(model_file, compile=False)
            if plan["backend"] == "jax":  # one program: to compile each operation takes far longer
                import jax

                model = jax.jit(model)
            outputs = model(tensors)
        except Exception as error:
            raise RuntimeError(f"{model_file} on {plan['backend']}: {error}") from error
        np.savez(out, *(keras.ops.convert_to_numpy(o) for o in flatten(outputs)))


if __name__ == "__main__":
    main(sys.argv[1])
