"""Whether the plain PyTorch networks give the same probabilities as the Keras models.

    python benchmarks/plain_check.py

Gives a small ESIM and RE2 of `plain.py` the weights of the Keras models, and prints the largest
difference of the probabilities, with and without padding.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from plain import PlainESIM, PlainRE2, count
from torch import Tensor, nn


def array(variable: Any) -> np.ndarray:
    from keras import ops

    return ops.convert_to_numpy(variable)


def put(parameter: Tensor, value: np.ndarray) -> None:
    if value.shape != parameter.shape:
        raise ValueError(f"Expected the shape {tuple(parameter.shape)}, not {value.shape}.")
    with torch.no_grad():
        parameter.copy_(torch.tensor(value))


def put_table(table: nn.Embedding, embedding: Any) -> None:
    values = array(embedding.embeddings).copy()
    values[0] = 0  # Keras sets padding to zero after the look-up
    put(table.weight, values)


def put_dense(plain: nn.Module, dense: Any) -> None:
    """Copy a dense layer or a convolution of either kind."""
    kernel = array(dense.kernel).T  # the filters first, then the channels
    if plain.bias is not None:
        put(plain.bias, array(dense.bias))
    if hasattr(plain, "parametrizations"):
        scale, direction = plain.parametrizations.weight.parameters()
        put(direction, kernel)
        put(scale, array(dense.scale).reshape(scale.shape))
    else:
        put(plain.weight, kernel)


def put_lstm(lstm: nn.LSTM, *layers: Any) -> None:
    """Copy one Keras layer per direction. The gates have the same order."""
    for layer, suffix in zip(layers, ("", "_reverse")):
        put(getattr(lstm, f"weight_ih_l0{suffix}"), array(layer.cell.kernel).T)
        put(getattr(lstm, f"weight_hh_l0{suffix}"), array(layer.cell.recurrent_kernel).T)
        put(getattr(lstm, f"bias_ih_l0{suffix}"), array(layer.cell.bias))
        nn.init.zeros_(getattr(lstm, f"bias_hh_l0{suffix}"))


def put_bilstm(lstm: nn.LSTM, layer: Any) -> None:
    put_lstm(lstm, layer.forward_rnn, layer.backward_rnn)


def put_esim(plain: PlainESIM, model: Any) -> None:
    put_table(plain.words, model.get_layer("word_representation").word_embeddings[0])
    for name in ("encoding", "composition"):
        put_bilstm(getattr(plain, name), model.get_layer(name))
    for name in ("projection", "hidden", "logits"):
        put_dense(getattr(plain, name), model.get_layer(name))


def put_re2(plain: PlainRE2, model: Any) -> None:
    put_table(plain.words, model.get_layer("word_representation").word_embeddings[0])
    for n, block in enumerate(plain.blocks, start=1):
        encoder, fusion = model.get_layer(f"encoder_{n}"), model.get_layer(f"fusion_{n}")
        for one, other in zip(block.convolutions, encoder.convolutions):
            put_dense(one, other)
        put_dense(block.projection, model.get_layer(f"projection_{n}"))
        put(block.temperature, array(model.get_layer(f"alignment_{n}").scale))
        for one, other in zip(block.views, fusion.views):
            put_dense(one, other)
        put_dense(block.fusion, fusion.output_dense)
    for name in ("hidden", "logits"):
        put_dense(getattr(plain, name), model.get_layer(name))


def check() -> float:
    """Print and return the largest difference of the probabilities of all networks."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    from keras_sentmatch.applications import ESIM, RE2

    words, dim = 30, 8
    sizes = {"vocabulary_size": words, "num_classes": 3, "embedding_dim": dim, "units": 6}
    cases: list[tuple[Any, nn.Module, Callable[[Any, Any], None]]] = [
        (ESIM(**sizes), PlainESIM(words, 3, dim, 6), put_esim),
        (RE2(**sizes), PlainRE2(words, 3, dim, 6), put_re2),
    ]
    rng = np.random.default_rng(0)
    worst = 0.0
    for model, plain, put_weights in cases:
        for weight in model.weights:
            weight.assign(array(weight) + rng.normal(0, 0.4, weight.shape))
        put_weights(plain.eval(), model)
        total, second = count(plain)
        if total - second != model.count_params():
            raise ValueError(
                f"{model.name}: {total - second} and {model.count_params()} parameters"
            )
        differences, probabilities = [], []
        for lengths, padded, more in (((7, 7), False, 0), ((7, 5), True, 0), ((5, 7), True, 3)):
            arrays = {}
            for side, length in zip("12", lengths):
                counts = rng.integers(1, length + 1, (6, 1)) if padded else length
                real = np.arange(length + more) < counts * np.ones((6, 1), int)
                ids = rng.integers(1, words, (6, length + more)) * real
                arrays[f"word_ids_{side}"] = ids.astype("int32")
            inputs = {name: arrays[name] for name in model.input_names}
            ours = array(model(inputs))
            with torch.inference_mode():
                logits = plain(*(torch.tensor(x) for x in inputs.values()))
            probabilities.append(ours)
            differences.append(float(np.abs(ours - logits.softmax(-1).numpy()).max()))
        spread = np.ptp(np.concatenate(probabilities), axis=0).max()
        shown = ", ".join(f"{x:.1e}" for x in differences)
        print(
            f"{model.name}: largest differences of probabilities {shown} (all words real, padded, "
            f"padded by 3 more); the probabilities spread over {spread:.2f}; {total:,} parameters, "
            f"{second:,} of them second LSTM biases"
        )
        worst = max(worst, *differences)
    return worst


if __name__ == "__main__":
    if check() > 1e-5:
        sys.exit("The networks are not the same.")
