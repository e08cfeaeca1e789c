"""Values for a recipe's "auto" that follow from the data: epochs, patience, batch size and more."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch import applications
from keras_sentmatch.data import PairDataset
from keras_sentmatch.data.splits import part_numbers
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.run_folder import SIMILARITY, is_packaged
from keras_sentmatch.training.encoding import count_tokens
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.training_data import joined_splits
from keras_sentmatch.vectors.built_in import ENGLISH, english_share

SMALL = 5000  # with fewer training pairs, batches are small
UPDATES = 2500  # to train for, within the bounds on epochs
EPOCHS = (8, 40)  # bounds
# New weights get as good in a few epochs with a high rate that falls to zero as in many with a constant one.
# Weights that were taught before, and those that rank answers (WikiQA), do not: benchmarks/results/first_hour.csv.
# Scores and larger batches need more epochs.
FALLING = {"schedule": "cosine_warm_up_decay", "learning_rate": 2e-3}
CONSTANT = {"schedule": "constant", "learning_rate": 1e-3}
FEW_UPDATES, FEW_EPOCHS, MORE_EPOCHS = 100, (4, 12), (6, 12)
RARE = 0.4  # a class below this part of its even share is rare (a fifth, for two classes)
FEW = 200  # with fewer validation pairs, folds choose the number of epochs
FOLDS = 3
FEW_TO_LEARN = 1000  # with no more training pairs, beginning with the built-in matcher helps


def sizes_for(train: PairDataset, falls_to_zero: bool = False) -> dict[str, int]:
    """Return epochs, patience and batch size for training pairs."""
    batch_size = 32 if len(train) < SMALL else 64
    more = train.task == "regression" or batch_size == 64
    few = MORE_EPOCHS if more else FEW_EPOCHS
    updates, bounds = (FEW_UPDATES, few) if falls_to_zero else (UPDATES, EPOCHS)
    epochs = int(np.clip(math.ceil(updates / math.ceil(len(train) / batch_size)), *bounds))
    return {"epochs": epochs, "patience": math.ceil(epochs / 5), "batch_size": batch_size}


def rarest_class(pairs: PairDataset) -> tuple[str, float] | None:
    """Return the rarest class and its share of the pairs; None if no class is rare."""
    if pairs.task != "classification" or pairs.labels is None or not pairs.label_names:
        return None
    shares = np.bincount(pairs.labels, minlength=pairs.num_classes) / len(pairs)
    rarest = int(shares.argmin())
    if shares[rarest] >= RARE / pairs.num_classes:
        return None
    return pairs.label_names[rarest], float(shares[rarest])


def fits_similarity(recipe: Recipe, train: PairDataset) -> bool:
    """Return whether a recipe makes a hybrid of the same form as the built-in matcher."""
    source, features = recipe.vectors.source, recipe.encoder.features
    if recipe.name != "hybrid" or recipe.model or features != ("word",):
        return False
    if not is_packaged(Path(SIMILARITY)):
        return False  # a folder of this name has priority
    english = source == "auto" and english_share(count_tokens(recipe, [train])) >= ENGLISH
    return english or source == "table"


def with_its_features(recipe: Recipe) -> Recipe:
    """Return a recipe of RE2 or a hybrid with the flags that the built-in matcher reads."""
    if recipe.name not in ("hybrid", "re2"):
        return recipe
    features = dict.fromkeys((*(recipe.encoder.features or ("word",)), "antonym"))
    encoder = replace(recipe.encoder, features=tuple(features))
    return replace(recipe, encoder=encoder, model={"exact_match": True, **recipe.model})


def adapted(
    recipe: Recipe, splits: Mapping[str, PairDataset], searching: bool = False
) -> tuple[Recipe, list[str]]:
    """Return the recipe with a value for each "auto", and notes on what was chosen.

    A search compares models of several forms on the same validation pairs, so it uses no folds and
    does not begin with the built-in matcher.
    """
    training, notes = recipe.training, []
    train, validation = splits["train"], splits["validation"]
    ours = recipe.name in applications.list_models()
    cls = applications.get_model_class(recipe.name) if ours else applications.PairModel
    begin = training.init == "auto" and not searching
    begin = begin and len(train) <= FEW_TO_LEARN and fits_similarity(recipe, train)
    is_taught = begin or training.init not in ("none", "auto")
    rates = CONSTANT if is_taught or train.task == "ranking" else FALLING
    falls_to_zero = training.schedule == "auto" and rates is FALLING
    values = {**rates, **sizes_for(train, falls_to_zero)}
    chosen: dict[str, Any] = {n: v for n, v in values.items() if getattr(training, n) == "auto"}
    if falls_to_zero and "patience" in chosen:  # later epochs can still be better
        chosen["patience"] = chosen.get("epochs", training.epochs)
    solved = cls.fit_trains == "nothing"
    if chosen and not solved:
        listed = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in chosen.items())
        notes.append(f"{len(train):,} training pairs: {listed}")
    if training.monitor == "auto" and cls.fit_trains == "part":
        chosen["monitor"] = "val_loss"
    if training.monitor == "auto" and (rare := rarest_class(train)):
        chosen["monitor"] = "val_macro_f1"
        notes.append(
            f"{rare[0]!r} is rare ({rare[1]:.1%} of the training pairs): macro F1, not accuracy, "
            "chooses the best epoch (training.monitor)"
        )
    if training.folds == "auto":
        few = not solved and len(validation) < FEW and "epochs" in chosen
        wanted = few and not searching and not training.teacher
        possible = wanted and not why_no_folds(joined_splits(splits), FOLDS, training.seed)
        chosen["folds"] = FOLDS if possible else 0
        if chosen["folds"]:
            notes.append(
                f"{len(validation)} validation pairs are few: {FOLDS} folds of all pairs choose the "
                "number of epochs, then one model learns from all of them (training.folds=0 turns "
                "this off)"
            )
    if training.init == "auto":
        chosen["init"] = SIMILARITY if begin else "none"
        if begin:
            notes.append(
                f"{len(train):,} training pairs are few: the network begins with the weights of the "
                "built-in matcher (training.init=none begins with new weights)"
            )
            # Words of one fold, or of the test pairs, could change what "auto" vectors are.
            recipe = replace(recipe, vectors=replace(recipe.vectors, source="table"))
    if chosen.get("init", training.init) == SIMILARITY and is_packaged(Path(SIMILARITY)):
        recipe = with_its_features(recipe)
    return recipe.with_training(**chosen) if chosen else recipe, notes


def why_no_folds(pairs: PairDataset, folds: int, seed: int) -> str:
    """Explain why the pairs cannot be split into this many folds; an empty string if they can."""
    labels, least, what = np.asarray(pairs.labels), len(pairs), "pairs"
    if pairs.task == "classification":
        least, what = np.bincount(labels).min(), "pairs of some class"
    elif pairs.task == "ranking":
        answered = {group for group, label in zip(pairs.groups or (), labels) if label == 1}
        least, what = len(answered), "questions with a right answer"
    if least < folds:
        return f"there are only {least} {what}"
    try:
        part = part_numbers(pairs, [1 / folds] * folds, seed=seed)
    except InputError:
        return "too many pairs have the same first sentence"
    if pairs.task == "classification":
        for number in range(folds):
            if set(labels[part != number]) != set(labels):
                return "all pairs of some class have the same first sentence"
    return ""
