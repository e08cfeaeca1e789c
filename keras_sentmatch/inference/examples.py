"""The comparison of an artifact, or of another engine, with a matcher on difficult pairs."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.ensemble import EnsembleMatcher
from keras_sentmatch.inference.pairs import as_dataset

TOLERANCE = 1e-5  # absolute for probabilities; relative for scores above 1
DIFFICULT = (
    ("A dog runs in the park.", "An animal is moving outside."),
    ("", ""),
    ("", "A dog runs."),
    ("A dog runs.", " \t\n"),
    ("the dog " * 5_000, "A dog runs."),
    ("A dog runs.", "10,000 words: " + "isn't " * 10_000),
    ("A dog 🐕 runs 👩‍👩‍👧 ❤️.", "🇫🇷🙂🙃"),
    ("مرحبا بالعالم \u202eabc", "שלום עולם"),
    ("a\x00b\x1f\x7f\x85\u2028\u3000c\r\nd", "\x01\x02\u200b"),
    ("中文句子 𠀀", "日本語の文 한국어"),
    ("ΣΑΣ İi ẞ ß e\u0301\u0323 é…", "ÅNGSTRÖM ﬁne ½"),
    ("It isn't the dog's; it cost $1,000.50!", "N'T 's [UNK] [SEP]"),
    ("donaudampfschifffahrtsgesellschaft" * 9, "x" * 300),
    ("A dog and a dog and a dog.", "The dog, the dog, the dog."),
    ("The houze is unhappyish.", "A footballish zebrra housez."),  # words of no vocabulary
)


@dataclass
class Examples:
    """Pairs and the predictions of the matcher."""

    sentence1: list[str]
    sentence2: list[str]
    scores: np.ndarray  # probabilities [N, C] or scores [N]
    labels: list[str] | None
    threshold: float | None
    abstain_below: tuple[float, ...] | None = None

    @classmethod
    def of(cls, ensemble: EnsembleMatcher, pairs: Any = None) -> "Examples":
        """Score the difficult pairs, sentences from the words of the vocabulary, and `pairs`."""
        rows = [*DIFFICULT, *own_words(ensemble.members[0].encoder)]
        if pairs is not None:
            more, _ = as_dataset(pairs, None, None)
            rows += zip(more.sentence1, more.sentence2)
        first, second = [row[0] for row in rows], [row[1] for row in rows]
        for sentence in first + second:
            try:
                sentence.encode("utf-8")
            except UnicodeEncodeError as error:
                raise InputError(
                    f"{sentence!r:.60} is not valid Unicode ({error}), so it cannot be compared. "
                    "Leave it out."
                ) from None
        with warnings.catch_warnings():  # the long sentences are truncated
            warnings.simplefilter("ignore")
            scores = ensemble.predict_proba(first, second)
        labels = None
        if ensemble.label_names is not None:
            labels = [str(answer.label or "") for answer in ensemble.answers(scores)]
        return cls(first, second, scores, labels, ensemble.threshold, ensemble.abstain_below)

    def compare(self, found: Mapping[str, Any], tolerance: float = TOLERANCE) -> float:
        """Return the largest difference between the outputs of an artifact and the matcher's.

        A difference above `tolerance`, or a different label, raises `InputError`.
        """
        got = np.asarray(found["score" if self.labels is None else "probabilities"])
        if got.shape != self.scores.shape:
            raise InputError(
                f"The artifact returns an array of shape {got.shape}. Expected {self.scores.shape}."
            )
        differences = np.abs(got - self.scores) / np.maximum(1.0, np.abs(self.scores))
        differences = np.nan_to_num(differences, nan=np.inf, posinf=np.inf)
        differences = differences.reshape(len(got), -1).max(1)
        worst = int(differences.argmax())
        if not differences[worst] <= tolerance:
            raise InputError(
                f"For the pair {self._pair(worst)}, the artifact returns "
                f"{got[worst]} and the matcher {self.scores[worst]}: a difference of "
                f"{differences[worst]:.2g}, expected at most {tolerance:g}. If this is rounding, "
                "export with a larger tolerance."
            )
        for row, label in enumerate(self.labels or ()):
            chosen = str(found["label"][row])
            if chosen != label and self._is_clear(row, tolerance):
                raise InputError(
                    f"For the pair {self._pair(row)}, the artifact chooses "
                    f"{chosen!r} and the matcher {label!r}."
                )
        return float(differences[worst])

    def _is_clear(self, row: int, tolerance: float) -> bool:
        """Whether no allowed difference changes the label."""
        scores = np.sort(self.scores[row])
        if self.abstain_below is not None:
            edges = np.abs(self.scores[row] - np.asarray(self.abstain_below))
            if edges.min() <= tolerance:
                return False
        if self.threshold is None:
            return bool(scores[-1] - scores[-2] > 2 * tolerance)
        return bool(abs(self.scores[row][1] - self.threshold) > tolerance)

    def _pair(self, row: int) -> str:
        return f"{self.sentence1[row]!r:.60}, {self.sentence2[row]!r:.60} (number {row})"


def own_words(encoder: Any, rows: int = 6, length: int = 10) -> list[tuple[str, str]]:
    """Make pairs of sentences from words spread over the encoder's vocabulary."""
    if isinstance(encoder, PairEncoder):
        words = encoder.vocabulary.words[2:]
    else:
        words = [word for word in encoder.tokenizer.get_vocabulary() if word.isalpha()]
    spread = np.linspace(0, len(words) - 1, 2 * rows * length).astype(int) if words else ()
    picked = [words[i] for i in spread]
    sentences = [" ".join(picked[i :: 2 * rows]) for i in range(2 * rows)]
    return list(zip(sentences[::2], sentences[1::2]))
