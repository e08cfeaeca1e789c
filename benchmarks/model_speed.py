"""Speed of every model on each backend: training, inference, and ranking with cached encodings.

    python benchmarks/model_speed.py
    python benchmarks/model_speed.py --rank
    python benchmarks/model_speed.py --backbone path/to/encoder
    python benchmarks/model_speed.py --show --write docs/results.md

The models have the papers' sizes for SNLI, with all inputs that need no lexicon: words, characters
and exact match. Pairs are synthetic; every sentence has `--length` words. Optimizer, learning rate
and clipping (of each variable in Keras, of all together in plain PyTorch) are the recipe's, and so
is `jit_compile`: off on TensorFlow, on where possible on JAX. Models on a pretrained encoder are
measured with `--backbone` only: two sentences of `--length` word pieces make one sequence.
`plain_drcn.py` and `plain_hosts.py` are the same networks in plain PyTorch.

Each model on each backend runs in a separate process, one after the other. "First step" is the
first training step, in which a backend compiles; one more is not counted; then the median of
`--steps` training steps, and of as many batches of inference after two untimed ones. Arrays go in
from NumPy, and the loss or the probabilities come back, in every step. Precision is each backend's
default: on a GPU, JAX multiplies float32 in TF32, PyTorch only in cuDNN.

`--rank` times one query against `--candidates` whose encodings are cached (`Matcher.encode` once,
then `rank_scores`), and the same as pairs (`predict_proba`). There DRCN is its variant without
attention, and no model uses exact match.

Existing rows (same model, backend, sizes and device) are not measured again; backends that are not
installed are skipped. "others' CPUs" is what other programs used meanwhile.
"""

import argparse
import importlib
import importlib.resources
import importlib.util
import inspect
import itertools
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import measuring
import numpy as np
from measuring import CHARACTERS, CLASSES, LABELS, VOCABULARY, make_pairs, timed

BACKENDS = (*measuring.BACKENDS, "plain")  # plain PyTorch never imports Keras
PLAIN = ("bimpm", "drcn", "esim", "re2")
SPLIT: dict[str, dict[str, Any]] = {  # what lets a model encode a sentence alone
    "diin": {"exact_match": False},
    "drcn": {"preset": "encoder_only", "batch_normalization": True},
    "drr_net": {"exact_match": False},
}
RESULTS = {"speed": measuring.Results("model_speed"), "rank": measuring.Results("ranking")}
KEYS = {
    "speed": ("model", "backend", "batch_size", "length", "device"),
    "rank": ("model", "backend", "candidates", "batch_size", "length", "device"),
}
Lines = list[list[str]]


# === A process of one model and one backend ===


def build(args: argparse.Namespace, **changes: Any) -> tuple[Any, dict[str, Any]]:
    """The model, and its arguments without the sizes of the vocabularies."""
    from keras_sentmatch.applications import build_model, get_model_class

    random.seed(args.seed)  # of Keras's seeds; its set_random_seed imports TensorFlow where it can
    if args.backbone:
        model = build_model(args.model, backbone=args.backbone, num_classes=CLASSES)
        return model, {"backbone": backbone_name(args.backbone)}
    cls = get_model_class(args.model)
    known = inspect.signature(cls.__init__).parameters
    config = {"preset": "snli"} if "snli" in cls.presets else {}
    if "max_length" in known:
        config["max_length"] = args.length
    config |= changes
    sizes = {"vocabulary_size": VOCABULARY, "num_classes": CLASSES}
    if "char_vocabulary_size" in known:
        sizes["char_vocabulary_size"] = CHARACTERS
    model = build_model(args.model, **sizes, **config)
    return model, config


def backbone_name(folder: str) -> str:
    """A short name without the machine's folders."""
    path = Path(folder)
    return path.parent.name if path.name == "model" else path.name


def batches(args: argparse.Namespace) -> Iterator[tuple[dict[str, np.ndarray], np.ndarray]]:
    data, encoder = make_pairs(args.batch_size * args.steps, args.length, "full", args.seed)
    for start in range(0, len(data), args.batch_size):
        rows = slice(start, start + args.batch_size)
        yield encoder.encode(data.sentence1[rows], data.sentence2[rows]), data.labels[rows]


def packed_batches(
    args: argparse.Namespace, pieces: int
) -> Iterator[tuple[dict[str, np.ndarray], np.ndarray]]:
    """Random word pieces: a pair is as long as its two sentences and three special ones."""
    rng = np.random.default_rng(args.seed)
    shape = args.batch_size, 2 * args.length + 3
    segments = np.tile((np.arange(shape[1]) >= args.length + 2).astype("int32"), (shape[0], 1))
    for _ in range(args.steps):
        ids = rng.integers(0, pieces, shape, dtype="int32")
        inputs = {"token_ids": ids, "segment_ids": segments, "padding_mask": ids * 0 + 1}
        yield inputs, rng.integers(0, CLASSES, args.batch_size)


