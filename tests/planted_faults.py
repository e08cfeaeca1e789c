"""Faults planted in the code one at a time, each of which the tests that run by default must catch.

`python -m tests.planted_faults [WORD ...]` plants each fault (or those with one of the words in
their name) in a scratch copy of the repository, runs on PyTorch the tests that should see it, and
prints a table. It ends with status 1 where a fault was not caught or no longer fits the code.
"""

import argparse
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import pytest

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


# `@ file | tests that must fail`, then faults: a name, the lines that are replaced, and those in their place.
FAULTS = r"""
@ keras_sentmatch/ops/masking.py | tests/ops tests/layers/test_recurrent.py
masked softmax: an empty row is not all zeros
- ops.softmax(wide, axis=axis) * ops.cast(mask, wide.dtype)
+ ops.softmax(wide, axis=axis)
masked softmax: wrong axis
- ops.softmax(wide, axis=axis)
+ ops.softmax(wide, axis=1)
masked mean: padding is counted
- ops.maximum(ops.sum(weights, axis=axis), 1.0)
+ ops.cast(ops.shape(wide)[axis], wide.dtype)
masked maximum: mask ignored
- _Max(axis)(_lower_padding(x, mask))
+ _Max(axis)(x)
pair mask: one real token is enough
- return ops.logical_and(ops.expand
+ return ops.logical_or(ops.expand
@ keras_sentmatch/ops/sequence.py | tests/ops
reversal within the length: off by one
- count - 1 - position
+ count - position
last state: of an unpadded row only
- ops.max(count, axis=1, keepdims=True)
+ ops.shape(count)[1]
@ keras_sentmatch/ops/similarity.py | tests/ops
cosine: lengths not squared
- ops.sum(ops.square(x), axis=-1, keepdims=True)
+ ops.sum(ops.abs(x), axis=-1, keepdims=True)
@ keras_sentmatch/layers/highway.py | tests/layers/test_recurrent.py
highway: gate inverted
- x = x + gate(x) * (transform(x) - x)
+ x = transform(x) + gate(x) * (x - transform(x))
@ keras_sentmatch/layers/co_attention.py | tests/layers/test_recurrent.py
co-attention: temperature ignored
- scores = scores * ops.cast(self.scale, scores.dtype)
+ pass
co-attention: both softmaxes over one axis
- masked_softmax(scores, mask, axis=1)
+ masked_softmax(scores, mask, axis=2)
@ keras_sentmatch/layers/bidirectional_rnn.py | tests/layers/test_recurrent.py
bidirectional RNN: backward states not turned round
- backward = reverse_within_length(backward, mask)
+ pass
@ keras_sentmatch/layers/drr_net.py | tests/layers/test_drr_net.py
re-reading: a step too few
- for _ in range(self.steps):
+ for _ in range(self.steps - 1):
re-reading: beta ignored
- masked_softmax(self.beta * (scores - top), mask)
+ masked_softmax(scores - top, mask)
@ keras_sentmatch/layers/word_representation.py | tests/layers/test_words.py
character CNN: windows of padding count
- masked_max(windows, real[:, : width - self.kernel_size + 1])
+ ops.max(windows, axis=1)
@ applications/drcn.py | tests/applications/test_drcn.py
matching vector: difference without its absolute value
- ops.abs(p - q)], axis=-1)
+ p - q], axis=-1)
@ keras_sentmatch/layers/cafe.py | tests/layers/test_hosts.py
factorization machine: each pair counted twice
- y = y + 0.5 * (pairs - squares)
+ y = y + (pairs - squares)
@ keras_sentmatch/layers/drcn.py | tests/layers/test_drcn.py
auto-encoder: padding counts in the loss
- return masked_mean(*rows)
+ return ops.mean(rows[0], axis=1)
@ keras_sentmatch/layers/feature_attention.py | tests/layers/test_feature_attention.py
feature attention: gates without sigmoid
- "excitation", "sigmoid", hidden)
+ "excitation", "tanh", hidden)
@ keras_sentmatch/layers/feature_attention.py | tests/layers/test_feature_attention.py
selective feature attention: softmax over the features
- ops.softmax(logits if self.pre_sigmoid else gates, axis=1)
+ ops.softmax(logits if self.pre_sigmoid else gates, axis=2)
@ keras_sentmatch/layers/din.py | tests/layers/test_din.py
matrix GRU: update gate inverted
- h = (1 - z) * h + z * new
+ h = z * h + (1 - z) * new
@ keras_sentmatch/layers/din.py | tests/layers/test_din.py
matrix interaction: padding moves the state
- w = ops.where(real, new, w)
+ w = new
@ keras_sentmatch/layers/dabert.py | tests/layers/test_dabert.py
dual attention: scores not scaled
- masked_softmax(distances * self.key_dim**-0.5, visible)
+ masked_softmax(distances, visible)
@ keras_sentmatch/layers/dabert.py | tests/layers/test_dabert.py
adaptive fusion: gate inverted
- v = ops.cast(gate, a.dtype) * new_a + ops.cast(1.0 - gate, a.dtype) * new_d
+ v = ops.cast(gate, a.dtype) * new_d + ops.cast(1.0 - gate, a.dtype) * new_a
@ keras_sentmatch/layers/diin.py | tests/layers/test_hosts.py
decaying dropout: steps not counted
- self.steps.assign(self.steps + 1)
+ pass
@ keras_sentmatch/layers/ladra_net.py | tests/layers/test_ladra_net.py
dynamic attention: coverage not spent
- coverage[r] = coverage[r] - spent
+ pass
@ keras_sentmatch/layers/hyper_lstm.py | tests/layers/test_recurrent.py
HyperLSTM: forget bias missing
- ops.sigmoid(f + 1) * c
+ ops.sigmoid(f) * c
@ keras_sentmatch/layers/drcn.py | tests/layers/test_drcn.py
dense RNN: earlier features in the wrong order
- return [new, *earlier]
+ return [*earlier, new]
@ applications/re2.py | tests/test_golden.py -k re2
RE2: residual not scaled
- fused = (fused + before) * math.sqrt(0.5)
+ fused = fused + before
@ applications/esim.py | tests/test_golden.py -k esim
ESIM: sentences swapped before the last layers
- v = ops.concatenate([p.pooled, q.pooled], axis=-1)
+ v = ops.concatenate([q.pooled, p.pooled], axis=-1)
@ applications/drr_net.py | tests/applications/test_drr_net.py
DRr-Net: predictions not gated
- return gate * p
+ return p
@ applications/cafe.py | tests/test_golden.py -k cafe
CAFE: mean instead of maximum
- ops.concatenate([masked_mean(states, mask), masked_max(states, mask)], axis=-1)
+ ops.concatenate([masked_mean(states, mask)] * 2, axis=-1)
@ keras_sentmatch/encoders/base.py | tests/encoders/test_words.py
encoder: truncation is not counted
- self.report.truncated += int((kept < full).sum())
+ pass
@ keras_sentmatch/text/tokens.py | tests/text/test_tokens.py tests/encoders/test_words.py
encoder: letters keep their case
- new = char.lower()[0] if lowercase else char
+ new = char
@ keras_sentmatch/data/splits.py | tests/data/test_splits.py
splits: seed ignored
- rng = np.random.default_rng(seed)
+ rng = np.random.default_rng(0)
splits: groups torn apart
- return np.unique(first[components], return_inverse=True)[1]
+ return np.arange(len(dataset))
@ keras_sentmatch/encoders/batches.py | tests/encoders/test_batches.py
batches: the same order in every epoch
- np.random.default_rng((self.seed, epoch))
+ np.random.default_rng((self.seed, 0))
@ keras_sentmatch/data/dataset.py | tests/data/test_dataset.py tests/data/test_readers.py
labels: order of the names swapped
- tuple(sorted({str(value) for value in given}))
+ tuple(sorted({str(value) for value in given}, reverse=True))
@ keras_sentmatch/training/resume.py | tests/training/test_resume.py
resume: the optimizer's variables are forgotten
- return [*model.variables, *model.optimizer.variables]
+ return [*model.variables]
resume: callbacks forget
- vars(callback).update(self.state.callbacks.get(name, {}))
+ pass
@ keras_sentmatch/inference/base.py | tests/training/test_folds.py
folds: the model's own predictions of pairs that it learned from
- raw[held_out] = learned.scores[rows[held_out]]
+ pass
@ keras_sentmatch/training/_steps.py | tests/training/test_run.py
training: seed ignored
- keras.utils.set_random_seed(self.recipe.training.seed)
+ keras.utils.set_random_seed(0)
@ keras_sentmatch/training/distillation.py | tests/training/test_distillation.py
distillation: temperature ignored
- ops.log_softmax(x / self.temperature)
+ ops.log_softmax(x)
distillation: weight inverted
- (1 - self.weight) * hard + self.weight * soft
+ self.weight * hard + (1 - self.weight) * soft
@ keras_sentmatch/training/optimizers.py | tests/training/test_optimizers.py
linear schedule: off by one
- rising = (i + 1) / max(warm_up, 1)
+ rising = i / max(warm_up, 1)
@ keras_sentmatch/training/optimizers.py | tests/training/test_optimizers.py tests/training/test_fine_tuning.py
AdamW: biases decay too
- optimizer.exclude_from_weight_decay(kept)
+ optimizer.exclude_from_weight_decay([])
@ keras_sentmatch/training/callbacks.py | tests/training/test_callbacks.py
monitor: the highest loss is the best
- LOWER_IS_BETTER = ("val_loss", "loss")
+ LOWER_IS_BETTER = ("loss",)
@ keras_sentmatch/metrics/ranking.py | tests/metrics
MRR: the rank is one too high
- value += chance / (above + place)
+ value += chance / (above + place + 1)
@ keras_sentmatch/metrics/calibration.py | tests/metrics
calibration: the temperature divides twice
- _log(p.astype("float64")) / temperature
+ _log(p.astype("float64")) / temperature**2
calibration: bins closed on the wrong side
- np.ceil(confidences * bins).astype(int) - 1
+ np.floor(confidences * bins).astype(int)
@ keras_sentmatch/metrics/calibration.py | tests/inference tests/metrics
matcher: threshold ignored
- return (probabilities[:, 1].astype(float) > threshold).astype(int)
+ return np.asarray(probabilities.argmax(-1))
@ keras_sentmatch/inference/base.py | tests/inference/test_matcher.py
matcher: temperature ignored
- return apply_temperature(raw.astype("float64"), self.temperature)
+ return raw
@ keras_sentmatch/inference/base.py | tests/inference
ranking: the worst first
- np.argsort(-self.order(raw, column), kind="stable")
+ np.argsort(self.order(raw, column), kind="stable")
@ keras_sentmatch/inference/base.py | tests/inference/test_rank.py
ranking: by probabilities that a temperature has rounded to 1
- return raw if column is None else log_odds(raw, column, self.temperature)
+ return raw if column is None else self.tempered(raw)[:, column].astype("float32")
@ keras_sentmatch/safety.py | tests/inference/test_safety.py
file safety: a link out of the folder is followed
- if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
+ if False:
file safety: layers that run code are let through
- not in _RUN_CODE + _READ_FILES
+ not in _READ_FILES
@ keras_sentmatch/inference/score.py | tests/exports/test_encoder_rules.py
portable export: text is not cleaned
- unicodedata.normalize(self.facts["normalization"], text).translate(self.clean)
+ unicodedata.normalize(self.facts["normalization"], text)
@ tuning/_trials.py | tests/tuning/test_report.py
tuning: the lowest accuracy is the best
- reverse=self.rises
+ reverse=not self.rises
@ keras_sentmatch/transformations/transform.py | tests/transformations
robustness: seed ignored
- key = "\0".join((str(seed), known.name, *pair))
+ key = "\0".join((known.name, *pair))
"""


