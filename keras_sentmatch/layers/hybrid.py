"""The wide part of a wide-and-deep matcher: words, and how well they match, in a linear model."""

from collections.abc import Mapping

import keras
import numpy as np
from keras import ops

from keras_sentmatch.layers.base import Layer
from keras_sentmatch.layers.drr_net import SelfAttentionPooling

FEATURES = tuple(
    """
    alignment_1 alignment_2 worst_alignment_1 worst_alignment_2 weighted_alignment_1
    weighted_alignment_2 weighted_cosine mean_cosine shared_1 shared_2 weighted_shared_1
    weighted_shared_2 length_ratio length_difference length_1 length_2 negation_1 negation_2
    negation_differs shared_bigrams_1 shared_bigrams_2 new_number_1 new_number_2 order_1 order_2
    unaligned_1 unaligned_2 similarity similar_1 similar_2 least_similar_1 least_similar_2
    missing_1 missing_2
    """.split()
)
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
        mask_1, mask_2 = (_float(ops.not_equal(ids, 0)) for ids in (word_ids_1, word_ids_2))
        same = ops.equal(word_ids_1[:, :, None], word_ids_2[:, None, :])
        same = _float(ops.logical_and(same, ops.greater(word_ids_1, 1)[:, :, None]))  # [B, L1, L2]
        a, b = _unit(_float(vectors_1)), _unit(_float(vectors_2))
        pairs = mask_1[:, :, None] * mask_2[:, None, :]
        cosines = ops.matmul(a, ops.swapaxes(b, 1, 2)) * pairs - 2.0 * (1.0 - pairs)
        one = self.describe(word_ids_1, mask_1, a, cosines, same, mask_2)
        two = self.describe(
            word_ids_2, mask_2, b, ops.swapaxes(cosines, 1, 2), ops.swapaxes(same, 1, 2), mask_1
        )
        of_both = {
            "weighted_cosine": _cosine(one["weighted_mean"], two["weighted_mean"]),
            "mean_cosine": _cosine(one["mean"], two["mean"]),
            "length_ratio": one["length"] - two["length"],
            "length_difference": ops.abs(one["length"] - two["length"]),
            "negation_differs": ops.abs(one["negation"] - two["negation"]),
        }
        of_both["similarity"], similar_1, similar_2 = self.compare(
            _float(vectors_1), _float(vectors_2), mask_1, mask_2, pairs
        )
        one, two = one | similar_1, two | similar_2
        found = of_both | {f"{k}_1": x for k, x in one.items()}
        found |= {f"{k}_2": x for k, x in two.items()}
        return ops.stack([found[name] for name in FEATURES], axis=-1)

    def compare(self, vectors_1, vectors_2, mask_1, mask_2, pairs):
        """Return the similarity of two sentences, `[B]`, and the features of each."""
        means, mapped, weights = [], [], []
        for vectors, mask in ((vectors_1, mask_1), (vectors_2, mask_2)):
            pooled, weight = self.importance(vectors, ops.cast(mask, "bool"), return_attention=True)
            means.append(ops.matmul(pooled, self.map) + self.map_bias)
            mapped.append(_unit(ops.matmul(vectors, self.map)))
            weights.append(weight)
        cosines = ops.matmul(mapped[0], ops.swapaxes(mapped[1], 1, 2)) * pairs - 2.0 * (1.0 - pairs)
        either = ops.max(mask_1, axis=1) * ops.max(mask_2, axis=1)  # both have words
        sides = []
        for best, mask, weight in zip(
            (ops.max(cosines, axis=2), ops.max(cosines, axis=1)), (mask_1, mask_2), weights
        ):
            best = ops.maximum(best, -1.0)
            found = {
                "similar": ops.sum(weight * best, axis=1),
                "least_similar": ops.min(best * mask + 2.0 * (1.0 - mask), axis=1),
                "missing": ops.max(weight * (1.0 - best), axis=1),
            }
            sides.append({name: value * either for name, value in found.items()})
        return _cosine(*means) * either, *sides

    def describe(self, word_ids, mask, units, cosines, same, other_mask) -> dict:
        """Return the features of one sentence `[B, L]`, from its side of `cosines` and `same` `[B, L, L']`."""
        common, negation, number = ops.unstack(ops.take(self.facts, word_ids, axis=0), 3, axis=-1)
        weight = (1.05 - common) * mask
        count = ops.maximum(ops.sum(mask, axis=1), 1.0)
        total = ops.sum(weight, axis=1) + 1e-6
        best = ops.maximum(ops.max(cosines, axis=2), -1.0) * mask
        best *= ops.max(other_mask, axis=1, keepdims=True)
        shared = ops.max(same, axis=2)  # [B, L]
        distinct = _first(word_ids) * mask
        place = ops.cumsum(mask, axis=1) / count[:, None]
        other_count = ops.maximum(ops.sum(other_mask, axis=1, keepdims=True), 1.0)
        other_place = ops.cumsum(other_mask, axis=1) / other_count
        # Both comparisons are continuous, so that rounding decides nothing: a repeated word ties.
        behind = ops.max(cosines, axis=2, keepdims=True) - cosines
        winners = ops.relu(1.0 - behind / NEAR)
        unaligned = ops.clip((ALIGNED - best) / NEAR, 0.0, 1.0)
        aligned_to = ops.sum(winners * other_place[:, None], axis=2) / ops.sum(winners, axis=2)
        both = same[:, :-1, :-1] * same[:, 1:, 1:]
        # A single padded column keeps the maximum over no bigrams at all defined.
        bigrams = ops.max(ops.pad(both, [(0, 0), (0, 1), (0, 1)]), axis=2)
        return {
            "alignment": ops.sum(best, axis=1) / count,
            "worst_alignment": ops.min(best + 2.0 * (1.0 - mask), axis=1) * ops.max(mask, axis=1),
            "weighted_alignment": ops.sum(best * weight, axis=1) / total,
            "weighted_mean": ops.sum(units * weight[:, :, None], axis=1) / total[:, None],
            "mean": ops.sum(units * mask[:, :, None], axis=1) / count[:, None],
            "shared": ops.sum(shared * distinct, axis=1)
            / ops.maximum(ops.sum(distinct, axis=1), 1.0),
            "weighted_shared": ops.sum(shared * weight, axis=1) / total,
            "length": ops.log(count),
            "negation": ops.max(ops.relu(negation) * mask, axis=1),
            "shared_bigrams": ops.sum(bigrams, axis=1) / count,
            "new_number": ops.max(ops.relu(number) * mask * (1.0 - shared), axis=1),
            "order": ops.sum(ops.abs(place - aligned_to) * mask, axis=1) / count,
            "unaligned": ops.sum(unaligned * mask, axis=1) / count,
        }

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
        same = ops.any(ops.equal(word_ids_1[:, :, None], word_ids_2[:, None, :]), axis=2)
        known_1, known_2 = (_float(ops.greater(ids, 1)) for ids in (word_ids_1, word_ids_2))
        both = known_1 * _first(word_ids_1) * _float(same)
        one = ops.take(self.words_1, word_ids_1, axis=0) * known_1[:, :, None]
        one += ops.take(self.words_both, word_ids_1, axis=0) * both[:, :, None]
        return one, ops.take(self.words_2, word_ids_2, axis=0) * known_2[:, :, None]

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


def _cosine(x, y):
    return ops.sum(_unit(x) * _unit(y), axis=-1)


def _first(ids):
    """Return 1 at the first occurrence of a word in its sentence, else 0: `[B, L]`."""
    place = ops.cumsum(ops.ones_like(ids), axis=1)
    before = ops.less(place[:, None, :], place[:, :, None])
    again = ops.logical_and(ops.equal(ids[:, None, :], ids[:, :, None]), before)
    return 1.0 - _float(ops.any(again, axis=2))
