"""The runs of a trial: one, or one for each seed."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from keras_sentmatch.inference.run_folder import read_json

FACTS = (
    "best_epoch",
    "epochs",
    "parameters",
    "parameters_without_word_embeddings",
    "seconds",
    "pair_seconds",
    "pairs_per_second",
)


def seeds_from(first: int, count: int) -> list[int]:
    """So many seeds from one on."""
    return [seed % 2**32 for seed in range(first, first + count)]


def run_folders(trial: Path, seeds: Sequence[int]) -> list[Path]:
    """Where the runs of a trial lie: with one seed the trial's folder is the run."""
    return [trial] if len(seeds) == 1 else [trial / f"seed-{seed}" for seed in seeds]


def score_of(run: Path, metrics: Mapping[str, Any], monitor: str) -> float:
    """The value of the best epoch: as measured afterwards, or for the loss as `fit` had it."""
    name = monitor.removeprefix("val_")
    if name in metrics["validation"]:
        return float(metrics["validation"][name])
    with open(run / "history.csv", newline="", encoding="utf-8") as file:
        return float(list(csv.DictReader(file))[metrics["best_epoch"] - 1][monitor])


def facts_of(trial: Path, seeds: Sequence[int], monitor: str, over: bool) -> dict[str, Any]:
    """What the table says of the runs of a trial.

    Args:
        trial: The folder of the trial.
        seeds: Of its runs.
        monitor: The objective.
        over: Whether all of them finished; if not, all is None.

    Returns:
        With several seeds the score of each and their standard deviation; what the runs cost, seconds
        together and everything else as a mean; the backend.
    """
    runs = run_folders(trial, seeds)
    metrics = [read_json(run / "metrics.json") for run in runs] if over else []
    found: dict[str, Any] = {}
    if len(seeds) > 1:
        scores: list[Any] = [None] * len(seeds)
        if metrics and all(metrics):
            scores = [score_of(run, noted, monitor) for run, noted in zip(runs, metrics)]
        found["score_sd"] = None if None in scores else stdev(scores)
        found |= {f"score_seed_{seed}": score for seed, score in zip(seeds, scores)}
    for fact in FACTS:
        values: list[Any] = [noted.get(fact) for noted in metrics]
        known = bool(values) and None not in values
        together = (sum if fact == "seconds" else mean)(values) if known else None
        found[fact] = round(together, 6) if isinstance(together, float) else together
    backends = {noted.get("backend") for noted in metrics}
    return {**found, "backend": backends.pop() if len(backends) == 1 else None}
