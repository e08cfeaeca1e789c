"""Memory and time of DABERT's difference attention, and of a form that holds all differences at once.

    python benchmarks/attention_memory.py
    python benchmarks/attention_memory.py --show --write docs/results.md

Times a training step (forward, backward, one update) of one DualAttention of BERT-base's size on a
batch of full length, in a separate process for each backend and form. "MiB" is the peak of the
process minus its memory before the first step, including the compiler's own memory and both
channels' weights `[B, heads, L, L]`. Forms: "affinity", Keras's own MultiHeadAttention; "loop",
DualAttention as it is, feature by feature; "naive", the same with the differences of all features,
`[B, heads, L, L, key_dim]`, in one tensor. An existing row (same backend, form, sizes) is not
measured again.
"""

import argparse
import json
from typing import Any

import measuring
import numpy as np

RESULTS = measuring.Results("attention_memory")
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
    """Runs in the process of one backend and form."""
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
    before = measuring.current_mib()
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
            key = {"backend": backend, "form": form, **{n: getattr(args, n) for n in SIZES}}
            if RESULTS.has(key):
                continue
            sizes = [part for n in SIZES for part in (f"--{n.replace('_', '-')}", key[n])]
            found = measuring.run_child(backend, "--form", form, "--steps", args.steps, *sizes)
            found = {name: round(value, 3) for name, value in found.items()}
            RESULTS.add({**key, **found, "cpus": measuring.cpus()})


def table() -> tuple[list[str], list[list[str]]]:
    head = ["backend", "form", "batch", "length", "MiB", "MiB / naive", "step s", "step / naive"]
    rows, lines = RESULTS.rows(), []
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
    parser = measuring.parser(__doc__)
    parser.add_argument("--backends", default="tensorflow,jax,torch")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--key-dim", type=int, default=64)
    parser.add_argument("--steps", type=int, default=3, help="timed, after the first one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--form", choices=FORMS, help=argparse.SUPPRESS)  # in a child process
    args = parser.parse_args()
    if args.form:
        print(json.dumps(measure(args)))
        return
    if not args.show:
        run_all(args)
    RESULTS.show(*table(), args.write)


if __name__ == "__main__":
    main()
