"""The base class of encoders of sentence pairs: counts, and the description in a folder."""

import json
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from keras_sentmatch.errors import InputError, wording
from keras_sentmatch.safety import check_types, inside, read_object

FORMAT = 1
FILE = "encoder.json"
MAX_TOKENS = 1_000_000  # greatest max_length of an encoder in a file
Tags = tuple[Sequence[str | Sequence[str]], Sequence[str | Sequence[str]]]


@dataclass
class EncodingReport:
    """Counts since an encoder was made or `reset_report` was called."""

    sentences: int = 0  # two per pair
    truncated: int = 0  # sentences
    tokens: int = 0  # that were kept
    dropped: int = 0  # tokens beyond the limit
    unknown: int = 0  # kept tokens without an id

    def __add__(self, other: "EncodingReport") -> "EncodingReport":
        mine, others = vars(self), vars(other)
        return EncodingReport(**{name: mine[name] + others[name] for name in mine})

    def __str__(self) -> str:
        def share(part: int, whole: int) -> str:
            return f"{part:,} ({part / max(whole, 1):.1%})"

        unknown, cut = share(self.unknown, self.tokens), share(self.truncated, self.sentences)
        lost = share(self.dropped, self.tokens + self.dropped)
        kept = f"{self.sentences:,} sentences, {self.tokens:,} tokens"
        return f"{kept}, {unknown} unknown; {cut} sentences truncated, {lost} tokens lost"


@dataclass
class EncodedPairs(ABC):
    """Any number of encoded pairs, kept flat and without padding."""

    lengths: np.ndarray  # tokens of each sentence [N, 2], or of each pair or single sentence [N, 1]

    def __len__(self) -> int:
        return len(self.lengths)

    @abstractmethod
    def arrays(self, rows: np.ndarray, length: int) -> dict[str, np.ndarray]:
        """Return the pairs `rows`, right-padded to `length`, as `encode` returns them."""


class BaseEncoder(ABC):
    """Turn pairs of sentences into int32 arrays; see `PairEncoder` and `SubwordPairEncoder`."""

    kind: ClassVar[str]
    shortest = 1  # least length of a batch

    @abstractmethod
    def encode_pairs(
        self,
        sentence1: Sequence[str],
        sentence2: Sequence[str] | None,
        *,
        tags: Tags | None = None,
        limit: int | None = None,
    ) -> EncodedPairs:
        """Encode pairs compactly. `sentence2` may be None; `limit` lowers `max_length`."""

    def encode(
        self,
        sentence1: Sequence[str],
        sentence2: Sequence[str],
        *,
        length: int | None = None,
        tags: Tags | None = None,
    ) -> dict[str, np.ndarray]:
        """Encode pairs.

        Args:
            sentence1, sentence2: First and second sentences, lists of B strings.
            length: Length to pad or truncate to. Defaults to the longest sentence or packed pair.
            tags: Tags for the feature `"pos"`: for each side a list of B lists with one tag per token,
                or of B strings `"word TAG word TAG …"`, which are aligned with the tokens.

        Returns:
            int32 arrays by the names in `input_names`: `[B, length]`, and
            `[B, length, max_word_length]` for characters.

        Raises:
            InputError: If the columns are not lists of strings of equal length, `length` leaves no
                room, or the tags do not fit.
        """
        pairs = self.encode_pairs(sentence1, sentence2, tags=tags, limit=length)
        longest = int(pairs.lengths.max(initial=self.shortest))
        return pairs.arrays(np.arange(len(pairs)), length or longest)

    def reset_report(self) -> None:
        """Set the counts of `report` to zero, and warn of the next truncated sentence again."""
        self.report = EncodingReport()
        self._warned = False

    def _count(self, full: np.ndarray, kept: np.ndarray, unknown: int, limit: int) -> None:
        """Add the tokens of each sentence, before and after truncation, to the report."""
        self.report.sentences += full.size
        self.report.truncated += int((kept < full).sum())
        self.report.tokens += int(kept.sum())
        self.report.dropped += int((full - kept).sum())
        self.report.unknown += unknown
        if self.report.truncated and not self._warned:
            self._warned = True
            share = f"{self.report.truncated:,} of {self.report.sentences:,} sentences "
            share += f"({self.report.truncated / self.report.sentences:.1%})"
            what = "their pair had" if self.kind == "subword" else "they had"
            more = wording("raise max_length", "train with --set encoder.max_length=…")
            text = f"{share} were truncated, because {what} more than {limit} tokens"
            warnings.warn(f"{text}. To keep more, {more}.", stacklevel=4)

    def _write(self, folder: str | Path, config: Mapping[str, Any]) -> Path:
        """Write `encoder.json` into a folder, which is made if it is missing, and return the folder."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        config = {"format": FORMAT, "kind": self.kind, **config}
        text = json.dumps(config, indent=1, ensure_ascii=False)
        (folder / FILE).write_text(text + "\n", encoding="utf-8", newline="\n")
        return folder

    @classmethod
    def _read(cls, folder: str | Path) -> tuple[Path, dict[str, Any]]:
        """Read the path of `encoder.json` and the settings of an encoder of this class."""
        path, kind, config = read_description(folder)
        if kind != cls.kind:
            raise InputError(f"{path} describes an encoder of kind {kind!r}, not {cls.kind!r}.")
        return path, config


def read_description(folder: str | Path) -> tuple[Path, str, dict[str, Any]]:
    """Read the path of `encoder.json` in a folder, the kind of encoder, and its settings."""
    path = inside(Path(folder), FILE)
    config = read_object(path)
    check_types(config, {"format": int}, path)
    if (number := config.pop("format", None)) != FORMAT:
        wrong = f"{path} has the format {number!r:.40}, but this version reads format {FORMAT}"
        raise InputError(f"{wrong}. Save the encoder with this version.")
    return path, config.pop("kind", None), config


def sentence_columns(sentence1: Sequence[str], sentence2: Sequence[str] | None) -> list[list[str]]:
    """Check columns of sentences and return them as lists; the second may be None."""
    columns = []
    for name, column in (("sentence1", sentence1), ("sentence2", sentence2)):
        if isinstance(column, (str, bytes)):
            raise InputError(
                f"{name} is a single string ({column[:40]!r}). Write {name}=[…] for a list of sentences."
            )
        if column is None:
            continue
        columns.append(list(column))
        for row, sentence in enumerate(columns[-1]):
            if not isinstance(sentence, str):
                kind = type(sentence).__name__
                raise InputError(f"{name}[{row}] is {sentence!r:.60} ({kind}). Expected a string.")
    if len(columns[0]) != len(columns[-1]):
        counts = f"sentence1 has {len(columns[0])} sentences, but sentence2 has {len(columns[1])}"
        raise InputError(f"{counts}. Give columns of equal length.")
    return columns
