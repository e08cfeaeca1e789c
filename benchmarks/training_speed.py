"""Pairs per second in training DRCN, on each backend and in plain PyTorch.

    python benchmarks/training_speed.py --lengths natural --out benchmarks/results/training_speed.csv

The network has the paper's size (dropout, batch normalization, autoencoders, L2 1e-6; RMSprop 1e-3,
gradients clipped to norm 5: of each variable in Keras, of all together in plain PyTorch). The pairs
are synthetic. With `full` lengths every sentence has `--length` tokens; with `natural` ones lengths
are log-normal around 12, and the library sorts pairs into buckets with `PairBatches`, while plain
PyTorch pads random batches to their longest sentence and packs them. Batches are made before the
clock starts. The buckets of at least 60 batches are sampled evenly, so a few steps are enough.

Each backend has its own process. All are started and warmed up (one step of each shape: "first
steps"), then they take turns, `--repeats` times, while the others wait: if the machine slows down,
it does so for all. A turn begins with an untimed step. A step's time is its median over the
repeats. "others' CPUs" is what other programs used in the worst turn.

`--profile` times a single BiLSTM layer (1033 to 2 x 100) instead, forward and backward.
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import measuring
import numpy as np
from measuring import CHARACTERS, CLASSES, VOCABULARY, draw_lengths, make_pairs, timed

from keras_sentmatch.data import PairBatches, PairDataset, PairEncoder

BACKENDS = (*measuring.BACKENDS, "plain")  # plain PyTorch never imports Keras
WIDTH, UNITS = 1033, 100  # of the layer that --profile times


@dataclass
class Work:
    """Something to time: `steps`, after `first` has been run once."""

    name: str
    parameters: int
    steps: list[Callable[[], Any]]
    first: list[Callable[[], Any]]
    note: str = ""


# === Data ===


def pairs(args: argparse.Namespace) -> tuple[PairDataset, PairEncoder]:
    steps = args.steps if args.lengths == "full" else max(args.steps, 60)
    return make_pairs(args.batch_size * steps, args.length, args.lengths, args.seed)


def keras_batches(args: argparse.Namespace) -> list[tuple[dict[str, np.ndarray], np.ndarray]]:
    """Batches of the library's buckets, taken evenly from the shortest to the longest."""
    data, encoder = pairs(args)
    buckets = [args.length] if args.lengths == "full" else 5
    batches = PairBatches(data, encoder, batch_size=args.batch_size, bucket_lengths=buckets)
    every = list(batches.numpy())
    return [every[int((i + 0.5) * len(every) / args.steps)] for i in range(args.steps)]


def plain_batches(args: argparse.Namespace) -> Iterator[tuple[list[np.ndarray], np.ndarray]]:
    """Random batches, each side padded to its longest sentence."""
    data, encoder = pairs(args)
    for start in range(0, args.steps * args.batch_size, args.batch_size):
        rows = slice(start, start + args.batch_size)
        arrays = encoder.encode(data.sentence1[rows], data.sentence2[rows])
        out = []
        for side in "12":
            longest = (arrays[f"word_ids_{side}"] != 0).sum(1).max()
            out += [arrays[f"{name}_{side}"][:, :longest] for name in ("word_ids", "char_ids")]
        yield out, data.labels[rows]


# === The network ===


def train_keras(args: argparse.Namespace) -> list[Work]:
    import keras

    from keras_sentmatch.applications import DRCN

    keras.utils.set_random_seed(args.seed)
    model = DRCN(VOCABULARY, CLASSES, char_vocabulary_size=CHARACTERS, batch_normalization=True)
    jit = {"jax": "auto", "tensorflow": args.jit}.get(keras.backend.backend(), False)
    optimizer = keras.optimizers.RMSprop(1e-3, clipnorm=5.0)
    model.compile(optimizer, "sparse_categorical_crossentropy", jit_compile=jit)
    steps, first = [], {}
    for inputs, labels in keras_batches(args):
        steps.append(lambda x=inputs, y=labels: model.train_on_batch(x, y))
        first.setdefault(inputs["word_ids_1"].shape, steps[-1])
    lengths = ", ".join(str(length) for _, length in first)
    note = f"lengths {lengths}; jit_compile={model.jit_compile}"
    return [Work("DRCN", model.count_params(), steps, list(first.values()), note)]


