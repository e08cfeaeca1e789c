"""Training that begins with the weights of a finished run (`training.init`)."""

import logging
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_sentmatch.applications import PairModel
from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders import PairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference import Matcher
from keras_sentmatch.inference.run_folder import members_of
from keras_sentmatch.inference.unseen_words import word_tables
from keras_sentmatch.layers import WordRepresentation
from keras_sentmatch.training.encoding import Encoder
from keras_sentmatch.vectors import WordVectors

log = logging.getLogger(__name__)
ALIKE = 0.5  # least mean cosine of common words between vectors of one kind
SAME = "Set the same [model], [encoder] and [vectors] values as in its recipe.toml."


def init_from(
    model: keras.Model,
    encoder: Encoder,
    vectors: WordVectors | None,
    train: PairDataset,
    folder: str,
) -> None:
    """Give a new model the weights of the run in `folder`; refuse an ensemble and a run that does not fit.

    Words and characters are matched by name; those that the run does not have keep the weights of
    `model`. The last layer stays new if the run has other labels, and so do the weights that
    `PairModel.own_weights` names. A hybrid may begin with a run of RE2.
    """
    where = f"training.init is {folder}"
    if len(members_of(Path(folder))) > 1:
        raise InputError(f"{where}, an ensemble. Name the folder of one of its members.")
    run = Matcher.load(folder)
    old = run.model
    if not isinstance(model, type(old)):
        raise InputError(
            f"{where}, a run of {type(old).__name__}, but the recipe trains "
            f"{type(model).__name__}. Train that model, or name another run."
        )
    rows = _rows_by_name(model, run, encoder)
    if vectors is not None and rows:
        _check_vectors(rows, model, old, where)
    names = None if train.task == "regression" else train.label_names
    weights, given_weights = _shared_weights(model, old), _shared_weights(old, model)
    fresh: set[int] = set()
    if names != run.label_names and hasattr(model, "logits"):
        fresh = {id(variable) for variable in model.logits.variables}
    of_classes = model.output_shape[-1], old.output_shape[-1]
    kept = len(model.weights) - len(weights)
    if len(weights) != len(given_weights):
        raise _other_form(where, model, old)
    for new, given in zip(weights, given_weights):
        for_labels = of_classes == (*new.shape[-1:], *given.shape[-1:])
        if id(new) in fresh:
            kept += 1
        elif id(new) in rows and new.shape[1:] == given.shape[1:]:
            to, source = rows[id(new)]
            value = np.array(ops.convert_to_numpy(new))
            value[to] = ops.convert_to_numpy(given)[source]
            new.assign(value)
        elif new.shape == given.shape:
            new.assign(given)
        elif for_labels and new.shape[:-1] == given.shape[:-1]:
            kept += 1  # a last layer for other labels
        else:
            raise _other_form(where, model, old)
    known = ""
    if tables := word_tables(model):
        found = len(rows[id(tables[0])][0]) - 2
        known = f" with {found:,} of {encoder.vocabulary_size:,} words"
    copied = len(model.weights) - kept
    log.info(f"starting from {folder}: {copied} weights{known}; {kept} are new")


def _other_form(where: str, model: keras.Model, old: keras.Model) -> InputError:
    """Return the error for a run whose model has other arguments, which it names."""
    one, two = old.get_config(), model.get_config()
    free = {"name", "vocabulary_size", "num_classes"}
    names = [name for name in one if name not in free and one[name] != two.get(name)]
    its, this = (", ".join(f"{n}={c.get(n)!r}" for n in names[:4]) for c in (one, two))
    return InputError(f"{where}, a model of another form. It has {its}, this one {this}. {SAME}")


def _shared_weights(model: keras.Model, other: keras.Model) -> list[Any]:
    """Return the weights that `model` has in common with `other`."""
    own = model.own_weights(other) if isinstance(model, PairModel) else []
    left_out = {id(variable) for variable in own}
    return [variable for variable in model.weights if id(variable) not in left_out]


Rows = dict[int, tuple[list[int], list[int]]]  # by id of a variable: rows to fill and to read


def _rows_by_name(model: keras.Model, run: Matcher, encoder: Encoder) -> Rows:
    """Return the rows of the words and characters that both models have, by id of the table."""
    if not (isinstance(encoder, PairEncoder) and isinstance(run.encoder, PairEncoder)):
        return {}
    words = _common(encoder.vocabulary.ids, run.encoder.vocabulary.ids)
    characters = _common(encoder.characters.ids, run.encoder.characters.ids)
    found = {id(table): words for table in word_tables(model)}
    for layer in model.layers:
        if isinstance(layer, WordRepresentation) and (chars := layer.char_cnn or layer.char_lstm):
            found[id(chars.embedding.embeddings)] = characters
    return found


def _common(new: dict[str, int], old: dict[str, int]) -> tuple[list[int], list[int]]:
    both = [name for name in new if name in old]
    special = [0, 1]  # padding and unknown words
    return special + [new[name] for name in both], special + [old[name] for name in both]


def _check_vectors(rows: Rows, model: keras.Model, old: keras.Model, where: str) -> None:
    """Refuse a run whose word vectors are of another kind than those of `model`."""
    for new, given in zip(word_tables(model), word_tables(old)):
        if new.shape[1] != given.shape[1]:
            raise InputError(
                f"{where}, whose word vectors have {given.shape[1]} dimensions, but those of the "
                f"recipe have {new.shape[1]}. Train with the same vectors (--vectors)."
            )
        to, source = rows[id(new)]
        one, two = ops.convert_to_numpy(new)[to[2:]], ops.convert_to_numpy(given)[source[2:]]
        norms = np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1)
        cosines = (one * two).sum(1)[norms > 0] / norms[norms > 0]
        if len(cosines) and cosines.mean() < ALIKE:
            raise InputError(
                f"{where}, whose word vectors are of another kind. The mean cosine of the "
                f"{len(cosines):,} common words is {cosines.mean():.2f}; expected at least {ALIKE}. "
                "Train with the same vectors (--vectors)."
            )
