"""The trainings of a table or figure, and the file that notes which are done."""

import csv
import hashlib
import io
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from keras_sentmatch.reproduction.artefact import Artefact, Row
from keras_sentmatch.training.recipe import Recipe, load_recipe
from keras_sentmatch.transformations.transform import Translate

KEY = ("model", "how", "data", "value", "seed", "settings")
FIELDS = (*KEY, "status", "seconds", "figures", "departures", "error")


@dataclass(frozen=True)
class Settings:
    """What differs from the paper's own protocol, the same for all runs.

    Args:
        seeds: Number of seeds.
        limit: Maximum number of pairs of each part.
        epochs: Number of epochs, instead of the recipes'.
        backbones: Folder or preset of a pretrained network, by its name in the paper: `"base"`, ….
        overrides: Further overrides of every recipe.
        translate: Function for the transformation `BackTrans`.
    """

    seeds: int = 1
    limit: int | None = None
    epochs: int | None = None
    backbones: Mapping[str, str] = field(default_factory=dict)
    overrides: tuple[str, ...] = ()
    translate: Translate | None = None

    def __str__(self) -> str:
        backbones = [f"{key}={Path(name).name}" for key, name in self.backbones.items()]
        numbers = {"limit": self.limit, "epochs": self.epochs}
        given = [f"{key}={value}" for key, value in numbers.items() if value is not None]
        return " ".join([*given, *backbones, *self.overrides])


@dataclass(frozen=True)
class Run:
    """One training: a row on a data set, with a value of `vary` and a seed.

    A negative seed, -N, stands for the mean prediction of the first N seeds. Rows with the same
    settings share a training.
    """

    row: Row
    data: str
    value: Any
    seed: int

    def key(self, settings: Settings) -> tuple[str, ...]:
        row, value = self.row, "" if self.value is None else json.dumps(self.value)
        how = " ".join(filter(None, [row.preset, *row.set, row.backbone, *row.show]))
        seed = str(self.seed) if self.seed >= 0 else f"mean of {-self.seed}"
        return row.model, how, self.data, value, seed, str(settings)

    def folder(self, settings: Settings) -> str:
        key = self.key(settings)
        name = re.sub(r"\W+", "-", "-".join(part for part in key[:5] if part)).strip("-").lower()
        return f"{name[:60]}-{hashlib.sha256(repr(key).encode()).hexdigest()[:8]}"

    def members(self) -> list["Run"]:
        """Return the runs whose mean prediction this is."""
        return [replace(self, seed=seed) for seed in range(-self.seed)]

    def recipe(self, artefact: Artefact, settings: Settings) -> Recipe:
        given = [f"model.preset={self.row.preset}"] if self.row.preset else []
        further = list(self.row.set)
        if artefact.vary and self.value is not None:
            further.append(f"{artefact.vary.setting}={json.dumps(self.value)}")
        if settings.epochs is not None:
            given.append(f"training.epochs={settings.epochs}")
        if self.row.backbone in settings.backbones:
            given.append(f"model.backbone={json.dumps(settings.backbones[self.row.backbone])}")
        # what makes the row wins
        given += [*settings.overrides, *_nested(further)]
        return load_recipe(self.row.model, self.data, overrides=given).with_training(seed=self.seed)


def _nested(overrides: Sequence[str]) -> list[str]:
    """Return the overrides with those of one table within a table, `model.config.KEY=…`, as one."""
    plain: list[str] = []
    tables: dict[str, list[str]] = {}
    for override in overrides:
        name, _, value = override.partition("=")
        table, dot, key = name.rpartition(".")
        if dot and "." in table:
            text = value if _is_toml(value) else json.dumps(value)
            tables.setdefault(table, []).append(f"{key} = {text}")
        else:
            plain.append(override)
    return plain + [f"{table}={{{', '.join(keys)}}}" for table, keys in tables.items()]


def _is_toml(value: str) -> bool:
    try:
        tomllib.loads(f"value = {value}")
    except ValueError:
        return False
    return True


def runs_of(artefact: Artefact, settings: Settings) -> list[Run]:
    """Return every training that a table or figure needs, seed after seed, then the ensembles."""
    data = [column.trained_on for column in artefact.columns if column.trained_on]
    data = [artefact.train_on] if artefact.train_on else list(dict.fromkeys(data))
    rows = [] if artefact.kind == "data" else artefact.built
    joint = any(column.ensemble for column in artefact.columns)
    found: dict[tuple[str, ...], Run] = {}
    for seed in (*range(settings.seeds), -settings.seeds):
        for row in rows:
            if seed >= 0 or (settings.seeds > 1 and (joint or row.ensemble)):
                for name in data:
                    for value in artefact.values_of(row):
                        run = Run(row, name, value, seed)
                        found.setdefault(run.key(settings), run)
    return list(found.values())


def why_not(run: Run, settings: Settings) -> str:
    """Return why a run cannot be done, if it cannot."""
    needs = run.row.backbone
    if needs and needs not in settings.backbones and (needs != "base" or settings.backbones):
        return f"needs --backbone {needs}=FOLDER"
    return ""


class RunTable:
    """The CSV file with a row for each finished training; the last row of a training counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.done: dict[tuple[str, ...], dict[str, Any]] = {}
        self.failed: dict[tuple[str, ...], str] = {}
        if not path.is_file():
            return
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if None in row or None in row.values():
                    continue  # cut by a kill
                key = tuple(row[name] for name in KEY)
                self._note(key, {**row, "figures": json.loads(row["figures"])})

    def add(self, key: tuple[str, ...], **values: Any) -> None:
        new = not self.path.is_file()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        cells = dict(zip(FIELDS, key)) | values | {"figures": json.dumps(values["figures"])}
        text = io.StringIO()
        if not new and not self.path.read_bytes().endswith(b"\n"):
            text.write("\n")  # the end of a row that a kill has cut
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([*([FIELDS] if new else []), [cells[name] for name in FIELDS]])
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.write(text.getvalue())
        self._note(key, values)

    def _note(self, key: tuple[str, ...], values: Mapping[str, Any]) -> None:
        """What failed before may be done now."""
        self.failed.pop(key, None)
        if values["status"] == "done":
            self.done[key] = values["figures"]
        else:
            self.failed[key] = values["error"]