def train_plain(args: argparse.Namespace) -> list[Work]:
    from plain_training import PlainTrainer

    plain = PlainTrainer("drcn", args.seed)
    steps = [lambda x=inputs, y=labels: plain.step(x, y) for inputs, labels in plain_batches(args)]
    return [Work("DRCN", plain.parameters, steps, steps[:1], plain.note)]


# === One recurrent layer ===


def layer_inputs(args: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Both sentences of a batch: features and lengths."""
    rng = np.random.default_rng(args.seed)
    lengths = draw_lengths(2 * args.batch_size, args.length, args.lengths, rng)
    return rng.normal(0, 0.5, (len(lengths), lengths.max(), WIDTH)).astype("float32"), lengths


def profile_keras(args: argparse.Namespace) -> list[Work]:
    import keras

    from keras_sentmatch.layers import BidirectionalRNN

    x, lengths = layer_inputs(args)
    mask = np.arange(x.shape[1]) < lengths[:, None]
    masked = keras.layers.Bidirectional(keras.layers.LSTM(UNITS, return_sequences=True))
    works = []
    for name, layer in (("Keras, masked", masked), ("BidirectionalRNN", BidirectionalRNN(UNITS))):
        layer(x[:1], mask=mask[:1])
        step = keras_gradient(layer, x, mask, args.jit)
        works.append(Work(name, layer.count_params(), [step] * args.steps, [step]))
    return works


def keras_gradient(layer: Any, x: Any, mask: Any, jit: bool) -> Callable[[], Any]:
    """A step that computes the gradients of the mean square of the layer's output."""
    import keras
    from keras import ops

    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        variables = [v.value for v in layer.trainable_variables]
        x, mask = tf.constant(x), tf.constant(mask)

        @tf.function(jit_compile=jit)
        def gradients(x: Any, mask: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = ops.mean(ops.square(layer(x, mask=mask)))
            return tape.gradient(loss, [x, *variables])

        return lambda: [g.numpy() for g in gradients(x, mask)[1:]]

    if keras.backend.backend() == "jax":
        import jax

        state = [v.value for v in layer.non_trainable_variables]
        x, mask = jax.numpy.asarray(x), jax.numpy.asarray(mask)

        def loss(variables: Any, x: Any) -> Any:
            y, _ = layer.stateless_call(variables, state, x, mask=mask)
            return ops.mean(ops.square(y))

        compiled = jax.jit(jax.grad(loss, argnums=(0, 1)))
        variables = [v.value for v in layer.trainable_variables]
        return lambda: jax.block_until_ready(compiled(variables, x))

    import torch

    x, mask = ops.convert_to_tensor(x).requires_grad_(), ops.convert_to_tensor(mask)
    variables = [v.value for v in layer.trainable_variables]

    def step() -> Any:
        y = ops.mean(ops.square(layer(x, mask=mask)))
        return [g.cpu() for g in torch.autograd.grad(y, [x, *variables])[1:]]

    return step


def profile_plain(args: argparse.Namespace) -> list[Work]:
    import torch
    from plain_drcn import packed

    device = "cuda" if torch.cuda.is_available() else "cpu"
    array, lengths = layer_inputs(args)
    x, lengths = torch.tensor(array, device=device, requires_grad=True), torch.tensor(lengths)
    lstm = torch.nn.LSTM(WIDTH, UNITS, batch_first=True, bidirectional=True).to(device)
    variables = list(lstm.parameters())

    def step() -> Any:
        y = packed(lstm, x, lengths).square().mean()
        return [g.cpu() for g in torch.autograd.grad(y, [x, *variables])[1:]]

    parameters = sum(v.numel() for v in variables)
    return [Work("nn.LSTM, packed", parameters, [step] * args.steps, [step])]


# === Processes ===


def work(args: argparse.Namespace) -> None:
    """Runs in a child process: warms up, then runs the steps once for each line it reads."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # the output of libraries goes to stderr
    plain = args.worker == "plain"
    if args.profile:
        works = profile_plain(args) if plain else profile_keras(args)
    else:
        works = train_plain(args) if plain else train_keras(args)
    ready = [(w.name, w.parameters, sum(timed(w.first)), w.note) for w in works]
    print(json.dumps(ready), file=answers)
    for _ in sys.stdin:
        seconds, others = measuring.busy_while(lambda: [turn(w) for w in works])
        print(json.dumps([seconds, measuring.peak_mib(), others]), file=answers)


def turn(work: Work) -> list[float]:
    work.steps[0]()  # not timed: caches and memory went cold during the others' turns
    return timed(work.steps)


class Worker:
    """The child process of a backend."""

    def __init__(self, backend: str, pairs: int):
        self.backend, self.pairs = backend, pairs
        self.process = subprocess.Popen(
            [sys.executable, __file__, *sys.argv[1:], "--worker", backend],
            env=measuring.environment(backend),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ready = self.answer()
        self.seconds: list[list[list[float]]] = []  # of each repeat, work and step
        self.others: list[float] = []
        self.peak = 0

    def answer(self) -> Any:
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"The process of {self.backend} ended with status {self.process.wait()}.")
        return json.loads(line)

    def run(self) -> None:
        print("go", file=self.process.stdin, flush=True)
        seconds, self.peak, others = self.answer()
        self.seconds.append(seconds)
        self.others.append(others)

    def rows(self) -> Iterator[dict[str, Any]]:
        for i, (name, parameters, first, note) in enumerate(self.ready):
            of_steps = [statistics.median(s) for s in zip(*(repeat[i] for repeat in self.seconds))]
            yield {
                "backend": self.backend,
                "what": name,
                "first_steps_s": round(first, 2),
                "median_step_ms": round(1000 * statistics.median(of_steps), 1),
                "pairs_per_s": round(self.pairs * len(of_steps) / sum(of_steps), 2),
                "peak_rss_mib": self.peak,
                "others_cpu": round(max(self.others), 2),
                "parameters": parameters,
                "note": note,
            }


def show(rows: list[dict[str, Any]], args: argparse.Namespace, command: str) -> None:
    head = ["backend", "what", "first steps s", "ms/step", "pairs/s", "× plain", "peak MiB"]
    lines = [
        [
            row["backend"],
            row["what"],
            f"{row['first_steps_s']:.1f}",
            f"{row['median_step_ms']:,.1f}",
            f"{row['pairs_per_s']:,.1f}",
            str(row["ratio_to_plain"]),
            f"{row['peak_rss_mib']:,}",
            f"{row['others_cpu']:.2f}",
            f"{row['parameters']:,}",
        ]
        for row in rows
    ]
    sizes = f"batch {args.batch_size}, {args.lengths} lengths up to {args.length}"
    turns = f"{args.repeats} x {args.steps} steps, seed {args.seed}, {os.cpu_count()} CPUs"
    measuring.print_table([*head, "others' CPUs", "parameters"], lines, f"{sizes}; {turns}")
    for row in rows:
        if row["note"]:
            print(f"{row['backend']}: {row['note']}")
    print(command, measuring.versions(), sep="\n")
    if any(row["others_cpu"] > 0.2 for row in rows):
        print(measuring.BUSY)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--length", type=int, default=35, help="the longest sentence")
    parser.add_argument("--lengths", choices=("full", "natural"), default="full")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--backends", default=",".join(BACKENDS), help="some of the default")
    parser.add_argument("--jit", action="store_true", help="compile with XLA on tensorflow too")
    parser.add_argument("--profile", action="store_true", help="one BiLSTM layer, not the network")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="append the rows to this CSV file")
    parser.add_argument("--worker", choices=BACKENDS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    unknown = set(args.backends.split(",")) - set(BACKENDS)
    if unknown:
        parser.error(f"--backends: {', '.join(unknown)} is none of {', '.join(BACKENDS)}")
    if min(args.length - 1, args.batch_size - 1, args.steps, args.repeats) < 1:
        parser.error("--length and --batch-size must be at least 2, --steps and --repeats 1")
    return args


def main() -> None:
    args = arguments()
    if args.worker:
        work(args)
        return
    workers = [Worker(backend, args.batch_size) for backend in args.backends.split(",")]
    for _ in range(args.repeats):
        for worker in workers:
            worker.run()
    for worker in workers:
        worker.process.stdin.close()
        worker.process.wait()

    rows = [row for worker in workers for row in worker.rows()]
    plain = next((row["pairs_per_s"] for row in rows if row["backend"] == "plain"), None)
    command = shlex.join(["python", *sys.argv])
    for row in rows:
        row["ratio_to_plain"] = "" if plain is None else round(row["pairs_per_s"] / plain, 3)
        row.update(lengths=args.lengths, length=args.length, batch_size=args.batch_size)
        row.update(steps=args.steps, repeats=args.repeats, seed=args.seed, cpus=os.cpu_count())
        row["command"] = command
    show(rows, args, command)
    if args.out:
        results = measuring.Results(args.out)
        for row in rows:
            results.add(row)


if __name__ == "__main__":
    main()
