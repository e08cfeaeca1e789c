"""The wide part of a wide-and-deep matcher: words, and how well they match, in a linear model."""

from collections.abc import Mapping

import keras
import numpy as np
from keras import ops

from keras_sentmatch.layers.base import Layer
from keras_sentmatch.layers.drr_net import SelfAttentionPooling
from keras_sentmatch.ops.masking import pair_mask
from keras_sentmatch.ops.sequence import split_pair, stack_pair

FEATURES = tuple(
    """
    alignment_1 alignment_2 worst_alignment_1 worst_alignment_2 weighted_alignment_1
    weighted_alignment_2 weighted_cosine mean_cosine shared_1 shared_2 weighted_shared_1
    weighted_shared_2 length_ratio length_difference length_1 length_2 negation_1 negation_2
    negation_difference shared_bigrams_1 shared_bigrams_2 new_number_1 new_number_2 order_1 order_2
    unaligned_1 unaligned_2 similarity similar_1 similar_2 least_similar_1 least_similar_2
    missing_1 missing_2
    """.split()
)
# The features of a sentence: means of numbers of its words, which count equally, or more if they are
# rare, or once for each distinct word, or by attention (four rows); then extremes, and its length.
OF_EACH = """
    alignment - shared_bigrams order unaligned -
    weighted_alignment weighted_shared - - - -
    - shared - - - -
    - - - - - similar
    worst_alignment least_similar negation new_number missing length
""".split()
_FOUND = [f"{name}_{of}" for of in ("1", "2", "ratio", "difference") for name in OF_EACH]
_FOUND += ["mean_cosine", "weighted_cosine", "similarity"]
COLUMNS = [_FOUND.index(name) for name in FEATURES]  # the others are not used
ALIGNED = 0.6  # cosine from which a word counts as aligned
NEAR = 1e-3  # width of the band in which a comparison of cosines is neither true nor false
MOST = 4.0  # limit of a feature in a product, in standard deviations


