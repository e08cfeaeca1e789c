"""Ensembles: several runs that answer together."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.base import Array, BaseMatcher
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.inference.run_folder import (
    CALIBRATION,
    calibration_of,
    members_of,
    read_json,
    write_json,
)
from keras_sentmatch.vectors.extraction import WordEncoder


class EnsembleMatcher(BaseMatcher):
    """Answers with the mean of its members' probabilities (or scores).

    Has the methods of `Matcher` that answer, rank, evaluate, calibrate, explain (by word erasure)
    and export. Members keep their own encoders and temperatures.

    Args:
        members: At least one matcher; all have the same label names in the same order.
        temperature: As of `Matcher`, of the mean: that of calibrated members is underconfident.
        threshold: As of `Matcher`, of the mean.
        abstain_below: As of `Matcher`, of the mean.

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
        members: Sequence[Any],
        *,
        temperature: float = 1.0,
        threshold: float | None = None,
        abstain_below: Sequence[float] | None = None,
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
        first = members[0]
        super().__init__(first.label_names, first.task, temperature, threshold, abstain_below)

    @classmethod
    def load(
        cls,
        folders: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        engine: str = "keras",
        word_encoder: str | Path | None = None,
    ) -> "EnsembleMatcher":
        """Loads the folder that `train_ensemble` wrote, or several runs.

        Args:
            folders: The folder of an ensemble, with its calibration; or folders of runs.
            engine: As for `Matcher.load`.
            word_encoder: As for `Matcher.load`.
        """
        calibration: dict[str, Any] = {}
        if isinstance(folders, str | os.PathLike):
            noted = read_json(Path(folders) / "ensemble.json")
            calibration = {name: noted[name] for name in CALIBRATION if name in noted}
            folders = members_of(Path(folders))
        shared = None if word_encoder is None else WordEncoder(word_encoder)
        members = [Matcher.load(f, engine=engine, word_encoder=shared) for f in folders]
        return cls(members, **calibration)

    def raw_scores(self, pairs: PairDataset, batch_size: int) -> Array:
        """The mean of the members' answers, each at its own temperature."""
        scores = [m.predict_proba(pairs, batch_size=batch_size) for m in self.members]
        return np.asarray(np.mean(scores, axis=0))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes what `load` reads into a folder that holds no run yet: `ensemble.json` comes last.

        Raises:
            InputError: The folder holds a run.
        """
        folder = Path(folder)
        if any((folder / name).exists() for name in ("ensemble.json", "matcher.json")):
            raise InputError(f"{folder} already holds a run; name another folder.")
        for number, member in enumerate(self.members):
            member.save(folder / f"seed-{number}")
        found = calibration_of(vars(self))
        write_json(folder / "ensemble.json", {"seeds": list(range(len(self.members))), **found})
