"""Every model on a GPU: speed, memory, and whether its predictions are right.

    python benchmarks/gpu.py --budget 540

Needs no network and no data: words are random, every sentence has all its words, and backbones have
MiniLM-L6's size and random weights. PyTorch and JAX run the library's models, `plain` the networks of
`plain.py` on cuDNN. Each backend has one
process, and they take turns. A cell is a median of up to 20 steps, after two untimed ones.

Precisions: float32 without TF32, float32 with TF32, and bfloat16 (mixed precision; autocast in plain
PyTorch). First, the probabilities of each model with the same weights are compared with those of
PyTorch on the CPU: the script ends with a status other than 0 if they differ by more than 1e-4.

Each measurement appends a row to a file in `--out`, the most important first, and existing rows are
not measured again. `--parts checks` and some `--models` only compare predictions, which several
processes can do side by side. Peak memory is that of arrays on the GPU; JAX tells its greatest so
far, so it is left out if a step did not raise it. `--toy` runs all of it with tiny sizes, on a CPU
too.
"""

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import measuring
import numpy as np
import subjects
from measuring import CHARACTERS, CLASSES, VOCABULARY, Worker, timed

BACKENDS = ("torch", "jax", "plain")
PRECISIONS = ("float32", "tf32", "bfloat16")
PARTS = ("checks", "speed")
FOLDER = measuring.RESULTS_FOLDER / "gpu"
SIZES = ((256, 32), (64, 32), (1024, 32), (256, 128), (64, 128), (1024, 128))
TOLERANCE = 1e-4
CHECK_KEY = ("model", "backend", "batch_size", "length")
SPEED_KEY = ("model", "backend", "precision", "batch_size", "length")


