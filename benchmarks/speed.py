"""Pairs per second of every model in training and in answering, on each backend and in plain PyTorch.

    python benchmarks/speed.py --data path/to/sick
    python benchmarks/speed.py --data path/to/sick --before OTHER_CHECKOUT/.venv/bin/python
    python benchmarks/speed.py --show --write docs/results.md

The models have their papers' sizes, those on an encoder one of MiniLM-L6's size with random weights.
Words are random. With full lengths every sentence has `--length` words. With natural ones they are
as long as those of `--data` (without it log-normal around 12), the library sorts pairs into its five
buckets, and plain PyTorch pads random pairs to the longest sentence, packs where an LSTM runs
backward, or ("bucketed") takes pairs of like length. Batches are made before the clock starts. All
processes use huge pages, as `keras-sentmatch train` does on Linux (`GLIBC_TUNABLES=` set to nothing
leaves them out). Answers are computed as `Matcher` does it.

For each model all processes are started and warmed up, two at a time, with each shape. Then
they take turns, `--repeats` times, while the others wait: if the machine slows down, it does so for
all. In a turn each kind of work begins with an untimed step. A step's time is its median over the
repeats. "others' CPUs" is what other programs used in the worst turn. "of GEMM" is the share of the
rate of a large float32 matrix product, measured in the same turns, that the multiply-adds of a step
at full length (counted on PyTorch) reach. "peak MiB" is the most memory of the process during
training steps, above what it held before the model was made.

Rows go to a CSV file, a row for each model, process and kind of lengths, the most important models
first; a model that has them is not measured again. With the default of 3 repeats, everything takes
about half an hour on two idle CPUs; `--before` doubles it (`--repeats 2` then saves a third). After
`--budget` seconds no other model is begun.
"""

import argparse
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import measuring
import numpy as np
import subjects
from measuring import Worker, timed

BACKENDS = (*measuring.BACKENDS, "plain")  # plain PyTorch never imports Keras
LENGTHS = ("full", "natural", "bucketed")  # the last for plain PyTorch only
MODES = ("train", "answer")
Steps = list[Callable[[], Any]]
Rows = list[dict[str, str]]


# === A process of one model and one backend ===


