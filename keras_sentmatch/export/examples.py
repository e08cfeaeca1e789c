"""Pairs that an artefact must answer as the matcher does, and the comparison."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_sentmatch.data import PairDataset, PairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.ensemble import EnsembleMatcher
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.inference.pairs import as_dataset

TOLERANCE = 1e-5  # of a probability; of a score, relative to scores above 1
HARD = (
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
)


@dataclass
class Examples:
    """Pairs and what the matcher answers to them.

    Attributes:
        sentence1, sentence2: The pairs.
        arrays: What the encoder makes of them: the model's inputs by name. Empty where the members
            of an ensemble have different encoders.
        scores: `[N, C]` probabilities or `[N]` scores.
        labels: The chosen labels; `None` of a scoring model.
        threshold: Of the matcher.
        label_names: Of the matcher.
    """

    sentence1: list[str]
    sentence2: list[str]
    arrays: dict[str, np.ndarray]
    scores: np.ndarray
    labels: list[str] | None
    threshold: float | None
    label_names: tuple[str, ...] | None

    @classmethod
    def of(cls, ensemble: EnsembleMatcher, pairs: Any = None) -> "Examples":
        """The hard pairs, sentences of each vocabulary's own words, and `pairs`."""
        members = ensemble.members
        rows = [*HARD, *(pair for member in members for pair in own_words(member.encoder))]
        if pairs is not None:
            more, _ = as_dataset(pairs, None, None)
            rows += zip(more.sentence1, more.sentence2)
        first, second = [row[0] for row in rows], [row[1] for row in rows]
        for sentence in first + second:
            try:
                sentence.encode("utf-8")
            except UnicodeEncodeError as error:
                raise InputError(
                    f"{sentence!r:.60} is not a text to compare on: {error}."
                ) from None
        with warnings.catch_warnings():  # the long ones are cut
            warnings.simplefilter("ignore")
            scores = ensemble.predict_proba(_dataset(members, first, second))
            arrays = {}
            if len(group_by_encoder(members)) == 1:
                data = _dataset(members, first, second)
                arrays = members[0].encoder.encode(first, second, tags=data.tags)
        labels = None
        if ensemble.label_names is not None:
            labels = [answer.label for answer in ensemble.answers(scores)]
        return cls(
            first,
            second,
            {name: x for name, x in arrays.items() if name in inputs_of(members)},
            scores,
            labels,
            ensemble.threshold,
            ensemble.label_names,
        )

    def compare(
        self, found: Mapping[str, Mapping[str, Any]], tolerance: float = TOLERANCE
    ) -> float:
        """The largest difference between these answers and those found.

        Args:
            found: For each signature its outputs by name: `probabilities` and `label`, or `score`,
                one a pair; formats without strings have no `label`.
            tolerance: The largest difference that is allowed.

        Raises:
            InputError: A difference above `tolerance`, or another label: it says of which pair.
        """
        largest = 0.0
        for signature, outputs in found.items():
            got = np.asarray(outputs["score" if self.labels is None else "probabilities"])
            if got.shape != self.scores.shape:
                raise InputError(
                    f"{signature} answers arrays {got.shape}, expected {self.scores.shape}."
                )
            rows = (np.abs(got - self.scores) / np.maximum(1.0, np.abs(self.scores))).reshape(
                len(self.scores), -1
            )
            worst = int(np.argmax(np.where(np.isnan(rows), np.inf, rows).max(1)))
            difference = float(rows[worst].max())
            if not difference <= tolerance:
                raise InputError(
                    f"Nothing was exported, because {signature} answers {got[worst]} where the "
                    f"matcher answers {self.scores[worst]} (a difference of {difference:.2g}, at "
                    f"most {tolerance:g} was expected), to the pair {self._pair(worst)}. Where that is rounding, "
                    "export with a larger tolerance."
                )
            largest = max(largest, difference)
            for row, label in enumerate(self.labels or ()):
                chosen = str(outputs["label"][row]) if "label" in outputs else label
                if chosen != label and self._is_clear(row, tolerance):
                    raise InputError(
                        f"Nothing was exported, because {signature} chooses {chosen!r} where the "
                        f"matcher chooses {label!r}, to the pair {self._pair(row)}."
                    )
        return largest

    def _is_clear(self, row: int, tolerance: float) -> bool:
        """Whether the label does not hang on a difference that is allowed."""
        scores = np.sort(self.scores[row])
        if self.threshold is None:
            return bool(scores[-1] - scores[-2] > 2 * tolerance)
        return bool(abs(self.scores[row][1] - self.threshold) > tolerance)

    def _pair(self, row: int) -> str:
        return f"{self.sentence1[row]!r:.60}, {self.sentence2[row]!r:.60} (number {row})"


