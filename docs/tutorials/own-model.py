"""
# Your own model from the layers

The layers are ordinary Keras layers. This tutorial builds a model that no paper has, trains it with `fit` on
`tf.data`, searches two of its numbers with KerasTuner, and writes a SavedModel.

```bash
pip install -e ".[tensorflow,tuner]"
```

## Pairs as arrays

An encoder learns the vocabulary and turns sentences into ids. `PairBatches` groups pairs of similar length.
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"  # before Keras is imported

from keras_sentmatch.data import natural_logic_pairs
from keras_sentmatch.encoders import PairBatches, PairEncoder

PAIRS, EPOCHS, TRIALS = 2000, 3, 2  # in a test: 128, 1, 1
training = natural_logic_pairs(PAIRS, seed=0)
validation = natural_logic_pairs(PAIRS // 4, seed=1, split="validation")
encoder = PairEncoder.fit(training, features=("word",), max_length=16)
batches = PairBatches(training, encoder, batch_size=64, shuffle=True, seed=0).tf_data()
held_back = PairBatches(validation, encoder, batch_size=64).tf_data()
print(batches.element_spec[0]["word_ids_1"])

"""
## The model

Words, the phrases around them (`PhraseCNN`, windows of $d_k$ words), and a GRU that reads the most important ones
again $T$ times, guided by the other sentence. Masks are boolean arguments; nothing is hidden in the tensors.
"""

import keras
from keras import ops

from keras_sentmatch.layers import PhraseCNN, RerereadAttention, SelfAttentionPooling


def build(steps: int = 3, widths: tuple[int, ...] = (2,), units: int = 64) -> keras.Model:
    ids = [keras.Input((None,), dtype="int32", name=f"word_ids_{side}") for side in "12"]
    embed = keras.layers.Embedding(encoder.vocabulary_size, units)
    phrases = PhraseCNN(widths, hidden_filters=units)
    pool = SelfAttentionPooling(units)
    reread = RerereadAttention(units, attention_units=units, steps=steps)
    masks = [ops.not_equal(x, 0) for x in ids]
    words = [embed(x) for x in ids]
    tokens = [x + ops.mean(phrases(x, mask), axis=1) for x, mask in zip(words, masks)]
    p, q = (pool(x, mask) for x, mask in zip(tokens, masks))
    p = reread(tokens[0], masks[0], guide=q, initial_state=p)
    q = reread(tokens[1], masks[1], guide=p, initial_state=q)
    v = ops.concatenate([p, q, ops.abs(p - q), p * q], axis=-1)
    v = keras.layers.Dense(units, "relu")(v)
    outputs = keras.layers.Dense(3, "softmax", dtype="float32")(v)
    model = keras.Model(dict(zip(("word_ids_1", "word_ids_2"), ids)), outputs)
    loss = "sparse_categorical_crossentropy"
    model.compile(keras.optimizers.Adam(3e-3), loss, metrics=["accuracy"])
    return model


model = build()
history = model.fit(batches, validation_data=held_back, epochs=EPOCHS, verbose=0)
print(f"{model.count_params():,} parameters")
print("validation accuracy:", [round(x, 3) for x in history.history["val_accuracy"]])

"""
## Search T and the width of phrases

KerasTuner draws the two numbers, and each trial trains a new model. A Keras 3 model needs nothing special. The best of
many trials is partly luck, so measure the winner on pairs that no trial has seen.
"""

import keras_tuner

tuner = keras_tuner.RandomSearch(
    lambda hp: build(
        steps=hp.Choice("T", [1, 3, 6]),
        widths=tuple(int(width) for width in hp.Choice("d_k", ["2", "3", "2+3"]).split("+")),
    ),
    objective="val_accuracy",
    max_trials=TRIALS,
    directory="search",
    seed=0,
)
tuner.search(batches, validation_data=held_back, epochs=EPOCHS, verbose=0)
best = tuner.get_best_hyperparameters()[0]
print("best:", best.values)

"""
## A SavedModel

`model.export` writes a model that TensorFlow serves by itself. It accepts ids; a run folder's
[export](../export.md) accepts sentences.
"""

import numpy as np
import tensorflow as tf

model.export("exported", verbose=False)
served = tf.saved_model.load("exported")
ids, _ = next(PairBatches(validation, encoder, batch_size=8).numpy())
difference = np.abs(np.asarray(served.serve(ids)) - model.predict(ids, verbose=0)).max()
print(f"largest difference: {difference:.0e}")

"""
To give such a model the command line, run folders, explanations and `export`, write it as a [class with `encode` and
`interact`](../adding-a-model.md).
"""
