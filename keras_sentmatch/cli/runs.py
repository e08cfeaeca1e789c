"""The options that load a run, and those that name the labeled pairs that runs are measured on."""

import contextlib
import hashlib
import logging
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.backend import use_backend
from keras_sentmatch.cli.console import next_step, working
from keras_sentmatch.cli.options import OnError
from keras_sentmatch.cli.sources import Reading, Source
from keras_sentmatch.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from keras_sentmatch.data import PairDataset
    from keras_sentmatch.inference import Matcher
    from keras_sentmatch.inference.ensemble import EnsembleMatcher

log = logging.getLogger(__name__)


class Engine(StrEnum):
    """The engine that runs a model."""

    KERAS = "keras"
    ONNX = "onnx"


@dataclass
class Run:
    """A loaded run folder.

    Attributes:
        folder: The folder.
        matcher: The matcher that scores pairs.
        first: The matcher, or the first member of the ensemble: its label names, encoder and info.
    """

    folder: Path
    matcher: "Matcher | EnsembleMatcher"
    first: "Matcher"

    @classmethod
    def load(cls, folder: Path, engine: str = "keras") -> "Run":
        """Load a run of `train`, with one seed or with several."""
        from keras_sentmatch.exports import load

        matcher: Any = load(folder, engine=engine)
        members = getattr(matcher, "members", [matcher])
        if engine == "keras" and sys.modules["keras"].config.backend() == "tensorflow":
            for member in members:  # XLA's compilation takes longer than most files of pairs
                member.model.jit_compile = False
        return cls(folder, matcher, members[0])

    def class_names(self, what: str) -> tuple[str, ...]:
        """Return the label names. `what` names the purpose in the error for a scoring run."""
        if self.first.label_names is None:
            raise InputError(
                f"{self.folder} returns scores, but {what} needs labels. Use a run that predicts labels."
            )
        return self.first.label_names

    def source(self) -> Source | None:
        """Return the data that the run was trained on, if it was recorded."""
        facts = self.first.info.get("source")
        return recorded_source(facts, self.folder) if facts else None

    def log_encoding(self) -> None:
        """Log how many sentences were truncated and how many words were unknown."""
        log.info("%s", self.first.encoder.report)


def digest_of(folder: Path) -> str:
    """Return a digest of everything that a run's predictions depend on."""
    from keras_sentmatch.inference.matcher import run_folder
    from keras_sentmatch.inference.onnx import digest
    from keras_sentmatch.inference.run_folder import members_of, read_card, read_json

    folder = run_folder(folder)
    found = hashlib.sha256(repr(read_json(folder / "ensemble.json")).encode())
    for member in members_of(folder):
        found.update(f"{read_card(member)} {digest(member)}".encode())
    return found.hexdigest()


def recorded_source(facts: Any, folder: Path) -> Source:
    """Return the source that a run records. It is checked, because a run may come from anybody."""
    from keras_sentmatch.data.load import format_and_path
    from keras_sentmatch.safety import check_types

    place = f"info.source in {folder / 'matcher.json'}"
    text = (str, None)
    kinds = dict.fromkeys(Source("").facts(), text) | {"data": str, "on_error": str}
    if not isinstance(facts, dict) or "data" not in facts or not facts.keys() <= kinds.keys():
        raise InputError(f"{place} is {facts!r:.60}, expected {', '.join(kinds)}: give --data.")
    check_types(facts, kinds, place)
    if facts.get("on_error", "raise") not in list(OnError):
        raise InputError(f"{place} is {facts!r:.80}, which is not a source of pairs: give --data.")
    source = Source(**facts)
    if source.name.startswith("tfds:"):
        raise InputError(
            f"{place} names {source.name!r:.60}, which may be downloaded; nothing is because a run "
            "folder says so. If you trust it, name it yourself with --data."
        )
    if source.format != format_and_path(source.name)[0]:
        raise InputError(f"{place} names the unknown format {source.format!r:.40}: give --data.")
    return source


def suggest_explain(folder: Path, one: str, two: str) -> None:
    """Suggest the page of a pair as the next step."""
    pair = "--sentence1", one, "--sentence2", two
    next_step(
        "explain", folder, *pair, "--out", "page.html", why="see what the prediction is based on"
    )


