"""DRCN: the paper's counts, a whole forward pass against the oracle."""

from functools import partial

import numpy as np

from keras_sentmatch.applications import DRCN
from tests import oracles
from tests.applications.common import WORDS, classified, features, model_case, represented
from tests.case import Case, noise, value, weights_of
from tests.harness import arguments_act, check_build, check_oracle, run_checks
from tests.layers.test_drcn import forward
from tests.oracles_recurrent import dense

ALL = {n: a for n, a in features().items() if n.startswith(("word_ids", "char_ids"))}
SMALL = partial(
    DRCN,
    vocabulary_size=10,
    embedding_dim=3,
    units=2,
    autoencoder_units=4,
    hidden_units=5,
    char_dim=2,
    char_filters=2,
    char_kernel_size=3,
    max_word_length=6,
)


def oracle(model, **inputs):
    xs, masks = represented(model, inputs)
    states = forward(model.stacks[0], 1, *xs, *masks)
    p, q = (oracles.masked_max(states[side], mask)[0] for side, mask in zip("pq", masks))
    v = np.concatenate([p, q, p + q, p - q, np.abs(p - q)], -1)  # eq 7
    for _, hidden, normalization in model.comparison:
        v = dense(v, weights_of(hidden))
        v = oracles.batch_norm(v, *weights_of(normalization)) if normalization else v
        v = oracles.relu(v)
    return classified([model.logits], v)


def case(make, inputs, name):
    # Only the reconstruction loss reaches the decoder; embeddings of ids that don't occur.
    return model_case(make, inputs, oracle, name, unused=("decoder",))


CASES = [case(partial(SMALL, char_vocabulary_size=6, batch_normalization=True), ALL, "full")]
REST = [
    case(partial(SMALL, attention=False, exact_match=False, num_classes=2), WORDS, "encoder only"),
    case(partial(SMALL, num_classes=1, trainable_embedding=False), WORDS, "score"),
]

test_checks = run_checks(CASES)

test_variants = run_checks(REST, check_build, check_oracle)

test_arguments = arguments_act(
    [Case(partial(SMALL, depth=3, autoencoder_after=(1,), char_vocabulary_size=6), ALL, (0, 0))],
    depth=2,
    recurrent_connection="none",
    attentive_connection="none",
    embedding_connection="none",
    autoencoder_after=(2,),
)


def test_counts_of_the_paper():
    """Without word embeddings and, as it turns out, without the character CNN."""

    def count(**config):
        model = DRCN(vocabulary_size=10, num_classes=3, char_vocabulary_size=30, **config)
        cnn = model.get_layer("word_representation").char_cnn
        return model.count_params_without_word_embeddings() - cnn.count_params()

    assert count() == 6_664_636
    assert count(autoencoder_after=()) == 20_306_003
    assert count(**DRCN.presets["encoder_only"]) == 5_620_835


def test_word_vectors_go_into_both_embeddings():
    model = SMALL()
    matrix = noise(10, 3)
    model.set_word_vectors(matrix)
    tables = [w for w in model.weights if "embedding/embeddings" in w.path]
    assert len(tables) == 2 and all((value(t) == matrix).all() for t in tables)
    assert model.count_params() - model.count_params_without_word_embeddings() == 60
