"""Ensembles: several runs that answer together."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_sentmatch.data import PairDataset, WordEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.corpus import best_first
from keras_sentmatch.inference.matcher import Matcher, Prediction, named_answers
from keras_sentmatch.inference.pairs import as_columns, as_dataset
from keras_sentmatch.inference.run_folder import members_of, read_json, write_json
from keras_sentmatch.metrics import (
    apply_temperature,
    calibrate_predictions,
    evaluate_predictions,
)
from keras_sentmatch.metrics.calibration import check_calibration

if TYPE_CHECKING:
    from keras_sentmatch.explain import Explanation


class EnsembleMatcher:
    """Answers with the mean of its members' probabilities (or scores).

    Members keep their own encoders and temperatures; they must answer the same label names in the
    same order. The temperature and the threshold of the ensemble are those of the mean: members
    that are calibrated by themselves make a mean that is not sure enough.

    Args:
        members: At least one matcher.
        temperature: As of `Matcher`, of the mean.
        threshold: As of `Matcher`, of the mean.

    Raises:
        InputError: No members, or members that answer different things.

    Example:

    ```python
    from keras_sentmatch.inference import EnsembleMatcher

    ensemble = EnsembleMatcher.load("runs/eight")
    ensemble.evaluate(pairs)["accuracy"]
    ```
    """

    def __init__(
        self,
        members: Sequence[Matcher],
        *,
        temperature: float = 1.0,
        threshold: float | None = None,
    ) -> None:
        if not members:
            raise InputError("An ensemble of no matchers; give at least one.")
        for number, member in enumerate(members):
            if (member.label_names, member.task) != (members[0].label_names, members[0].task):
                raise InputError(
                    f"Member {number} answers {member!r}, member 0 {members[0]!r}; the members of "
                    "an ensemble must have the same task and the same labels in the same order."
                )
        self.members = list(members)
        self.label_names = members[0].label_names
        self.task = members[0].task
        check_calibration(temperature, threshold, len(self.label_names or ("score",)))
        self.temperature = temperature
        self.threshold = threshold

    @classmethod
    def load(
        cls,
        folders: str | os.PathLike | Sequence[str | os.PathLike],
        *,
        word_encoder: str | Path | None = None,
    ) -> "EnsembleMatcher":
        """Loads the folder that `train_ensemble` wrote, or several runs.

        Args:
            folders: The folder of an ensemble, with its calibration; or folders of runs.
            word_encoder: As for `Matcher.load`.
        """
        calibration: dict[str, Any] = {}
        if isinstance(folders, str | os.PathLike):
            noted = read_json(Path(folders) / "ensemble.json")
            calibration = {
                name: noted[name] for name in ("temperature", "threshold") if name in noted
            }
            folders = members_of(Path(folders))
        shared = None if word_encoder is None else WordEncoder(word_encoder)
        return cls([Matcher.load(folder, word_encoder=shared) for folder in folders], **calibration)

    def predict(
        self,
        pairs: Any = None,
        *,
        sentence1: str | Sequence[str] | None = None,
        sentence2: str | Sequence[str] | None = None,
        batch_size: int = 64,
    ) -> Prediction | list[Prediction]:
        """As `Matcher.predict`, by the mean of the members' scores."""
        dataset, single = as_dataset(pairs, sentence1, sentence2)
        answers = self.answers(self.predict_proba(dataset, batch_size=batch_size))
        return answers[0] if single else answers

    def predict_proba(self, pairs: Any = None, **arguments: Any) -> np.ndarray:
        """The mean of the members' `predict_proba`, whose arguments it takes, at the temperature."""
        return self._tempered(self._mean(pairs, **arguments))

    def answers(self, scores: np.ndarray) -> list[Prediction]:
        """Turns the array of `predict_proba` into named answers."""
        return named_answers(scores, self.label_names, self.threshold)

    def explain(self, pairs: Any = None, **arguments: Any) -> "Explanation | list[Explanation]":
        """As `Matcher.explain`; of an ensemble there is word erasure only, and no look inside."""
        from keras_sentmatch.explain import explain

        return explain(self, pairs, **arguments)

    def rank(
        self,
        query: str,
        candidates: Sequence[str],
        *,
        top_k: int | None = None,
        label: str | None = None,
        batch_size: int = 64,
    ) -> list[dict[str, Any]]:
        """As `Matcher.rank`, by the mean of the members' scores."""
        column = self.members[0].score_column(label)
        first, second = as_columns(query, candidates)
        scores = self.predict_proba(sentence1=first, sentence2=second, batch_size=batch_size)
        return best_first(scores if column is None else scores[:, column], second, top_k)

    def evaluate(self, dataset: PairDataset, *, batch_size: int = 64) -> dict[str, Any]:
        """The task's figures of the mean, as `Matcher.evaluate` gives them."""
        labeled = self.members[0].relabel(dataset)
        scores = self.predict_proba(labeled, batch_size=batch_size)
        return evaluate_predictions(labeled, scores, threshold=self.threshold)

    def calibrate(
        self,
        dataset: PairDataset,
        *,
        temperature: bool = True,
        threshold: str | None = None,
        batch_size: int = 64,
    ) -> dict[str, Any]:
        """As `Matcher.calibrate`, of the mean; the members stay as they are."""
        labeled = self.members[0].labelled_classes(dataset)
        report = calibrate_predictions(
            np.asarray(labeled.labels),
            self._mean(labeled, batch_size=batch_size),
            temperature=temperature,
            threshold=threshold,
        )
        self.temperature, self.threshold = report["temperature"], report["threshold"]
        return report

    def save(self, folder: str | os.PathLike) -> None:
        """Writes what `load` reads: the members into `seed-0`, `seed-1`, …, and `ensemble.json`, which makes it whole, last.

        Args:
            folder: A folder that holds no run yet.

        Raises:
            InputError: It holds one.
        """
        folder = Path(folder)
        if any((folder / name).exists() for name in ("ensemble.json", "matcher.json")):
            raise InputError(f"{folder} already holds a run; name another folder.")
        for number, member in enumerate(self.members):
            member.save(folder / f"seed-{number}")
        found = {"temperature": self.temperature, "threshold": self.threshold}
        write_json(folder / "ensemble.json", {"seeds": list(range(len(self.members))), **found})

    def _mean(self, pairs: Any, **arguments: Any) -> np.ndarray:
        return np.mean([m.predict_proba(pairs, **arguments) for m in self.members], axis=0)

    def _tempered(self, scores: np.ndarray) -> np.ndarray:
        return scores if self.label_names is None else apply_temperature(scores, self.temperature)

    def export(
        self, folder: str | os.PathLike, format: str = "saved_model", **options: Any
    ) -> dict[str, Any]:
        """Writes one artifact that answers with the members' mean; as `Matcher.export`."""
        from keras_sentmatch.export import export

        return export(self, folder, format, **options)
