"""What calibration is worth on real data: likelihood, calibration error and accuracy before and after, of finished runs.

    python benchmarks/calibration.py runs/sick-re2 runs/msrp-re2
    python benchmarks/calibration.py --show --write docs/results.md

Each run folder is measured on the data that it was trained on. Where those have a labelled test part, temperature
and threshold are fitted on the validation part and measured on the test part. Where they have none, the validation part
is halved, fitted on one half and measured on the other, both ways, over `--halvings` seeds: figures are the mean. Of two
classes also with a threshold for accuracy and for F1. A row that is there (same run, seed, threshold, halvings) is not
measured again.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import measuring
import numpy as np
from quality import vectors_name

from keras_sentmatch.metrics import (
    accuracy,
    apply_temperature,
    calibrate_predictions,
    expected_calibration_error,
    f1,
    negative_log_likelihood,
)
from keras_sentmatch.metrics.calibration import decide

RESULTS = Path(__file__).parent / "results" / "calibration.csv"
MARKS = ("<!-- made by benchmarks/calibration.py -->", "<!-- end of calibration -->")
FIGURES = ("nll", "ece", "accuracy", "f1")


def figures(labels: np.ndarray, probabilities: np.ndarray, threshold: float | None) -> list[float]:
    answered = decide(probabilities, threshold)
    two = probabilities.shape[1] == 2
    return [
        negative_log_likelihood(labels, probabilities),
        expected_calibration_error(labels, probabilities),
        accuracy(labels, answered),
        f1(labels, answered) if two else float("nan"),
    ]


def once(fit: tuple, measure: tuple, threshold: str | None) -> tuple[float, list, list]:
    """The temperature, and the figures of other pairs before and after."""
    report = calibrate_predictions(*fit, threshold=threshold)
    labels, p = measure
    softer = apply_temperature(p, report["temperature"])
    after = figures(labels, softer, report["threshold"])
    return report["temperature"], figures(labels, p, None), after


def measure(folder: Path, halvings: int) -> None:
    from keras_sentmatch.cli.runs import Run
    from keras_sentmatch.cli.sources import Source

    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    key: dict[str, Any] = {name: metrics[name] for name in ("model", "data", "backend", "seed")}
    vectors = metrics["vectors"]
    key["vectors"] = "" if vectors is None else vectors_name(vectors["source"])
    run = Run.load(folder)
    matcher = run.matcher
    splits = Source(**run.first.info["source"]).splits()

    def answers(part: str) -> tuple[np.ndarray, np.ndarray]:
        labelled = run.first.relabel(splits[part])
        return np.asarray(labelled.labels), matcher.predict_proba(labelled)

    if matcher.temperature != 1 or matcher.threshold is not None:
        raise SystemExit(f"{folder} is calibrated already: undo it by calibrate --no-temperature.")
    held_out = "test" in splits and splits["test"].labels is not None
    key["measured_on"] = "test" if held_out else f"validation, {halvings} halvings"
    fit = answers("validation")
    test = answers("test") if held_out else None
    for threshold in (None, "accuracy", "f1") if fit[1].shape[1] == 2 else (None,):
        key["threshold"] = threshold or ""
        rows = measuring.read(RESULTS)
        if any(all(row[k] == str(v) for k, v in key.items()) for row in rows):
            print("there already:", *key.values(), flush=True)
            continue
        if test is not None:
            found = [once(fit, test, threshold)]
        else:
            found = []
            for seed in range(halvings):
                order = np.random.default_rng(seed).permutation(len(fit[0]))
                halves = [tuple(x[part] for x in fit) for part in np.array_split(order, 2)]
                found += [once(a, b, threshold) for a, b in (halves, halves[::-1])]
        temperatures, before, after = zip(*found)
        row = {**key, "rows": len((test or fit)[0]), "temperature": np.mean(temperatures).round(4)}
        for when, values in (("before", before), ("after", after)):
            means = np.mean(values, axis=0).round(5)
            row |= {f"{name}_{when}": value for name, value in zip(FIGURES, means)}
        row |= {"versions": measuring.versions(), "date": measuring.now()}
        measuring.append([row], RESULTS)
        print(*row.values(), flush=True)


def table() -> tuple[list[str], list[list[str]]]:
    head = ["model", "data", "vectors", "backend", "seed", "measured on", "rows", "threshold for"]
    head += ["temperature", *FIGURES]
    lines = []
    for row in measuring.read(RESULTS):
        names = "model,data,vectors,backend,seed,measured_on,rows,threshold,temperature"
        line = [row[name] for name in names.split(",")]
        for name in FIGURES:
            pair = [float(row[f"{name}_{when}"]) for when in ("before", "after")]
            line.append("" if np.isnan(pair).any() else f"{pair[0]:.4f} → {pair[1]:.4f}")
        lines.append(line)
    return head, lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="*", type=Path, help="run folders")
    parser.add_argument("--halvings", type=int, default=20)
    measuring.table_options(parser)
    args = parser.parse_args()
    if not args.show:
        for folder in args.runs:
            measure(folder, args.halvings)
    measuring.show_table(*table(), RESULTS.name, args.write, MARKS)


if __name__ == "__main__":
    main()
