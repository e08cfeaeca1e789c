"""The batches of a run, and the data arguments of `fit`."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from keras_sentmatch.encoders import PairBatches
from keras_sentmatch.encoders.batches import prediction_batches
from keras_sentmatch.training.config import TrainingConfig
from keras_sentmatch.training.encoding import Encoder, EncodingCache
from keras_sentmatch.training.training_data import TrainingData


def make_batches(
    data: TrainingData,
    encoder: Encoder,
    model: keras.Model,
    training: TrainingConfig,
    encodings: EncodingCache,
) -> dict[str, PairBatches]:
    """Return the batches of training and validation pairs."""
    # XLA compiles a step for every length, which costs more than to pad validation pairs.
    compiled = keras.config.backend() == "jax"
    buckets = {
        "train": training.length_buckets,
        "validation": 2 if compiled else encoder.max_length,
    }
    return {
        role: PairBatches(
            pairs,
            encoder,
            batch_size=training.batch_size,
            shuffle=role == "train",
            seed=training.seed,
            bucket_lengths=buckets[role],
            features=list(model.input),
            targets=data.targets.get(role),
            weights=data.weights("train") if role == "train" else None,
            encoded=encodings.encoded(pairs, encoder),
        )
        for role, pairs in (("train", data.train), ("validation", data.validation))
    }


def examples(
    data: TrainingData, role: str, encoder: Encoder, model: keras.Model, encodings: EncodingCache
) -> tuple[list[dict[str, np.ndarray]], np.ndarray, np.ndarray | None]:
    """Return inputs in batches of similar length, with labels and weights in that order."""
    pairs = data.train if role == "train" else data.validation
    encoded = encodings.encoded(pairs, encoder)
    batches, order = [], []
    for rows, _, length in prediction_batches(encoded.lengths.max(axis=1), 256, encoder.max_length):
        arrays = encoded.arrays(rows, length)
        batches.append({name: arrays[name] for name in model.input})
        order.append(rows)
    rows, weights = np.concatenate(order), data.weights(role)
    labels = np.asarray(pairs.labels)[rows]
    return batches, labels, None if weights is None else weights[rows]


def fit_arguments(
    batches: Mapping[str, PairBatches], first_epoch: int = 0, validate: bool = True
) -> dict[str, Any]:
    """Return the data arguments of `fit`, from an epoch on."""
    kind = "tf_data" if keras.config.backend() == "tensorflow" else "pydataset"
    found = {"x": getattr(batches["train"], kind)(first_epoch), "shuffle": False}
    if validate:
        found["validation_data"] = getattr(batches["validation"], kind)()
    return found
