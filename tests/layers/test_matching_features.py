"""MatchingFeatures, against loops over words."""

from functools import partial

import numpy as np

from keras_sentmatch.layers import MatchingFeatures
from keras_sentmatch.layers.hybrid import FEATURES
from tests.applications.common import IDS_1, IDS_2
from tests.harness import Case, noise, run_checks, value

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


CASES = [
    Case(
        partial(MatchingFeatures, vocabulary_size=10),
        {**IDS, **VECTORS},
        (0, 30),
        oracle,
        float32_outputs=True,
        zero_pads=False,
    )
]

test_checks = run_checks(CASES)