Steps = list[Callable[[], Any]]


def keras_steps(args: argparse.Namespace) -> tuple[Steps, Steps, dict[str, Any]]:
    """Training steps, batches of inference, and facts for the row."""
    import keras

    model, config = build(args)
    settings = measuring.training_settings(args.model)
    optimizer = {"learning_rate": settings["learning_rate"], "clipnorm": settings.get("clipnorm")}
    model.compile(
        keras.optimizers.get({"class_name": settings["optimizer"], "config": optimizer}),
        "sparse_categorical_crossentropy",
        jit_compile=False if args.backend == "tensorflow" else "auto",
    )
    train, infer = [], []
    pairs = batches(args)
    if args.backbone:
        pairs = packed_batches(args, model.backbone["config"]["vocabulary_size"])
    for arrays, labels in pairs:
        inputs = {name: arrays[name] for name in model.input_names}
        train.append(lambda x=inputs, y=labels: model.train_on_batch(x, y))
        infer.append(lambda x=inputs: model.predict_on_batch(x))
    facts = {
        "parameters": model.count_params(),
        "config": json.dumps(config),
        "note": f"jit_compile={model.jit_compile}",
    }
    return train, infer, facts


def plain_steps(args: argparse.Namespace) -> tuple[Steps, Steps, dict[str, Any]]:
    from plain_training import PlainTrainer

    plain = PlainTrainer(args.model, args.seed)
    train, infer = [], []
    for arrays, labels in batches(args):
        inputs = [arrays[f"{name}_{side}"] for side in "12" for name in plain.inputs]
        train.append(lambda x=inputs, y=labels: plain.step(x, y))
        infer.append(lambda x=inputs: plain.predict(x))
    return train, infer, {"parameters": plain.parameters, "config": "", "note": plain.note}


def busy_timed(steps: Steps) -> tuple[list[float], float]:
    """Seconds of each step, and the processors that other programs used meanwhile."""
    return measuring.busy_while(lambda: timed(steps))


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """The speed of training and of inference: a row."""
    train, infer, facts = plain_steps(args) if args.backend == "plain" else keras_steps(args)
    first_train, *_ = timed([train[0], train[-1]])
    train_s, others_train = busy_timed(train)
    first_infer, *_ = timed([infer[0], infer[-1]])
    infer_s, others_infer = busy_timed(infer)
    step, batch = statistics.median(train_s), statistics.median(infer_s)
    return {
        "parameters": facts["parameters"],
        "first_step_s": round(first_train, 2),
        "step_ms": round(1000 * step, 2),
        "train_pairs_per_s": round(args.batch_size / step, 2),
        "first_inference_s": round(first_infer, 2),
        "inference_ms": round(1000 * batch, 2),
        "inference_pairs_per_s": round(args.batch_size / batch, 2),
        "peak_rss_mib": measuring.peak_mib(),
        "peak_device_mib": measuring.device_peak_mib(args.backend),
        "others_cpu": round(max(others_train, others_infer), 2),
        "steps": args.steps,
        "config": facts["config"],
        "note": facts["note"],
    }


def measure_ranking(args: argparse.Namespace) -> dict[str, Any]:
    """The speed of ranking with and without cached encodings: a row, or why there is none."""
    from keras_sentmatch.inference.matcher import Matcher

    model, config = build(args, **SPLIT.get(args.model, {}))
    if not model.can_split:
        return {"skipped": "it cannot encode a sentence alone"}
    if args.backend == "tensorflow":
        model.jit_compile = False  # as in training and the commands
    data, encoder = make_pairs(args.candidates, args.length, "full", args.seed)
    matcher = Matcher(model, encoder, LABELS, task="classification")
    query, candidates = data.sentence1[0], list(data.sentence2)
    size, label = args.batch_size, LABELS[0]

    def keep() -> Any:
        return matcher.encode(candidates, batch_size=size)

    def kept() -> np.ndarray:
        return matcher.rank_scores(query, corpus, label=label)

    def pairs() -> np.ndarray:
        return matcher.rank_scores(query, candidates, label=label, batch_size=size)

    corpus = keep()
    difference = np.abs(kept() - pairs()).max()  # and everything is compiled
    encode_s, others_encode = busy_timed([keep])
    kept_s, others_kept = busy_timed([kept] * args.steps)
    pairs_s, others_pairs = busy_timed([pairs] * args.steps)
    kept_ms, pairs_ms = (1000 * statistics.median(s) for s in (kept_s, pairs_s))
    return {
        "encode_s": round(encode_s[0], 3),
        "kept_ms": round(kept_ms, 2),
        "pairs_ms": round(pairs_ms, 2),
        "ratio": round(pairs_ms / kept_ms, 2),
        "largest_difference": f"{difference:.1e}",
        "corpus_mib": round(corpus.nbytes / 2**20, 1),
        "others_cpu": round(max(others_encode, others_kept, others_pairs), 2),
        "steps": args.steps,
        "config": json.dumps(config),
    }


