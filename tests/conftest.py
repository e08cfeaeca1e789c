"""Which backend runs, where real data lies, and a fresh seed for each test."""

import gc
import importlib.metadata
import importlib.util
import os
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

WANTED = os.environ.get("KERAS_BACKEND", "")
if WANTED == "torch" and importlib.util.find_spec("torch"):
    import torch  # noqa: F401  torch after TensorFlow can crash the process

# JAX compiles each operation and shape: keep them between runs (halves the time or better)
CACHE = Path(__file__).resolve().parents[1] / ".pytest_cache" / "jax"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

pytest.register_assert_rewrite("tests.case", "tests.harness", "tests.cross_backend")


def running_backend() -> str:
    """The backend in use; "" as long as nothing has imported keras (a test of data need not)."""
    return sys.modules["keras"].backend.backend() if "keras" in sys.modules else ""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "backend(*names): runs on these backends only")
    # Keras only warns when a layer drops a mask
    config.addinivalue_line("filterwarnings", "error:.*does not support masking:UserWarning")


def pytest_report_header(config: pytest.Config) -> str:
    found = {n: importlib.util.find_spec(n) for n in ("keras", "tensorflow", "jax", "torch")}
    versions = [f"{n} {importlib.metadata.version(n)}" for n in found if found[n]]
    return f"KERAS_BACKEND={WANTED or '(not set)'}; installed: {', '.join(versions)}"


def pytest_report_collectionfinish(config: pytest.Config) -> str:
    """Says which backend really runs, and stops where it is not the one asked for."""
    real = running_backend()
    if WANTED and real not in ("", WANTED):
        pytest.exit(f"KERAS_BACKEND={WANTED}, but keras runs on {real}", returncode=3)
    return f"backend in use: {real or 'none yet (keras not imported)'}"


# Tests of many small graphs take JAX minutes, which compiles every operation of every shape, and TensorFlow many seconds.
# Of those, what PyTorch has shown of the same `keras.ops` code is left out: that options do something, that a config comes
# back, that rows do not touch each other; on JAX of models, and of the examples of docstrings, more. The checks that depend
# on how a backend traces, compiles, differentiates and casts are not, and test_cross_backend compares every Case between
# backends. SENTMATCH_ALL_CHECKS=1 runs everything.
SHOWN_ON_TORCH = re.compile("options|variants|presets|counts|host|explainer|halves|table")
CHECKS_SHOWN_ON_TORCH = {"check_config", "check_batch", "check_short"}
CHECKS_OF_MODELS_ON_JAX = {"check_build", "check_oracle", "check_fit", "check_save"}


# These take longest. Begun last, they would keep one process of two busy when the other has no more to do.
LONG = (
    "test_cross_backend",
    "test_all_models",
    "test_saved_model",
    "test_feature_blocks",
    "test_run",
    "test_docs",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG))


def left_out(item: pytest.Item) -> bool:
    folder, test = item.path.parent.name, item.name.partition("[")[0]
    if os.environ.get("SENTMATCH_ALL_CHECKS"):
        return False
    if test == "test_examples_run":
        return running_backend() == "jax"
    if folder not in ("layers", "applications") or running_backend() == "torch":
        return False
    check = getattr(getattr(item, "callspec", None), "params", {}).get("check")
    if check is None:
        return bool(SHOWN_ON_TORCH.search(test))
    if folder == "applications" and running_backend() == "jax":
        return check.__name__ not in CHECKS_OF_MODELS_ON_JAX
    return check.__name__ in CHECKS_SHOWN_ON_TORCH


def pytest_runtest_setup(item: pytest.Item) -> None:
    if left_out(item):
        pytest.skip(f"left out on {running_backend()}: see conftest.py")
    marker = item.get_closest_marker("backend")
    if marker is not None:
        import keras

        if keras.backend.backend() not in marker.args:
            pytest.skip(f"runs on {' and '.join(marker.args)} only")


@pytest.fixture(autouse=True)
def fresh_state() -> Iterator[None]:
    """The same seeds before, the default dtype policy after each test."""
    random.seed(0)
    np.random.seed(0)
    if "keras" in sys.modules:
        sys.modules["keras"].utils.set_random_seed(0)
    yield
    if "keras" in sys.modules:
        sys.modules["keras"].config.set_dtype_policy("float32")


@pytest.fixture(autouse=True, scope="module")
def few_compiled_programs() -> Iterator[None]:
    """JAX keeps every program it compiled, mapped into memory: thousands of them end in a crash of the process."""
    yield
    if running_backend() == "jax":
        import jax

        jax.clear_caches()
        gc.collect()


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data sets: `SENTMATCH_DATA`, else `shared/data` beside the repository."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("SENTMATCH_DATA") or default)
    if not folder.is_dir():
        pytest.skip(f"no real data: set SENTMATCH_DATA (looked in {folder})")
    return folder
