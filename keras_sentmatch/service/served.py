"""A run that is served: loaded, tested, and reloaded beside the one that answers."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.errors import InputError
from keras_sentmatch.exports.engine import OnnxMatcher
from keras_sentmatch.inference.base import BaseMatcher
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.safety import first_line
from keras_sentmatch.service.batching import Batcher

log = logging.getLogger(__name__)
PROBE = [
    {"sentence1": "A dog runs.", "sentence2": "An animal moves."},
    {"sentence1": "", "sentence2": ""},
    {"sentence1": "who wrote it?", "sentence2": "Ünïcödé 字 🐕"},
]


@dataclass
class ServedRun:
    """A run by its name.

    Attributes:
        name: What requests call it.
        folder: Where it was loaded from.
        load: Loads a matcher from the folder.
        batcher: What answers.
        engine: What runs the model.
    """

    name: str
    folder: Path
    load: Callable[[Path], BaseMatcher]
    batcher: Batcher
    engine: str = "keras"

    @classmethod
    def start(
        cls,
        name: str,
        folder: Path,
        load: Callable[[Path], BaseMatcher],
        *,
        engine: str = "keras",
        **options: Any,
    ) -> "ServedRun":
        """Loads and probes a run, and starts its thread with the options of `Batcher`."""
        matcher = load_and_probe(folder, load)
        return cls(name, folder, load, Batcher(matcher, **options), engine)

    @property
    def matcher(self) -> BaseMatcher:
        return self.batcher.matcher

    def reload(self) -> bool:
        """Reloads the run; the new one takes over once it has answered a few test pairs.

        Returns:
            Whether it did. If not, the log says why, and the old one stays in use.
        """
        try:
            matcher = load_and_probe(self.folder, self.load)
        except Exception as error:  # whatever a half-written folder leads to
            said = error if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            log.error("%s was not reloaded, and the old one stays in use: %s", self.name, said)
            return False
        self.batcher.matcher = matcher
        log.info("%s was reloaded from %s", self.name, self.folder)
        return True

    def facts(self) -> dict[str, Any]:
        """What may be known about it from outside."""
        matcher = self.matcher
        members: list[Any] = getattr(matcher, "members", [matcher])
        names = matcher.label_names
        return {
            "name": self.name,
            "task": matcher.task,
            "labels": None if names is None else list(names),
            "model": members[0].info.get("model"),
            "data": members[0].info.get("data"),
            "members": len(members),
            "engine": self.engine,
            "explains": self.engine == "keras",
        }


def load_and_probe(folder: Path, load: Callable[[Path], BaseMatcher]) -> BaseMatcher:
    """A matcher that has answered; nothing of the folder is needed from then on.

    Raises:
        InputError: It cannot be loaded, or does not answer.
    """
    matcher = load(folder)
    if isinstance(matcher, Matcher):
        matcher.explainer()  # Keras names the parts of a model by counters of the thread: in this one
    members: list[Any] = getattr(matcher, "members", [matcher])
    for member in members:
        if isinstance(member, OnnxMatcher) and member.new_words is not None:
            # It reads its word tables from the folder when the first new word comes: now.
            encoder: Any = member.encoder
            member.add_rows(len(encoder.vocabulary), [], np.zeros((0, 1), "float32"))
    try:
        answers = matcher.predict(PROBE)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{folder} does not answer test pairs: {first_line(error)}") from error
    if len(answers) != len(PROBE):
        raise InputError(f"{folder} gives {len(answers)} answers to {len(PROBE)} pairs.")
    return matcher
