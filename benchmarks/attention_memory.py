"""Memory and time of DABERT's difference attention, beside the form that holds all differences at once.

    python benchmarks/attention_memory.py
    python benchmarks/attention_memory.py --show --write docs/results.md

A training step (forward, backward, one update) of one DualAttention of BERT-base's size on a batch of full length, in a
process of its own for each backend and form. "MiB" is the peak of the process less what it held before the first step:
the compiler's own memory and both channels' weights `[B, heads, L, L]` are in it. Forms: "affinity", Keras's own
MultiHeadAttention; "loop", DualAttention as it is, feature by feature; "naive", the same with the differences of all
features, `[B, heads, L, L, key_dim]`, in one tensor. A row that is there (same backend, form, sizes) is not measured again.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import measuring
import numpy as np

RESULTS = Path(__file__).parent / "results" / "attention_memory.csv"
MARKS = ("<!-- made by benchmarks/attention_memory.py -->", "<!-- end of attention memory -->")
FORMS = ("affinity", "loop", "naive")
SIZES = ("batch", "length", "heads", "key_dim", "seed")


def attention(form: str, heads: int, key_dim: int) -> Any:
    """A Keras layer: `[B, L, D]` and a mask to `[B, L, D]` or both channels side by side."""
    import keras
    from keras import ops

    from keras_sentmatch.layers import DualAttention

    class Naive(DualAttention):
        def _distances(self, query: Any, key: Any, products: Any) -> Any:
            return ops.sum(ops.abs(query[:, :, :, None] - key[:, :, None]), axis=-1)

    if form == "affinity":
        layer = keras.layers.MultiHeadAttention(heads, key_dim, dropout=0.1)
        return lambda x, mask: layer(x, x, key_mask=mask)
    layer = (Naive if form == "naive" else DualAttention)(heads, key_dim)
    return lambda x, mask: ops.concatenate(layer(x, mask), axis=-1)


def measure(args: argparse.Namespace) -> dict[str, float]:
    """In the process of one backend and form."""
    import keras

    keras.utils.set_random_seed(args.seed)
    width = args.heads * args.key_dim
    x = keras.Input((args.length, width))
    mask = keras.Input((args.length,), dtype="bool")
    y = attention(args.form, args.heads, args.key_dim)(x, mask)
    model = keras.Model([x, mask], keras.layers.Dense(1)(y))
    model.compile("sgd", "mse")
    rng = np.random.default_rng(args.seed)
    data = rng.normal(size=(args.batch, args.length, width)).astype("float32")
    inputs = [data, np.ones((args.batch, args.length), bool)]
    target = np.zeros((args.batch, args.length, 1), "float32")
    before = measuring.held_mib()
    first, *rest = measuring.timed(
        [lambda: model.train_on_batch(inputs, target)] * (args.steps + 1)
    )
    return {
        "mib": measuring.peak_mib() - before,
        "first_step_s": first,
        "step_s": float(np.median(rest)),
    }


def run_all(args: argparse.Namespace) -> None:
    for backend in args.backends.split(","):
        for form in FORMS:
            key = {"backend": backend, "form": form, **{n: str(getattr(args, n)) for n in SIZES}}
            rows = measuring.read(RESULTS)
            if any(all(row[k] == v for k, v in key.items()) for row in rows):
                continue
            command = [sys.executable, __file__, "--form", form, "--steps", str(args.steps)]
            command += [part for n in SIZES for part in (f"--{n.replace('_', '-')}", key[n])]
            environment = measuring.environment(backend)
            done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
            found = json.loads(done.stdout)
            row = {**key, **{k: round(v, 3) for k, v in found.items()}}
            row |= {
                "cpus": measuring.cpus(),
                "versions": measuring.versions(),
                "date": measuring.now(),
            }
            measuring.append([row], RESULTS)
            print(*row.values(), flush=True)


def table() -> tuple[list[str], list[list[str]]]:
    head = ["backend", "form", "batch", "length", "MiB", "MiB / naive", "step s", "step / naive"]
    rows, lines = measuring.read(RESULTS), []
    for row in rows:
        same = ("backend", *SIZES)
        naive = [r for r in rows if r["form"] == "naive" and all(r[n] == row[n] for n in same)]
        shares = [
            f"{float(row[n]) / float(naive[-1][n]):.2f}" if naive else "" for n in ("mib", "step_s")
        ]
        size = [row["batch"], row["length"]]
        lines.append(
            [row["backend"], row["form"], *size, row["mib"], shares[0], row["step_s"], shares[1]]
        )
    return head, lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backends", default="tensorflow,jax,torch")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--key-dim", type=int, default=64)
    parser.add_argument("--steps", type=int, default=3, help="timed, after the first one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--form", choices=FORMS, help=argparse.SUPPRESS)  # in its own process
    measuring.table_options(parser)
    args = parser.parse_args()
    if args.form:
        print(json.dumps(measure(args)))
        return
    if not args.show:
        run_all(args)
    measuring.show_table(*table(), RESULTS.name, args.write, MARKS)


if __name__ == "__main__":
    main()
