"""Does re-reading read different words? DRr-Net on SICK, with and without coverage.

    python benchmarks/rereading.py --data path/to/sick --vectors path/to/glove.txt.gz --seeds 0,1,2
    python benchmarks/rereading.py --show --write docs/results.md --picture docs/images/rereading.png

Each variant is trained for the same number of epochs and keeps the best one on the validation pairs.
Then, of every validation sentence, the words with the greatest weight in each step are counted:
"distinct" is how many different ones there are, in the mean. "weight" is the mean weight of these
words; 1 would be a hard choice. The test part is read once, at the kept epoch. One row for each run;
existing rows are not run again. `--picture` draws accuracy against the number of steps.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import measuring
import numpy as np

from keras_sentmatch.data import load_pairs
from keras_sentmatch.inference import Matcher
from keras_sentmatch.training import load_recipe, train

RESULTS = measuring.Results("rereading")
VARIANTS = ("", "model.coverage=true", "model.steps=1")
SMALL = ("model.depth=1", "model.units=100", "model.attention_units=100", "model.hidden_units=100")


def selection(matcher: Matcher, sentences: tuple[list[str], list[str]]) -> np.ndarray:
    """The weights of the words in each step, `[2 N, steps, L]`: of both sentences of N pairs."""
    explainer, found = matcher.model.explainer(), []
    for start in range(0, len(sentences[0]), 64):
        part = [side[start : start + 64] for side in sentences]
        seen = explainer(matcher.encoder.encode(*part))
        found += [keras.ops.convert_to_numpy(seen[f"selection_{side}"]) for side in "12"]
    longest = max(weights.shape[-1] for weights in found)
    padded = [np.pad(w, [(0, 0), (0, 0), (0, longest - w.shape[-1])]) for w in found]
    return np.concatenate(padded)


def run(args: argparse.Namespace, variant: str, seed: int) -> None:
    settings = " ".join([*args.set, *variant.split()])
    key = {"variant": variant, "settings": " ".join(args.set), "seed": str(seed)}
    key["backend"] = keras.config.backend()
    if RESULTS.has(key):
        return
    splits = load_pairs(str(args.data))
    recipe = load_recipe(
        "drr_net",
        "sick",
        overrides=[*settings.split(), f"vectors.source={args.vectors}"],
    ).with_training(epochs=args.epochs, patience=args.epochs)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        result = train(recipe, splits, Path(folder) / "run", seed=seed, baseline=False)
    seconds = time.perf_counter() - start
    validation = splits["validation"]
    sides = list(validation.sentence1), list(validation.sentence2)
    weights = selection(result.matcher, sides)
    read = weights.argmax(-1)
    metrics = result.metrics
    RESULTS.add(
        {
            **key,
            "epoch": metrics["best_epoch"],
            "epochs": args.epochs,
            "validation": round(metrics["validation"]["accuracy"], 4),
            "test": round(metrics["test"]["accuracy"], 4),
            "test_rows": len(splits["test"]),
            "steps": read.shape[1],
            "distinct": round(float(np.mean([len(set(row)) for row in read])), 3),
            "weight": round(float(weights.max(-1).mean()), 3),
            "parameters": metrics["parameters_without_word_embeddings"],
            "vectors": Path(args.vectors).name,
            "seconds": round(seconds),
        }
    )


def table() -> tuple[list[str], list[list[str]]]:
    groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in RESULTS.rows():
        key = (row["variant"] or "as in the paper", row["settings"], row["backend"], row["steps"])
        groups.setdefault(key, []).append(row)
    lines = []
    for key, rows in groups.items():
        cells = []
        for name, scale in (("distinct", 1), ("weight", 1), ("validation", 100), ("test", 100)):
            values = [scale * float(row[name]) for row in rows]
            cells.append(measuring.mean_and_deviation(values, 1 if scale > 1 else 2))
        test = [float(row["test"]) for row in rows]
        error = measuring.percent_error("accuracy", test, int(rows[0]["test_rows"]))
        lines.append([*key, str(len(rows)), *cells, error])
    head = "variant,settings,backend,steps,seeds,distinct,weight,validation,test,standard error"
    return head.split(","), lines


def picture(png: Path) -> None:
    """Accuracy against the number of steps, of the settings that were run with most of them."""
    from keras_sentmatch.display.figures import empty_figure, save_png

    curves: dict[tuple[str, str], dict[int, list[dict[str, str]]]] = {}
    for row in RESULTS.rows():
        if row["variant"] in ("", f"model.steps={row['steps']}"):
            curve = curves.setdefault((row["settings"], row["backend"]), {})
            curve.setdefault(int(row["steps"]), []).append(row)
    runs = dict(sorted(max(curves.values(), key=len).items()))
    figure = empty_figure(5, 3.2)
    axis = figure.subplots()
    for part, color in (("validation", "#E69F00"), ("test", "#0072B2")):
        found = [[100 * float(row[part]) for row in rows] for rows in runs.values()]
        means = [statistics.mean(values) for values in found]
        spread = [statistics.stdev(values) if len(values) > 1 else 0 for values in found]
        axis.errorbar(list(runs), means, spread, marker="o", color=color, capsize=3, label=part)
    axis.set(xlabel="steps, T", ylabel="accuracy, percent", xticks=list(runs))
    axis.grid(color="lightgray", linewidth=0.5)
    axis.legend()
    save_png(figure, png)


def main() -> None:
    parser = measuring.parser(__doc__ or "")
    parser.add_argument("--data", type=Path, help="folder of SICK")
    parser.add_argument("--vectors", help="file of word vectors")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--variant", action="append", help="settings, separated by spaces")
    parser.add_argument("--set", action="append", help="of all variants; by default a small model")
    parser.add_argument("--picture", type=Path, help="a PNG file to draw")
    args = parser.parse_args()
    args.set = args.set if args.set is not None else list(SMALL)
    if not args.show:
        if args.data is None or args.vectors is None:
            parser.error("--data and --vectors are needed to run anything")
        for seed in map(int, args.seeds.split(",")):
            for variant in args.variant if args.variant is not None else VARIANTS:
                run(args, variant, seed)
    RESULTS.show(*table(), args.write)
    if args.picture:
        picture(args.picture)


if __name__ == "__main__":
    main()