def synthetic(batch: int, length: int, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Make features and labels of pairs whose sentences have `length` words."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for side in "12":
        arrays[f"word_ids_{side}"] = rng.integers(5, VOCABULARY, (batch, length), dtype="int32")
        letters = rng.integers(1, CHARACTERS, (batch, length, 16), dtype="int32")
        arrays[f"char_ids_{side}"] = letters
    return arrays, rng.integers(0, CLASSES, batch)


# === A process of one backend ===


def set_precision(backend: str, precision: str) -> None:
    """Choose whether float32 products may be rounded to TF32."""
    if backend == "jax":
        import jax

        name = "tensorfloat32" if precision == "tf32" else "float32"
        jax.config.update("jax_default_matmul_precision", name)
    else:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        torch.backends.cudnn.allow_tf32 = precision == "tf32"


class Backend:
    """Measures in the process of a backend."""

    def __init__(self, backend: str, toy: bool) -> None:
        self.backend, self.toy = backend, toy
        self.key: Any = None
        self.subject: Any = None
        sys.modules.setdefault("tensorflow", None)  # type: ignore[arg-type]  # not imported

    def get(self, model: str, precision: str, length: int) -> Any:
        """Return the model. The last one is kept."""
        if self.key != (model, precision, length):
            self.subject = None
            set_precision(self.backend, precision)
            bfloat16 = precision == "bfloat16"
            if self.backend == "plain":
                self.subject = subjects.PlainSubject(model, 0, autocast=bfloat16)
            else:
                dtype = {"dtype": "mixed_bfloat16"} if bfloat16 else {}
                self.subject = subjects.KerasSubject(model, length, 0, self.toy, **dtype)
            self.key = model, precision, length
        return self.subject

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        try:
            return getattr(self, question.pop("do"))(**question)
        except Exception as error:  # such as too little memory: the other measurements go on
            self.key = self.subject = None
            return {"error": f"{type(error).__name__}: {str(error).strip()[:200]}"}

    def device(self) -> dict[str, Any]:
        return {"device": measuring.device_name(self.backend)}

    def speed(self, model: str, precision: str, batch_size: int, length: int) -> dict[str, Any]:
        subject = self.get(model, precision, length)
        arrays, labels = synthetic(batch_size, length)
        inputs = subject.inputs(arrays)
        before = self.peak(reset=True)
        subjects.warm_up(subject, inputs, labels)
        seconds = []
        for step in (lambda: subject.step(inputs, labels), lambda: subject.predict(inputs)):
            (once,) = timed([step])
            count = 1 if self.toy else int(np.clip(0.5 / once, 1, 20))
            seconds.append(statistics.median(timed([step] * count)))
        peak = self.peak()
        train, answer = (round(batch_size / s, 1) for s in seconds)
        return {
            "train_pairs_per_s": train,
            "answer_pairs_per_s": answer,
            "peak_mib": peak if peak != before else "",
        }

    def peak(self, reset: bool = False) -> int | str:
        if reset and self.backend in ("torch", "plain"):
            import torch

            if torch.cuda.is_available():
                torch.cuda.reset_peak_memory_stats()
            return ""
        return measuring.device_peak_mib(self.backend)

    def probabilities(self, model: str, batch_size: int, length: int) -> dict[str, Any]:
        """Return the probabilities of fixed weights, which no backend's random numbers decide."""
        subject = self.get(model, "float32", length)
        self.key = None  # other weights from here on
        rng = np.random.default_rng(0)
        for weight in subject.model.weights:
            scale = 0.1 if len(weight.shape) < 2 else np.prod(weight.shape[:-1]) ** -0.5
            values = rng.normal(0, 0.5 if "embedding" in weight.path else scale, weight.shape)
            if weight.name in ("gamma", "moving_variance", "scale"):
                values = 1 + 0.1 * values
            weight.assign(values)
        arrays, _ = synthetic(batch_size, length)
        return {"values": subject.predict(subject.inputs(arrays)).tolist()}


# === All of them ===


class Machine:
    """One process per backend, started when it is first asked, and again after it has ended."""

    def __init__(self, args: argparse.Namespace, end: float) -> None:
        self.toy, self.end = args.toy, end
        self.workers: dict[str, Worker] = {}

    def ask(self, backend: str, do: str, **question: Any) -> dict[str, Any]:
        """Return the answer. If there is none, `error` says why."""
        if backend not in self.workers:
            options = ["--worker", backend.removesuffix("-cpu"), *["--toy"] * self.toy]
            name = "torch" if backend == "plain" else backend.removesuffix("-cpu")
            hidden = {"CUDA_VISIBLE_DEVICES": ""} if backend.endswith("-cpu") else {}
            self.workers[backend] = Worker(name, options, **hidden)
        left = max(self.end - time.monotonic(), 1)
        found = self.workers[backend].ask({"do": do, **question}, left)
        if found is None:
            self.workers.pop(backend).close()
            why = "the budget was spent" if time.monotonic() > self.end else "its process ended"
            return {"error": why}
        return found

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()


def cases(args: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what to measure, the most important first."""
    sizes = [(4, 8)] if args.toy else SIZES
    for model in args.models:
        for backend in args.backends:
            if backend != "plain":
                yield "checks", dict(zip(CHECK_KEY, (model, backend, 8, sizes[0][1])))
    for size in sizes:
        for model, precision in itertools.product(args.models, args.precisions):
            for backend in args.backends:
                if backend != "plain" or model in subjects.PLAIN:
                    yield "speed", dict(zip(SPEED_KEY, (model, backend, precision, *size)))


def run_all(args: argparse.Namespace, files: dict[str, measuring.Results]) -> None:
    end = time.monotonic() + args.budget
    machine = Machine(args, end)
    device = ""
    expected: dict[str, Any] = {}
    for kind, case in cases(args):
        if kind not in args.parts:
            continue
        if files[kind].has(case):
            continue
        if time.monotonic() > end:
            print(f"The budget of {args.budget:.0f} s is spent. Run it again to go on.")
            break
        device = device or machine.ask(args.backends[0], "device").get("device", "")
        question = {name: value for name, value in case.items() if name != "backend"}
        backend = case["backend"]
        if kind == "speed":
            found = machine.ask(backend, "speed", **question)
            empty = {"train_pairs_per_s": "", "answer_pairs_per_s": "", "peak_mib": "", "error": ""}
            row = empty | found
        else:
            model = case["model"]
            if model not in expected:
                expected[model] = machine.ask("torch-cpu", "probabilities", **question)
            found = machine.ask(backend, "probabilities", **question)
            error = found.get("error") or expected[model].get("error", "")
            row = {"largest_difference": "", "spread": "", "error": error}
            if not error:
                here, there = (np.array(x["values"]) for x in (found, expected[model]))
                row["largest_difference"] = f"{np.abs(here - there).max():.1e}"
                row["spread"] = f"{np.ptp(there, axis=0).max():.2f}"
        if row["error"] != "the budget was spent":
            files[kind].add(case | row | {"device": device})
    machine.close()


def arguments() -> argparse.Namespace:
    parser = measuring.parser(__doc__)
    parser.add_argument("--budget", type=float, default=540, help="seconds")
    parser.add_argument("--out", type=Path, help="a folder for the rows (results/gpu)")
    parser.add_argument("--models", default=",".join(subjects.MODELS), help="some of the default")
    parser.add_argument("--backends", default="torch,jax,plain", help=f"some of {BACKENDS}")
    parser.add_argument("--precisions", default=",".join(PRECISIONS))
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--toy", action="store_true", help="tiny sizes, to try the script")
    parser.add_argument("--worker", choices=BACKENDS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.toy and args.out is None and not args.worker:
        parser.error("--toy needs --out, so that its rows are not taken for results")
    args.out = args.out or FOLDER
    known_values = {"models": subjects.MODELS, "backends": BACKENDS}
    for name, known in {**known_values, "precisions": PRECISIONS, "parts": PARTS}.items():
        values = getattr(args, name).split(",")
        if unknown := set(values) - set(known):
            parser.error(f"--{name}: {', '.join(sorted(unknown))} is none of {', '.join(known)}")
        setattr(args, name, values)
    return args


def main() -> None:
    args = arguments()
    if args.worker:
        measuring.answer_lines(Backend(args.worker, args.toy).answer)
        return
    files = {name: measuring.Results(args.out / f"{name}.csv") for name in PARTS}
    run_all(args, files)
    wrong = [
        f"{row['model']} on {row['backend']}"
        for row in files["checks"].rows()
        if row["largest_difference"] and not float(row["largest_difference"]) <= TOLERANCE
    ]
    if wrong:
        sys.exit(
            f"These answers differ by more than {TOLERANCE} from the CPU's: {', '.join(wrong)}."
        )


if __name__ == "__main__":
    main()
