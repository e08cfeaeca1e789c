"""The size of a model, and its speed on this machine."""

import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.training._model import make_model
from keras_sentmatch.training.adapt import adapted
from keras_sentmatch.training.config import EncoderConfig
from keras_sentmatch.training.encoding import subword_encoder
from keras_sentmatch.training.recipe import Recipe, load_recipe

STEPS = 10


def profile_model(
    model: str, *, overrides: list[str], batch_size: int, length: int, words: int, classes: int
) -> dict[str, Any]:
    """Count the parameters of the model that a recipe makes, and time it on random words."""
    recipe = load_recipe(model, overrides=[*overrides, "training.teacher=[]"])
    return profile_recipe(recipe, batch_size, length, words, classes)


def profile_recipe(
    recipe: Recipe, batch_size: int, length: int, words: int, classes: int
) -> dict[str, Any]:
    """Do what `profile_model` does, for a recipe."""
    pairs, encoder, inputs = _random_pairs(recipe, STEPS * batch_size, length, words, classes)
    recipe, _ = adapted(recipe, {"train": pairs, "validation": pairs}, searching=True)
    network = make_model(recipe, pairs, encoder, None, None, batches=1)
    inputs = {name: inputs[name] for name in network.input}
    return {
        "batch_size": batch_size,
        "length": length,
        "unit": "pair" if "backbone" in recipe.model else "sentence",
        "vocabulary_size": encoder.vocabulary_size,
        "parameters": network.count_params(),
        "parameters_without_word_embeddings": network.count_params_without_word_embeddings(),
        "layers": {layer.name: layer.count_params() for layer in network.layers},
        **_time(network, inputs, pairs.labels, batch_size),
    }


def _random_pairs(recipe: Recipe, rows: int, length: int, words: int, classes: int) -> Any:
    """Return labeled pairs of random words, an encoder that knows these, and the encoded pairs."""
    rng = np.random.default_rng(0)
    known = [f"w{number}" for number in range(words)]
    draw = rng.choice(known, (2, rows, length))
    first, second = ([" ".join(sentence) for sentence in side] for side in draw)
    labels = rng.integers(0, classes, rows) if classes > 1 else rng.random(rows)
    names = [str(number) for number in range(classes)] if classes > 1 else None
    pairs = PairDataset(first, second, labels, label_names=names)
    if "backbone" in recipe.model:
        reader = subword_encoder(replace(recipe, encoder=EncoderConfig(max_length=length)))
        with warnings.catch_warnings():  # truncation is intended
            warnings.simplefilter("ignore")
            return pairs, reader, reader.encode(first, second, length=length)
    of_words = ("tagger", "antonyms")
    options = {k: v for k, v in recipe.encoder.values().items() if k not in of_words}
    features = options.get("features", ())
    needs = {"tags": ["T"]} if "pos" in features else {}
    encoder = PairEncoder(
        known,
        **{**options, **needs, "max_length": length},
        antonyms=[(known[0], known[-1])] if "antonym" in features else (),
    )
    tags = ([["T"] * length] * rows,) * 2 if needs else None
    return pairs, encoder, encoder.encode(first, second, length=length, tags=tags)


def _time(network: Any, inputs: dict[str, Any], labels: Any, batch_size: int) -> dict[str, float]:
    """Return seconds of the first batch (with compilation), and milliseconds per batch after it."""
    one = {name: array[:batch_size] for name, array in inputs.items()}
    runs: dict[str, Any] = {
        "forward": lambda x, y: network.predict(x, batch_size=batch_size, verbose=0),
        "train": lambda x, y: network.fit(x, y, batch_size=batch_size, verbose=0),
    }
    result: dict[str, float] = {}
    for key, run in runs.items():
        start = time.perf_counter()
        run(one, labels[:batch_size])
        middle = time.perf_counter()
        run(inputs, labels)
        steady = time.perf_counter() - middle
        result[f"{key}_first_s"] = round(middle - start, 3)
        result[f"{key}_ms"] = round(1000 * steady / STEPS, 3)
        result[f"{key}_pairs_per_s"] = round(len(labels) / steady, 1)
    return result
