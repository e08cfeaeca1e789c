"""A matcher as a TensorFlow SavedModel, whose signatures take sentences, ids and encodings."""

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.errors import InputError
from keras_sentmatch.export.examples import Examples, group_by_encoder, inputs_of
from keras_sentmatch.export.processes import ask_stranger
from keras_sentmatch.inference.ensemble import EnsembleMatcher
from keras_sentmatch.inference.matcher import Matcher

STRANGER = Path(__file__).with_name("stranger.py")


def write_saved_model(ensemble: EnsembleMatcher, folder: Path) -> dict[str, Any]:
    """Writes a SavedModel that answers with the mean of the members' outputs.

    Needs TensorFlow as the backend.

    Args:
        ensemble: Of one matcher or several.
        folder: The folder to make.

    Returns:
        `signatures`: for each its inputs and outputs, by name with dtype and shape. `left_out`:
        signatures that cannot be, and why.
    """
    import tensorflow as tf

    served = Served(ensemble)
    module = tf.Module(name="matcher")
    module.weights = served.variables()
    module.tables = served.tables()
    signatures = served.signatures()
    with quiet("tensorflow"):
        tf.saved_model.save(module, str(folder), signatures=signatures)
    return {
        "signatures": {
            name: described(function.structured_input_signature[1], function.structured_outputs)
            for name, function in signatures.items()
        },
        "left_out": served.left_out,
    }


def read_saved_model(folder: Path, examples: Examples, work: Path) -> dict[str, dict[str, Any]]:
    """What a process that imports only TensorFlow and NumPy reads from each signature.

    Args:
        folder: A SavedModel.
        examples: The pairs to ask it.
        work: A folder for the questions and the answers.

    Returns:
        Outputs by name, for each signature.
    """
    return ask_stranger(STRANGER, folder, examples, work)


@contextlib.contextmanager
def quiet(name: str, level: int = logging.ERROR) -> Iterator[None]:
    """Keeps a logger from telling anything below a level."""
    log = logging.getLogger(name)
    before = log.level
    log.setLevel(level)
    try:
        yield
    finally:
        log.setLevel(before)


class Served:
    """The functions that a SavedModel gives, as TensorFlow traces them.

    Args:
        ensemble: Of one matcher or several.

    Attributes:
        left_out: Filled by `signatures`: those that cannot be, and why.
    """

    def __init__(self, ensemble: EnsembleMatcher):
        self.ensemble = ensemble
        self.first = ensemble.members[0]
        self.groups = group_by_encoder(ensemble.members)
        self.left_out: dict[str, str] = {}

    def variables(self) -> list[Any]:
        """The models' variables, which an object that is saved must hold."""
        members = (member for group in self.groups for member in group)
        return [v.value for member in members for v in member.model.variables]

    def tables(self) -> list[Any]:
        """The look-up tables of the encoders that can run in a graph."""
        return [group[0].encoder.tf_tables() for group in self.groups if not self._no_text()]

    def signatures(self) -> dict[str, Any]:
        """The traced functions by name."""
        import tensorflow as tf

        sentences = tf.TensorSpec([None], tf.string)
        made: dict[str, Any] = {}
        if reason := self._no_text():
            self.left_out["serving_default"] = reason
        else:
            made["serving_default"] = _traced(
                self._of_sentences, {"sentence1": sentences, "sentence2": sentences}
            )
        if len(self.groups) == 1:
            made["ids"] = _traced(self._of_ids, self.specs_of_ids())
        else:
            self.left_out["ids"] = "the members of this ensemble have different encoders"
        if len(self.groups[0]) > 1 or len(self.groups) > 1:
            self.left_out["encode_sentence1"] = "an ensemble encodes no sentence alone"
        elif not self.first.can_keep_encodings:
            self.left_out["encode_sentence1"] = "the model looks at both sentences from the start"
        elif not reason:
            *encoders, interaction = self.first.model.split()
            for side, encoder in zip((1, 2), encoders):
                made[f"encode_sentence{side}"] = _traced(
                    _encoding(self.first.encoder, encoder, side), {f"sentence{side}": sentences}
                )
            made["score_encoded"] = _traced(
                lambda **encoded: self._answers(
                    _tempered(self.first, interaction(_as_many_rows(encoded)))
                ),
                _specs(interaction.input),
            )
        return made

    def specs_of_ids(self) -> dict[str, Any]:
        """The specs of the models' inputs by name."""
        return _specs(inputs_of(self.groups[0]))

    def _no_text(self) -> str:
        """Why the encoder cannot run in a graph of TensorFlow's own operations; "" if it can."""
        try:
            for group in self.groups:
                group[0].encoder.tf_tables()
        except InputError as error:
            return str(error)
        return ""

    def _of_sentences(self, sentence1: Any, sentence2: Any) -> dict[str, Any]:
        outputs = []
        for group in self.groups:
            arrays = group[0].encoder.tf_encode(sentence1, sentence2)
            outputs += [_outputs(member, arrays) for member in group]
        return self._answers(_mean(outputs))

    def _of_ids(self, **arrays: Any) -> dict[str, Any]:
        return self._answers(_mean([_outputs(member, arrays) for member in self.groups[0]]))

    def scores_of_ids(self, **arrays: Any) -> dict[str, Any]:
        """What the formats without strings give: `probabilities` `[B, C]`, or `score` `[B]`."""
        return self._scores(_mean([_outputs(member, arrays) for member in self.groups[0]]))

    def _scores(self, outputs: Any) -> dict[str, Any]:
        """All that is done to what the models give, in every format."""
        if self.ensemble.label_names is None:
            return {"score": outputs[:, 0]}
        return {"probabilities": _tempered(self.ensemble, outputs)}

    def _answers(self, outputs: Any) -> dict[str, Any]:
        """The scores, and the labels that follow from them."""
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
        return {**answers, "label_names": names, "label": tf.gather(names, chosen)}


