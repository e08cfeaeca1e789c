"""Training on a CPU in float32 and in mixed_bfloat16: pairs per second of each, in turns.

    python benchmarks/bfloat16.py
    python benchmarks/bfloat16.py --show --write docs/results.md

Both models of a process are of the paper's size (encoders of MiniLM-L6's, with random weights),
sentences have `--length` words, and the two policies take turns, one step each. A policy's time is
its median step. "answers apart" is the largest difference between the probabilities that both
give with the same untrained weights. Existing rows are not measured again.
"""

import argparse
import statistics
from pathlib import Path
from typing import Any

import measuring
import subjects
from measuring import Worker

RESULTS = measuring.Results("bfloat16")
MODELS = ("re2", "hybrid", "drcn", "esim", "cross_encoder")
POLICIES = ("float32", "mixed_bfloat16")
AMX = "amx_bf16"  # the flag of a CPU that multiplies matrices in bfloat16


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Runs in the process of one model and one backend."""
    import keras
    import numpy as np

    made = {}
    for policy in POLICIES:
        keras.config.set_dtype_policy(policy)
        made[policy] = subjects.KerasSubject(args.model, args.length, 0)
    single, half = (made[policy] for policy in POLICIES)
    half.model.set_weights(single.model.get_weights())
    [(arrays, labels), *_] = measuring.make_batches(
        "full", False, args.batch_size, args.length, 1, 0
    )
    inputs = single.inputs(arrays)
    apart = np.abs(single.predict(inputs) - half.predict(inputs)).max()
    for subject in made.values():
        subjects.warm_up(subject, inputs, labels)

    def turns() -> list[list[float]]:
        steps = [lambda s=subject: s.step(inputs, labels) for subject in made.values()]
        return [measuring.timed(steps) for _ in range(args.steps)]

    seconds, others = measuring.busy_while(turns)
    rates = [args.batch_size / statistics.median(of_one) for of_one in zip(*seconds)]
    found = {name: round(rate, 2) for name, rate in zip(POLICIES, rates)}
    return {**found, "answers_apart": float(f"{apart:.2g}"), "others_cpu": round(others, 2)}


def run(args: argparse.Namespace) -> None:
    cpu = Path("/proc/cpuinfo")
    amx = cpu.exists() and AMX in cpu.read_text("utf-8")
    for model in args.models.split(","):
        for backend in args.backends.split(","):
            key = {"model": model, "backend": backend, "batch_size": args.batch_size}
            key |= {"length": args.length, "cpus": measuring.cpus(), AMX: amx}
            if RESULTS.has(key):
                continue
            options = ["--worker", "--model", model, "--batch-size", args.batch_size]
            options += ["--length", args.length, "--steps", args.steps]
            worker = Worker(backend, options)
            found = worker.ask("measure")
            worker.close()
            if found is None:
                print(f"{model} {backend}: its process ended early", flush=True)
                continue
            RESULTS.add(key | found)


def main() -> None:
    parser = measuring.parser(__doc__ or "")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--backends", default=",".join(measuring.BACKENDS))
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--length", type=int, default=20, help="words of every sentence")
    parser.add_argument("--steps", type=int, default=7, help="timed, of each policy")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--model", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        measuring.answer_lines(lambda _: measure(args))
        return
    if not args.show:
        run(args)
    lines = []
    for row in RESULTS.rows():
        single, half = (float(row[policy]) for policy in POLICIES)
        cells = [row["model"], row["backend"], row["cpus"], "yes" if row[AMX] == "True" else "no"]
        cells += [f"{single:.1f}", f"{half:.1f}", f"{half / single:.2f}"]
        lines.append([*cells, row["answers_apart"], row["others_cpu"]])
    head = ["model", "backend", "CPUs", "AMX", *POLICIES, "ratio", "answers apart", "others' CPUs"]
    RESULTS.show(head, lines, args.write)


if __name__ == "__main__":
    main()