def read_faults(text: str) -> list[Fault]:
    faults, place = [], ("", "")
    pattern = r"^@ (.+) \| (.+)\n|^(.+)\n((?:- .*\n)+)((?:\+ .*\n)+)"
    for file, tests, name, old, new in re.findall(pattern, text, re.MULTILINE):
        if file:
            place = file, tests
        else:
            before, after = ("\n".join(x[2:] for x in part.splitlines()) for part in (old, new))
            faults.append(Fault(name, place[0], before, after, place[1]))
    return faults


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


class FirstFailure:
    """A plugin of pytest that writes down the first test that fails."""

    def __init__(self, path: Path):
        self.path = path
        path.unlink(missing_ok=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.path.exists():
            self.path.write_text(report.nodeid, "utf-8")


def run_tests(copy: Path, arguments: Sequence[str]) -> None:
    """In a process of its own: pytest on the copy, in place of what `tests` is here."""
    for name in [name for name in sys.modules if name.split(".")[0] == "tests"]:
        del sys.modules[name]
    sys.path.insert(0, str(copy))
    sys.dont_write_bytecode = True
    os.environ.update(PYTHONPATH=str(copy), PYTHONDONTWRITEBYTECODE="1")
    os.chdir(copy)
    with open(copy.with_suffix(".txt"), "wb") as file:
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
        flags = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--disable-warnings"]
        code = pytest.main([*flags, *arguments], [FirstFailure(copy.with_suffix(".failed"))])
        os._exit(int(code))


def first_failure(copy: Path, *arguments: str) -> str:
    """The first test that fails; "" where all pass. A fork: Keras is loaded once for all faults."""
    process = get_context("fork").Process(target=run_tests, args=(copy, arguments))
    process.start()
    process.join()
    failed = copy.with_suffix(".failed")
    if process.exitcode == 0:
        return ""
    if process.exitcode == 1 and failed.exists():
        return failed.read_text("utf-8")
    output = copy.with_suffix(".txt").read_text("utf-8", "replace")
    raise LookupError(f"pytest ended with status {process.exitcode}: {output[-500:]}")


def verdict(fault: Fault, copy: Path) -> tuple[bool, str]:
    """Whether the tests catch the fault, and the test that does (or what went wrong)."""
    try:
        with planted(fault, copy):
            failed = first_failure(copy, *fault.tests.split())
        if not failed:
            return False, "every test passed"
        if first_failure(copy, failed):
            return False, f"{failed} fails without the fault too"
    except LookupError as error:
        return False, str(error)
    return True, failed


def main() -> int:
    os.environ["KERAS_BACKEND"] = "torch"
    import keras  # noqa: F401  loaded before the forks

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="plant the faults with one of these in their name")
    words = parser.parse_args().words
    faults = [f for f in read_faults(FAULTS) if not words or any(w in f.name for w in words)]
    caught = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = make_copy(Path(folder) / "copy")
        for fault in faults:
            found, detail = verdict(fault, copy)
            print(f"{'caught' if found else 'MISSED':8}{fault.name:58}{detail}", flush=True)
            caught += found
    print(f"{caught} of {len(faults)} faults caught")
    return int(caught < len(faults))


if __name__ == "__main__":
    sys.exit(main())
