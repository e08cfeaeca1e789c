"""The options that load a run, and those that name the labeled pairs that runs are measured on."""

import contextlib
import hashlib
import logging
import sys
from collections.abc import Sized
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from keras_sentmatch.cli import options
from keras_sentmatch.cli.backend import use_backend
from keras_sentmatch.cli.console import next_step, working
from keras_sentmatch.cli.options import option
from keras_sentmatch.cli.sources import Reading, Source, example_of
from keras_sentmatch.errors import InputError

if TYPE_CHECKING:
    from keras_sentmatch.data import PairDataset
    from keras_sentmatch.inference import Matcher
    from keras_sentmatch.inference.ensemble import EnsembleMatcher

log = logging.getLogger(__name__)
Engine = StrEnum("Engine", ["KERAS", "ONNX"])


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
    def load(cls, folder: Path, engine: str | None = "keras") -> "Run":
        """Load a run of `train`, with one seed or with several."""
        from keras_sentmatch.inference import load

        matcher: Any = load(folder, engine=engine)
        members = getattr(matcher, "members", [matcher])
        for member in members:
            if member.engine == "keras" and sys.modules["keras"].config.backend() == "tensorflow":
                member.model.jit_compile = False  # XLA's compilation takes longer than most files
        return cls(folder, matcher, members[0])

    def class_names(self, what: str) -> tuple[str, ...]:
        """Return the label names. `what` names the purpose in the error for a scoring run."""
        if self.first.label_names is None:
            raise InputError(
                f"{self.folder} returns scores, but {what} needs labels. Use a run that predicts labels."
            )
        return self.first.label_names

    def log_encoding(self) -> None:
        """Log how many sentences were truncated and how many words were unknown."""
        if self.matcher.engine != "static":
            log.info("%s", self.first.encoder.report)


def digest_of(folder: Path) -> str:
    """Return a digest of everything that a run's predictions depend on."""
    from keras_sentmatch.inference.matcher import run_folder
    from keras_sentmatch.inference.onnx import digest
    from keras_sentmatch.inference.run_folder import read_json

    folder = run_folder(folder)
    found = hashlib.sha256(repr(read_json(folder / "ensemble.json")).encode())
    for member, card in cards_of(folder).items():
        found.update(f"{card} {digest(member)}".encode())
    return found.hexdigest()


def cards_of(folder: Path) -> dict[Path, dict[str, Any]]:
    """Check and return what the matcher.json of each member says; empty for the built-in matcher.

    Keras is not imported.
    """
    from keras_sentmatch.inference.run_folder import STATIC, is_packaged, members_of, read_card

    if is_packaged(folder) or is_packaged(folder, STATIC):
        return {}
    return {path: read_card(path) for path in members_of(folder)}


def check_label(folder: Path, label: str | None) -> None:
    """Refuse a label that a run does not rank by. Keras is not imported."""
    from keras_sentmatch.inference.base import score_column

    for card in cards_of(folder).values():
        score_column(card["label_names"], label)


def source_of(folder: Path, needed: bool = True) -> Source | None:
    """Return the data that a run was trained on, if it was recorded. Nothing is loaded.

    A record that cannot be used is an error, or ignored if it is not needed.
    """
    cards = cards_of(folder)
    with nullcontext() if needed else contextlib.suppress(InputError):
        for member, card in list(cards.items())[:1]:
            if facts := card["info"].get("source"):
                return recorded_source(facts, member)
    return None


def recorded_source(facts: Any, folder: Path) -> Source:
    """Return the source that a run records. It is checked, because a run may come from anybody."""
    from keras_sentmatch.data.load import format_and_path
    from keras_sentmatch.safety import check_types

    place = f"info.source in {folder / 'matcher.json'}"
    kinds = dict.fromkeys(Source("").facts(), (str, None)) | {"data": str, "on_error": str}
    if not isinstance(facts, dict) or "data" not in facts or not facts.keys() <= kinds.keys():
        raise InputError(
            f"{place} is {facts!r:.60}. Expected {', '.join(kinds)}. Name the data with --data."
        )
    check_types(facts, kinds, place)
    if facts.get("on_error", "raise") not in list(options.BadRow):
        raise InputError(f"{place} is {facts!r:.80}, which names no data. Name it with --data.")
    source = Source(**facts)
    if source.name.lower().startswith("tfds:") or "://" in source.name:
        raise InputError(
            f"{place} names {source.name!r:.60}, which may be downloaded. A run folder cannot start "
            "a download. If you trust the source, name it with --data."
        )
    if source.format != format_and_path(source.name)[0]:
        raise InputError(
            f"{place} names the unknown format {source.format!r:.40}. Name the data with --data."
        )
    return source


