"""`profile`: how large a model is, and how fast it is here."""

from typing import Annotated

import typer

from keras_sentmatch.cli import options
from keras_sentmatch.cli.backend import use_backend
from keras_sentmatch.cli.console import print_json, print_table
from keras_sentmatch.errors import InputError


def profile(
    model: options.Model,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change the recipe: model.units=50, …"),
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Pairs per batch.")] = 64,
    length: Annotated[
        int,
        typer.Option(help="Tokens per sentence; per pair, for a model that reads a pair as one."),
    ] = 24,
    words: Annotated[int, typer.Option(help="Words in the vocabulary.")] = 20_000,
    classes: Annotated[int, typer.Option(help="Classes; 1 for a score.")] = 3,
    backend: options.Backend = None,
    as_json: options.Json = False,
) -> None:
    """Shows a model's parameters, and times its forward pass and its training step.

    The model is the one that `train` makes from the same recipe; the sentences are random words.
    A pretrained encoder is named as in `train --set model.backbone=FOLDER`.
    """
    sizes = {"batch-size": batch_size, "length": length, "words": words, "classes": classes}
    for name, value in sizes.items():
        if value < 1:
            raise InputError(f"--{name} {value}: must be at least 1.")
    chosen = use_backend(backend)
    from keras_sentmatch.training.profiling import profile_model

    found = profile_model(
        model,
        overrides=setting or [],
        batch_size=batch_size,
        length=length,
        words=words,
        classes=classes,
    )
    if as_json:
        print_json({"model": model, "backend": chosen, **found})
        return
    rows = [row for row in found["layers"].items() if row[1]]
    rows.append(("all", found["parameters"]))
    rows.append(("all but word embeddings", found["parameters_without_word_embeddings"]))
    print_table(["layer", "parameters"], rows, f"{model}, {found['vocabulary_size']:,} words")
    print_table(
        ["", "first call, s", "ms per batch", "pairs per second"],
        [
            (what, found[f"{key}_first_s"], found[f"{key}_ms"], found[f"{key}_pairs_per_s"])
            for what, key in (("forward", "forward"), ("training step", "train"))
        ],
        f"{chosen}, batches of {batch_size} pairs, {length} tokens per {found['unit']}",
    )
