"""InferSent, shortcut-stacked and decomposable attention: the harness's checks and oracles."""

from functools import partial

import numpy as np
import pytest

from keras_sentmatch.applications import DecomposableAttention, InferSent, ShortcutStacked
from keras_sentmatch.errors import InputError
from tests import oracles
from tests.applications.common import WORDS, model_case
from tests.case import value, weights_of
from tests.harness import arguments_act, run_checks
from tests.oracles_recurrent import class_probabilities, dense, zero_pads

SMALL = {"vocabulary_size": 10, "embedding_dim": 3}


def read(model, inputs):
    """The word vectors and the mask of each sentence."""
    table = value(model.get_layer("word_representation").word_embeddings[0].embeddings).astype(
        np.float64
    )
    for side in "12":
        ids = np.asarray(inputs[f"word_ids_{side}"])
        yield zero_pads(table[ids], ids > 0), ids > 0


def bilstm(x, mask, layer):
    directions = (weights_of(rnn) for rnn in (layer.forward_rnn, layer.backward_rnn))
    return oracles.bidirectional_rnn("lstm", x, mask, *directions)[0]


def classified(model, names, *vectors):
    """[u; v; |u - v|; u * v], hidden layers with their activation, and the classes."""
    u, v = vectors
    x = np.concatenate([u, v, abs(u - v), u * v], -1)
    for name, activation in names:
        x = activation(dense(x, weights_of(model.get_layer(name))))
    return class_probabilities(dense(x, weights_of(model.get_layer("logits"))))


def infersent(model, **inputs):
    layer = model.get_layer("encoding")
    vectors = [oracles.masked_max(bilstm(x, m, layer), m)[0] for x, m in read(model, inputs)]
    return classified(model, [("hidden", np.tanh)], *vectors)


def shortcut_stacked(model, **inputs):
    vectors = []
    for words, mask in read(model, inputs):
        below: list = []
        for number in range(1, len(model.units) + 1):
            joined = [sum(below)] if below and model.connection == "residual" else below
            x = np.concatenate([words, *joined], -1)
            below.append(bilstm(x, mask, model.get_layer(f"encoding_{number}")))
        vectors.append(oracles.masked_max(below[-1], mask)[0])
    hidden = [(f"hidden_{i + 1}", oracles.relu) for i in range(len(model.hidden_units))]
    return classified(model, hidden, *vectors)


def decomposable(model, **inputs):
    def network(name, x):
        for number in "12":
            x = oracles.relu(dense(x, weights_of(model.get_layer(f"{name}_{number}"))))
        return x

    (a, mask_a), (b, mask_b) = [
        (dense(x, weights_of(model.get_layer("projection"))), m) for x, m in read(model, inputs)
    ]
    scores = np.einsum("bid,bjd->bij", network("attend", a), network("attend", b))
    sums = []
    for own, other, e, mask, other_mask in (
        (a, b, scores, mask_a, mask_b),
        (b, a, scores.swapaxes(1, 2), mask_b, mask_a),
    ):
        weights = oracles.masked_softmax(e, np.broadcast_to(other_mask[:, None], e.shape))
        compared = network("compare", np.concatenate([own, weights @ other], -1))
        sums.append(zero_pads(compared, mask).sum(1))
    v = network("aggregate", np.concatenate(sums, -1))
    return class_probabilities(dense(v, weights_of(model.get_layer("logits"))))


make_stacked = partial(ShortcutStacked, **SMALL, units=(2, 3), hidden_units=(4, 3))
CASES = [
    model_case(partial(InferSent, **SMALL, units=3, hidden_units=4), WORDS, infersent, "infersent"),
    model_case(make_stacked, WORDS, shortcut_stacked, "shortcut_stacked"),
    model_case(
        partial(make_stacked, units=(2, 2, 2), connection="residual"),
        WORDS, shortcut_stacked, "shortcut_stacked-residual",
    ),
    model_case(
        partial(DecomposableAttention, **SMALL, units=8), WORDS, decomposable, "decatt"
    ),
]  # fmt: skip

test_checks = run_checks(CASES)
test_arguments = arguments_act([CASES[0], CASES[3]])
test_arguments_of_stacked = arguments_act(
    [CASES[2]], connection="shortcut", units=(3, 3), hidden_units=(5,)
)


def test_published_sizes(quick_weights):
    """40M of BiLSTM-Max and 29M of Residual stacked (SNLI's list, and DRCN's Table 2)."""
    words = {"vocabulary_size": 3, "embedding_dim": 300}
    encoder = InferSent(**words, **InferSent.presets["paper"])
    assert encoder.count_params_without_word_embeddings() == pytest.approx(40e6, rel=0.2)
    stacked = ShortcutStacked(**words, **ShortcutStacked.presets["residual"])
    assert stacked.count_params_without_word_embeddings() == pytest.approx(28.9e6, rel=0.02)


def test_residual_layers_have_one_width():
    with pytest.raises(InputError, match="all widths must be equal"):
        make_stacked(connection="residual")