def work(args: argparse.Namespace) -> None:
    """Runs in a child process: measures one model, or lists those of the backend; prints JSON."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # the output of libraries goes to stderr
    if args.model:
        done = measure_ranking(args) if args.rank else measure(args)
    else:
        plain = [] if args.backbone else PLAIN
        done = {"device": measuring.device_name(args.backend), "models": plain}
        if args.backend != "plain":
            from keras_sentmatch.applications import BackboneModel, get_model_class, list_models

            done["models"] = [
                name
                for name in list_models()
                if issubclass(get_model_class(name), BackboneModel) == bool(args.backbone)
            ]
    print(json.dumps(done), file=answers, flush=True)


# === All of them ===


def options_of(args: argparse.Namespace) -> list[str]:
    """The options for a child process, without the model."""
    options = ["--batch-size", args.batch_size, "--length", args.length, "--steps", args.steps]
    options += ["--seed", args.seed]
    options += ["--rank", "--candidates", args.candidates] if args.rank else []
    options += ["--backbone", args.backbone] if args.backbone else []
    return list(map(str, options))


def available(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Device and models of each requested backend that is installed."""
    found = {}
    for backend in args.backends:
        if importlib.util.find_spec("torch" if backend == "plain" else backend):
            found[backend] = measuring.run_child(backend, "--worker", backend, *options_of(args))
        else:
            print(f"{backend} is not installed; skipped", flush=True)
    return found


def run_all(args: argparse.Namespace) -> int:
    """Measures what has no row yet; returns the number of runs that failed."""
    kind = "rank" if args.rank else "speed"
    results, failed = RESULTS[kind], 0
    backends = available(args)
    every = sorted({model for about in backends.values() for model in about["models"]})
    if unknown := set(args.models) - set(every):
        sys.exit(f"--models: {', '.join(sorted(unknown))} is none of {', '.join(every)}")
    options = options_of(args)
    public = [backbone_name(part) if part == args.backbone else part for part in options]
    for model, backend in itertools.product(args.models or every, backends):
        if model not in backends[backend]["models"]:
            continue
        row = {"model": model, "backend": backend, "device": backends[backend]["device"]}
        row |= {"batch_size": args.batch_size, "length": args.length}
        row |= {"candidates": args.candidates} if args.rank else {}
        if results.has({name: row[name] for name in KEYS[kind]}):
            continue
        try:
            found = measuring.run_child(backend, "--worker", backend, "--models", model, *options)
        except subprocess.CalledProcessError as error:
            print(f"{model} {backend}: its process ended with status {error.returncode}")
            failed += 1
            continue
        if "skipped" in found:
            print(f"{model} {backend}: {found['skipped']}", flush=True)
            continue
        command = ["python", "benchmarks/model_speed.py", "--models", model, "--backends", backend]
        facts = {"seed": args.seed, "cpus": measuring.cpus()}
        results.add({**row, **found, **facts, "command": shlex.join([*command, *public])})
    return failed


# === Tables ===


def groups(rows: list[dict[str, str]], *names: str) -> dict[tuple[str, ...], list[dict[str, str]]]:
    """Rows with the same values of `names`, in the order of the tables."""
    found: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in sorted(rows, key=lambda r: (r["model"], BACKENDS.index(r["backend"]))):
        found.setdefault(tuple(row[name] for name in names), []).append(row)
    return found


def speed_tables(rows: list[dict[str, str]]) -> Iterator[tuple[str, list[str], Lines]]:
    """Title, column names and lines for each device and size."""
    head = ["model", "backend", "parameters", "first step s", "training pairs/s", "x plain"]
    head += ["inference pairs/s", "x plain", "peak MiB", "others' CPUs"]
    for (device, batch, length), members in groups(rows, "device", "batch_size", "length").items():
        plain = {row["model"]: row for row in members if row["backend"] == "plain"}
        memory = "of the GPU" if members[0]["peak_device_mib"] else "of the process"
        lines = []
        for row in members:
            line = [row["model"], row["backend"], f"{int(row['parameters']):,}"]
            line.append(f"{float(row['first_step_s']):.1f}")
            for name in ("train_pairs_per_s", "inference_pairs_per_s"):
                line.append(f"{float(row[name]):,.1f}")
                beside = plain.get(row["model"])
                line.append(f"{float(row[name]) / float(beside[name]):.2f}" if beside else "")
            peak = row["peak_device_mib"] or row["peak_rss_mib"]
            lines.append([*line, f"{int(peak):,}", f"{float(row['others_cpu']):.2f}"])
        title = f"{device}, batch {batch}, lengths {length}/{length}, float32; memory {memory}"
        yield title, head, lines


