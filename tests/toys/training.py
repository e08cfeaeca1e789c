"""A model that trains in a moment, and pairs it can learn."""

import keras
import numpy as np
from keras import ops

from keras_sentmatch.data import PairDataset
from keras_sentmatch.training import Recipe

WORDS = [f"w{i}" for i in range(12)]


def build_tiny(name, *, vocabulary_size, num_classes, embedding_dim, dropout=0.1, **unused):
    """Means of word vectors over the real words, their product and distance, one dense layer."""
    names = ("word_ids_1", "word_ids_2")
    inputs = {n: keras.Input((None,), dtype="int32", name=n) for n in names}
    embed = keras.layers.Embedding(vocabulary_size, embedding_dim)
    real = [ops.cast(ops.not_equal(ids, 0), "float32")[..., None] for ids in inputs.values()]
    a, b = (
        ops.sum(embed(ids) * mask, axis=1) / ops.maximum(ops.sum(mask, axis=1), 1.0)
        for ids, mask in zip(inputs.values(), real)
    )
    features = ops.concatenate([a, b, a * b, ops.abs(a - b)], axis=-1)
    features = keras.layers.Dropout(dropout)(features)
    last = keras.layers.Dense(num_classes, dtype="float32")(features)
    return keras.Model(inputs, ops.softmax(last) if num_classes > 1 else last, name=name)


def tiny_recipe(**training):
    settings = {"batch_size": 20, "epochs": 3, "learning_rate": 0.02, **training}
    return Recipe.from_tables(
        "tiny", encoder={"features": ["word"]}, vectors={"dim": 8}, training=settings
    )


def tiny_pairs(rows, seed, task="classification", split="train"):
    """Label 1 where sentence 2 begins with a word of the first half of `WORDS`; lengths differ."""
    rng = np.random.default_rng(seed)
    picks = rng.integers(0, 12, (rows, 4))
    first = [" ".join(WORDS[i] for i in row) for row in picks]
    second = [WORDS[row[-1]] + " x" * (row[0] % 3) for row in picks]
    labels = (picks[:, -1] < 6).astype(int)
    if task == "regression":
        return PairDataset(first, second, labels + 0.5, name="tiny", split=split)
    groups = [f"q{i // 5}" for i in range(rows)] if task == "ranking" else None
    return PairDataset(
        first, second, labels, label_names=("no", "yes"), groups=groups, name="tiny", split=split
    )


def tiny_splits(task="classification"):
    sizes = {"train": 100, "validation": 40, "test": 30}
    return {role: tiny_pairs(n, n, task, role) for role, n in sizes.items()}


class Strike(keras.callbacks.Callback):
    """Raises an error in the middle of an epoch."""

    def __init__(self, error, epoch, hook):
        super().__init__()
        self.error, self.at, self.now = error, epoch, 0
        setattr(self, hook, self.strike)

    def on_epoch_begin(self, epoch, logs=None):
        self.now = epoch

    def strike(self, batch, logs=None):
        if self.now == self.at and batch >= 2:
            raise self.error


def struck_build(error, epoch, hook="on_train_batch_end"):
    """Builds a model whose training is struck by an error."""

    def build(name, **config):
        model = build_tiny(name, **config)
        fit = model.fit
        strike = Strike(error, epoch, hook)
        model.fit = lambda *a, callbacks, **more: fit(*a, callbacks=[*callbacks, strike], **more)
        return model

    return build


def tiny_run(out, *, splits=None, build=build_tiny, recipe=None, options=None, **training):
    """`train` without progress and baseline; `options` are its further arguments."""
    from keras_sentmatch.training import train

    options = {"progress": False, "baseline": False, **(options or {})}
    recipe = recipe or tiny_recipe(**training)
    return train(recipe, splits or tiny_splits(), out, build=build, **options)
