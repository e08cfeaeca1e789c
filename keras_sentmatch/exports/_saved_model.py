"""A matcher as a TensorFlow SavedModel that takes sentences."""

import contextlib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_sentmatch.errors import InputError
from keras_sentmatch.exports._unseen_words import GraphLookup, lend, more_rows
from keras_sentmatch.inference.ensemble import EnsembleMatcher
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.inference.unseen_words import row_tables
from keras_sentmatch.ops.sequence import equal_lengths
from keras_sentmatch.vectors.built_in import load_word_table

Tensors = dict[str, Any]


def write_saved_model(ensemble: EnsembleMatcher, folder: Path) -> dict[str, Any]:
    """Write a SavedModel that returns the mean of the members' outputs. Needs TensorFlow as backend.

    Returns the signature: inputs and outputs by name, with dtype and shape.
    """
    import tensorflow as tf

    served = ServingFunctions(ensemble)
    module = tf.Module(name="matcher")
    module.weights = served.variables()
    if served.lookup is not None:
        module.lookup = served.lookup.module
    try:
        module.tables = served.encoder.tf_tables()
    except InputError as error:
        raise InputError(
            f"A SavedModel cannot encode sentences for this matcher. {error} Or export it as onnx."
        ) from error
    specs = {name: tf.TensorSpec([None], tf.string, name) for name in ("sentence1", "sentence2")}
    with quiet("tensorflow"):
        function = tf.function(served.answers, autograph=False).get_concrete_function(**specs)
        tf.saved_model.save(module, str(folder), signatures={"serving_default": function})
    return describe_specs(specs, function.structured_outputs)


@contextlib.contextmanager
def quiet(name: str, level: int = logging.ERROR) -> Iterator[None]:
    """Hide messages of a logger below a level, and remove handlers that the root logger gets."""
    log, root = logging.getLogger(name), logging.getLogger()
    before, handlers = log.level, root.handlers[:]
    log.setLevel(level)
    try:
        yield
    finally:
        log.setLevel(before)
        root.handlers[:] = handlers  # otherwise all messages would come twice


class ServingFunctions:
    """The functions of an artifact that TensorFlow traces."""

    def __init__(self, ensemble: EnsembleMatcher) -> None:
        self.ensemble = ensemble
        self.members: list[Matcher] = ensemble.members
        self.encoder: Any = self.members[0].encoder
        self.with_table = [member for member in self.members if member.unseen_words]
        self.lookup = GraphLookup(load_word_table()) if self.with_table else None

    def specs(self) -> Tensors:
        """Return the specs of the inputs of all members by name."""
        import tensorflow as tf

        inputs = {name: x for member in self.members for name, x in member.model.input.items()}
        return {name: tf.TensorSpec(x.shape, x.dtype, name) for name, x in inputs.items()}

    def variables(self) -> list[Any]:
        """Return the variables of the models, which the saved object must hold."""
        return [v.value for member in self.members for v in member.model.variables]

    def scores_of_ids(self, **arrays: Any) -> Tensors:
        """Return `probabilities` `[B, C]` or `score` `[B]` for ids, all padded to one length."""
        with equal_lengths():
            return self._scores(arrays)

    def answers(self, sentence1: Any, sentence2: Any) -> Tensors:
        """Return the scores of sentences, and the labels that follow from them."""
        import tensorflow as tf

        answers = self._scores_of_sentences(sentence1, sentence2)
        if self.ensemble.label_names is None:
            return answers
        names, threshold = tf.constant(self.ensemble.label_names), self.ensemble.threshold
        if threshold is None:
            chosen = tf.argmax(answers["probabilities"], -1)
        else:
            second = tf.cast(answers["probabilities"][:, 1], tf.float64)
            chosen = tf.cast(second > threshold, tf.int64)
        answers |= {"label_names": names, "label": tf.gather(names, chosen)}
        if self.ensemble.abstain_below is not None:
            given = tf.gather(answers["probabilities"], chosen, batch_dims=1)
            least = tf.gather(tf.constant(self.ensemble.abstain_below, tf.float64), chosen)
            answers["abstained"] = tf.cast(given, tf.float64) < least
            answers["label"] = tf.where(answers["abstained"], "", answers["label"])
        return answers

    def _scores_of_sentences(self, sentence1: Any, sentence2: Any) -> Tensors:
        import tensorflow as tf

        words = self.lookup
        if words is None:
            return self._scores(self.encoder.tf_encode(sentence1, sentence2))
        tables = [pair for member in self.with_table for pair in row_tables(member.model)]
        size = min(int(table.shape[0]) for _, table in tables)
        lent: list[Any] = []

        def lookup(ids: Any, tokens: Any) -> Any:
            ids, *new = lend(words, ids, tokens, size)
            lent.extend(new)
            return ids

        arrays = self.encoder.tf_encode(sentence1, sentence2, unseen=lookup)

        def with_rows() -> Tensors:
            new = [(table, more_rows(table.value, role, *lent)) for role, table in tables]
            with keras.StatelessScope(new):
                return self._scores(arrays)

        found: Tensors = tf.cond(tf.size(lent[0]) > 0, with_rows, lambda: self._scores(arrays))
        return found

    def _scores(self, arrays: Mapping[str, Any]) -> Tensors:
        import tensorflow as tf

        outputs = []
        for member in self.members:
            inputs = {name: arrays[name] for name in member.model.input}
            outputs.append(_with_temperature(member, member.model(inputs, training=False)))
        mean = outputs[0] if len(outputs) == 1 else tf.reduce_mean(tf.stack(outputs), 0)
        if self.ensemble.label_names is None:
            return {"score": mean[:, 0]}
        return {"probabilities": _with_temperature(self.ensemble, mean)}


def describe_specs(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return dtypes and shapes of tensors (or their specs) by name, for JSON."""
    return {
        side: {name: {"dtype": x.dtype.name, "shape": x.shape.as_list()} for name, x in xs.items()}
        for side, xs in (("inputs", inputs), ("outputs", outputs))
    }


def _with_temperature(matcher: Matcher | EnsembleMatcher, outputs: Any) -> Any:
    """Apply the temperature as `keras_sentmatch.metrics.apply_temperature` does."""
    import tensorflow as tf

    if matcher.label_names is None or matcher.temperature == 1:
        return outputs
    logits = tf.math.log(tf.maximum(outputs, float(np.finfo("float32").tiny)))
    return tf.nn.softmax(logits / matcher.temperature)