def _outputs(member: Matcher, arrays: Mapping[str, Any]) -> Any:
    outputs = member.model({name: arrays[name] for name in member.model.input}, training=False)
    return _tempered(member, outputs)


def _tempered(answering: Matcher | EnsembleMatcher, outputs: Any) -> Any:
    """As `keras_sentmatch.metrics.apply_temperature`."""
    import tensorflow as tf

    if answering.label_names is None or answering.temperature == 1:
        return outputs
    logits = tf.math.log(tf.maximum(outputs, float(np.finfo("float32").tiny)))
    return tf.nn.softmax(logits / answering.temperature)


def _mean(outputs: list[Any]) -> Any:
    import tensorflow as tf

    return outputs[0] if len(outputs) == 1 else tf.reduce_mean(tf.stack(outputs), 0)


def _encoding(encoder: Any, model: Any, side: int) -> Callable[..., dict[str, Any]]:
    def encode(**sentence: Any) -> dict[str, Any]:
        arrays = encoder.tf_encode(sentence[f"sentence{side}"], None)
        encoded = model({name: arrays[f"{name}_1"] for name in model.input}, training=False)
        return {f"{name}_{side}": x for name, x in encoded.items()}

    return encode


def _as_many_rows(encoded: Mapping[str, Any]) -> dict[str, Any]:
    """One sentence's encoding repeated for all rows of the other side."""
    import tensorflow as tf

    rows = {side: tf.shape(_first_of(encoded, side))[0] for side in "12"}
    count = tf.where(rows["1"] == 1, rows["2"], rows["1"])
    return {
        name: tf.broadcast_to(x, tf.concat([[count], tf.shape(x)[1:]], 0))
        for name, x in encoded.items()
    }


def _first_of(encoded: Mapping[str, Any], side: str) -> Any:
    return next(x for name, x in encoded.items() if name.endswith(f"_{side}"))


def _specs(inputs: Mapping[str, Any]) -> dict[str, Any]:
    import tensorflow as tf

    return {name: tf.TensorSpec(x.shape, x.dtype) for name, x in inputs.items()}


def _traced(function: Callable[..., Any], specs: Mapping[str, Any]) -> Any:
    import tensorflow as tf

    named = {n: tf.TensorSpec(spec.shape, spec.dtype, name=n) for n, spec in specs.items()}
    return tf.function(function, autograph=False).get_concrete_function(**named)


def described(
    inputs: Mapping[str, Any], outputs: Mapping[str, Any]
) -> dict[str, dict[str, dict[str, Any]]]:
    """The dtypes and shapes of tensors (or their specs) by name, as JSON takes them."""
    return {
        side: {name: {"dtype": x.dtype.name, "shape": x.shape.as_list()} for name, x in xs.items()}
        for side, xs in (("inputs", inputs), ("outputs", outputs))
    }
