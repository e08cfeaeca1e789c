"""Sentences that are encoded once and ranked against many queries."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_sentmatch.encoders.batches import prediction_batches
from keras_sentmatch.errors import InputError

Array = np.ndarray


class EncodedCorpus:
    """The encodings of candidates, as tensors on the device, in blocks of similar length.

    They belong to the matcher that made them.
    """

    def __init__(self, matcher: Any, sentences: Sequence[str], batch_size: int) -> None:
        model = matcher.model
        if "antonym" in matcher.encoder.features or not getattr(model, "can_split", False):
            raise InputError(
                f"{type(model).__name__} cannot encode a sentence alone. Give `rank` the candidates "
                "as strings."
            )
        self.sentences, self.matcher = list(sentences), matcher
        self.halves = model.split()
        for half in self.halves:
            half.jit_compile = model.jit_compile
        self.blocks = self._encode(self.halves[1], self.sentences, batch_size)

    def _encode(self, half: Any, sentences: list[str], batch_size: int) -> list[Any]:
        """Return row numbers and tensors by name for each block, filled up to a few sizes."""
        from keras import ops

        encoder, blocks = self.matcher.encoder, []
        with self.matcher.lending(sentences) as parts:
            for part in parts:
                encoded = encoder.encode_pairs(sentences[part], None)
                lengths = encoded.lengths[:, 0]
                for rows, size, length in prediction_batches(
                    lengths, batch_size, encoder.max_length
                ):
                    filled = np.pad(rows, (0, size - len(rows)), mode="edge")
                    arrays = encoded.arrays(filled, length)
                    done = half.predict_on_batch({name: arrays[f"{name}_1"] for name in half.input})
                    tensors = {name: ops.convert_to_tensor(x) for name, x in done.items()}
                    blocks.append((rows + (part.start or 0), tensors))
        return blocks

    def __len__(self) -> int:
        return len(self.sentences)

    def raw_scores(self, query: str) -> Array:
        """Return what `BaseMatcher.raw_scores` returns for a query and each candidate."""
        from keras import ops

        first, _, interaction = self.halves
        ((_, encoded),) = self._encode(first, [query], 1)
        scores = np.zeros((len(self.sentences), interaction.output_shape[-1]), "float32")
        for rows, block in self.blocks:
            size = len(next(iter(block.values())))
            inputs = {f"{n}_1": ops.repeat(x, size, axis=0) for n, x in encoded.items()}
            inputs |= {f"{name}_2": x for name, x in block.items()}
            scores[rows] = interaction.predict_on_batch(inputs)[: len(rows)]
        return scores[:, 0] if self.matcher.label_names is None else scores