def rank_tables(rows: list[dict[str, str]]) -> Iterator[tuple[str, list[str], Lines]]:
    head = ["model", "backend", "encoding once s", "cached ms", "pairs ms", "times as fast"]
    head += ["cached MiB", "largest difference", "others' CPUs"]
    by = ("device", "candidates", "batch_size", "length")
    for (device, candidates, batch, length), members in groups(rows, *by).items():
        lines = [
            [
                row["model"],
                row["backend"],
                f"{float(row['encode_s']):.2f}",
                f"{float(row['kept_ms']):,.0f}",
                f"{float(row['pairs_ms']):,.0f}",
                f"{float(row['ratio']):.2f}",
                row["corpus_mib"],
                row["largest_difference"],
                f"{float(row['others_cpu']):.2f}",
            ]
            for row in members
        ]
        title = f"{device}, 1 query and {int(candidates):,} candidates of {length} words"
        yield f"{title}, batches of {batch}", head, lines


TABLES = {"speed": speed_tables, "rank": rank_tables}
HEADINGS = {"speed": "Speed of every model", "rank": "Ranking with cached encodings"}


def show(kinds: Sequence[str]) -> None:
    for kind in kinds:
        rows = RESULTS[kind].rows()
        for title, head, lines in TABLES[kind](rows):
            measuring.print_table(head, lines, title)
        if any(float(row["others_cpu"]) > 0.2 for row in rows):
            print(measuring.BUSY)


def markdown() -> Iterator[str]:
    for kind, tables in TABLES.items():
        if not (rows := RESULTS[kind].rows()):
            continue
        yield from (f"## {HEADINGS[kind]}", "")
        for title, head, lines in tables(rows):
            yield from (f"{title}:", "", *measuring.markdown(head, lines, 2), "")
        path = f"benchmarks/results/{RESULTS[kind].path.name}"
        yield from (f"Rows of `{path}`, each with its versions and its command:", "", "```bash")
        yield from sorted({without_model(row["command"]) for row in rows})
        yield from ("```", "")


def without_model(command: str) -> str:
    """A row's command, for all models and backends."""
    parts = shlex.split(command)
    return shlex.join(parts[:2] + parts[6:])


def arguments() -> argparse.Namespace:
    parser = measuring.parser(__doc__)
    parser.add_argument("--models", default="", help="some of list_models(); all by default")
    parser.add_argument("--backends", default=",".join(BACKENDS), help="some of the default")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--length", type=int, default=32, help="words of every sentence")
    parser.add_argument("--steps", type=int, help="timed: 8, or 3 with --rank")
    parser.add_argument("--backbone", default="", help="an encoder: measure the models on it")
    parser.add_argument("--rank", action="store_true", help="time ranking instead")
    parser.add_argument("--candidates", type=int, default=1000, help="of --rank")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--worker", dest="backend", choices=BACKENDS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.model = args.models
    args.models, args.backends = (
        [name for name in names.split(",") if name] for names in (args.models, args.backends)
    )
    args.steps = (3 if args.rank else 8) if args.steps is None else args.steps
    if unknown := set(args.backends) - set(BACKENDS):
        parser.error(f"--backends: {', '.join(unknown)} is none of {', '.join(BACKENDS)}")
    if args.rank and args.backbone:
        parser.error("--backbone: a model on a pretrained encoder encodes no sentence alone")
    if args.rank:
        args.backends = [backend for backend in args.backends if backend != "plain"]
    if min(args.batch_size, args.length, args.steps, args.candidates) < 1:
        parser.error("--batch-size, --length, --steps and --candidates must be at least 1")
    return args


def main() -> None:
    args = arguments()
    if args.backend:
        work(args)
        return
    failed = 0 if args.show else run_all(args)
    show(list(TABLES) if args.show else ["rank" if args.rank else "speed"])
    if args.write:
        RESULTS["speed"].write(args.write, list(markdown())[:-1])
    sys.exit(f"{failed} runs failed." if failed else None)


if __name__ == "__main__":
    main()
