"""Pairs per second of every model in training and prediction, on each backend and in plain PyTorch.

    python benchmarks/speed.py --data path/to/sick
    python benchmarks/speed.py --data path/to/sick --before OTHER_CHECKOUT/.venv/bin/python

The models have their papers' sizes, and those on a backbone a BERT of MiniLM-L6's size with random
weights. Words are random. With full lengths every sentence has `--length` words. With natural
lengths sentences are as long as those of `--data` (log-normal around 12 words without it): the
library sorts pairs into its five buckets, and plain PyTorch pads random pairs to the longest
sentence, packs where an LSTM runs backward, or ("bucketed") takes pairs of like length. Batches are
made before the clock starts. All processes use huge pages.

For each model all processes are started and warmed up, two at a time, with each shape. Then they
take turns, `--repeats` times, while the others wait, so a machine that slows down spoils no ratio.
In a turn each kind of work begins with an untimed step. A step's time is its median over the
repeats. `others_cpu` is what other programs used in the worst turn: above 0.2 processors the row is
not a fair comparison. `peak_mib` is the most memory of the process during training steps, above what
it held before the model was made.

Each model, process and kind of lengths is one row. A model that has its rows is not measured again.
Everything takes about half an hour on two idle CPUs. After `--budget` seconds no other model begins.
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


# === A process of one model and one backend ===


class Contender:
    """The steps that a process measures.

    Args:
        args: Parsed command line.
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
        return found

    def turn(self) -> dict[str, Any]:
        seconds, others = measuring.busy_while(
            lambda: {f"{m} {kind}": turn(steps) for (m, kind), steps in self.work.items()}
        )
        return {"seconds": seconds, "others": others}


def turn(steps: Steps) -> list[float]:
    steps[0]()  # not timed: caches and memory went cold during the others' turns
    return timed(steps)


def work(args: argparse.Namespace) -> None:
    """Run in a child process."""
    made: list[Contender] = []

    def answer(question: str) -> dict[str, Any]:
        if question == "ready":
            made.append(Contender(args))
            return made[0].ready()
        return made[0].turn()

    measuring.answer_lines(answer)


# === All of them ===


def contenders(model: str, args: argparse.Namespace) -> list[tuple[str, str, str]]:
    """Return label, backend and interpreter of each process."""
    found = [(args.label, backend, sys.executable) for backend in args.backends]
    if model not in subjects.PLAIN:
        found = [each for each in found if each[1] != "plain"]
    if args.before:
        found += [("before", b, args.before) for b in args.backends if b != "plain"]
    return found


def measure(model: str, args: argparse.Namespace, lengths: Path | None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a model."""
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
    """Return the command without folders."""
    words = measuring.public(sys.argv[1:]).replace(args.before or "\0", "OTHER/python")
    return ["benchmarks/speed.py", *shlex.split(words)]


def arguments() -> argparse.Namespace:
    parser = measuring.parser(__doc__)
    parser.add_argument("--models", default=",".join(subjects.MODELS), help="some of the default")
    parser.add_argument("--backends", default=",".join(BACKENDS), help="some of the default")
    parser.add_argument("--data", default="", help="a data set whose natural lengths to take")
    parser.add_argument("--label", default="after", help="of the rows, e.g. before or after")
    parser.add_argument(
        "--before", help="Python of another checkout, measured in turns with this one"
    )
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
    run_all(args, results)


if __name__ == "__main__":
    main()
