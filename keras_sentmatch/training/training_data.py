"""The pairs of one run: what it learns from, what chooses its best epoch, what it is measured on."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.training.config import TrainingConfig
from keras_sentmatch.training.distillation import TeacherTargets, with_labels
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.transformations import Lexicon, transform
from keras_sentmatch.transformations.transform import get_transformation

log = logging.getLogger(__name__)
Splits = Mapping[str, PairDataset]
MADE = 0.3  # pairs made by augmentation at most, as a share of the training pairs


@dataclass(frozen=True)
class TrainingData:
    """The pairs of one run, with targets and weights."""

    given: Splits  # as passed to `train`
    labeled: PairDataset  # to learn from: the training pairs, or all pairs after folds
    train: PairDataset  # of an epoch: `labeled` and those made by augmentation
    measured: dict[str, PairDataset]  # labeled pairs that metrics are reported on, by split
    made: dict[str, int]  # number of pairs made by augmentation, by transformation
    targets: dict[str, np.ndarray]  # of a teacher, by split; empty without a teacher
    teacher: dict[str, Any] | None  # facts about the teacher, for `metrics.json`
    class_weights: np.ndarray | None  # in the loss; None if all are equal

    @property
    def validation(self) -> PairDataset:
        return self.given["validation"]

    @property
    def splits(self) -> dict[str, PairDataset]:
        """All pairs whose words the encoder reads, by split."""
        return {**self.given, "train": self.train}

    @property
    def rows(self) -> dict[str, int]:
        """Number of labeled pairs, by split."""
        return {role: len(pairs) for role, pairs in {**self.given, "train": self.labeled}.items()}

    def weights(self, role: str) -> np.ndarray | None:
        """Return how much each pair counts; None if all are equal.

        Training pairs count by their class and by their column of weights, with a mean of 1.
        Validation pairs count by their class.
        """
        if role == "train":
            return pair_weights(self.train, self.class_weights)
        by_class = self.class_weights
        return None if by_class is None else by_class[np.asarray(self.validation.labels)]


def prepare_data(
    recipe: Recipe,
    splits: Splits,
    teacher: TeacherTargets | None = None,
    all_pairs: PairDataset | None = None,
) -> TrainingData:
    """Return what a recipe learns from, with augmentation, a teacher's targets and weights.

    With `all_pairs`, training and validation pairs joined, the run learns from all of them, and
    their out-of-fold predictions are measured.
    """
    training = recipe.training
    labeled = splits["train"] if all_pairs is None else all_pairs
    train, targets = labeled, {} if teacher is None else dict(teacher.targets)
    if targets and all_pairs is not None:
        targets["train"] = np.concatenate([targets["train"], targets["validation"]])
    more, made = made_pairs(labeled, training)
    if more is not None:
        listed = ", ".join(f"{count:,} by {name}" for name, count in made.items())
        log.info(f"made {len(more):,} further training pairs: {listed}")
        train = joined(labeled, more)
        if targets:
            targets["train"] = with_labels(targets["train"], more)
    by_class = class_weights(train, training.class_weight)
    if by_class is not None:
        shown = zip(train.label_names or (), by_class)
        log.info(f"class weights: {', '.join(f'{name} {w:.3g}' for name, w in shown)}")
    measured = {"validation": splits["validation"] if all_pairs is None else all_pairs}
    if "test" in splits and splits["test"].labels is not None:
        measured["test"] = splits["test"]
    facts = None if teacher is None else teacher.facts
    return TrainingData(splits, labeled, train, measured, made, targets, facts, by_class)


def joined_splits(splits: Splits) -> PairDataset:
    """Join training and validation pairs; questions with the same name in both stay separate."""
    train, validation = splits["train"], splits["validation"]
    if train.groups and validation.groups and not set(train.groups).isdisjoint(validation.groups):
        groups = [f"{group} (validation)" for group in validation.groups]
        validation = PairDataset.from_dict({**validation.to_dict(), "groups": groups})
    return joined(train, validation)


def joined(one: PairDataset, two: PairDataset) -> PairDataset:
    """Join the pairs of two data sets with the same task and labels."""
    first, second = one.to_dict(), two.to_dict()
    found = {
        name: first[name] + second[name] if first[name] and second[name] else None
        for name in ("sentence1", "sentence2", "labels", "groups")
    }
    shared = first["columns"].keys() & second["columns"].keys()
    columns = {name: first["columns"][name] + second["columns"][name] for name in shared}
    if "weight" in {*first["columns"], *second["columns"]}:
        ones = [[1.0] * len(one), [1.0] * len(two)]
        known = [side["columns"].get("weight", some) for side, some in zip((first, second), ones)]
        columns["weight"] = known[0] + known[1]
    same = {name: first[name] for name in ("label_names", "task", "name", "split")}
    return PairDataset.from_dict({**found, **same, "columns": columns})


def class_weights(pairs: PairDataset, setting: str | Mapping[str, float]) -> np.ndarray | None:
    """Return the weight of each class; None if all are equal."""
    if setting == "none":
        return None
    names = pairs.label_names or ()
    if isinstance(setting, Mapping):
        return np.array([setting.get(name, 1.0) for name in names])
    counts = np.array([*pairs.label_counts().values()])
    return np.where(counts > 0, len(pairs) / (len(names) * np.maximum(counts, 1)), 1.0)


def pair_weights(pairs: PairDataset, by_class: np.ndarray | None) -> np.ndarray | None:
    """Return the weight of each pair, float32 with a mean of 1; None if all are equal."""
    if by_class is None and pairs.weights is None:
        return None
    found: Any = np.ones(len(pairs)) if pairs.weights is None else pairs.weights.astype("float64")
    if by_class is not None:
        found = found * by_class[np.asarray(pairs.labels)]
    if not found.any():
        raise InputError(
            "Every training pair has the weight 0, by its own weight or by its label's weight, so "
            "nothing would be learned. Give some pairs a weight above 0."
        )
    return np.asarray(found / found.mean(), "float32")


def made_pairs(
    train: PairDataset, settings: TrainingConfig
) -> tuple[PairDataset | None, dict[str, int]]:
    """Return different pairs made from the training pairs, and the number made by each rule."""
    pairs, made = None, {}
    labels: Any = settings.augment_labels or None
    rules = [get_transformation(name) for name in settings.augment]
    words = any(rule.needs in ("antonyms", "synonyms") for rule in rules)
    lexicon = Lexicon.read(*settings.lexicon) if words else None
    wanted = max(1, round(MADE * len(train) / max(1, len(rules))))
    for rule in rules:
        after = transform(
            train,
            rule.name,
            seed=settings.seed,
            lexicon=lexicon,
            opposite=labels,
            entries="train",
        ).after
        seen, fresh = set(zip(train.sentence1, train.sentence2)), []
        for row in np.random.default_rng(settings.seed).permutation(len(after)):
            pair = after.sentence1[row], after.sentence2[row]
            if pair not in seen:
                seen.add(pair)
                fresh.append(row)
        new = after.select(fresh[:wanted])
        made[rule.name] = len(new)
        if not len(new):
            where = f" with the words of {', '.join(settings.lexicon)}" if rule.needs else ""
            raise InputError(
                f"training.augment: {rule.name} can change none of the {len(train):,} training "
                f"pairs{where}. Remove it{', or name another lexicon' if where else ''}."
            )
        pairs = new if pairs is None else joined(pairs, new)
    return pairs, made
