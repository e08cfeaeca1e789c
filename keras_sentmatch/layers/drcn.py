"""The layers of DRCN (Kim et al. 2019)."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import keras
from keras import ops

from keras_sentmatch.layers.base import Layer, require, require_choice
from keras_sentmatch.layers.bidirectional_rnn import BidirectionalRNN
from keras_sentmatch.layers.co_attention import CoAttention
from keras_sentmatch.layers.dropout import Dropout
from keras_sentmatch.ops import masked_mean
from keras_sentmatch.ops.masking import at_least_float32, zero_padding
from keras_sentmatch.ops.sequence import split_pair, stack_pair
from keras_sentmatch.ops.similarity import unit_length


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class AutoencoderBottleneck(Layer):
    """Narrow `[B, L, D]` to a code `[B, L, units]` that can rebuild it (DRCN, "Bottleneck component").

    `z = tanh(x W_e + b_e)`, `x' = dropout(z) W_r + b_r`. In training the layer adds
    `1/2 (MSE_P + MSE_Q)`, the squared errors of `x'` for `sentences` sentences stacked along the batch,
    without padding. The code of padded tokens is not zero.
    """

    def __init__(self, units: int = 200, dropout: float = 0.2, kernel_regularizer=None, **kwargs):
        super().__init__(**kwargs)

    def build(self, x_shape):
        self.encoder = self.dense(self.units, "encoder", "tanh", x_shape[-1])
        self.decoder = self.dense(x_shape[-1], "decoder", inputs=self.units)
        self.code_dropout = Dropout(self.dropout, dtype=self.dtype_policy)

    def call(self, x, mask, sentences=1, training=None):
        code = self.code_dropout(self.encoder(x), training=training)
        if training:
            self.add_loss(0.5 * ops.sum(self._errors(x, code, mask, sentences)))
        return code

    def _errors(self, x, code, mask, sentences: int):
        """Return the squared error of each sentence, `[sentences]`: the mean over tokens and features."""
        error = at_least_float32(self.decoder(code)) - at_least_float32(x)
        per_token = ops.mean(ops.square(error), axis=-1)  # [B, L]
        # One row per sentence, so that a short one counts as much as a long one.
        rows = ops.reshape(per_token, (sentences, -1)), ops.reshape(mask, (sentences, -1))
        return masked_mean(*rows)

    def compute_output_shape(self, x_shape):
        return (*x_shape[:-1], self.units)


CONNECTIONS = ("dense", "residual", "none")


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class DenseCoAttentiveRNN(Layer):
    """Densely connected recurrent layers with co-attention over two sentences.

    Layer l computes `h^l = BiLSTM_l(x^l)`, `a^l` = co-attention over the two `h^l`, and
    `x^{l+1} = [h^l; a^l; x^l]`. After some layers an autoencoder narrows x, and the next layers start
    again from its code. All weights serve both sentences. The input of a layer holds, newest first,
    `h` and `a` of each earlier layer and last the input features.

    Args:
        units: Width of one direction. Defaults to `100`.
        depth: Number of recurrent layers. Defaults to `5`.
        attention: Whether there is co-attention. Defaults to `True`.
        recurrent_connection: `"dense"` passes on each earlier `h`, `"residual"` adds them to the newest,
            `"none"` drops them. Defaults to `"dense"`.
        attentive_connection: The same for the earlier `a`. Defaults to `"dense"`.
        embedding_connection: `"dense"` passes the input (or the latest code) on to every layer,
            `"none"` only to the next layer. Defaults to `"dense"`.
        autoencoder_after: Numbers of the layers, from 1, that an autoencoder follows. Defaults to
            `(3, 5)`.
        autoencoder_units: Width of the code. Defaults to `200`.
        autoencoder_dropout: Dropout rate on the code. Defaults to `0.2`.
        kernel_regularizer: Penalty on every kernel. Defaults to `None`.

    Call arguments:
        x1: `[B, L1, D]`.
        x2: `[B, L2, D]`, or `None` (like `mask_2`) for a single sentence, which needs
            `attention=False`. Defaults to `None`.
        mask_1: Boolean `[B, L1]`, True = real token, right-padded.
        mask_2: Boolean `[B, L2]`.
        return_attention: Whether to return the attention of each layer too. Defaults to `False`.

    Output shape:
        `[B, L1, width]` and `[B, L2, width]`; with `return_attention` also `[B, depth, L1, L2]` and
        `[B, depth, L2, L1]`. For a single sentence `[B, L1, width]`. The width follows from the
        connections; it is 200 by default.

    Masking:
        Padding changes nothing at the real tokens. Padded positions of the output are zero.

    Raises:
        InputError: A connection is unknown, a layer number is outside 1..depth, or a layer with
            attention is called with a single sentence.

    Example:
        >>> x, mask = np.ones((2, 3, 6), "float32"), np.ones((2, 3), bool)
        >>> y1, y2 = DenseCoAttentiveRNN(units=4, depth=2, autoencoder_after=())(x, x, mask, mask)
        >>> tuple(y1.shape)
        (2, 3, 38)

    References:
        Kim et al., "Semantic Sentence Matching with Densely-connected Recurrent and Co-attentive
        Information", eq 2-6 and Table 6.
    """

    def __init__(
        self,
        units: int = 100,
        depth: int = 5,
        attention: bool = True,
        recurrent_connection: str = "dense",
        attentive_connection: str = "dense",
        embedding_connection: str = "dense",
        autoencoder_after: Sequence[int] = (3, 5),
        autoencoder_units: int = 200,
        autoencoder_dropout: float = 0.2,
        kernel_regularizer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        require_choice(CONNECTIONS, recurrent_connection=recurrent_connection)
        require_choice(CONNECTIONS, attentive_connection=attentive_connection)
        require_choice(("dense", "none"), embedding_connection=embedding_connection)
        require(
            depth > 0 and all(1 <= layer <= depth for layer in autoencoder_after),
            f"autoencoder_after counts recurrent layers from 1 to depth={depth}. "
            f"Received: autoencoder_after={autoencoder_after!r}",
        )
        self.autoencoder_after = tuple(sorted(autoencoder_after))
        layers = range(1, depth + 1)
        self.recurrent = [self.sublayer(BidirectionalRNN, f"recurrent_{n}") for n in layers]
        self.co_attention = []
        if attention:
            self.co_attention = [
                self.sublayer(CoAttention, f"co_attention_{n}", similarity="dot") for n in layers
            ]
        self.autoencoders = [
            self.sublayer(
                AutoencoderBottleneck,
                f"autoencoder_{layer}",
                units=autoencoder_units,
                dropout=autoencoder_dropout,
            )
            for layer in self.autoencoder_after
        ]

    def call(self, x1, x2=None, mask_1=None, mask_2=None, return_attention=False, training=None):
        alone = self._is_alone(x2)
        x, mask = (x1, mask_1) if alone else (stack_pair(x1, x2), stack_pair(mask_1, mask_2))
        lengths = ops.shape(x1)[1], ops.shape(x1 if alone else x2)[1]
        source = x  # the input features, or the latest code
        hidden: list[Any] = []
        attended: list[Any] = []
        weights: list[Any] = []
        for layer, recurrent in enumerate(self.recurrent, start=1):
            h = recurrent(x, mask)
            hidden = _connect(h, hidden, self.recurrent_connection)
            if self.attention:  # eq 5
                keys = split_pair(unit_length(h), *lengths)  # so dot products are cosines
                a1, a2, *w = self.co_attention[layer - 1](
                    *split_pair(h, *lengths),
                    mask_1,
                    mask_2,
                    *keys,
                    return_attention=return_attention,
                )
                attended = _connect(stack_pair(a1, a2), attended, self.attentive_connection)
                weights.append(w)
            features = [f for pair in zip_longest(hidden, attended) for f in pair if f is not None]
            if self.embedding_connection == "dense":
                features.append(source)
            x = ops.concatenate(features, axis=-1) if len(features) > 1 else features[0]  # eq 6
            if layer in self.autoencoder_after:
                autoencoder = self.autoencoders[self.autoencoder_after.index(layer)]
                x = source = autoencoder(x, mask, sentences=1 if alone else 2, training=training)
                hidden, attended = [], []
        x = zero_padding(x, mask)
        if alone:
            return x
        outputs = split_pair(x, *lengths)
        if not return_attention:
            return outputs
        return (*outputs, *(ops.stack(side, axis=1) for side in zip(*weights)))

    def _is_alone(self, x2) -> bool:
        alone = x2 is None
        require(not (alone and self.attention), "attention=True needs two sentences, x1 and x2.")
        return alone

    def build(self, x1_shape):
        width = source = x1_shape[-1]
        state, hidden, attended = 2 * self.units, 0, 0
        for layer, recurrent in enumerate(self.recurrent, start=1):
            recurrent.build((None, None, width))
            hidden = state + (hidden if self.recurrent_connection == "dense" else 0)
            if self.attention:
                self.co_attention[layer - 1].build((None, None, state))
                attended = state + (attended if self.attentive_connection == "dense" else 0)
            width = hidden + attended + (source if self.embedding_connection == "dense" else 0)
            if layer in self.autoencoder_after:
                autoencoder = self.autoencoders[self.autoencoder_after.index(layer)]
                autoencoder.build((None, None, width))
                width = source = self.autoencoder_units
                hidden = attended = 0
        self.width = width

    def compute_output_spec(
        self, x1, x2=None, mask_1=None, mask_2=None, return_attention=False, training=None
    ):
        batch, length_1 = x1.shape[:2]
        if self._is_alone(x2):
            return self.spec(batch, length_1, self.width)
        length_2 = x2.shape[1]
        outputs = self.spec(batch, length_1, self.width), self.spec(batch, length_2, self.width)
        if not return_attention:
            return outputs
        return (
            *outputs,
            self.spec(batch, self.depth, length_1, length_2),
            self.spec(batch, self.depth, length_2, length_1),
        )


def _connect(new, earlier: list[Any], connection: str) -> list[Any]:
    """Return the features of one kind that are kept when `new` arrives, newest first."""
    if connection == "dense":
        return [new, *earlier]
    return [new + earlier[0]] if connection == "residual" and earlier else [new]
