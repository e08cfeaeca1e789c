"""Pairs per second through the encoder: in Python, and as a TensorFlow graph in `tf.data`.

    python benchmarks/encoding.py --pairs 100000 --batch-size 256

The sentences are synthetic: about 12 words each, of 30,000 with natural frequencies.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable

import measuring
import numpy as np

from keras_sentmatch.encoders import PairEncoder


def sentences(count: int, words: list[str], rng: np.random.Generator) -> list[str]:
    """Makes sentences whose words follow Zipf's law; one in ten holds a contraction or a comma."""
    ranks = np.arange(1, len(words) + 1)
    weights = (1 / ranks) / (1 / ranks).sum()
    lengths = np.clip(rng.poisson(12, count), 3, 40)
    drawn = iter(rng.choice(len(words), lengths.sum(), p=weights).tolist())
    out = []
    for length, kind in zip(lengths.tolist(), rng.integers(0, 10, count).tolist()):
        sentence = [words[next(drawn)] for _ in range(length)]
        if kind == 0:
            sentence[1] = "isn't," if length % 2 else sentence[1] + ","
        out.append(" ".join(sentence).capitalize() + ".")
    return out


def measure(name: str, features: tuple[str, ...], work: Callable[[], int], pairs: int) -> list[str]:
    """Runs `work` once and returns its row of the table."""
    start, cpu = time.perf_counter(), time.process_time()
    done = work()
    if done != pairs:
        raise RuntimeError(f"{name}: {done} pairs came out, {pairs} went in")
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    numbers = f"{seconds:.2f}", f"{cpu:.2f}", f"{pairs / seconds:,.0f}"
    return [name, "+".join(features), *numbers]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--vocabulary", type=int, default=30_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--python-only", action="store_true", help="leave TensorFlow out")
    args = parser.parse_args()

    rng = np.random.default_rng(args.seed)
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    words = sorted(
        {"".join(rng.choice(letters, n)) for n in rng.integers(2, 11, 2 * args.vocabulary)},
        key=len,
    )[: args.vocabulary]
    first, second = sentences(args.pairs, words, rng), sentences(args.pairs, words, rng)
    starts = range(0, args.pairs, args.batch_size)

    rows = []
    for features in (("word",), ("word", "char")):
        encoder = PairEncoder(words, features=features)

        def python_once(encoder: PairEncoder = encoder) -> int:
            return len(encoder.encode_pairs(first, second))

        def python_batches(encoder: PairEncoder = encoder) -> int:
            parts = (slice(i, i + args.batch_size) for i in starts)
            return sum(len(encoder.encode(first[p], second[p])["word_ids_1"]) for p in parts)

        title = "Python, data set at once (unpadded)"
        rows.append(measure(title, features, python_once, args.pairs))
        rows.append(measure("Python, batches (padded)", features, python_batches, args.pairs))
        if not args.python_only:
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
            import tensorflow as tf

            data = tf.data.Dataset.from_tensor_slices((first, second)).batch(args.batch_size)
            data = data.map(encoder.tf_encode, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)

            def graph(data: tf.data.Dataset = data) -> int:
                return sum(len(batch["word_ids_1"]) for batch in data)

            rows.append(measure("TensorFlow, tf.data map", features, graph, args.pairs))

    head = ["way", "features", "seconds", "CPU s", "pairs/s"]
    title = f"{args.pairs:,} pairs, seed {args.seed}, {os.cpu_count()} CPUs"
    measuring.print_table(head, rows, title)
    print(f"python {' '.join(sys.argv)}; {measuring.versions()}")


if __name__ == "__main__":
    main()
