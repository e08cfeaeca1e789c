"""Effect of calibration on real data: likelihood, calibration error and accuracy of finished runs.

    python benchmarks/calibration.py runs/sick-re2 runs/msrp-re2

Each run is measured on the data that it was trained on. If the data have a labeled test part,
temperature and threshold are fitted on the validation part and measured on the test part.
Otherwise the validation part is split in halves, fitted on one half and measured on the other, both
ways, with `--halvings` seeds, and the row has the means. For two classes, a threshold for accuracy
and for F1 is measured too. Existing rows (same run, seed, threshold, halvings) are not measured again.
"""

import json
from pathlib import Path
from typing import Any

import measuring
import numpy as np
from quality import vectors_name

from keras_sentmatch.metrics.calibration import (
    apply_temperature,
    decide,
    expected_calibration_error,
    negative_log_likelihood,
)
from keras_sentmatch.metrics.decisions import Goal, calibrate_predictions
from keras_sentmatch.metrics.scores import accuracy, f1

RESULTS = measuring.Results("calibration")
FIGURES = ("nll", "ece", "accuracy", "f1")


def metrics_of(
    labels: np.ndarray, probabilities: np.ndarray, threshold: float | None
) -> list[float]:
    predicted = decide(probabilities, threshold)
    two = probabilities.shape[1] == 2
    return [
        negative_log_likelihood(labels, probabilities),
        expected_calibration_error(labels, probabilities),
        accuracy(labels, predicted),
        f1(labels, predicted) if two else float("nan"),
    ]


def once(fit: tuple, measure: tuple, threshold: str | None) -> tuple[float, list, list]:
    """Return the temperature, and the metrics of other pairs before and after."""
    names = [str(number) for number in range(fit[1].shape[1])]
    report = calibrate_predictions(*fit, names, Goal(threshold))
    labels, p = measure
    scaled = apply_temperature(p, report["temperature"])
    after = metrics_of(labels, scaled, report["threshold"])
    return report["temperature"], metrics_of(labels, p, None), after


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
        data = run.first.relabel(splits[part])
        return np.asarray(data.labels), matcher.predict_proba(data)

    if matcher.temperature != 1 or matcher.threshold is not None:
        raise SystemExit(
            f"{folder} is already calibrated: undo it with calibrate --no-temperature."
        )
    held_out = "test" in splits and splits["test"].labels is not None
    key["measured_on"] = "test" if held_out else f"validation, {halvings} halvings"
    fit = answers("validation")
    test = answers("test") if held_out else None
    for threshold in (None, "accuracy", "f1") if fit[1].shape[1] == 2 else (None,):
        key["threshold"] = threshold or ""
        if RESULTS.has(key):
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
        RESULTS.add(row)


def main() -> None:
    parser = measuring.parser(__doc__)
    parser.add_argument("runs", nargs="+", type=Path, help="run folders")
    parser.add_argument("--halvings", type=int, default=20)
    args = parser.parse_args()
    for folder in args.runs:
        measure(folder, args.halvings)


if __name__ == "__main__":
    main()
