"""Refuse pairs and settings that cannot be trained with, before anything slow happens."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from keras_sentmatch import applications
from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError, wording
from keras_sentmatch.training.config import CLASS_F1, MONITORS, TrainingConfig, did_you_mean
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.training_data import Splits

TYPES: dict[Any, str] = {
    int: "an integer",
    float: "a number",
    bool: "true or false",
    str: "a string",
    Sequence[int]: "a list of integers",
    Sequence[int] | None: "a list of integers",
    Mapping[str, Any] | None: "a table",
}


def check_recipe(recipe: Recipe, splits: Splits, own_model: bool = False) -> None:
    """Refuse splits that cannot be trained on, and a recipe that does not fit them.

    With `own_model`, another function than `build_model` builds the model.
    """
    missing = [name for name in ("matplotlib", "sklearn") if find_spec(name) is None]
    if missing:  # before hours of training, not after them
        raise InputError(
            f"Training needs {' and '.join(missing)}, which is not installed. Run pip install "
            '"keras-sentmatch[train]".'
        )
    check_splits(splits)
    if not own_model:
        check_model(recipe)
    check_weights(recipe.training, splits["train"])
    check_monitor(recipe.training, splits["train"])


def check_splits(splits: Splits) -> None:
    """Refuse splits that cannot be trained on."""
    missing = [role for role in ("train", "validation") if role not in splits]
    if missing:
        raise InputError(
            f"There are no {' and no '.join(missing)} pairs, only {', '.join(splits) or 'none'}. "
            'Cut some off with `split_pairs`, or name a file for each: {"train": …, "validation": …}.'
        )
    train = splits["train"]
    for role, dataset in splits.items():
        if not len(dataset):
            raise InputError(
                f"The {role} split has no pairs. Give at least one, or leave the split out."
            )
        if dataset.labels is None:
            if role != "test":
                raise InputError(
                    f"The {role} pairs have no labels. Give labeled pairs: only test pairs may "
                    "have none."
                )
            continue
        if (dataset.task, dataset.label_names) != (train.task, train.label_names):
            raise InputError(
                f"The train pairs are {_described(train)}, but the {role} pairs are "
                f"{_described(dataset)}. Read both with "
                f"{wording('the same label_names', '--labels, which names the labels of both')}."
            )
    if train.task == "ranking":
        _check_questions(train, splits["validation"])
    elif train.labels is not None and (train.labels == train.labels[0]).all():
        name = train.label_names[int(train.labels[0])] if train.label_names else train.labels[0]
        how = wording("label=… and label_names=…", "--columns FIRST,SECOND,LABEL and --labels")
        raise InputError(
            f"All {len(train):,} train pairs have the label {name}, so there is nothing to learn. "
            f"Add pairs with another label. If the labels were read wrongly, name them with {how}."
        )


def _check_questions(train: PairDataset, validation: PairDataset) -> None:
    if train.num_classes != 2:
        raise InputError(f"Ranking needs two labels (wrong, right). Received: {_described(train)}.")
    if validation.labels is None or validation.groups is None:
        how = wording("PairDataset(groups=…)", "--columns FIRST,SECOND,LABEL,QUESTION")
        raise InputError(f"Ranking needs the question of each pair. Give it with {how}.")
    if not (np.asarray(validation.labels) == 1).any():
        raise InputError(
            f"None of the {len(set(validation.groups))} validation questions has a right answer, so "
            "no epoch can be chosen. Use other questions for validation."
        )


def _described(dataset: PairDataset) -> str:
    names = f" with the labels {', '.join(dataset.label_names)}" if dataset.label_names else ""
    return f"{dataset.task}{names}"


def _is_of(value: Any, wanted: Any) -> bool:
    """Whether a value from a recipe is of one of the `TYPES`. An integer is a number, true is no integer."""
    if wanted in (int, float, bool, str):
        return type(value) in (wanted, int if wanted is float else wanted)
    if wanted == Mapping[str, Any] | None:
        return isinstance(value, Mapping)
    return isinstance(value, list | tuple) and all(type(item) is int for item in value)


def check_model(recipe: Recipe) -> None:
    """Refuse arguments and settings that the recipe's model does not have, and wrong types."""
    if recipe.name not in applications.list_models():
        return
    cls = applications.get_model_class(recipe.name)
    cls.check_arguments(recipe.model)
    parameters = cls.arguments()
    for name, value in recipe.model.items():
        wanted = parameters[name].annotation if name in parameters else None
        if wanted in TYPES and not _is_of(value, wanted):
            raise InputError(f"model.{name} is {value!r}; expected {TYPES[wanted]}.")
    for key in ("folds", "init", "teacher") if cls.fit_trains == "nothing" else ():
        if (value := getattr(recipe.training, key)) not in (0, "none", "auto", ()):
            raise InputError(
                f"training.{key} is {value!r}, but the weights of {recipe.name} are solved, not "
                "trained. Leave it out."
            )


def check_monitor(training: TrainingConfig, train: PairDataset) -> None:
    """Refuse to monitor a metric that the task does not have, or the F1 of an unknown label."""
    known = ["auto", *MONITORS[train.task]]
    if train.task == "classification":
        known += [f"{CLASS_F1}{name}" for name in train.label_names or ()]
    if training.monitor not in known:
        raise InputError(
            f"training.monitor is {training.monitor!r}, but the training pairs are {train.task}. "
            f"Expected one of {', '.join(known)}."
        )


def check_weights(training: TrainingConfig, train: PairDataset) -> None:
    """Refuse class weights that do not fit the labels of the training pairs."""
    classes = training.class_weight
    if classes == "none":
        return
    if train.task == "regression":
        raise InputError(
            f"training.class_weight is {classes!r}, but the pairs have scores, not labels. Leave it "
            "out, or use a column of weights."
        )
    names = train.label_names or ()
    if isinstance(classes, Mapping):
        for name in classes:
            if name not in names:
                raise InputError(
                    f"training.class_weight names {name!r}, which is not a label of the training "
                    f"pairs.{did_you_mean(name, names)} Their labels are {', '.join(names)}."
                )
