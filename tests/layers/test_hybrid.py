"""The layers of the hybrid, against loops over words."""

from functools import partial

import numpy as np
import pytest

from keras_sentmatch.layers.hybrid import (
    ALIGNED,
    FEATURES,
    MOST,
    JointAnswer,
    MatchingFeatures,
    WideLogits,
)
from keras_sentmatch.vectors.built_in import load_similarity, load_word_table
from tests.applications.common import IDS_1, IDS_2
from tests.case import Case, built, noise, value
from tests.harness import run_checks

NAMES = sorted(
    {n.removesuffix("_1") for n in FEATURES[: FEATURES.index("similarity")] if n.endswith("_1")}
)
VECTORS = {"vectors_1": noise(3, 5, 4), "vectors_2": noise(3, 4, 4, seed=1)}
IDS = {"word_ids_1": IDS_1, "word_ids_2": IDS_2}


def cosine(x, y):
    return x @ y / max(np.linalg.norm(x) * np.linalg.norm(y), 1e-6)


def one_sentence(facts, mine, others, vectors, other_vectors):
    """What is said of the sentence `mine`: lists of ids, and their vectors."""
    if not mine:
        empty = dict.fromkeys(NAMES, 0.0)
        return {**empty, "mean": np.zeros(4), "weighted_mean": np.zeros(4)}
    best, to = [], []
    for x in vectors:
        cosines = [cosine(x, y) for y in other_vectors]
        best.append(max(cosines) if cosines else 0.0)
        to.append((np.argmax(cosines) + 1) / len(others) if cosines else 0.0)
    best, count, weight = np.array(best), len(mine), 1.05 - facts[mine, 0]
    shared = np.array([i in others and i > 1 for i in mine], float)
    pairs = set(zip(others, others[1:]))
    bigrams = sum(p in pairs and min(p) > 1 for p in zip(mine, mine[1:]))
    units = np.array([x / np.linalg.norm(x) for x in vectors])
    moved = [(i + 1) / count - place for i, place in enumerate(to)]
    return {
        "alignment": best.mean(),
        "worst_alignment": best.min(),
        "weighted_alignment": (best * weight).sum() / weight.sum(),
        "weighted_mean": (units * weight[:, None]).sum(0) / weight.sum(),
        "mean": units.mean(0),
        "shared": np.mean([i in others and i > 1 for i in set(mine)]),
        "weighted_shared": (shared * weight).sum() / weight.sum(),
        "length": np.log(count),
        "negation": max(0.0, facts[mine, 1].max()),
        "shared_bigrams": bigrams / count,
        "new_number": max(0.0, (facts[mine, 2] * (1 - shared)).max()),
        "order": np.abs(moved).mean(),
        "unaligned": (best < 0.6).mean(),
    }


def similarity(layer, vectors, other_vectors):
    """The seven features of mapped vectors, by name."""
    pooling, sides, names = layer.importance, [], ("similar", "least_similar", "missing")
    if not len(vectors) or not len(other_vectors):
        return dict.fromkeys(["similarity", *(f"{n}_{i}" for n in names for i in (1, 2))], 0.0)
    for own in (vectors, other_vectors):
        scores = np.tanh(own @ value(pooling.kernel) + value(pooling.bias)) @ value(pooling.context)
        weights = np.exp(scores[:, 0])
        sides.append((weights / weights.sum(), own))
    means = [w @ own @ value(layer.map) + value(layer.map_bias) for w, own in sides]
    found = {"similarity": cosine(*means)}
    for side, ((weights, own), (_, others)) in enumerate((sides, sides[::-1]), 1):
        mapped, targets = own @ value(layer.map), others @ value(layer.map)
        best = np.array([max(cosine(x, y) for y in targets) for x in mapped])
        found[f"similar_{side}"] = weights @ best
        found[f"least_similar_{side}"] = best.min()
        found[f"missing_{side}"] = (weights * (1 - best)).max()
    return found


def features(layer, word_ids_1, word_ids_2, vectors_1, vectors_2):
    facts, rows = value(layer.facts), []
    for a, b, x, y in zip(word_ids_1, word_ids_2, vectors_1, vectors_2):
        a, b = [i for i in a if i], [i for i in b if i]
        one = one_sentence(facts, a, b, x[: len(a)], y[: len(b)])
        two = one_sentence(facts, b, a, y[: len(b)], x[: len(a)])
        row = {f"{name}_1": v for name, v in one.items()}
        row |= {f"{name}_2": v for name, v in two.items()}
        row["weighted_cosine"] = cosine(one["weighted_mean"], two["weighted_mean"])
        row["mean_cosine"] = cosine(one["mean"], two["mean"])
        row["length_ratio"] = one["length"] - two["length"]
        row["length_difference"] = abs(row["length_ratio"])
        row |= similarity(layer, x[: len(a)], y[: len(b)])
        row["negation_difference"] = abs(one["negation"] - two["negation"])
        rows.append([row[name] for name in FEATURES])
    return np.array(rows)


