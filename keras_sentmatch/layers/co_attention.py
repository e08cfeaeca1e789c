"""Co-attention: each token's weighted sum of the other sentence."""

import keras
from keras import ops

from keras_sentmatch.layers.base import Layer, require_choice
from keras_sentmatch.ops import masked_softmax
from keras_sentmatch.ops.masking import pair_mask
from keras_sentmatch.ops.similarity import cosine_matrix, dot_matrix

SIMILARITIES = ("cosine", "dot")


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class CoAttention(Layer):
    """Attend from each sentence to the other, both ways from one similarity matrix.

    `e_ij = cos(p_i, q_j)` or `p_i . q_j`, `a_p_i = sum_j softmax_j(e_ij) q_j`,
    `a_q_j = sum_i softmax_i(e_ij) p_i`.

    Args:
        similarity: `"cosine"` or `"dot"`. Defaults to `"cosine"`.
        temperature: Initial value of a learned factor on `e`, or `None` for no factor. Defaults to
            `None`.

    Call arguments:
        x1: `[B, L1, D]`.
        x2: `[B, L2, D]`.
        mask_1: Boolean `[B, L1]`, True = real token.
        mask_2: Boolean `[B, L2]`.
        keys_1: `[B, L1, K]`, compared instead of `x1`. Defaults to `x1`.
        keys_2: `[B, L2, K]`, compared instead of `x2`. Defaults to `x2`.
        return_attention: Whether to return the weights as well. Defaults to `False`.

    Output shape:
        `[B, L1, D]` and `[B, L2, D]`; with `return_attention` also the weights `[B, L1, L2]` and
        `[B, L2, L1]`, whose rows sum to 1.

    Masking:
        Padding gets no weight, and padded rows are zeros. If a sentence is empty, the tokens of the
        other one attend to zeros.

    Raises:
        InputError: `similarity` is unknown.

    Example:
        >>> p, q = np.ones((1, 2, 4), "float32"), np.ones((1, 3, 4), "float32")
        >>> mask_p, mask_q = np.array([[True, True]]), np.array([[True, True, False]])
        >>> _, _, weights, _ = CoAttention()(p, q, mask_p, mask_q, return_attention=True)
        >>> [float(w) for w in weights[0, 0]]
        [0.5, 0.5, 0.0]

    References:
        Kim et al., DRCN, eq 5. With `"dot"`: Chen et al., ESIM, eq 11-13.
    """

    def __init__(self, similarity: str = "cosine", temperature: float | None = None, **kwargs):
        super().__init__(**kwargs)
        require_choice(SIMILARITIES, similarity=similarity)

    def build(self, x1_shape):
        if self.temperature is not None:
            start = keras.initializers.Constant(self.temperature)
            self.scale = self.add_weight(shape=(), initializer=start, name="temperature")

    def call(self, x1, x2, mask_1, mask_2, keys_1=None, keys_2=None, return_attention=False):
        matrix = cosine_matrix if self.similarity == "cosine" else dot_matrix
        # [B, L1, L2]
        scores = matrix(x1 if keys_1 is None else keys_1, x2 if keys_2 is None else keys_2)
        if self.temperature is not None:
            scores = scores * ops.cast(self.scale, scores.dtype)
        mask = pair_mask(mask_1, mask_2)
        weights_1 = ops.cast(masked_softmax(scores, mask, axis=2), x1.dtype)
        weights_2 = ops.cast(
            ops.transpose(masked_softmax(scores, mask, axis=1), (0, 2, 1)), x1.dtype
        )
        attended = ops.matmul(weights_1, x2), ops.matmul(weights_2, x1)
        return (*attended, weights_1, weights_2) if return_attention else attended

    def compute_output_spec(
        self, x1, x2, mask_1, mask_2, keys_1=None, keys_2=None, return_attention=False
    ):
        batch, length_1, length_2 = x1.shape[0], x1.shape[1], x2.shape[1]
        attended = self.spec(*x1.shape), self.spec(*x2.shape)
        weights = self.spec(batch, length_1, length_2), self.spec(batch, length_2, length_1)
        return (*attended, *weights) if return_attention else attended
