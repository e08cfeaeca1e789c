"""What follows from the data where a recipe says "auto": epochs, patience, batch size and more."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch import applications
from keras_sentmatch.data import PairDataset
from keras_sentmatch.inference.run_folder import SIMILARITY, is_packaged
from keras_sentmatch.training.folds import all_pairs, why_no_folds
from keras_sentmatch.training.prepare import count_tokens
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.vectors.built_in import ENGLISH, english_share

SMALL = 5000  # training pairs, below which batches are small
UPDATES = 2500  # to train for, if that is not too many or too few epochs
EPOCHS = (8, 40)  # at least and at most
RARE = 0.4  # a class below this part of its even share (a fifth, of two classes) is rare
FEW = 200  # validation pairs, below which folds choose the number of epochs
FOLDS = 3
FEW_TO_LEARN = 1000  # training pairs, up to which it helps to begin with the package's matcher


def sizes_for(pairs: int) -> dict[str, int]:
    """Epochs, patience and batch size for a number of training pairs."""
    batch_size = 32 if pairs < SMALL else 64
    epochs = min(max(math.ceil(UPDATES / math.ceil(pairs / batch_size)), EPOCHS[0]), EPOCHS[1])
    return {"epochs": epochs, "patience": math.ceil(epochs / 5), "batch_size": batch_size}


def rarest_class(pairs: PairDataset) -> tuple[str, float] | None:
    """The rarest class and its share of the pairs, if it is rare."""
    if pairs.task != "classification" or pairs.labels is None or not pairs.label_names:
        return None
    shares = np.bincount(pairs.labels, minlength=pairs.num_classes) / len(pairs)
    rarest = int(shares.argmin())
    if shares[rarest] >= RARE / pairs.num_classes:
        return None
    return pairs.label_names[rarest], float(shares[rarest])


def fits_similarity(recipe: Recipe, train: PairDataset) -> bool:
    """Whether a recipe makes a hybrid of the same form as the package's matcher, from its vectors."""
    source, features = recipe.vectors.source, recipe.encoder.features
    if recipe.name != "hybrid" or recipe.model or features != ("word",):
        return False
    if not is_packaged(Path(SIMILARITY)):
        return False  # a folder of this name comes first
    if source == "auto":
        return english_share(count_tokens(recipe, [train])) >= ENGLISH
    return source == "table"


def adapted(
    recipe: Recipe, splits: Mapping[str, PairDataset], searching: bool = False
) -> tuple[Recipe, list[str]]:
    """The recipe with a value for each "auto" that follows from the data, and what was chosen.

    A search compares models of several forms on one validation part: no folds, no start from the
    package's matcher.
    """
    training, notes = recipe.training, []
    train, validation = splits["train"], splits["validation"]
    sizes = sizes_for(len(train))
    chosen: dict[str, Any] = {n: v for n, v in sizes.items() if getattr(training, n) == "auto"}
    ours = recipe.name in applications.list_models()
    solved = ours and applications.get_model_class(recipe.name).fit_trains == "nothing"
    if chosen and not solved:
        listed = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in chosen.items())
        notes.append(f"{len(train):,} training pairs: {listed}")
    if training.monitor == "auto" and (rare := rarest_class(train)):
        chosen["monitor"] = "val_macro_f1"
        notes.append(
            f"{rare[0]!r} is rare ({rare[1]:.1%} of the training pairs): macro F1, not accuracy, "
            "chooses the best epoch (training.monitor)"
        )
    if training.folds == "auto":
        few = not solved and len(validation) < FEW and "epochs" in chosen
        wanted = few and not searching and not training.teacher
        possible = wanted and why_no_folds(all_pairs(splits), FOLDS) is None
        chosen["folds"] = FOLDS if possible else 0
        if chosen["folds"]:
            notes.append(
                f"{len(validation)} validation pairs are few: {FOLDS} folds of all pairs choose the "
                "number of epochs, then one model learns from all of them (training.folds=0 turns "
                "this off)"
            )
    if training.init == "auto":
        begin = not searching and len(train) <= FEW_TO_LEARN and fits_similarity(recipe, train)
        chosen["init"] = SIMILARITY if begin else "none"
        if begin:
            notes.append(
                f"{len(train):,} training pairs are few: the network begins as the package's matcher "
                "(training.init=none begins with new weights)"
            )
            # Words of one fold, or of the test pairs, could change what "auto" vectors are.
            recipe = replace(recipe, vectors=replace(recipe.vectors, source="table"))
    return recipe.with_training(**chosen) if chosen else recipe, notes