def logits(layer, word_ids_1, word_ids_2, features):
    out = []
    for a, b, f in zip(word_ids_1, word_ids_2, features):
        total = value(layer.bias) + f @ value(layer.kernel)
        total = total + sum(value(layer.words_1)[i] for i in a if i > 1)
        total = total + sum(value(layer.words_2)[i] for i in b if i > 1)
        if layer.products:
            z = np.clip((f - value(layer.mean)) * value(layer.inverse_scale), -MOST, MOST)
            kernel = value(layer.product_kernel)
            total = total + sum(
                x * y * kernel[len(z) * i + j] for i, x in enumerate(z) for j, y in enumerate(z)
            )
        both = {i for i in a if i > 1} & set(b)
        out.append(total + sum(value(layer.words_both)[i] for i in both))
    return np.array(out)


def joint(layer, wide, deep):
    share = value(layer.deep_share)
    if not layer.softmax:
        return share * deep + (1 - share) * wide
    wide, deep = (np.exp(x) / np.exp(x).sum(-1, keepdims=True) for x in (wide, deep))
    product = deep**share * wide ** (1 - share)
    return product / product.sum(-1, keepdims=True)


WIDE = partial(WideLogits, vocabulary_size=10, num_classes=2)
LINEAR = IDS | {"features": noise(3, 5)}
PARTS = {"wide": noise(3, 4), "deep": noise(3, 4, seed=1)}
FLOAT32 = {"float32_outputs": True, "zero_pads": False}
CASES = [
    Case(
        partial(MatchingFeatures, vocabulary_size=10),
        IDS | VECTORS,
        (0, 30 + 4 * 64 + 64 + 64 + 4 * 4 + 4),
        features,
        float32_sublayers=("importance",),
        **FLOAT32,
    ),
    Case(WIDE, LINEAR, (3 * 20 + 10 + 2, 0), logits, **FLOAT32),
    Case(partial(WIDE, products=True), LINEAR, (72 + 50, 10), logits, "products", **FLOAT32),
    Case(JointAnswer, PARTS, (0, 1), joint, **FLOAT32),
    Case(partial(JointAnswer, softmax=False), PARTS, (0, 1), joint, "scores", **FLOAT32),
]

test_checks = run_checks(CASES)


def test_training_sees_the_deep_part_alone():
    assert np.allclose(value(built(CASES[-1])(**PARTS, training=True)), PARTS["deep"])


@pytest.mark.parametrize("error", [0.0, 3e-7, -3e-7])
def test_rounding_decides_nothing(error):
    """Cosines are rounded differently for a pair alone, in a batch and in a graph."""
    layer, table = built(CASES[0]), noise(6, 4)
    ids_1, ids_2 = np.array([[2]]), np.array([[4, 2, 5, 2]])
    vectors = table[ids_2]
    vectors[0, 1] *= 1 + np.linspace(0, error, 4)
    found = value(layer(ids_1, ids_2, table[ids_1], vectors))[0]
    # The word is aligned to the second and to the fourth of four: 3/4 of the way on average.
    assert abs(found[FEATURES.index("order_1")] - 1 / 4) < 1e-3
    one, two = (np.array([[v]], "float32") for v in ([1, 0, 0, 0], [ALIGNED + error, 0.8, 0, 0]))
    found = value(layer(ids_1, np.array([[3]]), one, two))[0]
    assert found[FEATURES.index("unaligned_1")] < 1e-3


def test_the_similarity_of_the_package_knows_what_matters():
    table = load_word_table()
    layer = MatchingFeatures(9)
    sentences = ["a man plays the guitar", "someone plays an instrument", "a woman eats some salad"]
    ids = np.arange(1, 6)[None]
    vectors = [np.array([[table.lookup(w)[0] for w in text.split()]]) for text in sentences]
    before = layer(ids, ids[:, :4], vectors[0], vectors[1])
    layer.set_similarity(load_similarity())
    place = FEATURES.index("similarity")
    alike, other = (value(layer(ids, ids[:, : v.shape[1]], vectors[0], v))[0] for v in vectors[1:])
    assert value(before)[0, place] != alike[place]
    assert alike[place] > other[place] + 0.1
    _, weights = layer.importance(vectors[0], np.ones((1, 5), bool), return_attention=True)
    weights = value(weights)[0]
    assert weights[[0, 3]].max() < 0.05 < weights[[1, 2, 4]].min()  # a, the; man, plays, guitar
