"""Every model on a GPU: speed, memory, which recurrent kernels run, and whether answers are right.

    python benchmarks/gpu.py --budget 540
    python benchmarks/gpu.py --show --write docs/results.md

Needs no network and no data: words are random, every sentence has all its words, and encoders have
MiniLM-L6's size and random weights. PyTorch and JAX run the library's models, "plain" the networks of
`plain_*.py` on cuDNN. TensorFlow is not imported unless `--backends` names it. Each backend has one
process; they take turns. A cell is a median of up to 20 steps, after two untimed ones.

Precisions: float32 without TF32, float32 with TF32, and bfloat16 (mixed precision; autocast in plain
PyTorch). First, the probabilities of each model with the same weights are compared with those of
PyTorch on the CPU: the script ends with a status other than 0 if they differ by more than 1e-4.

Each measurement appends a row to a file in `--out`, the most important first, and what is there is
not measured again: run it again to go on. `--parts checks` and some `--models` compare answers only,
which several processes can do side by side. The tables come last. Peak memory is that of arrays on the
GPU; JAX tells its greatest so far, so it is left out where a step did not raise it. `--toy` runs all
of it with tiny sizes, on a CPU too.
"""

import argparse
import re
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

BACKENDS = ("torch", "jax", "plain", "tensorflow")
PRECISIONS = ("float32", "tf32", "bfloat16")
PARTS = ("checks", "speed", "kernels")
FOLDER = measuring.RESULTS_FOLDER / "gpu"
SIZES = ((256, 32), (64, 32), (1024, 32), (256, 128), (64, 128), (1024, 128))
TOLERANCE = 1e-4
KERNELS = "Kernels"
SPEED_KEY = ("model", "backend", "precision", "batch_size", "length")


