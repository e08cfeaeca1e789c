"""What the matchers of one model share, whatever runs the model: encoding, batches, new words."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders.subwords import Encoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.base import Array, BaseMatcher
from keras_sentmatch.inference.new_words import NewWords
from keras_sentmatch.inference.pairs import check_count
from keras_sentmatch.vectors.extraction import WordEncoder


class OneModelMatcher(BaseMatcher):
    """Encodes pairs, scores them in batches, and learns new words."""

    encoder: Encoder
    info: dict[str, Any]
    vector_extractor: Any
    new_words: NewWords | None = None  # learns words when they are met
    threads = 1  # that score batches at once

    @abstractmethod
    def batches(self, lengths: Array, batch_size: int) -> Iterator[tuple[Array, int, int]]:
        """Row numbers of each batch, with the rows and the length to pad it to."""

    @abstractmethod
    def score_arrays(self, arrays: Mapping[str, Array]) -> Array:
        """The scores `[rows, outputs]` of encoded pairs."""

    @abstractmethod
    def add_rows(self, start: int, words: Sequence[str], vectors: Array) -> None:
        """Gives words the rows from `start` on in every table that has one for each word."""

    def learn_words(
        self, sentences: Sequence[str], encoder: str | Path | WordEncoder | None = None
    ) -> list[str]:
        """Adds words that training never saw, with the vectors extracted from the encoder.

        Answers on known words stay what they are; `save` keeps the new words.
        `Matcher.load(folder, word_encoder=…)` does this by itself.

        Args:
            sentences: Words, or sentences whose words to learn.
            encoder: The encoder that the word vectors were extracted from: a folder or a KerasHub
                preset. By default where it was then.

        Returns:
            The words learned: those that were unknown, but not to the encoder's tokenizer.

        Raises:
            InputError: The word vectors were not extracted, or from another encoder.

        Example:

        ```python
        matcher.learn_words(["zebra", "okapi"], encoder="path/to/encoder")  # ["zebra", "okapi"]
        ```
        """
        if isinstance(sentences, str):
            raise InputError("learn_words got one string; give a list of words or sentences.")
        learner = self.new_words if encoder is None else None
        return (learner or NewWords(self, encoder)).learn(sentences)

    def learn_from(self, *columns: Sequence[str]) -> None:
        """Learns the new words of columns of sentences, if this matcher does that by itself."""
        if self.new_words is not None:
            self.new_words.learn([sentence for column in columns for sentence in column])

    def raw_scores(self, pairs: PairDataset, batch_size: int) -> Array:
        check_count("batch_size", batch_size)
        self.learn_from(pairs.sentence1, pairs.sentence2)
        tags = pairs.tags if "pos" in self.encoder.features else None
        encoded = self.encoder.encode_pairs(pairs.sentence1, pairs.sentence2, tags=tags)
        scores = np.zeros((len(pairs), len(self.label_names or ("score",))), "float32")

        def score(batch: tuple[Array, int, int]) -> None:
            rows, size, length = batch
            filled = np.pad(rows, (0, size - len(rows)), mode="edge")  # copies of the last row
            scores[rows] = self.score_arrays(encoded.arrays(filled, length))[: len(rows)]

        todo = list(self.batches(encoded.lengths.max(axis=1), batch_size))
        if self.threads == 1 or len(todo) == 1:
            for batch in todo:
                score(batch)
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                list(pool.map(score, todo))
        if not (good := np.isfinite(scores).all(1)).all():
            row = int(np.argmin(good))
            raise InputError(
                f"{self!r} answers {scores[row].tolist()} for pair {row} (of {len(pairs)}), expected finite numbers: its "
                "weights are damaged, or its training diverged. Copy the run folder again, or train again "
                "with a lower learning rate."
            )
        return scores[:, 0] if self.label_names is None else scores