def suggest_explain(folder: Path, one: str, two: str) -> None:
    """Suggest the page of a pair as the next step, unless there is no model to look into."""
    from keras_sentmatch.inference.run_folder import STATIC, is_packaged

    if is_packaged(folder, STATIC):
        return
    pair = "--sentence1", one, "--sentence2", two
    next_step(
        "explain", folder, *pair, "--out", "page.html", why="see what the prediction is based on"
    )


@dataclass
class Scoring:
    """The options on how a run scores pairs."""

    batch_size: Annotated[int, option("Maximum number of pairs per batch.", min=1)] = 64
    backend: options.Backend = None
    engine: Annotated[
        Engine | None,
        option(
            "What runs the model. Default: onnx, the fastest on a CPU, if the run has its model and "
            "no --backend is given; otherwise keras."
        ),
    ] = None

    def __post_init__(self) -> None:
        self.runs_on = ""  # the backend, or another engine, as reports name it

    @property
    def named(self) -> str | None:
        """The engine that the options name."""
        return self.engine.value if self.engine else "keras" if self.backend else None

    def load(self, folder: Path, engine: str | None = None) -> Run:
        """Load a run on the chosen engine, or on another one."""
        from keras_sentmatch.inference.onnx import has_model, is_installed

        engine, members = engine or self.named, cards_of(folder)
        on_keras = engine == "keras" or not (members and all(map(has_model, members)))
        backend = ""
        if engine == "keras" or is_installed("keras"):
            backend = use_backend(self.backend, imports_keras=on_keras)
        with working(f"loading {folder}"):
            run = Run.load(folder, engine)
        self.runs_on = backend if run.matcher.engine == "keras" else run.matcher.engine
        return run

    def working(self, pairs: Sized | None) -> AbstractContextManager[Any]:
        """Show that pairs are scored; JAX and TensorFlow first compile the model."""
        if pairs is None:  # scored before
            return nullcontext()
        compiles = (
            "" if self.runs_on in ("torch", "onnx", "static") else ", compiling the model first"
        )
        return working(f"scoring {len(pairs):,} pair{'s' * (len(pairs) != 1)}{compiles}")


@dataclass
class LabeledPairs(Reading):
    """The options that name the labeled pairs that a run is measured on."""

    data: Annotated[
        str | None, option("Name or path of labeled pairs. Default: the data of the (first) run.")
    ] = None
    split: options.Part = None

    def __post_init__(self) -> None:
        self.parts: dict[str, PairDataset] = {}  # that were read
        if self.data is None and (given := self.given()):
            raise InputError(f"{', '.join(given[::2])} need --data, which is missing.")

    @property
    def named(self) -> Source | None:
        """The source that `--data` names."""
        return None if self.data is None else Source(self.data, **self.reading())

    def arguments(self) -> list[str]:
        """Return the options as they were given."""
        given = {"--data": self.data, "--split": self.split}
        named = [part for name, v in given.items() if v is not None for part in (name, v)]
        return [*named, *self.given()]

    def suggest_report(self, run: Run, pairs: "PairDataset | None") -> None:
        """Suggest `report` on these pairs as the next step, or `explain` if the run has no classes."""
        data = self.arguments()
        if pairs and (run.first.label_names is None or not (data or run.first.info.get("source"))):
            suggest_explain(run.folder, *example_of(pairs))
        else:
            next_step("report", run.folder, *data, why="see where it errs")

    def read_held_out(self, run: Path, default: str) -> "tuple[PairDataset | None, dict[str, Any]]":
        """Return what `read` does, or None for the out-of-fold predictions that the run has kept."""
        from keras_sentmatch.inference.learned import LearnedPairs

        if (
            self.data is None
            and (self.split or default) == "validation"
            and (cards := cards_of(run))
        ):
            learned = [LearnedPairs.read(member) for member in cards]
            if all(found is not None and found.scores is not None for found in learned):
                data = next(iter(cards.values()))["info"].get("data", "")
                return None, {"run": str(run), "data": data, "split": "validation, out of fold"}
        return self.read(run, default)

    def read(self, run: Path, default: str = "test") -> "tuple[PairDataset, dict[str, Any]]":
        """Return the pairs, and the names of run, data and split for a report.

        Without `--data`, the pairs are the split `default` of the run's data. All rows of a single
        file are read unless `--split` names a part.
        """
        if self.named is None:
            source = source_of(run)
            if source is None:
                raise InputError(
                    f"{run} does not record what it was trained on. Name the data with --data."
                )
        else:
            known = source_of(run, needed=False)
            source = self.named.as_in(known)
            if self.split is not None and known and known.data == source.facts()["data"]:
                source.shares = known.shares  # the same parts as in training
        if self.data is not None and self.split is None and source.is_file:
            pairs = source.rows()
        else:
            self.parts = source.splits()
            pairs = source.part(self.parts, self.split or default)
        return pairs, {"run": str(run), "data": pairs.name or source.data, "split": pairs.split}
