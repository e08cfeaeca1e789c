"""A matcher as a TensorFlow SavedModel with signatures for sentences, ids and encodings."""

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.errors import InputError
from keras_sentmatch.exports._examples import group_by_encoder, inputs_of
from keras_sentmatch.inference.ensemble import EnsembleMatcher
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.ops.sequence import equal_lengths

Tensors = dict[str, Any]


def write_saved_model(ensemble: EnsembleMatcher, folder: Path) -> dict[str, Any]:
    """Write a SavedModel that returns the mean of the members' outputs. Needs TensorFlow as backend.

    Returns `signatures`, with inputs and outputs by name, dtype and shape, and `left_out`: the reason
    for each missing signature.
    """
    import tensorflow as tf

    served = ServingFunctions(ensemble)
    signatures, left_out = served.signatures()
    module = tf.Module(name="matcher")
    module.weights = served.variables()
    module.tables = served.tables()
    with quiet("tensorflow"):
        tf.saved_model.save(module, str(folder), signatures=signatures)
    return {
        "signatures": {
            name: describe_specs(
                function.structured_input_signature[1], function.structured_outputs
            )
            for name, function in signatures.items()
        },
        "left_out": left_out,
    }


@contextlib.contextmanager
def quiet(name: str, level: int = logging.ERROR) -> Iterator[None]:
    """Hide messages of a logger below a level."""
    log = logging.getLogger(name)
    before = log.level
    log.setLevel(level)
    try:
        yield
    finally:
        log.setLevel(before)


class ServingFunctions:
    """The functions of an artifact that TensorFlow traces."""

    def __init__(self, ensemble: EnsembleMatcher) -> None:
        self.ensemble = ensemble
        self.first = ensemble.members[0]
        self.groups = group_by_encoder(ensemble.members)
        self.input_specs = _specs(inputs_of(ensemble.members))

    def variables(self) -> list[Any]:
        """Return the variables of the models, which the saved object must hold."""
        return [v.value for member in self.ensemble.members for v in member.model.variables]

    def tables(self) -> list[Any]:
        """Return the lookup tables of the encoders; none if an encoder cannot run in a graph."""
        if self._needs_python():
            return []
        return [group[0].encoder.tf_tables() for group in self.groups]

    def signatures(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the traced functions by name, and the reason for each missing one."""
        import tensorflow as tf

        first, second = (
            {name: tf.TensorSpec([None], tf.string, name)} for name in ("sentence1", "sentence2")
        )
        traced: dict[str, Any] = {}
        left_out: dict[str, str] = {}
        if reason := self._needs_python():
            left_out["serving_default"] = reason
        else:
            traced["serving_default"] = _trace(self._answer_sentences, first | second)
        if len(self.groups) == 1:
            traced["ids"] = _trace(self._answer_ids, self.input_specs)
        else:
            left_out["ids"] = "the members of this ensemble have different encoders"
        if len(self.ensemble.members) > 1:
            left_out["encode_sentence1"] = "an ensemble cannot encode a sentence alone"
        elif not self.first.can_cache_encodings:
            left_out["encode_sentence1"] = "the model looks at both sentences from the start"
        elif not reason:
            *encoders, interaction = self.first.model.split()
            for side, encoder, sentence in zip("12", encoders, (first, second)):
                traced[f"encode_sentence{side}"] = _trace(self._encoding(encoder, side), sentence)

            def score(**encoded: Any) -> Tensors:
                outputs = interaction(_with_equal_rows(encoded))
                return self._answers(_with_temperature(self.first, outputs))

            traced["score_encoded"] = _trace(score, _specs(interaction.input))
        return traced, left_out

    def scores_of_ids(self, **arrays: Any) -> Tensors:
        """Return `probabilities` `[B, C]` or `score` `[B]` for ids, all padded to one length."""
        with equal_lengths():
            return self._scores(_mean([_outputs(m, arrays) for m in self.ensemble.members]))

    def _needs_python(self) -> str:
        """Return why an encoder cannot run as a TensorFlow graph; empty if all encoders can."""
        try:
            for group in self.groups:
                group[0].encoder.tf_tables()
        except InputError as error:
            return str(error)
        return ""

    def _answer_sentences(self, **sentences: Any) -> Tensors:
        outputs = []
        for group in self.groups:
            encoder: Any = group[0].encoder  # of words: only those have tables
            arrays = encoder.tf_encode(sentences["sentence1"], sentences["sentence2"])
            outputs += [_outputs(member, arrays) for member in group]
        return self._answers(_mean(outputs))

    def _answer_ids(self, **arrays: Any) -> Tensors:
        return self._answers(_mean([_outputs(m, arrays) for m in self.ensemble.members]))

    def _encoding(self, model: Any, side: str) -> Callable[..., Tensors]:
        def encode(**sentence: Any) -> Tensors:
            arrays: Tensors = self.first.encoder.tf_encode(sentence[f"sentence{side}"], None)
            encoded = model({name: arrays[f"{name}_1"] for name in model.input}, training=False)
            return {f"{name}_{side}": x for name, x in encoded.items()}

        return encode

    def _scores(self, outputs: Any) -> Tensors:
        """The models' outputs as every format gives them."""
        if self.ensemble.label_names is None:
            return {"score": outputs[:, 0]}
        return {"probabilities": _with_temperature(self.ensemble, outputs)}

    def _answers(self, outputs: Any) -> Tensors:
        """Return the scores, and the labels that follow from them."""
        import tensorflow as tf

        answers = self._scores(outputs)
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


def describe_specs(
    inputs: Mapping[str, Any], outputs: Mapping[str, Any]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return dtypes and shapes of tensors (or their specs) by name, for JSON."""
    return {
        side: {name: {"dtype": x.dtype.name, "shape": x.shape.as_list()} for name, x in xs.items()}
        for side, xs in (("inputs", inputs), ("outputs", outputs))
    }


def _specs(inputs: Mapping[str, Any]) -> Tensors:
    """Return the specs of tensors by name."""
    import tensorflow as tf

    return {name: tf.TensorSpec(x.shape, x.dtype, name) for name, x in inputs.items()}


def _outputs(member: Matcher, arrays: Mapping[str, Any]) -> Any:
    outputs = member.model({name: arrays[name] for name in member.model.input}, training=False)
    return _with_temperature(member, outputs)


def _with_temperature(matcher: Matcher | EnsembleMatcher, outputs: Any) -> Any:
    """Apply the temperature as `keras_sentmatch.metrics.apply_temperature` does."""
    import tensorflow as tf

    if matcher.label_names is None or matcher.temperature == 1:
        return outputs
    logits = tf.math.log(tf.maximum(outputs, float(np.finfo("float32").tiny)))
    return tf.nn.softmax(logits / matcher.temperature)


def _mean(outputs: list[Any]) -> Any:
    import tensorflow as tf

    return outputs[0] if len(outputs) == 1 else tf.reduce_mean(tf.stack(outputs), 0)


def _with_equal_rows(encoded: Mapping[str, Any]) -> Tensors:
    """Repeat a side with one row for all rows of the other side."""
    import tensorflow as tf

    rows = {name[-1]: tf.shape(x)[0] for name, x in encoded.items()}
    count = tf.where(rows["1"] == 1, rows["2"], rows["1"])
    return {
        name: tf.broadcast_to(x, tf.concat([[count], tf.shape(x)[1:]], 0))
        for name, x in encoded.items()
    }


def _trace(function: Callable[..., Any], specs: Mapping[str, Any]) -> Any:
    import tensorflow as tf

    return tf.function(function, autograph=False).get_concrete_function(**specs)
