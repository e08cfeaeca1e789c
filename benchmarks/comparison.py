"""Small matchers next to a fine-tuned encoder, in the forms that people run.

    python benchmarks/comparison.py --encoder path/to/minilm --data path/to/sick --runs runs/compared

Trains what has no finished run in `--runs`: the encoder as this library's `cross_encoder` and as
`sentence_transformers.CrossEncoder`, RE2 with 75 units taught by the former, RE2, ESIM, DRCN and the
hybrid. Then measures each, from two strings to probabilities:

- library: `Matcher.load(run)` on `--backend`
- onnx: `load(run, engine="onnx")`
- sentence_transformers: `CrossEncoder.predict`

For each number of `--threads` every contender has a process that may use that many processors. The
processes start one after the other ("cold start": from the start of the process to the first
prediction) and then take turns, `--repeats` times: 200 pairs one by one, and all pairs of the test
part (of the validation part if there is no test part) in batches of 64. A turn is a row, and
existing rows are not measured again.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import measuring
import numpy as np
from measuring import Worker, timed

SETTINGS = {  # of `keras-sentmatch train`
    "cross_encoder": ["training.epochs=4", "training.learning_rate=5e-5"],
    "re2-75": ["training.epochs=15", "model.units=75"],
    "re2": ["training.epochs=15"],
    "esim": ["training.epochs=20"],
    "drcn": ["training.epochs=10"],
    "hybrid": [],
}
ENGINES = ("library", "onnx")
OTHER = "sentence_transformers"
CONTENDERS = tuple(f"{model}:{engine}" for model in SETTINGS for engine in ENGINES)
CONTENDERS = (f"cross_encoder:{OTHER}", *CONTENDERS)
KEY = ("contender", "data", "threads", "backend", "turn")
Ask = Callable[[Sequence[str], Sequence[str]], Any]


def test_pairs(data: str) -> Any:
    from keras_sentmatch.data import load_pairs

    parts = load_pairs(data)
    return parts.get("test", parts["validation"])


# === Training ===


def folder_of(model: str, args: argparse.Namespace) -> Path:
    return Path(args.runs) / f"{model}-{Path(args.data).name}"


def command(*words: Any) -> None:
    code = "from keras_sentmatch.cli import main; main()"
    subprocess.run([sys.executable, "-c", code, *map(str, words)], check=True)


def train(model: str, args: argparse.Namespace) -> None:
    """Train a model of the library unless it has a finished run."""
    folder = folder_of(model, args)
    if (folder / "metrics.json").exists():
        return
    words: list[Any] = ["train", model.removesuffix("-75"), "--data", args.data, "--out", folder]
    words += ["--backend", args.backend, "--seed", 0]
    for setting in SETTINGS[model]:
        words += ["--set", setting]
    if model == "cross_encoder":
        words += ["--backbone", args.encoder]
    elif model != "hybrid":
        words += ["--vectors", f"encoder:{args.encoder}"]
    if model == "re2-75":
        train("cross_encoder", args)
        words += ["--teacher", folder_of("cross_encoder", args)]
    words += ["--resume"] if folder.exists() else []
    command(*words)


def train_other(args: argparse.Namespace) -> None:
    """Fine-tune `sentence_transformers.CrossEncoder` with the same settings."""
    folder = folder_of(OTHER, args)
    if folder.exists():
        return
    import torch
    from sentence_transformers import CrossEncoder

    from keras_sentmatch.data import load_pairs

    torch.manual_seed(0)
    pairs = load_pairs(args.data)["train"]
    other = CrossEncoder(args.encoder, num_labels=len(pairs.label_names), device="cpu")
    network, tokenize = other.model.train(), other.tokenizer
    optimizer = torch.optim.AdamW(network.parameters(), 5e-5, weight_decay=0.01)
    epochs, size = 4, 32
    total = epochs * -(-len(pairs) // size)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total)
    for epoch in range(epochs):
        order = np.random.default_rng(epoch).permutation(len(pairs))
        for start in range(0, len(order), size):
            part = pairs.select(order[start : start + size])
            sides = list(part.sentence1), list(part.sentence2)
            batch = tokenize(*sides, padding=True, truncation=True, return_tensors="pt")
            labels = torch.tensor(np.array(part.labels), dtype=torch.long)
            torch.nn.functional.cross_entropy(network(**batch).logits, labels).backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    other.save(str(folder))


def prepare(contender: str, args: argparse.Namespace) -> None:
    """Train and export what a contender needs."""
    model, engine = contender.split(":")
    if engine == OTHER:
        train_other(args)
        return
    train(model, args)
    run = folder_of(model, args)
    if engine == "onnx" and not (run / "onnx").exists():
        command("export", run, "--format", "onnx")


# === A process of one contender ===


def load(contender: str, args: argparse.Namespace) -> tuple[Ask, Path]:
    """Return a function from sentences to probabilities, and the folder that it needs."""
    model, engine = contender.split(":")
    if engine == OTHER:
        from sentence_transformers import CrossEncoder

        folder = folder_of(OTHER, args)
        other = CrossEncoder(str(folder), device="cpu")
        return lambda one, two: other.predict(
            list(zip(one, two)), batch_size=64, apply_softmax=True, show_progress_bar=False
        ), folder
    run = folder_of(model, args)
    from keras_sentmatch import load

    matcher = load(run, engine="onnx" if engine == "onnx" else "keras")
    return lambda one, two: matcher.predict_proba(
        sentence1=one, sentence2=two, batch_size=64
    ), run / "onnx" if engine == "onnx" else run


def work(args: argparse.Namespace) -> None:
    """Run in a child process."""
    if hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, allowed[: args.threads])
    pairs = json.loads(Path(args.pairs).read_text("utf-8"))
    loaded: list[Any] = []

    def answer(question: str) -> dict[str, Any]:
        if question == "cold":
            ask, folder = load(args.worker, args)
            ask(pairs["one"][:1], pairs["two"][:1])
            cold = time.time() - args.started
            loaded.append(ask)
            files = [
                path
                for path in folder.rglob("*")
                if path.is_file() and "onnx" not in path.relative_to(folder).parts[:-1]
            ]
            return {"cold_s": cold, "bytes": sum(path.stat().st_size for path in files)}
        (ask,) = loaded
        singles = [([a], [b]) for a, b in zip(pairs["one"][:200], pairs["two"][:200])]
        ask(pairs["one"][:64], pairs["two"][:64])

        def measured() -> tuple[list[float], float, Any]:
            alone = timed([lambda one=one: ask(*one) for one in singles])
            begin = time.perf_counter()
            found = ask(pairs["one"], pairs["two"])
            return alone, time.perf_counter() - begin, found

        (alone, seconds, found), others = measuring.busy_while(measured)
        right = (
            np.argmax(found, -1)
            if np.ndim(found) > 1 and np.shape(found)[-1] > 1
            else (np.ravel(found) >= 0.5)
        )
        return {
            "alone": alone,
            "seconds": seconds,
            "accuracy": float(np.mean(right == np.array(pairs["labels"]))),
            "peak_mib": measuring.peak_mib(),
            "others": others,
        }

    measuring.answer_lines(answer)


# === All of them ===


def run_all(args: argparse.Namespace, results: measuring.Results) -> None:
    data = Path(args.data).name

    def key(name: str, threads: int, turn: int) -> dict[str, Any]:
        return dict(zip(KEY, (name, data, threads, args.backend, turn)))

    turns = range(args.repeats)
    wanted = [
        (name, threads, turn)
        for threads in args.threads_list
        for turn in turns
        for name in args.contenders
        if not results.has(key(name, threads, turn))
    ]
    for name in dict.fromkeys(name for name, _, _ in wanted):
        prepare(name, args)
    test = test_pairs(args.data)
    path = results.path.with_suffix(".pairs.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    sides = {"one": list(test.sentence1), "two": list(test.sentence2)}
    path.write_text(json.dumps(sides | {"labels": np.array(test.labels).tolist()}), "utf-8")
    for threads in args.threads_list:
        count = {"OMP_NUM_THREADS": str(threads), "TF_NUM_INTRAOP_THREADS": str(threads)}
        options = ["--runs", args.runs, "--data", args.data, "--pairs", path, "--threads", threads]
        options += ["--encoder", args.encoder]
        here = [(name, turn) for name, wanted_threads, turn in wanted if wanted_threads == threads]
        workers, cold = {}, {}
        for name in dict.fromkeys(name for name, _ in here):
            started = ["--worker", name, "--started", time.time()]
            workers[name] = Worker(args.backend, [*options, *started], **count)
            cold[name] = workers[name].ask("cold")
        for name, turn in here:
            found = workers[name].ask("turn") if cold[name] else None
            if found is None:
                print(f"{name}: its process ended early", flush=True)
                continue
            figures = {
                "accuracy": round(found["accuracy"], 4),
                "pairs": len(test),
                "pairs_per_s": round(len(test) / found["seconds"], 1),
                "p50_ms": round(1000 * float(np.median(found["alone"])), 2),
                "p95_ms": round(1000 * float(np.quantile(found["alone"], 0.95)), 2),
                "cold_s": round(cold[name]["cold_s"], 2),
                "peak_mib": found["peak_mib"],
                "mib_on_disk": round(cold[name]["bytes"] / 2**20, 1),
                "others_cpu": round(found["others"], 2),
            }
            results.add(key(name, threads, turn) | figures)
        for worker in workers.values():
            worker.close()
    path.unlink()


def main() -> None:
    parser = measuring.parser(__doc__)
    parser.add_argument("--runs", default="runs/compared", help="trained run folders, MODEL-DATA")
    parser.add_argument("--data", default="sick", help="the data set")
    parser.add_argument("--encoder", required=True, help="folder of a Hugging Face BERT")
    parser.add_argument("--contenders", default=",".join(CONTENDERS), help="some of the default")
    parser.add_argument("--threads", default="1,2", help="processors of a contender")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--backend", default="tensorflow", choices=measuring.BACKENDS)
    parser.add_argument("--out", type=Path, default=measuring.RESULTS_FOLDER / "comparison.csv")
    parser.add_argument("--worker", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--started", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--pairs", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        args.threads = int(args.threads)
        work(args)
        return
    args.contenders = args.contenders.split(",")
    args.threads_list = [int(number) for number in args.threads.split(",")]
    results = measuring.Results(args.out)
    run_all(args, results)


if __name__ == "__main__":
    main()
