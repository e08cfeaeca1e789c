"""What the tests of all models share: small inputs, a harness Case of a model, weights for the oracles."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from keras_sentmatch.layers import FeatureAttention, SelectiveFeatureAttention
from tests.harness import Case, value
from tests.layers.test_feature_attention import oracle as fa_oracle
from tests.layers.test_selective_feature_attention import oracle as sfa_oracle

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


def gate(block: Any, x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """What the oracle makes of a FeatureAttention or a SelectiveFeatureAttention."""
    found = {FeatureAttention: fa_oracle, SelectiveFeatureAttention: sfa_oracle}[type(block)]
    return found(block, x, mask)[0]


def adapt(model: Any) -> Callable[..., np.ndarray] | None:
    """The feature attention of a host, as `weights["adapt"]` of `oracles_hosts` wants it."""
    layers = {layer.name: layer for layer in model.layers}
    if model.feature_attention is None:
        return None

    def hook(x: np.ndarray, mask: np.ndarray, side: int, place: str) -> np.ndarray:
        here = place == getattr(model, "placement", "fused")
        return gate(layers[f"feature_attention_{side + 1}"], x, mask) if here else x

    return hook
