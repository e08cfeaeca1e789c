"""Several runs that answer together, and loading whatever a folder holds."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.base import Array, BaseMatcher
from keras_sentmatch.inference.learned import LearnedPairs
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.inference.run_folder import (
    CALIBRATION,
    calibration_of,
    members_of,
    read_json,
    write_json,
)

Folders = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class EnsembleMatcher(BaseMatcher):
    """Answers with the mean of its members' probabilities (or scores).

    It predicts, ranks, evaluates and calibrates as a `Matcher` does. Members keep their own encoders
    and temperatures. The options are those of `Matcher`, applied to the mean: the mean of calibrated
    members is underconfident.

    Raises:
        InputError: No members, or members with different tasks or labels.
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
            raise InputError("An ensemble needs members, but there are none. Pass some matchers.")
        for number, member in enumerate(members):
            if (member.label_names, member.task) != (members[0].label_names, members[0].task):
                raise InputError(
                    f"Member {number} is {member!r}, member 0 is {members[0]!r}. Members of an "
                    "ensemble need the same task and the same labels in the same order."
                )
        self.members = list(members)
        first = members[0]
        super().__init__(first.label_names, first.task, temperature, threshold, abstain_below)
        self.learned = self._learned()

    @property
    def engine(self) -> str:
        """What runs the models: `"onnx"` or `"keras"`."""
        return "onnx" if {m.engine for m in self.members} == {"onnx"} else "keras"

    def raw_scores(self, pairs: PairDataset, batch_size: int) -> Array:
        """The mean of the members' predictions, each at its own temperature."""
        scores = [m.predict_proba(pairs, batch_size=batch_size) for m in self.members]
        return np.asarray(np.mean(scores, axis=0))

    def _learned(self) -> LearnedPairs | None:
        """Return the pairs of all members, with out-of-fold scores if all members have them."""
        found = [member.learned for member in self.members if member.learned is not None]
        if not found:
            return None
        whole = len(found) == len(self.members) and all(one.scores is not None for one in found)
        if whole and all(np.array_equal(found[0].keys, other.keys) for other in found):
            scores = [m.tempered(m.learned.scores) for m in self.members]
            joint: LearnedPairs = replace(found[0], scores=np.mean(scores, axis=0))
            return joint
        return LearnedPairs(np.concatenate([learned.keys for learned in found]))

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write what `load` reads into a folder without a run; `ensemble.json` comes last.

        Raises:
            InputError: The folder holds a run.
        """
        folder = Path(folder)
        if any((folder / name).exists() for name in ("ensemble.json", "matcher.json")):
            raise InputError(f"{folder} already holds a run. Name another folder.")
        for number, member in enumerate(self.members):
            member.save(folder / f"seed-{number}")
        found = calibration_of(vars(self))
        write_json(folder / "ensemble.json", {"seeds": list(range(len(self.members))), **found})


def load_run(folders: Folders, engine: str | None = None) -> Matcher | EnsembleMatcher:
    """Load the run or the ensemble in a folder, or several runs as an ensemble; see `Matcher.load`."""
    calibration = {}
    if isinstance(folders, str | os.PathLike):
        folder = Path(folders)
        folders = members_of(folder)
        if folders == [folder]:
            return Matcher.load(folder, engine)
        noted = read_json(folder / "ensemble.json")
        calibration = {name: noted[name] for name in CALIBRATION if name in noted}
    return EnsembleMatcher([Matcher.load(member, engine) for member in folders], **calibration)
