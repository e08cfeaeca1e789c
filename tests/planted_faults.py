"""Faults planted in the code one at a time, each of which the tests that run by default must catch.

`python -m tests.planted_faults [WORD ...]` plants each fault (or those with one of the words in
their name) in a scratch copy of the repository, runs on PyTorch the tests that should see it, and
prints a table. It ends with status 1 where a fault was not caught or no longer fits the code.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("keras_sentmatch", "applications", "tuning", "tests", "docs")


@dataclass(frozen=True)
class Fault:
    """A change of one place in the code, and the tests that must fail with it."""

    name: str
    file: str
    old: str
    new: str
    tests: str  # arguments of pytest


FAULTS = [
    Fault(
        "masked softmax: an empty row is not all zeros",
        "keras_sentmatch/ops/masking.py",
        "weights = ops.exp(wide) * ops.cast(mask, wide.dtype)",
        "weights = ops.exp(wide)",
        "tests/ops",
    ),
    Fault(
        "masked softmax: wrong axis",
        "keras_sentmatch/ops/masking.py",
        "total = ops.sum(weights, axis=axis, keepdims=True)",
        "total = ops.sum(weights, axis=1, keepdims=True)",
        "tests/ops",
    ),
    Fault(
        "masked mean: padding is counted",
        "keras_sentmatch/ops/masking.py",
        "ops.maximum(ops.sum(weights, axis=axis), 1.0)",
        "ops.cast(ops.shape(wide)[axis], wide.dtype)",
        "tests/ops",
    ),
    Fault(
        "masked maximum: mask ignored",
        "keras_sentmatch/ops/masking.py",
        "ops.max(_lower_padding(x, mask), axis=axis)",
        "ops.max(x, axis=axis)",
        "tests/ops",
    ),
    Fault(
        "pair mask: one real token is enough",
        "keras_sentmatch/ops/masking.py",
        "return ops.logical_and(ops.expand",
        "return ops.logical_or(ops.expand",
        "tests/ops",
    ),
    Fault(
        "reversal within the length: off by one",
        "keras_sentmatch/ops/sequence.py",
        "count - 1 - position",
        "count - position",
        "tests/ops",
    ),
    Fault(
        "last state: of an unpadded row only",
        "keras_sentmatch/ops/sequence.py",
        "ops.max(count, axis=1, keepdims=True)",
        "ops.shape(count)[1]",
        "tests/ops",
    ),
    Fault(
        "cosine: lengths not squared",
        "keras_sentmatch/ops/similarity.py",
        "ops.sum(ops.square(x), axis=-1, keepdims=True)",
        "ops.sum(ops.abs(x), axis=-1, keepdims=True)",
        "tests/ops",
    ),
    Fault(
        "highway: gate inverted",
        "keras_sentmatch/layers/highway.py",
        "x = g * transform(x) + (1 - g) * x",
        "x = (1 - g) * transform(x) + g * x",
        "tests/layers/test_highway.py",
    ),
    Fault(
        "co-attention: temperature ignored",
        "keras_sentmatch/layers/co_attention.py",
        "scores = scores * ops.cast(self.scale, scores.dtype)",
        "pass",
        "tests/layers/test_co_attention.py",
    ),
    Fault(
        "co-attention: both softmaxes over one axis",
        "keras_sentmatch/layers/co_attention.py",
        "masked_softmax(scores, mask, axis=1)",
        "masked_softmax(scores, mask, axis=2)",
        "tests/layers/test_co_attention.py",
    ),
    Fault(
        "bidirectional RNN: backward states not turned round",
        "keras_sentmatch/layers/bidirectional_rnn.py",
        "backward = reverse_within_length(self.backward_rnn(reverse_within_length(x, mask)), mask)",
        "backward = self.backward_rnn(reverse_within_length(x, mask))",
        "tests/layers/test_bidirectional_rnn.py",
    ),
    Fault(
        "re-reading: a step too few",
        "keras_sentmatch/layers/rereread_attention.py",
        "for _ in range(self.steps):",
        "for _ in range(self.steps - 1):",
        "tests/layers/test_rereread_attention.py",
    ),
    Fault(
        "re-reading: beta ignored",
        "keras_sentmatch/layers/rereread_attention.py",
        "masked_softmax(self.beta * (scores - top), mask)",
        "masked_softmax(scores - top, mask)",
        "tests/layers/test_rereread_attention.py",
    ),
    Fault(
        "character CNN: windows of padding count",
        "keras_sentmatch/layers/char_cnn.py",
        "masked_max(windows, real[:, : width - self.kernel_size + 1])",
        "ops.max(windows, axis=1)",
        "tests/layers/test_char_cnn.py",
    ),
    Fault(
        "matching vector: difference without its absolute value",
        "keras_sentmatch/layers/matching_vector.py",
        '"absolute_difference": lambda p, q: ops.abs(p - q)',
        '"absolute_difference": lambda p, q: p - q',
        "tests/layers/test_matching_vector.py",
    ),
    Fault(
        "factorization machine: each pair counted twice",
        "keras_sentmatch/layers/factorization_machine.py",
        "y = y + 0.5 * ops.sum",
        "y = y + ops.sum",
        "tests/layers/test_factorization_machine.py",
    ),
    Fault(
        "auto-encoder: padding counts in the loss",
        "keras_sentmatch/layers/autoencoder_bottleneck.py",
        "return ops.mean(masked_mean(*per_group))",
        "return ops.mean(per_group[0])",
        "tests/layers/test_autoencoder_bottleneck.py",
    ),
    Fault(
        "feature attention: gates without sigmoid",
        "keras_sentmatch/layers/feature_attention.py",
        "gates = ops.sigmoid(e)",
        "gates = ops.tanh(e)",
        "tests/layers/test_feature_attention.py",
    ),
    Fault(
        "selective feature attention: softmax over the features",
        "keras_sentmatch/layers/selective_feature_attention.py",
        "gates, axis=1)\n            factors",
        "gates, axis=2)\n            factors",
        "tests/layers/test_selective_feature_attention.py",
    ),
    Fault(
        "matrix GRU: update gate inverted",
        "keras_sentmatch/layers/matrix_dynamic_gru.py",
        "h = (1 - z) * h + z * new",
        "h = z * h + (1 - z) * new",
        "tests/layers/test_matrix_dynamic_gru.py",
    ),
    Fault(
        "matrix interaction: padding moves the state",
        "keras_sentmatch/layers/matrix_interaction.py",
        "w = ops.where(real, new, w)",
        "w = new",
        "tests/layers/test_matrix_interaction.py",
    ),
    Fault(
        "dual attention: scores not scaled",
        "keras_sentmatch/layers/dual_attention.py",
        "masked_softmax(distances * self.key_dim**-0.5, visible)",
        "masked_softmax(distances, visible)",
        "tests/layers/test_dual_attention.py",
    ),
    Fault(
        "adaptive fusion: gate inverted",
        "keras_sentmatch/layers/adaptive_fusion.py",
        "v = ops.cast(gate, a.dtype) * new_a + ops.cast(1.0 - gate, a.dtype) * new_d",
        "v = ops.cast(gate, a.dtype) * new_d + ops.cast(1.0 - gate, a.dtype) * new_a",
        "tests/layers/test_adaptive_fusion.py",
    ),
    Fault(
        "decaying dropout: steps not counted",
        "keras_sentmatch/layers/decaying_dropout.py",
        "self.steps.assign(self.steps + 1)",
        "pass",
        "tests/layers/test_decaying_dropout.py",
    ),
    Fault(
        "dynamic attention: coverage not spent",
        "keras_sentmatch/layers/dynamic_sequential_attention.py",
        "coverage[r] = coverage[r] - spent",
        "pass",
        "tests/layers/test_dynamic_sequential_attention.py",
    ),
    Fault(
        "HyperLSTM: forget bias missing",
        "keras_sentmatch/layers/hyper_lstm_cell.py",
        "ops.sigmoid(f + 1) * c",
        "ops.sigmoid(f) * c",
        "tests/layers/test_hyper_lstm_cell.py",
    ),
    Fault(
        "dense RNN: earlier features in the wrong order",
        "keras_sentmatch/layers/dense_co_attentive_rnn.py",
        "return [new, *earlier]",
        "return [*earlier, new]",
        "tests/layers/test_dense_co_attentive_rnn.py",
    ),
    Fault(
        "RE2: residual not scaled",
        "applications/re2.py",
        "TODO",
        "",
        "tests/applications/test_re2.py",
    ),
    Fault(
        "ESIM: sentences swapped before the last layers",
        "applications/esim.py",
        "TODO",
        "",
        "tests/applications/test_esim.py",
    ),
    Fault(
        "CAFE: mean pooling left out",
        "applications/cafe.py",
        "TODO",
        "",
        "tests/applications/test_cafe.py",
    ),
    Fault(
        "encoder: truncation is not counted",
        "keras_sentmatch/data/encoder.py",
        "self.report.truncated += int((kept < full).sum())",
        "pass",
        "tests/data/test_encoder.py",
    ),
    Fault(
        "encoder: letters keep their case",
        "keras_sentmatch/data/text.py",
        "new = char.lower()[0] if lowercase else char",
        "new = char",
        "tests/data/test_text.py tests/data/test_encoder.py",
    ),
    Fault(
        "splits: seed ignored",
        "keras_sentmatch/data/splits.py",
        "rng = np.random.default_rng(seed)",
        "rng = np.random.default_rng(0)",
        "tests/data/test_splits.py",
    ),
    Fault(
        "splits: groups torn apart",
        "keras_sentmatch/data/splits.py",
        "if by_group else range(len(dataset))",
        "if not by_group else range(len(dataset))",
        "tests/data/test_splits.py",
    ),
    Fault(
        "batches: the same order in every epoch",
        "keras_sentmatch/data/pipeline.py",
        "np.random.default_rng((self.seed, epoch))",
        "np.random.default_rng((self.seed, 0))",
        "tests/data/test_pipeline.py",
    ),
    Fault(
        "labels: order of the names swapped",
        "keras_sentmatch/data/dataset.py",
        "tuple(sorted({str(value) for value in values}))",
        "tuple(sorted({str(value) for value in values}, reverse=True))",
        "tests/data/test_dataset.py tests/data/test_readers.py",
    ),
    Fault(
        "resume: the optimizer's variables are forgotten",
        "keras_sentmatch/training/resume.py",
        "return [*model.variables, *model.optimizer.variables]",
        "return [*model.variables]",
        "tests/training/test_resume.py",
    ),
    Fault(
        "resume: callbacks forget",
        "keras_sentmatch/training/resume.py",
        "vars(callback).update(self.state.callbacks.get(name, {}))",
        "pass",
        "tests/training/test_resume.py",
    ),
    Fault(
        "training: seed ignored",
        "keras_sentmatch/training/seeds.py",
        "keras.utils.set_random_seed(seed)",
        "keras.utils.set_random_seed(0)",
        "tests/training",
    ),
    Fault(
        "distillation: temperature ignored",
        "keras_sentmatch/training/distillation.py",
        "ops.log_softmax(x / self.temperature)",
        "ops.log_softmax(x)",
        "tests/training/test_distillation.py",
    ),
    Fault(
        "distillation: weight inverted",
        "keras_sentmatch/training/distillation.py",
        "(1 - self.weight) * hard + self.weight * soft",
        "self.weight * hard + (1 - self.weight) * soft",
        "tests/training/test_distillation.py",
    ),
    Fault(
        "linear schedule: off by one",
        "keras_sentmatch/training/schedules.py",
        "rising = (i + 1) / max(warm_up, 1)",
        "rising = i / max(warm_up, 1)",
        "tests/training/test_schedules.py",
    ),
    Fault(
        "AdamW: biases decay too",
        "keras_sentmatch/training/optimizers.py",
        'return "bias" in name or name in ("gamma", "beta")',
        "return False",
        "tests/training/test_optimizers.py tests/training/test_fine_tuning.py",
    ),
    Fault(
        "monitor: the highest loss is the best",
        "keras_sentmatch/training/callbacks.py",
        'LOWER_IS_BETTER = ("val_loss", "loss")',
        'LOWER_IS_BETTER = ("loss",)',
        "tests/training",
    ),
    Fault(
        "MRR: ranks from 0",
        "keras_sentmatch/metrics/ranking.py",
        "TODO",
        "",
        "tests/metrics",
    ),
    Fault(
        "calibration: the temperature divides twice",
        "keras_sentmatch/metrics/calibration.py",
        '_log(p.astype("float64")) / temperature',
        '_log(p.astype("float64")) / temperature**2',
        "tests/metrics/test_calibration.py",
    ),
    Fault(
        "calibration: bins closed on the wrong side",
        "keras_sentmatch/metrics/calibration.py",
        "np.ceil(sure * bins).astype(int) - 1",
        "np.floor(sure * bins).astype(int)",
        "tests/metrics/test_calibration.py",
    ),
    Fault(
        "matcher: threshold ignored",
        "keras_sentmatch/metrics/calibration.py",
        "if threshold is None:\n        return probabilities.argmax(-1)",
        "if True:\n        return probabilities.argmax(-1)",
        "tests/inference tests/metrics",
    ),
    Fault(
        "matcher: temperature ignored",
        "keras_sentmatch/inference/matcher.py",
        "return scores if self.label_names is None else apply_temperature(scores, self.temperature)",
        "return scores",
        "tests/inference",
    ),
    Fault(
        "ranking: the worst first",
        "keras_sentmatch/inference/corpus.py",
        'np.argsort(-scores, kind="stable")',
        'np.argsort(scores, kind="stable")',
        "tests/inference",
    ),
    Fault(
        "file safety: pickles are read",
        "keras_sentmatch/safety.py",
        "np.load(path, allow_pickle=False)",
        "np.load(path, allow_pickle=True)",
        "tests/inference/test_safety.py",
    ),
    Fault(
        "file safety: layers that run code are let through",
        "keras_sentmatch/safety.py",
        "not in _RUN_CODE + _READ_FILES",
        "not in _READ_FILES",
        "tests/inference/test_safety.py",
    ),
    Fault(
        "portable export: threshold ignored",
        "keras_sentmatch/export/score.py",
        "row.argmax() if threshold is None else int(row[1] > threshold)",
        "row.argmax()",
        "tests/export/test_portable.py",
    ),
    Fault(
        "robustness: seed ignored",
        "keras_sentmatch/robustness/transformations.py",
        'key = "\\0".join((str(seed), name, *pair))',
        'key = "\\0".join((name, *pair))',
        "tests/robustness",
    ),
]


def make_copy(folder: Path) -> Path:
    """A copy that Python imports in place of the installed package."""
    for name in COPIED:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, folder)
    for name in ("applications", "tuning"):
        (folder / "keras_sentmatch" / name).symlink_to(folder / name)
    return folder


@contextmanager
def planted(fault: Fault, copy: Path) -> Iterator[None]:
    path = copy / fault.file
    text = path.read_text("utf-8")
    if text.count(fault.old) != 1:
        raise LookupError(f"{fault.old!r} stands {text.count(fault.old)} times in {fault.file}")
    path.write_text(text.replace(fault.old, fault.new), "utf-8")
    try:
        yield
    finally:
        path.write_text(text, "utf-8")


def run_tests(copy: Path, *arguments: str) -> subprocess.CompletedProcess:
    flags = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--no-header", "--disable-warnings"]
    settings = {"KERAS_BACKEND": "torch", "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *flags, *arguments],
        cwd=copy,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
    )


def verdict(fault: Fault, copy: Path) -> tuple[bool, str]:
    """Whether the tests catch the fault, and the first test that failed (or what went wrong)."""
    try:
        with planted(fault, copy):
            done = run_tests(copy, *fault.tests.split())
    except LookupError as error:
        return False, str(error)
    if done.returncode == 0:
        return False, "every test passed"
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if done.returncode != 1 or not failed:
        return False, f"pytest ended with status {done.returncode}: {done.stdout[-300:]}"
    return failed[0].startswith("FAILED"), failed[0].partition(" - ")[0]


def in_copies(faults: list[Fault], jobs: int, report: Callable[[Fault, bool, str], None]) -> None:
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        free: SimpleQueue[Path] = SimpleQueue()
        for n in range(jobs):
            free.put(make_copy(Path(folder) / str(n)))

        def work(fault: Fault) -> tuple[bool, str]:
            copy = free.get()
            try:
                return verdict(fault, copy)
            finally:
                free.put(copy)

        for fault, (caught, detail) in zip(faults, pool.map(work, faults)):
            report(fault, caught, detail)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="plant the faults with one of these in their name")
    parser.add_argument("--jobs", type=int, default=2, help="copies to work in at once (2)")
    arguments = parser.parse_args()
    words = arguments.words
    faults = [f for f in FAULTS if not words or any(word in f.name for word in words)]
    missed: list[str] = []

    def report(fault: Fault, caught: bool, detail: str) -> None:
        print(f"{'caught' if caught else 'MISSED':8}{fault.name:58}{detail}", flush=True)
        if not caught:
            missed.append(fault.name)

    in_copies(faults, arguments.jobs, report)
    print(f"{len(faults) - len(missed)} of {len(faults)} faults caught")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
