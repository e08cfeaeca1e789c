"""Initial weights of recurrent layers."""

import math

import keras


class GlorotPerGate(keras.initializers.GlorotUniform):
    """Glorot's uniform distribution (2010, eq 16) for each gate of a GRU's kernels.

    Keras takes the kernels of the three gates, side by side, for one matrix, whose range is smaller.
    """

    def __call__(self, shape, dtype=None):
        inputs, outputs = shape  # [D, 3 units]
        limit = math.sqrt(6 / (inputs + outputs / 3))
        return keras.random.uniform(shape, -limit, limit, dtype=dtype, seed=self.seed)
