"""Run the saved models of a folder on this backend: `python -m tests.cross_backend FOLDER`."""

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]


def main(folder):
    """For each `X.keras` and its inputs `X.npz` write the outputs to `X-BACKEND.npz`."""
    import keras

    import keras_sentmatch.applications  # noqa: F401  both register classes
    import tests.test_harness  # noqa: F401

    backend = keras.backend.backend()
    for file in sorted(Path(folder).glob("*.keras")):
        with np.load(file.with_suffix(".npz")) as inputs:
            tensors = {n: keras.ops.convert_to_tensor(a) for n, a in inputs.items()}
        model = keras.saving.load_model(file, compile=False)
        if backend == "jax":  # one program: to compile each operation takes far longer
            import jax

            model = jax.jit(model)
        outputs = keras.tree.flatten(model(tensors))
        arrays = [keras.ops.convert_to_numpy(o) for o in outputs]
        np.savez(file.with_name(f"{file.stem}-{backend}.npz"), *arrays)


if __name__ == "__main__":
    main(sys.argv[1])
