"""Small inputs, the harness `Case` of a model, and its weights for the oracles."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tests.case import Case, weights_of
from tests.layers.test_words import oracle as represent
from tests.oracles_recurrent import class_probabilities, mlp

IDS_1 = np.array([[2, 3, 1, 4, 0], [5, 7, 0, 0, 0], [7, 7, 8, 2, 6]], "int32")
IDS_2 = np.array([[3, 1, 9, 0], [5, 5, 2, 4], [2, 6, 0, 0]], "int32")
WORDS = {"word_ids_1": IDS_1, "word_ids_2": IDS_2}  # of a vocabulary of 10


def features(width: int = 6, chars: int = 6, tags: int = 3) -> dict[str, np.ndarray]:
    """`WORDS` with characters (`width` a word, ids below `chars`), tags (below `tags`) and antonyms."""
    rng = np.random.default_rng(0)
    found = dict(WORDS)
    for side, ids in (("1", IDS_1), ("2", IDS_2)):
        real = ids > 0
        letters = rng.integers(1, chars, (*ids.shape, width)) * real[..., None]
        found[f"char_ids_{side}"] = letters.astype("int32")
        found[f"pos_{side}"] = (rng.integers(1, tags, ids.shape) * real).astype("int32")
        found[f"antonym_{side}"] = (rng.integers(0, 2, ids.shape) * real).astype("int32")
    return found


def model_case(
    make: Callable[..., Any],
    inputs: Mapping[str, np.ndarray],
    oracle: Callable[..., Any] | None,
    name: str,
    **expectations: Any,
) -> Case:
    """A Case with what holds of every model; counts are asserted at the papers' sizes elsewhere."""
    return Case(
        make,
        inputs,
        None,
        oracle,
        name=name,
        float32_outputs=True,
        zero_pads=False,  # a pair has no padding left
        **{"float32_sublayers": ("logits", "probabilities"), **expectations},
    )


def represented(model: Any, inputs: Mapping[str, np.ndarray]) -> tuple[list, list]:
    """Word features `[B, L, D]` of both sentences, by the oracle of their layer, and the masks."""
    ids = [np.asarray(inputs[f"word_ids_{side}"]) for side in "12"]
    given = [{n[:-2]: x for n, x in inputs.items() if n.endswith(side)} for side in "12"]
    layer = model.word_representation
    xs = [represent(layer, other_word_ids=ids[1 - i], **given[i]) for i in (0, 1)]
    return xs, [i != 0 for i in ids]


def classified(layers: Sequence[Any], x: np.ndarray) -> np.ndarray:
    """Probabilities by dense layers with ReLU between them; others are dropouts."""
    return class_probabilities(mlp(x, [weights_of(d) for d in layers if hasattr(d, "kernel")]))
