"""Whether the plain PyTorch networks give the same probabilities as the Keras models.

    python benchmarks/plain_check.py

gives small plain networks, and the whole of `plain_drcn.py`, the weights of the Keras models and
prints the largest difference of the probabilities, with and without padding.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from plain_cafe import PlainCAFE
from plain_drcn import PlainDRCN, count
from plain_drr_net import PlainDRrNet
from plain_hosts import PlainBiMPM, PlainESIM, PlainRE2
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
    """A dense layer or a convolution, of either kind."""
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
    """One Keras layer a direction; the gates have the same order."""
    for layer, suffix in zip(layers, ("", "_reverse")):
        put(getattr(lstm, f"weight_ih_l0{suffix}"), array(layer.cell.kernel).T)
        put(getattr(lstm, f"weight_hh_l0{suffix}"), array(layer.cell.recurrent_kernel).T)
        put(getattr(lstm, f"bias_ih_l0{suffix}"), array(layer.cell.bias))
        nn.init.zeros_(getattr(lstm, f"bias_hh_l0{suffix}"))


def put_gru(gru: nn.Module, cell: Any, suffix: str = "") -> None:
    """Keras has the update gate first, PyTorch the reset gate."""

    def ordered(kernel: np.ndarray) -> np.ndarray:
        update, reset, new = np.split(kernel, 3, axis=-1)
        return np.concatenate([reset, update, new], axis=-1).T

    put(getattr(gru, f"weight_ih{suffix}"), ordered(array(cell.kernel)))
    put(getattr(gru, f"weight_hh{suffix}"), ordered(array(cell.recurrent_kernel)))
    for name, bias in zip(("bias_ih", "bias_hh"), array(cell.bias)):
        put(getattr(gru, f"{name}{suffix}"), ordered(bias))


def put_highway(plain: Any, highway: Any) -> None:
    for (gate, transform), *layers in zip(plain.layers, highway.gates, highway.transforms):
        put_dense(gate, layers[0])
        put_dense(transform, layers[1])


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


def put_bimpm(plain: PlainBiMPM, model: Any) -> None:
    words = model.get_layer("word_representation")
    put_table(plain.words, words.word_embeddings[0])
    put_table(plain.chars, words.char_lstm.embedding)
    put_lstm(plain.char_lstm, words.char_lstm.lstm)
    for name in ("context", "aggregation"):
        put_bilstm(getattr(plain, name), model.get_layer(name))
    kernels = model.get_layer("matching").kernels
    put(plain.perspectives, np.array([[array(kernel) for kernel in pair] for pair in kernels]))
    for name in ("hidden", "logits"):
        put_dense(getattr(plain, name), model.get_layer(name))


def put_drcn(plain: PlainDRCN, model: Any) -> None:
    words = model.get_layer("word_representation")
    put_table(plain.trainable_words, words.word_embeddings[0])
    put_table(plain.fixed_words, words.word_embeddings[1])
    put_table(plain.chars, words.char_cnn.embedding)
    put_dense(plain.convolution, words.char_cnn.convolution)
    body = model.get_layer("dense_co_attentive_rnn")
    for lstm, layer in zip(plain.lstms, body.recurrent):
        put_bilstm(lstm, layer)
    for encoder, decoder, layer in zip(
        plain.encoders.values(), plain.decoders.values(), body.autoencoders
    ):
        put_dense(encoder, layer.encoder)
        put_dense(decoder, layer.decoder)
    for i, (hidden, norm) in enumerate(zip(plain.hidden, plain.norms), start=1):
        put_dense(hidden, model.get_layer(f"hidden_{i}"))
        layer = model.get_layer(f"normalization_{i}")
        put(norm.weight, array(layer.gamma))
        put(norm.bias, array(layer.beta))
        put(norm.running_mean, array(layer.moving_mean))
        put(norm.running_var, array(layer.moving_variance))
    put_dense(plain.logits, model.get_layer("logits"))


def put_words(plain: Any, model: Any) -> None:
    words = model.get_layer("word_representation")
    put_table(plain.words, words.word_embeddings[0])
    put_table(plain.chars, words.char_cnn.embedding)
    put_dense(plain.convolution, words.char_cnn.convolution)


def put_cafe(plain: PlainCAFE, model: Any) -> None:
    put_words(plain, model)
    for name in ("word_projection", "inter_keys", "intra_keys", "projection", "logits"):
        put_dense(getattr(plain, name), model.get_layer(name))
    for name in ("word_highway", "highway"):
        put_highway(getattr(plain, name), model.get_layer(name))
    for kind, machines in (("inter", plain.inter), ("intra", plain.intra)):
        for machine, compared in zip(machines, ("concat", "product", "difference")):
            layer = model.get_layer(f"{kind}_{compared}")
            put_dense(machine.linear, layer)
            put(machine.factors, array(layer.factor_kernel))
    put_lstm(plain.lstm, model.get_layer("lstm"))


def put_drr_net(plain: PlainDRrNet, model: Any) -> None:
    put_words(plain, model)
    put_highway(plain.highway, model.get_layer("highway"))
    for gru, layer in zip(plain.grus, model.get_layer("encoding").forward_rnns):
        put_gru(gru, layer.cell, "_l0")
    pooling, rereading = model.get_layer("pooling"), model.get_layer("rereading")
    put_dense(plain.pooling, pooling)
    put(plain.pooling_context.weight, array(pooling.context).T)
    for name in ("token", "state", "guide", "initial"):
        put(getattr(plain, name).weight, array(getattr(rereading, f"{name}_kernel")).T)
    put(plain.initial.bias, array(rereading.initial_bias))
    put(plain.context.weight, array(rereading.context).T)
    put_gru(plain.cell, rereading.cell)
    for name, judge in (("h", plain.judge_h), ("v", plain.judge_v)):
        put_mlp(judge.mlp, model, f"mlp_{name}")
        put_dense(judge.classes, model.get_layer(f"p_{name}"))
        put_dense(judge.gate, model.get_layer(f"gate_{name}"))
    put_mlp(plain.mlp, model, "mlp")
    put_dense(plain.logits, model.get_layer("logits"))


def put_mlp(mlp: nn.Sequential, model: Any, name: str) -> None:
    layers = [layer for layer in mlp if isinstance(layer, nn.Linear)]
    for i, layer in enumerate(layers, start=1):
        put_dense(layer, model.get_layer(f"{name}_hidden_{i}"))


def check() -> float:
    """Prints, and returns, the largest difference of the probabilities of all networks."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    from keras_sentmatch.applications import CAFE, DRCN, ESIM, RE2, BiMPM, DRrNet

    words, chars, dim = 30, 20, 8
    with_chars = {"char_vocabulary_size": chars}
    drcn = DRCN(words, batch_normalization=True, **with_chars)
    bimpm = BiMPM(words, 3, dim, units=5, aggregation_units=5, perspectives=4, **with_chars)
    cafe = CAFE(words, 3, dim, units=6, char_dim=4, char_filters=5, **with_chars)
    drr_net = DRrNet(
        words,
        3,
        dim,
        char_dim=4,
        char_filters=5,
        units=6,
        attention_units=5,
        hidden_units=7,
        **with_chars,
    )
    small = {"dim": dim, "char_dim": 4, "char_filters": 5, "units": 6}
    cases: list[tuple[Any, nn.Module, Callable[[Any, Any], None], float]] = [
        (ESIM(words, 3, dim, units=6), PlainESIM(words, 3, dim, 6), put_esim, 0.4),
        (RE2(words, 3, dim, units=6), PlainRE2(words, 3, dim, 6), put_re2, 0.4),
        (bimpm, PlainBiMPM(words, chars, dim=dim, units=5, perspectives=4), put_bimpm, 0.4),
        (drcn, PlainDRCN(words, chars), put_drcn, 0.03),
        (cafe, PlainCAFE(words, chars, **small), put_cafe, 0.3),
        (
            drr_net,
            PlainDRrNet(words, chars, attention_units=5, hidden=7, **small),
            put_drr_net,
            0.3,
        ),
    ]
    rng = np.random.default_rng(0)
    worst = 0.0
    for model, plain, put_weights, noise in cases:
        for weight in model.weights:
            weight.assign(array(weight) + rng.normal(0, noise, weight.shape))
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
                letters = rng.integers(1, chars, (*ids.shape, 16))
                letters *= np.arange(16) < rng.integers(1, 17, ids.shape)[:, :, None]
                arrays[f"word_ids_{side}"] = ids.astype("int32")
                arrays[f"char_ids_{side}"] = (letters * (ids != 0)[:, :, None]).astype("int32")
            names = [f"{name}_{side}" for side in "12" for name in ("word_ids", "char_ids")]
            inputs = {name: arrays[name] for name in names if name in model.input_names}
            ours = array(model(inputs))
            with torch.inference_mode():
                logits = plain(*(torch.tensor(x) for x in inputs.values()))
            logits = logits[0] if isinstance(logits, tuple) else logits
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