def synthetic(batch: int, length: int, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Features and labels of pairs whose sentences have `length` words."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for side in "12":
        arrays[f"word_ids_{side}"] = rng.integers(5, VOCABULARY, (batch, length), dtype="int32")
        letters = rng.integers(1, CHARACTERS, (batch, length, 16), dtype="int32")
        arrays[f"char_ids_{side}"] = letters
    return arrays, rng.integers(0, CLASSES, batch)


# === A process of one backend ===


def set_precision(backend: str, precision: str) -> None:
    """Whether float32 products may be rounded to TF32."""
    if backend == "jax":
        import jax

        name = "tensorfloat32" if precision == "tf32" else "float32"
        jax.config.update("jax_default_matmul_precision", name)
    elif backend == "tensorflow":
        import tensorflow as tf

        tf.config.experimental.enable_tensor_float_32_execution(precision == "tf32")
    else:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        torch.backends.cudnn.allow_tf32 = precision == "tf32"


class Backend:
    """Answers questions in the process of a backend."""

    def __init__(self, backend: str, toy: bool) -> None:
        self.backend, self.toy = backend, toy
        self.key: Any = None
        self.subject: Any = None
        if backend != "tensorflow":
            sys.modules.setdefault("tensorflow", None)  # type: ignore[arg-type]  # not imported

    def get(self, model: str, precision: str, length: int) -> Any:
        """The model; the last one is kept."""
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
            seconds.append(statistics.median(timed([step] * int(np.clip(0.5 / once, 1, 20)))))
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
        """Those of fixed weights, which no backend's random numbers decide."""
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

    def kernels(self, model: str, batch_size: int, length: int) -> dict[str, Any]:
        """Names of what runs: on PyTorch the longest in a training step, on JAX in answering."""
        subject = self.get(model, "float32", length)
        arrays, labels = synthetic(batch_size, length)
        inputs = subject.inputs(arrays)
        if self.backend == "jax":
            return {"names": called_by_xla(subject.model, inputs)}
        if self.backend == "tensorflow":
            return {"names": []}
        from torch.profiler import profile

        timed([lambda: subject.step(inputs, labels)])
        with profile() as found:
            subject.step(inputs, labels)
        events = found.key_averages()
        names = [e.key for e in events if re.search("rnn|lstm|gru", e.key, re.IGNORECASE)]
        longest = sorted(events, key=lambda e: -(e.self_device_time_total or e.self_cpu_time_total))
        return {"names": list(dict.fromkeys([*names, *(e.key for e in longest[:8])]))}


def called_by_xla(model: Any, inputs: dict[str, np.ndarray]) -> list[str]:
    """The libraries' functions in the compiled program, such as `__cudnn$...`."""
    import jax

    state = [
        [v.value for v in vs] for vs in (model.trainable_variables, model.non_trainable_variables)
    ]
    answer = jax.jit(lambda inputs: model.stateless_call(*state, inputs, training=False)[0])
    text = answer.lower(inputs).compile().as_text()
    return sorted(set(re.findall(r'custom_call_target="([^"]+)"', text)))


# === All of them ===


class Machine:
    """The processes, one a backend, started when they are first asked, and again after they ended."""

    def __init__(self, args: argparse.Namespace, end: float) -> None:
        self.toy, self.end = args.toy, end
        self.workers: dict[str, Worker] = {}

    def ask(self, backend: str, do: str, **question: Any) -> dict[str, Any]:
        """The answer; `error` says why there is none."""
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
    """What to measure, the most important first."""
    sizes = [(4, 8)] if args.toy else SIZES
    batch, length = sizes[0]
    library = [b for b in args.backends if b != "plain"]

    def having(backends: list[str], model: str) -> list[str]:
        return [b for b in backends if b != "plain" or model in subjects.PLAIN]

    for model in args.models:
        for backend in library:
            yield "checks", {"model": model, "backend": backend, "batch_size": 8, "length": length}
    for number, (batch, length) in enumerate(sizes):
        for model in args.models:
            for precision in args.precisions:
                for backend in having(args.backends, model):
                    values = model, backend, precision, batch, length
                    yield "speed", dict(zip(SPEED_KEY, values))
        for model in args.models if number == 0 else []:
            for backend in having(args.backends, model):
                yield (
                    "kernels",
                    {"model": model, "backend": backend, "batch_size": batch, "length": length},
                )


def run_all(args: argparse.Namespace, files: dict[str, measuring.Results]) -> None:
    end = time.monotonic() + args.budget
    machine = Machine(args, end)
    device = machine.ask(args.backends[0], "device").get("device", "")
    expected: dict[str, Any] = {}
    for kind, case in cases(args):
        if kind not in args.parts:
            continue
        if files[kind].has(case):
            continue
        if time.monotonic() > end:
            print(f"The budget of {args.budget:.0f} s is spent. Run it again to go on.")
            break
        question = {name: value for name, value in case.items() if name != "backend"}
        backend = case["backend"]
        if kind == "speed":
            found = machine.ask(backend, "speed", **question)
            empty = {"train_pairs_per_s": "", "answer_pairs_per_s": "", "peak_mib": "", "error": ""}
            row = empty | found
        elif kind == "kernels":
            found = machine.ask(backend, "kernels", **question)
            names = found.get("names", [])
            row = {"names": "; ".join(names), "cudnn": any("cudnn" in n.lower() for n in names)}
            row["error"] = found.get("error", "")
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


def tables(files: dict[str, measuring.Results]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    rows = files["checks"].rows()
    head = ["model", "backend", "largest difference from the CPU", "spread", "error"]
    names = ("model", "backend", "largest_difference", "spread", "error")
    yield "Answers", head, [[row[name] for name in names] for row in rows]
    rows = [row for row in files["speed"].rows()]
    found = {tuple(row[name] for name in SPEED_KEY): row for row in rows}
    lines = []
    for row in rows:
        line = [row[name] for name in SPEED_KEY]
        size = tuple(line[2:])
        for mode in ("train_pairs_per_s", "answer_pairs_per_s"):
            line.append(row[mode])
            encoder = "cross_encoder" if row["model"] == "dabert" else ""
            other = (encoder or row["model"], row["backend"] if encoder else "plain", *size)
            rate = found.get(other, {}).get(mode)
            line.append(f"{float(row[mode]) / float(rate):.2f}" if rate and row[mode] else "")
        lines.append([*line, row["peak_mib"], row["error"]])
    head = ["model", "backend", "precision", "batch", "length"]
    head += ["training pairs/s", "× plain", "answering pairs/s", "× plain", "peak MiB", "error"]
    yield "Speed (DABERT: × its encoder alone)", head, lines
    rows = files["kernels"].rows()
    head = ["model", "backend", "cuDNN", "what ran: recurrent kernels, then the longest"]
    names = ("model", "backend", "cudnn", "names")
    yield KERNELS, head, [[row[name] for name in names] for row in rows]


def arguments() -> argparse.Namespace:
    parser = measuring.parser(__doc__ or "")
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
    if not args.show:
        run_all(args, files)
    text = []
    for title, head, lines in tables(files):
        measuring.print_table(head, lines, title)
        if title != KERNELS:  # their names are too long for a page
            text += [f"{title}:", "", *measuring.markdown(head, lines, 2), ""]
    if args.write:
        files["speed"].write(args.write, text[:-1])
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
