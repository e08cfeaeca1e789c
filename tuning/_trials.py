"""The trials of a search: their folders, and the table `trials.csv`."""

import csv
import io
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keras_sentmatch.inference.run_folder import read_json
from keras_sentmatch.safety import replace_file

FACTS = ("best_epoch", "epochs", "parameters", "seconds")
SMALL_FILES = ("history.csv", "metrics.json", "recipe.toml")  # kept of every trial

Row = dict[str, Any]


@dataclass
class TrialFolders:
    """The folders of the trials, each with a run folder."""

    root: Path  # folder of the search
    seed: int
    monitor: str  # the objective

    def path(self, trial_id: str) -> Path:
        """Return the folder of a trial; KerasTuner gives it this name."""
        return self.root / f"trial_{trial_id}"

    def run(self, trial_id: str) -> Path:
        """Return the run folder of a trial."""
        return self.path(trial_id) / f"seed-{self.seed}"

    def score(self, run: Path, metrics: Mapping[str, Any]) -> float:
        """Return a run's objective in its best epoch."""
        name = self.monitor.removeprefix("val_")
        if name in metrics["validation"]:
            return float(metrics["validation"][name])
        with open(run / "history.csv", newline="", encoding="utf-8") as file:  # the loss
            return float(list(csv.DictReader(file))[metrics["best_epoch"] - 1][self.monitor])

    def facts(self, trial_id: str) -> Row:
        """Return the columns that come from the run. They are None unless it finished."""
        metrics = read_json(self.run(trial_id) / "metrics.json")
        return {fact: metrics.get(fact) for fact in FACTS}

    def error(self, trial_id: str) -> str:
        """Return the first line of a failed trial's `error.txt`."""
        path = self.path(trial_id) / "error.txt"
        return path.read_text("utf-8").partition("\n")[0] if path.is_file() else ""

    def delete_models(self, trial_id: str) -> None:
        """Delete everything in the run folder but the small files."""
        run = self.run(trial_id)
        for path in run.iterdir() if run.is_dir() else ():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name not in SMALL_FILES:
                path.unlink(missing_ok=True)


@dataclass
class Trials:
    """The trials of a search so far."""

    folder: Path
    model: str
    tuner: str
    objective: str
    searched: dict[str, list[Any]]  # labels of each parameter, or both ends of its range
    names: dict[str, str]  # short names of the parameters
    rows: list[Row]  # of `trials.csv`
    completed: list[Row] = field(init=False)  # best first

    def __post_init__(self) -> None:
        over = [row for row in self.rows if row["status"] == "completed"]
        self.completed = sorted(over, key=lambda row: row["score"], reverse=self.rises)

    @property
    def rises(self) -> bool:
        """Whether a higher score is better."""
        return self.objective != "val_loss"

    @property
    def score_name(self) -> str:
        """The objective in words."""
        return self.objective.replace("val_", "validation ").replace("_", " ")

    def chosen(self, row: Row) -> dict[str, Any]:
        """Return the configuration of a row."""
        return {name: row[name] for name in self.searched if row[name] is not None}

    def is_range(self, name: str) -> bool:
        """Whether a parameter can be any number between two."""
        return any(row[name] not in (None, *self.searched[name]) for row in self.rows)

    def tried(self, name: str) -> list[Any]:
        """Return the values of completed trials: of a choice in its order, else sorted."""
        values = {row[name] for row in self.completed} - {None}
        if self.is_range(name):
            return sorted(values)
        return [value for value in self.searched[name] if value in values]

    def write(self) -> None:
        """Write `trials.csv`."""
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, list(self.rows[0]))
        writer.writeheader()
        writer.writerows(self.rows)
        replace_file(self.folder / "trials.csv", text.getvalue())
