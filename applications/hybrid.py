"""A wide-and-deep matcher: RE2 next to a linear model of words and of how well they match."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_sentmatch.applications._training import Arrays
from keras_sentmatch.applications.hyperparameters import FEATURE_ATTENTION, WORD_MODELS, Choice
from keras_sentmatch.applications.linear_part import (
    LinearPart,
    WithLinearPart,
    prediction_error,
)
from keras_sentmatch.applications.pair_model import PairModel, Sentence, both
from keras_sentmatch.applications.picture_specs import WEIGHTS
from keras_sentmatch.applications.re2 import RE2
from keras_sentmatch.applications.registry import register_model
from keras_sentmatch.layers.hybrid import JointAnswer

log = logging.getLogger(__name__)


@register_model("hybrid")
class Hybrid(WithLinearPart, RE2):
    """RE2 whose answer is joined with that of a linear model.

    The linear part is `BagOfWords` with matching features: word counts, shared words, and cosines of
    word vectors. scikit-learn finds its weights in seconds, and it is strong where there are few
    pairs. RE2 is trained as if it were alone; then validation pairs choose how much each part counts.

    References:
        Cheng et al., "Wide & Deep Learning for Recommender Systems", 2016; Yang et al., "Simple and
        Effective Text Matching with Richer Alignment Features", ACL 2019.
    """

    def connect(self, inputs):
        deep = super().connect(inputs)
        one = self.make_sentence("1", inputs, inputs["word_ids_2"])
        two = self.make_sentence("2", inputs, inputs["word_ids_1"])
        # Not the embedding itself: a layer within two others loses its sharing in `clone_model`.
        first, second = both(self.word_vectors, one, two)
        wide = self.wide(one.word_ids, two.word_ids, first.vectors, second.vectors)
        self.parts = {"wide": wide, "deep": deep}
        answer = self.joint(wide, deep)
        self.answer_in_training = keras.Function(inputs, self.joint(deep, deep))
        return answer

    def word_vectors(self, sentence: Sentence) -> Sentence:
        return Sentence(vectors=self.represent_words(sentence)[:, :, : self.embedding_dim])

    def call(self, inputs, training=None, mask=None):
        # Training uses the deep part alone, so the linear part is not computed.
        if training and isinstance(inputs, Mapping):
            return self.answer_in_training({name: inputs[name] for name in self.input})
        return super().call(inputs, training=training, mask=mask)

    def __init__(self, *, units: int = 75, **kwargs):
        """Make the model with random weights.

        Args:
            units: Width of every hidden layer of RE2. Defaults to `75`, for thousands of pairs.
        """
        super().__init__(units=units, **kwargs)

    def make_graph(self) -> None:
        self.wide = LinearPart(self, matching=True)
        self.joint = JointAnswer(self.num_classes > 1, name="joint_answer")
        super().make_graph()

    def make_classifier(self, dense=keras.layers.Dense, **options):
        super().make_classifier(dense, **options)
        return self.logits

    @property
    def why_not_splittable(self) -> str:
        return "its linear part looks for the words of one sentence in the other"

    def own_weights(self, other: PairModel) -> list[Any]:
        linear = [*self.wide.matching.variables, *self.wide.logits.variables]
        return linear if isinstance(other, Hybrid) else [*linear, *self.joint.variables]

    def after_fit(self, examples, chosen) -> dict[str, float]:
        """Let validation pairs choose how much the deep part counts, from 0 to 1."""
        share = chosen.get("network_share")
        if share is None:
            batches, labels, _ = examples("validation")
            share = self.best_share(batches, labels)
            log.info(f"the validation pairs give the network {share:.0%} of the answer")
        self.joint.deep_share.assign(share)
        return {"network_share": share}

    def best_share(self, batches: Sequence[Arrays], labels: np.ndarray) -> float:
        """The share of the deep part with which labeled pairs are predicted best."""
        wide, deep = self.wide.outputs(self.parts, batches)
        if self.num_classes > 1:
            from scipy.special import log_softmax

            wide, deep = log_softmax(wide, axis=1), log_softmax(deep, axis=1)
        shares = np.linspace(0, 1, 11)
        errors = [prediction_error(s * deep + (1 - s) * wide, labels) for s in shares]
        return float(shares[np.argmin(errors)])

    paper = "RE2, Wide & Deep"
    summary_line = "RE2 joined with a linear model of words and matches: the best start"
    search_space = [
        *WORD_MODELS,
        Choice("model.units", (50, 75, 150)),
        Choice("model.blocks", (1, 2, 3)),
        Choice("model.prediction", ("simple", "symmetric", "full")),
        *FEATURE_ATTENTION,
    ]
    pictures = (*RE2.pictures, *WEIGHTS)
    presets = {"small": {"units": 50, "blocks": 2}, "large": {"units": 150}}

    fit_trains = "part"
