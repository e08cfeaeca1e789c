"""MatchingFeatures, WideLogits and JointAnswer, against loops over words."""

from functools import partial

import numpy as np

from keras_sentmatch.layers import JointAnswer, MatchingFeatures, WideLogits
from keras_sentmatch.layers.wide import FEATURES
from tests.applications.common import IDS_1, IDS_2
from tests.harness import Case, built, noise, run_checks, value

NAMES = sorted({name.removesuffix("_1") for name in FEATURES if name.endswith("_1")})
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
        to.append(int(np.argmax(cosines)) if cosines else 0)
    best, count, weight = np.array(best), len(mine), 1.05 - facts[mine, 0]
    shared = np.array([i in others and i > 1 for i in mine], float)
    pairs = set(zip(others, others[1:]))
    bigrams = sum(p in pairs and min(p) > 1 for p in zip(mine, mine[1:]))
    units = np.array([x / np.linalg.norm(x) for x in vectors])
    moved = [(i + 1) / count - (j + 1) / max(len(others), 1) for i, j in enumerate(to)]
    return {
        "alignment": best.mean(),
        "worst_alignment": best.min(),
        "weighted_alignment": (best * weight).sum() / weight.sum(),
        "weighted_mean": (units * weight[:, None]).sum(0) / weight.sum(),
        "mean": units.mean(0),
        "shared": shared.mean(),
        "weighted_shared": (shared * weight).sum() / weight.sum(),
        "length": np.log(count),
        "negation": max(0.0, facts[mine, 1].max()),
        "shared_bigrams": bigrams / count,
        "new_number": max(0.0, (facts[mine, 2] * (1 - shared)).max()),
        "order": np.abs(moved).mean(),
        "unaligned": (best < 0.6).mean(),
    }


def oracle(layer, word_ids_1, word_ids_2, vectors_1, vectors_2):
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
        row["negation_differs"] = abs(one["negation"] - two["negation"])
        rows.append([row[name] for name in FEATURES])
    return np.array(rows)


def logits(layer, word_ids_1, word_ids_2, features):
    out = []
    for a, b, f in zip(word_ids_1, word_ids_2, features):
        total = value(layer.bias) + f @ value(layer.kernel)
        total = total + sum(value(layer.words_1)[i] for i in a if i > 1)
        total = total + sum(value(layer.words_2)[i] for i in b if i > 1)
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


PARTS = {"wide": noise(3, 4), "deep": noise(3, 4, seed=1)}
COMMON = {"float32_outputs": True, "zero_pads": False}
CASES = [
    Case(
        partial(MatchingFeatures, vocabulary_size=10),
        {**IDS, **VECTORS},
        (0, 30),
        oracle,
        **COMMON,
    ),
    Case(
        partial(WideLogits, vocabulary_size=10, num_classes=2),
        {**IDS, "features": noise(3, 5)},
        (3 * 20 + 10 + 2, 0),
        logits,
        **COMMON,
    ),
    Case(JointAnswer, PARTS, (0, 1), joint, unused=("wide", "deep"), **COMMON),
    Case(
        partial(JointAnswer, softmax=False), PARTS, (0, 1), joint, "scores", unused=("wide", "deep"),
        **COMMON,
    ),
]  # fmt: skip

test_checks = run_checks(CASES)


def test_training_sees_the_deep_part_alone():
    layer = built(CASES[3])
    assert np.allclose(value(layer(**PARTS, training=True)), PARTS["deep"])
