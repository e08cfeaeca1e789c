"""What a recipe with `training.ranking_loss` learns from, and what it cannot be combined with."""

import logging
import math

import numpy as np

from keras_sentmatch import applications
from keras_sentmatch.data import PairDataset
from keras_sentmatch.data.dataset import numbered
from keras_sentmatch.encoders.batches import Questions
from keras_sentmatch.errors import InputError, wording
from keras_sentmatch.training.config import TrainingConfig
from keras_sentmatch.training.recipe import Recipe

log = logging.getLogger(__name__)
EXCLUDED = {  # what would take candidates apart, add some or count them otherwise
    "teacher": (),
    "class_weight": "none",
    "augment": (),
}


def by_question(training: TrainingConfig) -> bool:
    """Whether the loss compares the candidates of a question."""
    return training.ranking_loss != "pointwise"


def check_ranking_loss(recipe: Recipe, train: PairDataset) -> None:
    """Refuses a ranking loss that fits neither the pairs nor the other settings."""
    training = recipe.training
    if not by_question(training):
        return
    start = f"training.ranking_loss is {training.ranking_loss!r}"
    end = 'or set training.ranking_loss="pointwise".'
    if train.task != "ranking":
        raise InputError(
            f"{start}, but the pairs are {train.task}: name the column of questions with "
            f"{wording('group=…', '--columns FIRST,SECOND,LABEL,QUESTION')}, {end}"
        )
    if train.groups is None or train.labels is None:
        raise InputError(f"{start}, but the training pairs lack questions: give them, {end}")
    changed = [name for name, off in EXCLUDED.items() if getattr(training, name) != off]
    if changed:
        listed = ", ".join(f"training.{name}" for name in changed)
        raise InputError(f"{start}, which cannot be combined with {listed}: leave that out, {end}")
    if train.weights is not None:
        how = wording("weight=False", "another name in the file")
        raise InputError(
            f"{start}, but the pairs have a column of weights, which it cannot count: leave the "
            f"column out ({how}), {end}"
        )
    if recipe.name in applications.list_models():
        if applications.get_model_class(recipe.name).fit_trains != "all":
            raise InputError(
                f"{start}, but the linear part of {recipe.name} is solved by cross-entropy: choose "
                f"another model, such as re2, {end}"
            )
    if not _comparable(train).any():
        raise InputError(
            f"{start}, but no question of the training pairs has both a right and a wrong candidate: "
            f"give some, {end}"
        )


def compared_pairs(train: PairDataset, training: TrainingConfig) -> PairDataset:
    """The training pairs that a ranking loss learns from; says which questions are left out."""
    if not by_question(training):
        return train
    rows = _comparable(train)
    kept = train.select(np.flatnonzero(rows))
    before, sizes = len(set(train.groups or ())), _questions(kept, training).sizes
    log.info(
        f"{training.ranking_loss} loss: {len(sizes):,} of {before:,} training questions have right "
        f"and wrong candidates; the other {len(train) - len(kept):,} pairs teach nothing and are "
        "left out"
    )
    size = int(training.batch_size)
    if large := int((sizes > size).sum()):
        log.info(
            f"questions with more than {size} candidates (up to {sizes.max():,}): {large:,}; their "
            "batches are larger"
        )
    return kept


def batches_per_epoch(train: PairDataset, training: TrainingConfig) -> int:
    """How many batches the training pairs make."""
    if by_question(training):
        return len(_questions(train, training).batches)
    return math.ceil(len(train) / training.batch_size)


def _questions(pairs: PairDataset, training: TrainingConfig) -> Questions:
    return Questions(pairs.groups or (), int(training.batch_size))


def _comparable(pairs: PairDataset) -> np.ndarray:
    """Which pairs belong to a question that has right and wrong candidates."""
    numbers = numbered(pairs.groups or ())
    right = np.asarray(pairs.labels) == 1
    counts = [np.bincount(numbers, weights=side)[numbers] for side in (right, ~right)]
    both: np.ndarray = np.minimum(*counts) > 0
    return both
