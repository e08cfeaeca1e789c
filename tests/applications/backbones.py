"""Tiny backbones, packed pairs, and weights for the oracles."""

from typing import Any

import numpy as np

from tests.case import weights_of
from tests.lazily import Lazily
from tests.oracles_blocks import layer_norm

keras_hub = Lazily("keras_hub")

SIZES = {
    "vocabulary_size": 14,
    "num_layers": 2,
    "num_heads": 2,
    "hidden_dim": 8,
    "intermediate_dim": 16,
    "max_sequence_length": 16,
}


def backbone(kind: str = "Bert", **sizes: Any) -> Any:
    return getattr(keras_hub.models, f"{kind}Backbone")(**{**SIZES, **sizes})


def serialized(kind: str, **more: Any) -> dict[str, Any]:
    """`keras.saving.serialize_keras_object(backbone(kind))`, without the import of KerasHub."""
    name = f"{kind.lower()}_backbone"
    return {
        "module": f"keras_hub.src.models.{kind.lower()}.{name}",
        "class_name": f"{kind}Backbone",
        "config": {"name": name, **SIZES, **more},
        "registered_name": f"keras_hub>{kind}Backbone",
    }


BERT, ROBERTA = serialized("Bert", num_segments=2), serialized("Roberta")
# [CLS] is 2, [SEP] is 3; <s> is 0, </s> is 2. The last pair has an empty second sentence.
PAIRS = {
    "token_ids": np.array([[2, 5, 6, 3, 7, 8, 3], [2, 9, 3, 10, 3, 0, 0], [2, 11, 3, 3, 0, 0, 0]]),
    "segment_ids": np.array([[0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 1, 0, 0, 0]]),
}
PAIRS = {n: a.astype("int32") for n, a in PAIRS.items()}
PAIRS["padding_mask"] = (PAIRS["token_ids"] > 0).astype("int32")
MASK = PAIRS["padding_mask"] > 0
ROBERTA_PAIRS = {
    "token_ids": np.array([[0, 5, 6, 2, 2, 7, 2], [0, 9, 2, 2, 2, 1, 1], [0, 2, 2, 8, 2, 1, 1]]),
    "padding_mask": np.array([[1] * 7, [1] * 5 + [0] * 2, [1] * 5 + [0] * 2]),
}
ROBERTA_PAIRS = {n: a.astype("int32") for n, a in ROBERTA_PAIRS.items()}
ROBERTA_SEGMENTS = np.array([[0] * 5 + [1] * 2, [0] * 4 + [1] * 3, [0] * 3 + [1] * 4])
UNUSED = ("key/bias",)  # the same for all keys: the softmax takes it out again


def block_weights(block: Any) -> dict[str, Any]:
    """The weights of a transformer block of KerasHub as the oracles name them."""
    attention = block._self_attention_layer
    layers = {name[0]: getattr(attention, f"{name}_dense") for name in ("query", "key", "value")}
    layers |= {"o": attention.output_dense, "norm_1": block._self_attention_layer_norm}
    layers |= {"ff_1": block._feedforward_intermediate_dense}
    layers |= {"ff_2": block._feedforward_output_dense, "norm_2": block._feedforward_layer_norm}
    return {name: weights_of(layer) for name, layer in layers.items()}


def oracle_inputs(
    model: Any, token_ids: Any, padding_mask: Any, segment_ids: Any = None
) -> tuple[np.ndarray, np.ndarray, list[dict[str, Any]], dict[str, Any]]:
    """The embedded tokens, the mask, the weights of the backbone's blocks, and their options."""
    layers = {layer.name: layer for layer in model.layers}
    bert = segment_ids is not None
    options = {"epsilon": 1e-12 if bert else 1e-5}
    options["activation"] = "gelu_approximate" if bert else "gelu"
    if bert:
        tables = [layers[f"{name}_embedding"] for name in ("token", "position", "segment")]
    else:
        together = layers["embeddings"]
        tables = [together.token_embedding, together.position_embedding]
    words, positions, *segments = (weights_of(table)[0] for table in tables)
    x = words[token_ids] + positions[: token_ids.shape[1]]
    x = x + segments[0][segment_ids] if bert else x
    norm = layers["embeddings_layer_norm"]
    x = layer_norm(x, *weights_of(norm), options["epsilon"])
    blocks = [block_weights(block) for block in model.bert.blocks if block.built]
    return x, np.asarray(padding_mask) > 0, blocks, options
