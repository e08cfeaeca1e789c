"""The layers of DIIN (Gong, Luo, Zhang 2018)."""

import keras
from keras import ops

from keras_sentmatch.layers.base import Layer, require, require_positive
from keras_sentmatch.ops import masked_softmax
from keras_sentmatch.ops.masking import at_least_float32, pair_mask, zero_padding
from keras_sentmatch.ops.similarity import dot_matrix


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class DecayingDropout(Layer):
    """Dropout whose share of kept values, `(1 - rate) * decay ** (step / decay_steps)`, decays.

    A weight counts the training steps and is saved, so training continues where it stopped. Call the
    layer once per step. The paper keeps everything at first, and decays by 0.977 per 10,000 steps.
    """

    def __init__(
        self, rate: float = 0.0, decay: float = 0.977, decay_steps: int = 10_000, **kwargs
    ):
        super().__init__(**kwargs)
        require(0 <= rate < 1, f"rate must be in [0, 1). Received: rate={rate}")
        require(0 < decay <= 1, f"decay must be in (0, 1]. Received: decay={decay}")
        require_positive(decay_steps=decay_steps)
        self.seed_generator = keras.random.SeedGenerator()

    def build(self, x_shape):
        self.steps = self.add_weight(
            shape=(), initializer="zeros", dtype="int32", trainable=False, name="steps"
        )

    def keep(self):
        """Return the share of values kept at the next step, float32."""
        t = ops.cast(self.steps, "float32") / self.decay_steps
        return (1.0 - self.rate) * ops.power(ops.cast(self.decay, "float32"), t)

    def call(self, x, training=None):
        if not training:
            return x
        keep = self.keep()
        self.steps.assign(self.steps + 1)
        kept = keras.random.uniform(ops.shape(x), dtype="float32", seed=self.seed_generator) < keep
        return ops.where(kept, x / ops.cast(keep, x.dtype), ops.cast(0, x.dtype))

    def compute_output_shape(self, x_shape):
        return x_shape


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class SelfAttentionFusion(Layer):
    """Attend from each token to its own sentence, and fuse the result with gates (DIIN, eq 1-7).

    `s_ij = w . [x_i; x_j; x_i * x_j]`, `a_i = sum_j softmax_j(s_ij) x_j`, and with `z, r, f` from
    `[x_i; a_i]` by a dense layer each (tanh, sigmoid, sigmoid) `y_i = r_i * x_i + f_i * z_i`. The first
    third of `w` never learns, because `w_1 . x_i` is the same for every j; the paper has it.

    `x` is `[B, L, D]` and so is the output, with zeros at padding. `return_attention` adds the weights
    `[B, L, L]`. `dropout` is the rate on the inputs of the gates at the first training step; see
    `DecayingDropout` for the others.
    """

    def __init__(
        self,
        dropout: float = 0.0,
        dropout_decay: float = 1.0,
        dropout_decay_steps: int = 10_000,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.token_dropout, self.attended_dropout = (
            DecayingDropout(
                dropout, dropout_decay, dropout_decay_steps, dtype=self.dtype_policy, name=name
            )
            for name in ("token_dropout", "attended_dropout")
        )

    def build(self, x_shape):
        width = x_shape[-1]
        self.attention_kernel = self.add_weight(
            shape=(3 * width, 1), initializer="glorot_uniform", name="attention_kernel"
        )
        # The gates z, r, f side by side: one layer for the token, one for what it attended to.
        self.token_gates, self.attended_gates = (
            self.dense(
                3 * width,
                name,
                inputs=width,
                kernel_initializer=keras.initializers.VarianceScaling(  # Glorot uniform, by gate
                    1.0, "fan_in", "uniform"
                ),
            )
            for name in ("token_gates", "attended_gates")
        )
        for dropout in (self.token_dropout, self.attended_dropout):
            dropout.build(x_shape)

    def call(self, x, mask, return_attention=False, training=None):
        x = ops.convert_to_tensor(x)
        wide = at_least_float32(x)
        w_1, w_2, w_3 = ops.split(ops.cast(self.attention_kernel, wide.dtype), 3, axis=0)
        scores = (  # [B, L, L]
            ops.matmul(wide, w_1)
            + ops.transpose(ops.matmul(wide, w_2), (0, 2, 1))
            + dot_matrix(wide * w_3[:, 0], wide)
        )
        weights = ops.cast(masked_softmax(scores, pair_mask(mask, mask)), x.dtype)
        attended = ops.matmul(weights, x)
        gates = self.token_gates(self.token_dropout(x, training=training)) + self.attended_gates(
            self.attended_dropout(attended, training=training)
        )
        z, r, f = ops.split(gates, 3, axis=-1)  # [B, L, D] each
        y = zero_padding(ops.sigmoid(r) * x + ops.sigmoid(f) * ops.tanh(z), mask)
        return (y, weights) if return_attention else y

    def compute_output_spec(self, x, mask, return_attention=False, training=None):
        y, weights = self.spec(*x.shape), self.spec(*x.shape[:2], x.shape[1])
        return (y, weights) if return_attention else y


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class DenseInteractionCNN(Layer):
    """A DenseNet over the grid of token pairs, `[B, L1, L2, D]` to one vector `[B, F]` (DIIN).

    A 1x1 convolution keeps the share `first_scale` of the features. Blocks follow: in each,
    `layers_per_block` 3x3 convolutions with ReLU read all earlier features of the block and add
    `growth_rate` features; a 1x1 convolution halves their number, and the maximum over 2x2 cells halves
    the grid. The lengths must be known and at least `2 ** blocks`. Padded cells should be zero.
    """

    def __init__(
        self,
        first_scale: float = 0.3,
        blocks: int = 3,
        layers_per_block: int = 8,
        growth_rate: int = 20,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.pooling = keras.layers.MaxPooling2D(
            2, data_format="channels_last", dtype=self.dtype_policy
        )

    def _features(self, width: int) -> list[int]:
        """Return the number of features that enter each block, and the number in the output."""
        features = [int(width * self.first_scale)]
        for _ in range(self.blocks):
            features.append((features[-1] + self.layers_per_block * self.growth_rate) // 2)
        return features

    def build(self, x_shape):
        self._flat_width = self.compute_output_shape(x_shape)[-1]  # a graph may forget the lengths
        features = self._features(x_shape[-1])

        def convolution(inputs: int, filters: int, size: int, activation, name: str):
            layer = keras.layers.Conv2D(
                filters,
                size,
                padding="same",
                data_format="channels_last",
                activation=activation,
                dtype=self.dtype_policy,
                name=name,
            )
            layer.build((None, None, None, inputs))
            return layer

        self.scale_down = convolution(x_shape[-1], features[0], 1, None, "scale_down")
        self.dense_blocks, self.transitions = [], []
        for b, width in enumerate(features[:-1], start=1):
            block = []
            for i in range(self.layers_per_block):
                name = f"block_{b}_{i + 1}"
                block.append(convolution(width, self.growth_rate, 3, "relu", name))
                width += self.growth_rate
            self.dense_blocks.append(block)
            self.transitions.append(convolution(width, features[b], 1, None, f"transition_{b}"))

    def call(self, x):
        x = _in_each_cell(self.scale_down, x)  # [B, L1, L2, D * first_scale]
        for block, transition in zip(self.dense_blocks, self.transitions):
            x = self.pooling(_in_each_cell(transition, _dense_block(block, x)))  # half the lengths
        return ops.reshape(x, (-1, self._flat_width))

    def compute_output_shape(self, x_shape):
        require(
            all(length and length >> self.blocks for length in x_shape[1:3]),
            f"Each of blocks={self.blocks} halves the grid, so both lengths must be known and at "
            f"least 2 ** blocks. Received: x of shape {tuple(x_shape)}",
        )
        height, width = (length >> self.blocks for length in x_shape[1:3])
        return (x_shape[0], height * width * self._features(x_shape[-1])[-1])


def _dense_block(block, x):
    """Concatenate `x` and the output of each convolution, which reads everything before it.

    A convolution of a concatenation is the sum of the convolutions of its parts. Each part is
    convolved once, with the slices of all later kernels side by side, because a few wide
    convolutions are faster than many narrow ones.
    """
    parts, start = [x], 0
    sums = [convolution.bias for convolution in block]
    for i, convolution in enumerate(block):
        stop = start + parts[-1].shape[-1]
        kernels = ops.concatenate([later.kernel[:, :, start:stop] for later in block[i:]], axis=-1)
        y = ops.conv(parts[-1], kernels, padding="same", data_format="channels_last")
        sums[i:] = map(ops.add, ops.split(y, len(block) - i, axis=-1), sums[i:])
        parts.append(convolution.activation(sums[i]))
        start = stop
    return ops.concatenate(parts, axis=-1)


def _in_each_cell(convolution, x):
    """Apply a 1x1 convolution without activation as a matrix product, which is faster on JAX."""
    return ops.add(ops.matmul(x, convolution.kernel[0, 0]), convolution.bias)
