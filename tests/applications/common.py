"""Small inputs, the harness `Case` of a model, and its weights for the oracles."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.harness import Case, value

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
    model = make()
    trainable = sum(int(np.prod(w.shape)) for w in model.trainable_weights)
    return Case(
        make,
        inputs,
        (trainable, model.count_params() - trainable),
        oracle,
        name=name,
        float32_outputs=True,
        zero_pads=False,  # a pair has no padding left
        **{"float32_sublayers": ("logits", "probabilities"), **expectations},
    )


def weights_of(layer: Any) -> list[np.ndarray]:
    return [value(w) for w in layer.weights]


def both_ways(layer: Any) -> list[list[np.ndarray]]:
    """The weights of the forward and the backward direction of a recurrent layer."""
    return [weights_of(layer.forward_rnn), weights_of(layer.backward_rnn)]