@dataclass
class Scoring:
    """The options on how a run scores pairs."""

    batch_size: Annotated[int, typer.Option(help="Maximum number of pairs per batch.")] = 64
    backend: options.Backend = None
    engine: Annotated[
        Engine,
        typer.Option(
            help="Engine that runs the model. onnx: onnxruntime, the fastest on a CPU; TensorFlow "
            "makes its model in the run folder the first time."
        ),
    ] = Engine.KERAS
    _chosen: str = field(default="", init=False)

    @property
    def runs_on(self) -> str:
        """The backend, or the engine if it is not Keras, as reports name it."""
        return self._chosen if self.engine is Engine.KERAS else self.engine.value

    def use_backend(self) -> str:
        """Choose the backend, once."""
        if not self._chosen:
            self._chosen = use_backend(self.backend)
        return self._chosen

    def load(self, folder: Path) -> Run:
        """Load a run on the chosen backend."""
        self.use_backend()
        with working(f"loading {folder}"):
            return Run.load(folder, self.engine.value)

    def working(self, pairs: int) -> AbstractContextManager[Any]:
        """Show that pairs are scored; JAX and TensorFlow first compile the model."""
        compiles = "" if self.runs_on in ("torch", "onnx") else ", compiling the model first"
        return working(f"scoring {pairs:,} pairs{compiles}")

    def scores(self, run: Run, pairs: "PairDataset") -> "np.ndarray":
        return run.matcher.predict_proba(pairs, batch_size=self.batch_size)

    def answers(self, run: Run, pairs: "PairDataset", abstain: bool = True) -> list[Any]:
        """Return predictions in the order of the pairs."""
        return run.matcher.answers(self.scores(run, pairs), abstain=abstain)


@dataclass
class LabeledPairs(Reading):
    """The options that name the labeled pairs that a run is measured on."""

    data: Annotated[
        str | None,
        typer.Option(help="Name or path of labeled pairs. Default: the data of the (first) run."),
    ] = None
    split: options.Part = None

    def __post_init__(self) -> None:
        if self.data is None and (given := self.given_reading()):
            raise InputError(f"{', '.join(given)} need --data, which is missing.")

    @property
    def given(self) -> Source | None:
        """The source that `--data` names."""
        if self.data is None:
            return None
        return Source(self.data, **self.reading())

    def arguments(self) -> list[str]:
        """Return the options as they were given."""
        given = {"--data": self.data, "--split": self.split, **self.given_reading()}
        return [part for name, v in given.items() if v is not None for part in (name, v)]

    def suggest_report(self, run: Run) -> None:
        """Suggest `report` on these pairs as the next step, or `explain` if the run has no classes."""
        folder, data = run.folder, self.arguments()
        if run.first.label_names is None or not (data or run.first.info.get("source")):
            suggest_explain(folder, "A dog runs.", "An animal moves.")
        else:
            next_step("report", folder, *data, why="see where it errs")

    def read_held_out(self, run: Run, default: str) -> "tuple[PairDataset | None, dict[str, Any]]":
        """Return what `read` does, or None for the out-of-fold predictions that the run has kept."""
        learned = run.matcher.learned
        scores = None if learned is None else learned.scores
        if scores is None or self.data is not None or (self.split or default) != "validation":
            return self.read(run, default, warn=False)
        facts = {"data": run.first.info.get("data", ""), "split": "validation, out of fold"}
        return None, {"run": str(run.folder), **facts}

    def read(
        self, run: Run, default: str = "test", warn: bool = True
    ) -> "tuple[PairDataset, dict[str, Any]]":
        """Return the pairs, and the names of run, data and split for a report.

        Without `--data`, the pairs are the split `default` of the run's data. Of a single file, all
        rows are read unless `--split` names a part.
        """
        source = self.given or run.source()
        if source is None:
            raise InputError(
                f"{run.folder} does not record what it was trained on. Name the data with --data."
            )
        if self.data is not None and self.split is not None:
            with contextlib.suppress(InputError):  # of a record that --data takes the place of
                trained_on = run.source()
                if trained_on and trained_on.data == source.facts()["data"]:
                    source.shares = trained_on.shares  # the same parts as in training
        whole = self.data is not None and self.split is None and Path(source.data).is_file()
        pairs = source.rows() if whole else source.split(self.split or default)
        if warn:
            run.matcher.warn_of_learned(pairs)
        facts = {"run": str(run.folder), "data": pairs.name or source.data, "split": pairs.split}
        return pairs, facts