class Contender:
    """What a process measures.

    Args:
        args: Of the command line.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        plain = args.worker == "plain"
        self.args = args
        lengths = np.load(args.lengths) if args.lengths else None
        kinds = LENGTHS if plain else LENGTHS[:2]
        sizes = args.batch_size, args.length
        batches = {
            kind: measuring.make_batches(
                kind, plain, *sizes, args.full_steps if kind == "full" else args.steps, 0, lengths
            )
            for kind in kinds
        }
        if plain:
            import torch  # noqa: F401  it counts as there before the model
        else:
            import keras  # noqa: F401
        self.before = measuring.current_mib()
        subject = (
            subjects.PlainSubject(args.model, 0)
            if plain
            else subjects.KerasSubject(args.model, args.length, 0, args.toy)
        )
        self.parameters = subject.parameters
        self.work: dict[tuple[str, str], Steps] = {}
        self.pairs: dict[str, int] = {}
        first: dict[Any, tuple[Any, np.ndarray]] = {}
        for kind, of_kind in batches.items():
            self.pairs[kind] = sum(len(labels) for _, labels in of_kind)
            train, answer = [], []
            for arrays, labels in of_kind:
                inputs = subject.inputs(arrays)
                train.append(lambda x=inputs, y=labels: subject.step(x, y))
                answer.append(lambda x=inputs: subject.predict(x))
                values = inputs if plain else inputs.values()
                first.setdefault(tuple(x.shape for x in values), (inputs, labels))
            self.work["train", kind], self.work["answer", kind] = train, answer
        for inputs, labels in first.values():
            subjects.warm_up(subject, inputs, labels)

    def ready(self) -> dict[str, Any]:
        measuring.forget_peak()
        timed(self.work["train", "full"])
        found = {"parameters": self.parameters, "pairs": self.pairs}
        found["peak_mib"] = measuring.peak_mib() - self.before
        if self.args.worker == "torch":
            found["flops"] = {m: count_flops(self.work[m, "full"][0]) for m in MODES}
        return found

    def turn(self) -> dict[str, Any]:
        seconds, others = measuring.busy_while(
            lambda: {f"{m} {kind}": turn(steps) for (m, kind), steps in self.work.items()}
        )
        rate = gemm_rate() if self.args.worker == "torch" else None
        return {"seconds": seconds, "others": others, "gemm": rate}


def turn(steps: Steps) -> list[float]:
    steps[0]()  # not timed: caches and memory went cold during the others' turns
    return timed(steps)


def count_flops(step: Callable[[], Any]) -> int:
    """The operations of the matrix products and convolutions of a step on PyTorch."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    def recurrent(x: Any, kernel: Any, recurrent_kernel: Any, *_: Any, **__: Any) -> int:
        return 2 * x.shape[:-1].numel() * (kernel.numel() + recurrent_kernel.numel())

    formulas = {
        **flop_registry,
        torch.ops.aten.mkldnn_rnn_layer: recurrent,
        torch.ops.aten.mkldnn_rnn_layer_backward: lambda *a, **k: 2 * recurrent(*a, **k),
    }
    counted = []

    class Counter(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            kwargs = kwargs or {}
            if func.overloadpacket not in formulas:
                with self:
                    parts = func.decompose(*args, **kwargs)
                return func(*args, **kwargs) if parts is NotImplemented else parts
            out = func(*args, **kwargs)
            counted.append(formulas[func.overloadpacket](*args, **kwargs, out_val=out))
            return out

    with Counter():
        step()
    return sum(counted)


def gemm_rate(width: int = 1024) -> float:
    """Operations a second of a large float32 matrix product, the best of five."""
    import torch

    x, y = torch.rand(width, width), torch.rand(width, width)
    return 2 * width**3 / min(timed([lambda: x @ y] * 6)[1:])


def work(args: argparse.Namespace) -> None:
    """Runs in a child process."""
    made: list[Contender] = []

    def answer(question: str) -> dict[str, Any]:
        if question == "ready":
            made.append(Contender(args))
            return made[0].ready()
        return made[0].turn()

    measuring.answer_lines(answer)


# === All of them ===


def contenders(model: str, args: argparse.Namespace) -> list[tuple[str, str, str]]:
    """Label, backend and interpreter of each process."""
    found = [(args.label, backend, sys.executable) for backend in args.backends]
    if model not in subjects.PLAIN:
        found = [each for each in found if each[1] != "plain"]
    if args.before:
        found += [("before", b, args.before) for b in args.backends if b != "plain"]
    return found


def measure(model: str, args: argparse.Namespace, lengths: Path | None) -> Iterator[dict[str, Any]]:
    """The rows of a model."""
    options = ["--models", model, "--batch-size", args.batch_size, "--length", args.length]
    options += ["--steps", args.steps, "--full-steps", args.full_steps]
    options += ["--toy"] * args.toy + (["--lengths", lengths] if lengths else [])
    workers = {}
    every = contenders(model, args)
    for start in range(0, len(every), 2):  # two compile at once
        pair = every[start : start + 2]
        for label, backend, python in pair:
            worker = Worker(backend, [*options, "--worker", backend], python)
            worker.send("ready")
            workers[label, backend] = worker
        for label, backend, _ in pair:
            workers[label, backend].about = workers[label, backend].receive()
    turns: dict[tuple[str, str], list[Any]] = {key: [] for key in workers}
    for _ in range(args.repeats):
        for key, worker in workers.items():
            turns[key].append(worker.ask("turn") if worker.about else None)
    for worker in workers.values():
        worker.close()
    rates = [t["gemm"] for of_one in turns.values() for t in of_one if t and t["gemm"]]
    gemm = statistics.median(rates) if rates else 0.0
    flops = next((w.about["flops"] for w in workers.values() if w.about and "flops" in w.about), {})
    for (label, backend), worker in workers.items():
        found = turns[label, backend]
        if None in found:
            print(f"{model} {label} {backend}: its process ended early", flush=True)
            continue
        for kind, pairs in worker.about["pairs"].items():
            row = {"label": label, "model": model, "backend": backend, "lengths": kind}
            row |= {"batch_size": args.batch_size, "length": args.length, "toy": args.toy}
            row["parameters"] = worker.about["parameters"]
            for m in MODES:
                steps = zip(*(t["seconds"][f"{m} {kind}"] for t in found))
                rate = pairs / sum(map(statistics.median, steps))
                row[f"{m}_pairs_per_s"] = round(rate, 2)
                share = ""
                if flops and gemm and kind == "full" and backend != "plain":
                    share = round(flops[m] * rate / args.batch_size / gemm, 3)
                row[f"{m}_of_gemm"] = share
            row["gemm_gflops"] = round(gemm / 1e9, 1)
            row["peak_mib"] = worker.about["peak_mib"] if kind == "full" else ""
            row["others_cpu"] = round(max(t["others"] for t in found), 2)
            yield row


def run_all(args: argparse.Namespace, results: measuring.Results) -> None:
    end = time.monotonic() + args.budget
    lengths = None
    if args.data:
        lengths = results.path.with_suffix(".lengths.npy")
        np.save(lengths, measuring.lengths_of(args.data))
    for model in args.models:
        key = {"model": model, "batch_size": args.batch_size, "length": args.length}
        key |= {"toy": args.toy}
        if all(
            results.has(key | {"label": c[0], "backend": c[1]}) for c in contenders(model, args)
        ):
            continue
        if time.monotonic() > end:
            print(f"The budget of {args.budget} s is spent; the next would be {model}.")
            break
        facts = {"full_steps": args.full_steps, "steps": args.steps, "repeats": args.repeats}
        facts |= {"data": Path(args.data).name, "cpus": measuring.cpus(), "run": measuring.now()}
        facts["command"] = shlex.join(["python", *map(str, measured_by(args))])
        for row in measure(model, args, lengths):
            results.add(row | facts)
    if lengths:
        lengths.unlink()


def measured_by(args: argparse.Namespace) -> list[str]:
    """The command without folders of this machine."""
    words = measuring.public(sys.argv[1:]).replace(args.before or "\0", "OTHER/python")
    return ["benchmarks/speed.py", *shlex.split(words)]


# === Tables ===


def table(mode: str, rows: Rows) -> tuple[list[str], list[list[str]]]:
    head = ["model", "backend", "full: pairs/s", "× plain", "× before", "of GEMM"]
    head += ["natural: pairs/s", "× plain", "× plain bucketed", "× before", "peak MiB"]
    found = {(r["label"], r["model"], r["backend"], r["lengths"]): r for r in rows}

    def rate(*key: str) -> float:
        return float(found[key][f"{mode}_pairs_per_s"]) if key in found else 0.0

    def times(mine: float, other: float) -> str:
        return f"{mine / other:.2f}" if other else ""

    def place(key: tuple[str, ...]) -> tuple[int, int]:
        return subjects.MODELS.index(key[1]), BACKENDS.index(key[2])

    lines = []
    for label, model, backend, kind in sorted(found, key=place):
        if kind != "full" or (label == "before" and len({r["label"] for r in rows}) > 1):
            continue
        row, full = found[label, model, backend, kind], rate(label, model, backend, kind)
        natural = rate(label, model, backend, "natural")
        plain = {kind: rate(label, model, "plain", kind) for kind in LENGTHS}
        before = {kind: rate("before", model, backend, kind) for kind in LENGTHS}
        share = row[f"{mode}_of_gemm"]
        lines.append(
            [
                model,
                backend,
                f"{full:,.1f}",
                times(full, plain["full"]),
                times(full, before["full"]) if label != "before" else "",
                f"{float(share):.0%}" if share else "",
                f"{natural:,.1f}",
                times(natural, plain["natural"]),
                times(natural, plain["bucketed"]),
                times(natural, before["natural"]) if label != "before" else "",
                row["peak_mib"],
                row["others_cpu"],
            ]
        )
    return [*head, "others' CPUs"], lines


def show(results: measuring.Results, page: Path | None) -> None:
    rows = results.rows()
    text = []
    for mode, title in (("train", "Training"), ("answer", "Answering")):
        head, lines = table(mode, rows)
        measuring.print_table(head, lines, title)
        text += [f"{title}:", "", *measuring.markdown(head, lines, 2), ""]
    if any(float(row["others_cpu"]) > 0.2 for row in rows):
        print(measuring.BUSY)
    if page:
        results.write(page, text[:-1])


def arguments() -> argparse.Namespace:
    parser = measuring.parser(__doc__)
    parser.add_argument("--models", default=",".join(subjects.MODELS), help="some of the default")
    parser.add_argument("--backends", default=",".join(BACKENDS), help="some of the default")
    parser.add_argument("--data", default="", help="a data set whose natural lengths to take")
    parser.add_argument("--label", default="after", help="of the rows, e.g. before or after")
    parser.add_argument("--before", help="the Python of another checkout, measured in turns too")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--length", type=int, default=32, help="the longest sentence")
    parser.add_argument("--full-steps", type=int, default=2, help="timed in a turn, full lengths")
    parser.add_argument("--steps", type=int, default=5, help="timed in a turn, natural lengths")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds")
    parser.add_argument("--toy", action="store_true", help="tiny batches, to try the script")
    parser.add_argument("--out", type=Path, default=measuring.RESULTS_FOLDER / "speed.csv")
    parser.add_argument("--worker", choices=BACKENDS, help=argparse.SUPPRESS)
    parser.add_argument("--lengths", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.model = args.models
    for name, known in (("models", subjects.MODELS), ("backends", BACKENDS)):
        values = getattr(args, name).split(",")
        if unknown := set(values) - set(known):
            parser.error(f"--{name}: {', '.join(sorted(unknown))} is none of {', '.join(known)}")
        setattr(args, name, values)
    if args.toy:
        args.batch_size, args.length, args.full_steps, args.steps, args.repeats = 4, 8, 1, 2, 1
    if min(args.batch_size - 1, args.length - 1, args.full_steps, args.steps, args.repeats) < 1:
        parser.error("--batch-size and --length must be at least 2; steps and repeats 1")
    return args


def main() -> None:
    args = arguments()
    if args.worker:
        work(args)
        return
    results = measuring.Results(args.out)
    if not args.show:
        run_all(args, results)
    show(results, args.write)


if __name__ == "__main__":
    main()
