"""Dropout that is quick on every backend."""

import keras

from keras_sentmatch.ops.dropout import draws_itself, quick_dropout


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class Dropout(keras.layers.Dropout):
    """`keras.layers.Dropout`, with a mask that PyTorch draws faster on a CPU; see `quick_dropout`."""

    def call(self, inputs, training=False):
        if training and 0 < self.rate < 1 and draws_itself(inputs):
            return quick_dropout(inputs, self.rate)
        return super().call(inputs, training=training)