def inputs_of(members: Sequence[Matcher]) -> dict[str, Any]:
    """The inputs of all members' models by name; one may read what another does not."""
    return {name: x for member in members for name, x in member.model.input.items()}


def as_ensemble(matcher: Matcher | EnsembleMatcher) -> EnsembleMatcher:
    """What answers the same (a matcher as an ensemble of itself), but learns no words and counts for itself."""

    def copy(member: Matcher) -> Matcher:
        return Matcher(
            member.model,
            type(member.encoder)(**member.encoder.get_config()),
            member.label_names,
            task=member.task,
            threshold=member.threshold,
            temperature=member.temperature,
            info=member.info,
        )

    if isinstance(matcher, Matcher):
        return EnsembleMatcher([copy(matcher)], threshold=matcher.threshold)
    members = [copy(member) for member in matcher.members]
    return EnsembleMatcher(members, temperature=matcher.temperature, threshold=matcher.threshold)


def group_by_encoder(members: Sequence[Matcher]) -> list[list[Matcher]]:
    """The members, those with equal encoders together."""
    groups: list[list[Matcher]] = []
    for member in members:
        for group in groups:
            if _same(group[0].encoder, member.encoder):
                group.append(member)
                break
        else:
            groups.append([member])
    return groups


def own_words(encoder: Any, rows: int = 6, length: int = 10) -> list[tuple[str, str]]:
    """Pairs of sentences made of words from all over the encoder's vocabulary."""
    if isinstance(encoder, PairEncoder):
        words = encoder.vocabulary.words[2:]
    else:
        words = [word for word in encoder.tokenizer.get_vocabulary() if word.isalpha()]
    spread = np.linspace(0, len(words) - 1, 2 * rows * length).astype(int) if words else ()
    picked = [words[i] for i in spread]
    sentences = [" ".join(picked[i :: 2 * rows]) for i in range(2 * rows)]
    return list(zip(sentences[::2], sentences[1::2]))


def _same(one: Any, other: Any) -> bool:
    if type(one) is not type(other) or isinstance(one, PairEncoder):
        return type(one) is type(other) and one.get_config() == other.get_config()
    tokenizers = one.tokenizer, other.tokenizer
    configs, words = zip(*((t.get_config(), t.get_vocabulary()) for t in tokenizers))
    return one.max_length == other.max_length and configs[0] == configs[1] and words[0] == words[1]


def _dataset(members: Sequence[Matcher], first: list[str], second: list[str]) -> PairDataset:
    """The pairs; with part-of-speech tags, each token the next one, where an encoder wants them."""
    tagged: list[Any] = [m.encoder for m in members if "pos" in m.encoder.features]
    encoder = next((e for e in tagged if not e.tagger), None)
    if encoder is None:
        return PairDataset(first, second)
    names = encoder.tags.words[2:]
    tags = {
        f"tags_{side}": [
            [names[i % len(names)] for i, _ in enumerate(encoder.tokenizer(sentence))]
            for sentence in sentences
        ]
        for side, sentences in ((1, first), (2, second))
    }
    return PairDataset(first, second, columns=tags)
