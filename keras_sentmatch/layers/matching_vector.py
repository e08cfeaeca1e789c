"""One vector for a pair from the two sentences' vectors."""

from collections.abc import Sequence

import keras
from keras import ops

from keras_sentmatch.errors import InputError
from keras_sentmatch.layers.base import Layer

PARTS = {
    "first": lambda p, q: p,
    "second": lambda p, q: q,
    "sum": lambda p, q: p + q,
    "difference": lambda p, q: p - q,
    "absolute_difference": lambda p, q: ops.abs(p - q),
    "product": lambda p, q: p * q,
}


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class MatchingVector(Layer):
    """Join two sentence vectors: by default `[p; q; p + q; p - q; |p - q|]`, element by element.

    Args:
        parts: The parts in order, out of `"first"`, `"second"`, `"sum"`, `"difference"`,
            `"absolute_difference"` and `"product"`. Defaults to the five of DRCN's eq 7.

    Call arguments:
        p: `[B, D]`.
        q: `[B, D]`.

    Output shape:
        `[B, D * len(parts)]`.

    Masking:
        None: sentence vectors have no padding.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import MatchingVector
        >>> [float(v) for v in MatchingVector()(np.array([[1.0]]), np.array([[3.0]]))[0]]
        [1.0, 3.0, 4.0, -2.0, 2.0]

    References:
        Kim et al., DRCN, eq 7.
    """

    def __init__(
        self,
        parts: Sequence[str] = ("first", "second", "sum", "difference", "absolute_difference"),
        **kwargs,
    ):
        super().__init__(**kwargs)
        if not parts or any(part not in PARTS for part in parts):
            raise InputError(f"parts must be some of {sorted(PARTS)}. Received: parts={parts!r}")

    def call(self, p, q):
        return ops.concatenate([PARTS[part](p, q) for part in self.parts], axis=-1)

    def compute_output_shape(self, p_shape):
        return (*p_shape[:-1], p_shape[-1] * len(self.parts))
