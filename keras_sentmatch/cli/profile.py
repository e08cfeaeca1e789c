"""`profile`: what a model weighs and how fast it is here."""

import time
import warnings
from dataclasses import replace
from typing import Annotated, Any

import typer

from keras_sentmatch.cli.backend import BackendOption, use_backend
from keras_sentmatch.cli.catalog import JsonOption
from keras_sentmatch.cli.console import print_json, print_table
from keras_sentmatch.errors import InputError

STEPS = 10


def profile(
    model: Annotated[str, typer.Argument(help="A name of `keras-sentmatch models`.")],
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change the recipe: model.units=50, …"),
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Pairs a batch.")] = 64,
    length: Annotated[
        int, typer.Option(help="Tokens a sentence; a pair, of a model that reads it as one.")
    ] = 24,
    words: Annotated[int, typer.Option(help="Words in the vocabulary.")] = 20_000,
    classes: Annotated[int, typer.Option(help="Classes; 1 is a score.")] = 3,
    backend: BackendOption = None,
    as_json: JsonOption = False,
) -> None:
    """Shows a model's parameters, and times its forward pass and its training step.

    The model is the one that `train` makes from the same recipe; the sentences are random words.
    A pretrained encoder is named as in `train --set model.backbone=FOLDER`.
    """
    for name, value in (
        ("--batch-size", batch_size),
        ("--length", length),
        ("--words", words),
        ("--classes", classes),
    ):
        if value < 1:
            raise InputError(f"{name} {value}: at least 1 is needed.")
    chosen = use_backend(backend)
    from keras_sentmatch.training import load_recipe
    from keras_sentmatch.training.prepare import make_model

    recipe = load_recipe(model, overrides=[*(setting or []), "training.teacher=[]"])
    pairs, encoder, inputs = _random_pairs(recipe, STEPS * batch_size, length, words, classes)
    network = make_model(recipe, pairs, encoder, None, None)
    inputs = {name: inputs[name] for name in network.input}
    result = {
        "model": model,
        "backend": chosen,
        "batch_size": batch_size,
        "length": length,
        "parameters": network.count_params(),
        "parameters_without_word_embeddings": network.count_params_without_word_embeddings(),
        "layers": {layer.name: layer.count_params() for layer in network.layers},
        **_time(network, inputs, pairs.labels, batch_size),
    }
    if as_json:
        print_json(result)
        return
    rows = [row for row in result["layers"].items() if row[1]]
    rows.append(("all", result["parameters"]))
    rows.append(("all but word embeddings", result["parameters_without_word_embeddings"]))
    print_table(["layer", "parameters"], rows, f"{model}, {encoder.vocabulary_size:,} words")
    print_table(
        ["", "first call, s", "a batch, ms", "pairs a second"],
        [
            (what, result[f"{key}_first_s"], result[f"{key}_ms"], result[f"{key}_pairs_per_s"])
            for what, key in (("forward", "forward"), ("training step", "train"))
        ],
        f"{chosen}, batches of {batch_size} pairs, {length} tokens a {'pair' if 'backbone' in recipe.model else 'sentence'}",
    )


def _random_pairs(recipe: Any, rows: int, length: int, words: int, classes: int) -> Any:
    """Labelled pairs of random words, an encoder that knows them, and the pairs encoded."""
    import numpy as np

    from keras_sentmatch.data import PairDataset, PairEncoder
    from keras_sentmatch.training import EncoderConfig
    from keras_sentmatch.training.prepare import subword_encoder

    rng = np.random.default_rng(0)
    known = [f"w{number}" for number in range(words)]
    draw = rng.choice(known, (2, rows, length))
    first, second = ([" ".join(sentence) for sentence in side] for side in draw)
    labels = rng.integers(0, classes, rows) if classes > 1 else rng.random(rows)
    names = [str(number) for number in range(classes)] if classes > 1 else None
    pairs = PairDataset(first, second, labels, label_names=names)
    if "backbone" in recipe.model:
        reader = subword_encoder(replace(recipe, encoder=EncoderConfig(max_length=length)))
        with warnings.catch_warnings():  # that they are cut to the length is meant
            warnings.simplefilter("ignore")
            return pairs, reader, reader.encode(first, second, length=length)
    of_words = ("min_count", "max_size", "tagger", "antonyms")
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
    """Seconds of the first batch (compilation within), then milliseconds a batch over `STEPS`."""
    one = {name: array[:batch_size] for name, array in inputs.items()}
    runs = {
        "forward": lambda x, y: network.predict(x, batch_size=batch_size, verbose=0),
        "train": lambda x, y: network.fit(x, y, batch_size=batch_size, verbose=0),
    }
    result: dict[str, float] = {}
    for key, run in runs.items():
        first = _seconds(run, one, labels[:batch_size])
        steady = _seconds(run, inputs, labels)
        result[f"{key}_first_s"] = round(first, 3)
        result[f"{key}_ms"] = round(1000 * steady / STEPS, 3)
        result[f"{key}_pairs_per_s"] = round(len(labels) / steady, 1)
    return result


def _seconds(run: Any, *arguments: Any) -> float:
    start = time.perf_counter()
    run(*arguments)
    return time.perf_counter() - start