class _Float32Layer(Layer):
    """A layer that computes in float32 under every policy."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs, autocast=False)

    def variable(self, shape: tuple[int, ...], start, name: str, trainable: bool = False):
        options = {"trainable": trainable, "autocast": False, "name": name}
        return self.add_weight(shape, start, "float32", **options)


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class MatchingFeatures(_Float32Layer):
    """Numbers that say how well two sentences match, by their words and word vectors.

    Each word is compared by cosine with all words of the other sentence; the best of these is its
    alignment. The features of each sentence are the mean and the smallest alignment, the mean
    weighted by how rare words are, the shares of distinct words and of bigrams that the other
    sentence has too, the length, whether it is negated, whether it has a number that the other one
    lacks, how far aligned words have moved, and the share of words that nothing is aligned to. The
    features of both are the cosines of their mean vectors, and how their lengths and negations differ.

    The last seven compare the vectors after a linear map, and weight each word by a small attention
    network. `set_similarity` gives both the weights that were learned from a sentence encoder; before
    that, words weigh the same and the map changes nothing. The features are the cosine of the weighted
    means, and for each sentence the weighted mean and the smallest of the best cosines of its words,
    and the largest of weight times one minus best cosine.

    Word ids are `[B, L]` (0 is padding, 1 the unknown word, which matches none) and vectors are
    `[B, L, D]`. The output is `[B, 34]` in float32, named and ordered by `FEATURES`. An empty sentence
    gives zeros for what it has no words for.
    """

    def __init__(self, vocabulary_size: int, **kwargs):
        super().__init__(**kwargs)

    def build(self, word_ids_1_shape, word_ids_2_shape, vectors_1_shape, vectors_2_shape):
        # How common a word is, from 0 (never seen) to 1; whether it negates; whether it is a number
        self.facts = self.variable((self.vocabulary_size, 3), "zeros", "facts")
        width = vectors_1_shape[-1]
        self.importance = SelfAttentionPooling(
            64, "zeros", trainable=False, dtype="float32", name="importance"
        )
        self.importance.build((None, None, width))
        self.map = self.variable((width, width), "identity", "map")
        self.map_bias = self.variable((width,), "zeros", "map_bias")

    def set_similarity(self, weights: Mapping[str, np.ndarray]) -> None:
        """Set the weights that `keras_sentmatch.vectors.built_in.load_similarity` returns."""
        importance = self.importance
        variables = importance.kernel, importance.bias, importance.context, self.map, self.map_bias
        for name, variable in zip(("kernel", "bias", "context", "map", "map_bias"), variables):
            variable.assign(weights[name])

    def call(self, word_ids_1, word_ids_2, vectors_1, vectors_2):
        # Both sides at once: of 2B sentences, each has another one. A column `[2B, L, 1]` holds a
        # number for each word, and a column of a table `[2B, L, L]` belongs to a word of the other one.
        ids = stack_pair(word_ids_1, word_ids_2)
        # Not stacked a second time: on JAX the symbolic sizes max(a, b) and max(b, a) are different.
        other_ids = _swap(ids)
        vectors = _float(stack_pair(vectors_1, vectors_2))
        real = ops.not_equal(ids, 0)
        pairs = pair_mask(real, ops.not_equal(other_ids, 0))
        mask = _float(real)[:, :, None]
        met = ops.max(_float(pairs), axis=2, keepdims=True)  # 0 if the other one has no words
        same = ops.equal(ids[:, :, None], other_ids[:, None, :])
        same = _float(ops.logical_and(same, ops.greater(ids, 1)[:, :, None]))
        shared = ops.max(same, axis=2, keepdims=True)
        both = same[:, :-1, :-1] * same[:, 1:, 1:]
        # A single padded column keeps the maximum over no bigrams at all defined.
        both = ops.pad(both, [(0, 0), (0, 1), (0, 1)])
        common, negation, number = ops.split(ops.take(self.facts, ids, axis=0), 3, axis=-1)
        units = _unit(vectors)
        cosines, highest = _compare(units, pairs)
        best = ops.maximum(highest, -1.0) * met
        count = ops.maximum(ops.sum(mask, axis=1, keepdims=True), 1.0)
        place = ops.cumsum(mask, axis=1) / count
        # Both comparisons are continuous, so that rounding decides nothing: a repeated word ties.
        winners = ops.relu(1.0 - (highest - cosines) / NEAR)
        unaligned = ops.clip((ALIGNED - best) / NEAR, 0.0, 1.0)
        aligned_to = ops.matmul(winners, _swap(place)) / ops.sum(winners, axis=2, keepdims=True)
        pooled, attention = self.importance(vectors, real, return_attention=True)
        attention = attention[:, :, None]
        _, highest = _compare(_unit(ops.matmul(vectors, self.map)), pairs)
        similar = ops.maximum(highest, -1.0) * met

        moved = ops.abs(place - aligned_to)
        bigrams = ops.max(both, axis=2, keepdims=True)
        numbers = ops.concatenate([best, shared, bigrams, moved, unaligned, similar], axis=2)
        weights = ops.concatenate([mask, (1.05 - common) * mask, mask * _once(ids)], axis=2)
        weights /= ops.sum(weights, axis=1, keepdims=True) + 1e-6
        weights = ops.swapaxes(ops.concatenate([weights, attention], axis=2), 1, 2)
        either = ops.max(met, axis=1, keepdims=True)  # both have words
        lowest = ops.concatenate([best, similar], axis=2) + 2.0 * (1.0 - mask)
        facts = ops.relu(negation) * mask, ops.relu(number) * (mask - shared)
        extremes = [
            ops.min(lowest, axis=1, keepdims=True) * either,
            ops.max(
                ops.concatenate([*facts, attention * (met - similar)], axis=2),
                axis=1,
                keepdims=True,
            ),
            ops.log(count),
        ]
        sides = [ops.matmul(weights, numbers), ops.concatenate(extremes, axis=2)]
        one, two = _halves(ops.concatenate([_flat(x) for x in sides], axis=1))
        means = _cosine(ops.matmul(weights[:, :2], units))
        similarity = _cosine(ops.matmul(pooled, self.map) + self.map_bias)[:, None]
        similarity *= _halves(either)[0][:, 0]
        found = [one, two, one - two, ops.abs(one - two), means, similarity]
        return ops.take(ops.concatenate(found, axis=1), COLUMNS, axis=1)

    def compute_output_spec(self, word_ids_1, word_ids_2, vectors_1, vectors_2):
        return self.spec(word_ids_1.shape[0], len(FEATURES), dtype="float32")


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class WideLogits(_Float32Layer):
    """A linear model of the words that occur, of features, and of their products (Cheng et al. 2016).

    The logits are the sum of a weight for each word of sentence 1, for each word of sentence 2, for each
    word of sentence 1 that occurs in sentence 2 too, and for each feature; with `products` also for
    each product of two standardized features. All weights start at zero. Word ids are `[B, L]` (0 and 1
    have no weight), features are `[B, F]`, and logits `[B, num_classes]` in float32.
    """

    def __init__(self, vocabulary_size: int, num_classes: int, products: bool = False, **kwargs):
        super().__init__(**kwargs)

    def build(self, word_ids_1_shape, word_ids_2_shape, features_shape):
        def weight(rows: int, name: str):
            return self.variable((rows, self.num_classes), "zeros", name, trainable=True)

        self.words_1, self.words_2, self.words_both = (
            weight(self.vocabulary_size, f"words_{side}") for side in ("1", "2", "both")
        )
        self.kernel = weight(features_shape[-1], "kernel")
        if self.products:  # a row for each pair of features
            self.product_kernel = weight(features_shape[-1] ** 2, "product_kernel")
            self.mean = self.variable(features_shape[-1:], "zeros", "mean")
            self.inverse_scale = self.variable(features_shape[-1:], "ones", "inverse_scale")
        self.bias = self.variable((self.num_classes,), "zeros", "bias", trainable=True)

    def call(self, word_ids_1, word_ids_2, features):
        logits = ops.sum(self.feature_logits(features), axis=1) + self.bias
        for of_words in self.word_logits(word_ids_1, word_ids_2):
            logits += ops.sum(of_words, axis=1)
        return logits

    def word_logits(self, word_ids_1, word_ids_2):
        """Return what each word adds to the logits: `[B, L1, C]` and `[B, L2, C]`."""
        same = _float(ops.equal(word_ids_1[:, :, None], word_ids_2[:, None, :]))
        known_1, known_2 = (_float(ops.greater(x, 1))[:, :, None] for x in (word_ids_1, word_ids_2))
        both = ops.max(same, axis=2, keepdims=True) * _once(word_ids_1)
        one = ops.take(self.words_1, word_ids_1, axis=0)
        one += ops.take(self.words_both, word_ids_1, axis=0) * both
        return one * known_1, ops.take(self.words_2, word_ids_2, axis=0) * known_2

    def feature_logits(self, features):
        """Return what each feature adds to the logits, `[B, F, C]`; a product counts for its second feature."""
        features = _float(features)
        logits = features[:, :, None] * self.kernel
        if self.products:
            count = features.shape[1]
            z = ops.clip((features - self.mean) * self.inverse_scale, -MOST, MOST)  # [B, F]
            weights = ops.reshape(self.product_kernel, (count, count * self.num_classes))
            logits += z[:, :, None] * ops.reshape(z @ weights, (-1, count, self.num_classes))
        return logits

    def compute_output_spec(self, word_ids_1, word_ids_2, features):
        return self.spec(word_ids_1.shape[0], self.num_classes, dtype="float32")


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class JointAnswer(_Float32Layer):
    """The mean of the predictions of a wide and a deep part; in training the deep part alone.

    So the deep part learns as if it were alone, and validation measures both together. Logits `[B, C]`
    become the normalized geometric mean of both probabilities, where `deep_share` is the exponent of the
    deep part's (0.5 at first). Scores (`softmax=False`) become their mean. The result is float32.
    """

    def __init__(self, softmax: bool = True, **kwargs):
        super().__init__(**kwargs)

    def build(self, wide_shape, deep_shape):
        self.deep_share = self.variable((), keras.initializers.Constant(0.5), "deep_share")

    def call(self, wide, deep, training=None):
        wide, deep = _float(wide), _float(deep)
        if self.softmax:
            wide, deep = ops.log_softmax(wide), ops.log_softmax(deep)
        answer = deep
        if not training:
            answer = self.deep_share * deep + (1.0 - self.deep_share) * wide
        return ops.softmax(answer) if self.softmax else answer

    def compute_output_spec(self, wide, deep, training=None):
        return self.spec(*deep.shape, dtype="float32")


def _float(x):
    return ops.cast(x, "float32")


def _unit(x):
    return x / ops.sqrt(ops.sum(ops.square(x), axis=-1, keepdims=True) + 1e-12)


def _cosine(x):
    """Return the cosines of what belongs to sentences 1 and 2."""
    one, two = _halves(_unit(x))
    return ops.sum(one * two, axis=-1)


def _once(ids):
    """Return one over the number of times that a sentence has each of its words: `[B, L, 1]`."""
    same = _float(ops.equal(ids[:, :, None], ids[:, None, :]))
    # Never below one; but LiteRT converts the quotient wrongly without the maximum.
    return 1.0 / ops.maximum(ops.sum(same, axis=2, keepdims=True), 1.0)


def _compare(units, pairs):
    """Return the cosines of the words of both sentences, -2 with padding, and the highest of each."""
    cosines = ops.matmul(units, ops.swapaxes(_swap(units), 1, 2))
    cosines = ops.where(pairs, cosines, -2.0)
    return cosines, ops.max(cosines, axis=2, keepdims=True)


def _halves(x):
    """Return what belongs to sentences 1, and to sentences 2."""
    return split_pair(x, None, None)


def _swap(x):
    """Return for each sentence what belongs to the other one."""
    return ops.concatenate(_halves(x)[::-1], axis=0)


def _flat(x):
    return ops.reshape(x, (-1, x.shape[1] * x.shape[2]))
