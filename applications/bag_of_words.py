"""Bag of words: a linear model of which words occur. Nothing is read in order, nothing is trained long."""

import inspect

import keras

from keras_sentmatch.applications.hyperparameters import Choice
from keras_sentmatch.applications.linear_part import LinearPart, WithLinearPart
from keras_sentmatch.applications.pair_model import PairModel, Sentence
from keras_sentmatch.applications.picture_specs import WEIGHTS
from keras_sentmatch.applications.registry import register_model


@register_model("bag_of_words")
class BagOfWords(WithLinearPart, PairModel):
    """Logistic regression (for scores, ridge regression) on a bag of words.

    Its features are how often each word occurs in sentence 1 and in sentence 2, whether it is in
    both, and the share of each sentence's words that the other one has; with `matching_features`
    all of `MatchingFeatures` in place of the two shares, and their products. `solve` finds the
    weights by scikit-learn in seconds; nothing is trained by gradients.
    """

    def encode(self, sentence: Sentence) -> Sentence:
        vectors = keras.ops.expand_dims(keras.ops.cast(sentence.mask, "float32"), -1)
        if self.matching_features:
            vectors = self.represent_words(sentence)  # [B, L, D]
        return Sentence(word_ids=sentence.word_ids, vectors=vectors)

    def interact(self, one: Sentence, two: Sentence):
        logits = self.wide(one.word_ids, two.word_ids, one.vectors, two.vectors)
        return self.probabilities(logits)

    def __init__(self, *, matching_features: bool = False, **kwargs):
        """Make the model with random weights.

        Args:
            matching_features: Whether the model compares word vectors too.
        """
        self.check_arguments(kwargs)
        super().__init__(**kwargs)
        self.matching_features = matching_features

        if matching_features:
            self.word_representation = self.make_word_representation(dropout=0.0)
        self.wide = LinearPart(self, matching_features, trainable=True)
        self.probabilities = self.make_probabilities()
        self.make_graph()

    unused = inspect.signature(PairModel.__init__).parameters.keys() - {
        "vocabulary_size",
        "num_classes",
        "embedding_dim",
    }
    shares_encoder = False

    @property
    def why_not_splittable(self) -> str:
        return "it looks for the words of one sentence in the other"

    paper = "logistic regression"
    summary_line = "which words occur, and how many of them both sentences have"
    presets = {"matching": {"matching_features": True}}
    pictures = WEIGHTS
    search_space = [Choice("model.matching_features", (False, True))]
    fit_trains = "nothing"
