"""A wide-and-deep matcher: RE2 beside a linear model of words and of how well they match."""

from collections.abc import Mapping, Sequence

import keras
import numpy as np

from keras_sentmatch.applications.bag_of_words import (
    WEIGHTS,
    Arrays,
    WidePart,
    outputs_of,
    prediction_error,
)
from keras_sentmatch.applications.base import register_model
from keras_sentmatch.applications.re2 import RE2
from keras_sentmatch.applications.search_space import FEATURE_ATTENTION, WORD_MODELS, Choice
from keras_sentmatch.layers.hybrid import JointAnswer


@register_model("hybrid")
class Hybrid(RE2):
    """RE2 whose answer is joined with that of a linear model.

    The linear part is `BagOfWords` with matching features: word counts, shared words, and cosines of
    word vectors. scikit-learn finds its weights in seconds, and it is strong where there are few
    pairs. RE2 is trained as if it were alone; then validation pairs choose how much each part counts.

    Args:
        units: width of every hidden layer of RE2. Defaults to `75`, for thousands of pairs.
        blocks: alignments, one after the other. Defaults to `3`.
        encoder_layers: convolutions of each encoder. Defaults to `2`.
        kernel_size: words in a window. Defaults to `3`.
        prediction: as in `RE2`. Defaults to `"full"`.
        dropout: as in `RE2`. Defaults to `0.2`.
        feature_attention: as in `RE2`. Defaults to `None`.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.applications import Hybrid
        >>> ids = np.array([[2, 3, 4, 0]])
        >>> model = Hybrid(vocabulary_size=20, num_classes=2, embedding_dim=8, units=4)
        >>> tuple(model({"word_ids_1": ids, "word_ids_2": ids}).shape)
        (1, 2)

    References:
        Cheng et al., "Wide & Deep Learning for Recommender Systems", 2016; Yang et al., "Simple and
        Effective Text Matching with Richer Alignment Features", ACL 2019.
    """

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

    alignment, fusion, connection = "linear", "full", "augmented"  # arguments of RE2
    activation, weight_normalization = "gelu", True

    def __init__(
        self,
        vocabulary_size: int,
        num_classes: int = 3,
        embedding_dim: int = 300,
        trainable_embedding: bool = False,
        units: int = 75,
        blocks: int = 3,
        encoder_layers: int = 2,
        kernel_size: int = 3,
        prediction: str = "full",
        dropout: float = 0.2,
        feature_attention=None,
        feature_attention_config: Mapping | None = None,
        **kwargs,
    ):
        self.wide = WidePart(self, matching=True)
        self.joint = JointAnswer(num_classes > 1, name="joint_answer")
        super().__init__(**self.arguments, **kwargs)

    def make_classifier(self, dense=keras.layers.Dense, **options):
        super().make_classifier(dense, **options)
        return self.logits

    def connect(self, inputs):
        deep = super().connect(inputs)
        ids_1, ids_2 = inputs["word_ids_1"], inputs["word_ids_2"]
        vectors = self.word_representation.word_embeddings[-1]
        wide = self.wide(ids_1, ids_2, vectors(ids_1), vectors(ids_2))
        self.parts = {"wide": wide, "deep": deep}
        return self.joint(wide, deep)

    @property
    def why_not_splittable(self) -> str:
        return "its linear part looks for the words of one sentence in the other"

    def balance(self, batches: Sequence[Arrays], labels: np.ndarray) -> float:
        """Chooses how much the deep part counts, from 0 to 1, by labeled pairs."""
        wide, deep = outputs_of(self, self.parts, batches)
        if self.num_classes > 1:
            from scipy.special import log_softmax

            wide, deep = log_softmax(wide, axis=1), log_softmax(deep, axis=1)
        shares = np.linspace(0, 1, 11)
        errors = [prediction_error(s * deep + (1 - s) * wide, labels) for s in shares]
        best = float(shares[np.argmin(errors)])
        self.joint.deep_share.assign(best)
        return best
