"""DRCN: the paper's counts, a whole forward pass against the oracle."""

from functools import partial

from keras_sentmatch.applications import DRCN
from tests import oracles
from tests.applications.common import WORDS, features, model_case, weights_of
from tests.harness import (
    Case,
    arguments_act,
    check_build,
    check_oracle,
    noise,
    run_checks,
    value,
)

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
    layers = {layer.name: layer for layer in model.layers}
    words, body = layers["word_representation"], layers["dense_co_attentive_rnn"]
    hidden = []
    for i in ("1", "2"):
        norm = layers.get(f"normalization_{i}")
        hidden.append((*weights_of(layers[f"hidden_{i}"]), *([weights_of(norm)] if norm else [])))
    cnn = words.char_cnn
    weights = {
        "embeddings": [value(e.embeddings) for e in words.word_embeddings],
        "char": [value(cnn.embedding.embeddings), *weights_of(cnn.convolution)] if cnn else None,
        "flag": model.exact_match,
        "layers": [(weights_of(r.forward_rnn), weights_of(r.backward_rnn)) for r in body.recurrent],
        "autoencoders": {
            after: [*weights_of(a.encoder), *weights_of(a.decoder)]
            for after, a in zip(body.autoencoder_after, body.autoencoders)
        },
        "row": 1,
        "attention": model.attention,
        "hidden": hidden,
        "output": weights_of(layers["logits"]),
    }
    return oracles.drcn_forward(inputs, weights)["probabilities"]


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
