"""Highway network."""

import keras

from keras_sentmatch.layers.base import Layer


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class Highway(Layer):
    """Highway layers: `y = g * relu(x W_t + b_t) + (1 - g) * x` with `g = sigmoid(x W_g + b_g)`.

    Args:
        num_layers: Number of stacked layers. Defaults to `2`.
        kernel_regularizer: Penalty on every kernel. Defaults to `None`.

    Call arguments:
        x: `[..., D]`.

    Output shape:
        Same as `x`.

    Masking:
        Each position is computed alone.

    Example:
        >>> tuple(Highway()(np.zeros((2, 3, 8), "float32")).shape)
        (2, 3, 8)

    References:
        Srivastava et al. 2015. DRr-Net, DIIN and CAFE use it.
    """

    def __init__(self, num_layers: int = 2, kernel_regularizer=None, **kwargs):
        super().__init__(**kwargs)

    def build(self, x_shape):
        width, numbers = x_shape[-1], range(self.num_layers)
        self.gates = [self.dense(width, f"gate_{i}", "sigmoid", width) for i in numbers]
        self.transforms = [self.dense(width, f"transform_{i}", "relu", width) for i in numbers]

    def call(self, x):
        for gate, transform in zip(self.gates, self.transforms):
            x = x + gate(x) * (transform(x) - x)  # g t + (1 - g) x
        return x

    def compute_output_shape(self, x_shape):
        return x_shape
