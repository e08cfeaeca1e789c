"""The plain PyTorch networks, with which speed is compared, predict what the Keras models do."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keras_sentmatch.applications import ESIM, RE2
from tests.lazily import Lazily

torch = Lazily("torch")
pytestmark = pytest.mark.once


def array(variable: Any) -> np.ndarray:
    from keras import ops

    return ops.convert_to_numpy(variable)


def put(parameter: Any, value: np.ndarray) -> None:
    if value.shape != parameter.shape:
        raise ValueError(f"Expected the shape {tuple(parameter.shape)}, not {value.shape}.")
    with torch.no_grad():
        parameter.copy_(torch.tensor(value))


def put_table(table: Any, embedding: Any) -> None:
    values = array(embedding.embeddings).copy()
    values[0] = 0  # Keras sets padding to zero after the look-up
    put(table.weight, values)


def put_dense(plain: Any, dense: Any) -> None:
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


def put_lstm(lstm: Any, *layers: Any) -> None:
    """Copy one Keras layer per direction. The gates have the same order."""
    for layer, suffix in zip(layers, ("", "_reverse")):
        put(getattr(lstm, f"weight_ih_l0{suffix}"), array(layer.cell.kernel).T)
        put(getattr(lstm, f"weight_hh_l0{suffix}"), array(layer.cell.recurrent_kernel).T)
        put(getattr(lstm, f"bias_ih_l0{suffix}"), array(layer.cell.bias))
        torch.nn.init.zeros_(getattr(lstm, f"bias_hh_l0{suffix}"))


def put_bilstm(lstm: Any, layer: Any) -> None:
    put_lstm(lstm, layer.forward_rnn, layer.backward_rnn)


def put_esim(plain: Any, model: Any) -> None:
    put_table(plain.words, model.get_layer("word_representation").word_embeddings[0])
    for name in ("encoding", "composition"):
        put_bilstm(getattr(plain, name), model.get_layer(name))
    for name in ("projection", "hidden", "logits"):
        put_dense(getattr(plain, name), model.get_layer(name))


def put_re2(plain: Any, model: Any) -> None:
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


@pytest.mark.parametrize(("name", "put_weights"), [("ESIM", put_esim), ("RE2", put_re2)])
def test_plain_network_answers_as_the_model(
    name: str, put_weights: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import plain

    words, dim, rng = 30, 8, np.random.default_rng(0)
    model = {"ESIM": ESIM, "RE2": RE2}[name](
        vocabulary_size=words, num_classes=3, embedding_dim=dim, units=6
    )
    network = getattr(plain, f"Plain{name}")(words, 3, dim, 6).eval()
    for weight in model.weights:
        weight.assign(array(weight) + rng.normal(0, 0.4, weight.shape))
    put_weights(network, model)
    total, second = plain.count(network)  # PyTorch's LSTM has a second bias
    assert total - second == model.count_params()
    found = []
    for lengths, padded, more in (((7, 7), False, 0), ((7, 5), True, 0), ((5, 7), True, 3)):
        arrays = {}
        for side, length in zip("12", lengths):
            counts = rng.integers(1, length + 1, (6, 1)) if padded else length
            real = np.arange(length + more) < counts * np.ones((6, 1), int)
            ids = rng.integers(1, words, (6, length + more)) * real
            arrays[f"word_ids_{side}"] = ids.astype("int32")
        inputs = {name: arrays[name] for name in model.input_names}
        found.append(array(model(inputs)))
        with torch.inference_mode():
            logits = network(*(torch.tensor(x) for x in inputs.values()))
        np.testing.assert_allclose(found[-1], logits.softmax(-1).numpy(), atol=1e-5)
    assert np.ptp(np.concatenate(found), axis=0).max() > 0.1  # the probabilities differ
