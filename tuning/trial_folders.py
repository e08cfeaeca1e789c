"""The folders of a search's trials, each a run folder, or one run folder for each seed."""

import csv
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from keras_sentmatch.inference.run_folder import read_json, replace_file

FACTS = (
    *("best_epoch", "epochs", "parameters", "parameters_without_word_embeddings"),
    *("seconds", "pair_seconds", "pairs_per_second"),
)
SMALL_FILES = ("error.txt", "history.csv", "metrics.json", "recipe.toml")  # kept of every trial


def seeds_from(first: int, count: int) -> list[int]:
    """`count` seeds, beginning with `first`."""
    return [seed % 2**32 for seed in range(first, first + count)]


def score_of(run: Path, metrics: Mapping[str, Any], monitor: str) -> float:
    """The value of the best epoch: as evaluated after the training, or the loss in its history."""
    name = monitor.removeprefix("val_")
    if name in metrics["validation"]:
        return float(metrics["validation"][name])
    with open(run / "history.csv", newline="", encoding="utf-8") as file:
        return float(list(csv.DictReader(file))[metrics["best_epoch"] - 1][monitor])


@dataclass
class TrialFolders:
    """Where the trials of a search are, and what is in them."""

    root: Path  # `trials` in the folder of the search
    seeds: Sequence[int]  # with one seed the folder of the trial is the run folder
    monitor: str  # the objective

    def path(self, trial_id: str) -> Path:
        """The folder of a trial."""
        return self.root / trial_id

    def runs(self, trial_id: str) -> list[Path]:
        """The run folders of a trial, in the order of the seeds."""
        return [self.path(trial_id) / name for name in self._run_names()]

    def _run_names(self) -> list[str]:
        return [""] if len(self.seeds) == 1 else [f"seed-{seed}" for seed in self.seeds]

    def facts(self, trial_id: str, completed: bool) -> dict[str, Any]:
        """The columns of the table that come from the runs; each None unless all of them finished.

        With several seeds the score of each and their standard deviation; seconds as a sum and all
        other costs as a mean; the backend.
        """
        runs = self.runs(trial_id)
        metrics = [read_json(run / "metrics.json") for run in runs] if completed else []
        found: dict[str, Any] = {}
        if len(runs) > 1:
            scores: list[Any] = [None] * len(runs)
            if metrics and all(metrics):
                scores = [score_of(run, noted, self.monitor) for run, noted in zip(runs, metrics)]
            found["score_sd"] = None if None in scores else stdev(scores)
            found |= {f"score_seed_{seed}": score for seed, score in zip(self.seeds, scores)}
        for fact in FACTS:
            values: list[Any] = [noted.get(fact) for noted in metrics]
            known = bool(values) and None not in values
            together = (sum if fact == "seconds" else mean)(values) if known else None
            found[fact] = round(together, 6) if isinstance(together, float) else together
        backends = {noted.get("backend") for noted in metrics}
        return {**found, "backend": backends.pop() if len(backends) == 1 else None}

    def write_error(self, trial_id: str, text: str) -> None:
        """Keeps the traceback of a failure."""
        self.path(trial_id).mkdir(parents=True, exist_ok=True)
        (self.path(trial_id) / "error.txt").write_text(text, encoding="utf-8")

    def delete_models(self, trial_id: str) -> None:
        """Deletes all but the small files."""
        for run in self.runs(trial_id):
            for path in run.iterdir() if run.is_dir() else ():
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)  # chief and worker may share the folder
                elif path.name not in SMALL_FILES:
                    path.unlink(missing_ok=True)

    def read_small_files(self, trial_id: str) -> dict[str, str]:
        """The contents of the small files, by their path in the folder of the trial."""
        found = {name: self.path(trial_id) / name for name in self._small_files()}
        return {name: path.read_text("utf-8") for name, path in found.items() if path.is_file()}

    def write_small_files(self, trial_id: str, files: Mapping[str, str]) -> None:
        """Writes those of another machine, unless they are the same."""
        for run in (self.path(trial_id), *self.runs(trial_id)):
            run.mkdir(parents=True, exist_ok=True)
        there = self.read_small_files(trial_id)
        for name in files.keys() & self._small_files():
            if there.get(name) != files[name]:
                replace_file(self.path(trial_id) / name, files[name])

    def _small_files(self) -> set[str]:
        runs = {"", *self._run_names()}
        return {(Path(run) / name).as_posix() for run in runs for name in SMALL_FILES}
