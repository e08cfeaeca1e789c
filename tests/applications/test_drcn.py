"""DRCN: the paper's counts, every row of Table 6, a whole forward pass against the oracle, learning."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_sentmatch.applications import DRCN, build_model, get_model_class, list_models
from keras_sentmatch.data import load_pairs
from keras_sentmatch.encoders import PairBatches, PairEncoder
from keras_sentmatch.errors import InputError
from tests import oracles
from tests.applications.common import IDS_1, IDS_2, WORDS, features, model_case
from tests.harness import (
    Case,
    arguments_act,
    built,
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
ROW = {f"table6_{row}": row for row in range(5, 12)}


def weights_of(layer):
    return [value(w) for w in layer.weights]


def oracle(model, row=1, **inputs):
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
        "cell": model.cell,
        "row": row,
        "attention": model.attention,
        "hidden": hidden,
        "output": weights_of(layers["logits"]),
    }
    return oracles.drcn_forward(inputs, weights)["probabilities"]


def count(**config):
    """The paper's count: without word embeddings and, as it turns out, without the character CNN."""
    model = DRCN(vocabulary_size=10, num_classes=3, char_vocabulary_size=30, **config)
    cnn = next(layer for layer in model.layers if layer.name == "word_representation").char_cnn
    return model.count_params_without_word_embeddings() - cnn.count_params()


def case(make, inputs, name, forward=oracle):
    # Only the reconstruction loss reaches the decoder; embeddings of ids that don't occur.
    return model_case(make, inputs, forward, name, unused=("decoder",))


FULL = case(partial(SMALL, char_vocabulary_size=6, batch_normalization=True), ALL, "full")
REST = [
    case(partial(SMALL, attention=False, exact_match=False, num_classes=2), WORDS, "encoder only"),
    case(partial(SMALL, num_classes=1, cell="gru", trainable_embedding=False), WORDS, "score"),
    *(
        case(
            partial(SMALL, **DRCN.presets[preset]),
            WORDS,
            preset,
            partial(oracle, row=next((r for p, r in ROW.items() if preset.startswith(p + "_")), 1)),
        )
        for preset in DRCN.presets
        if preset.startswith("table6")
    ),
]
CASES = [FULL, *REST]


test_checks = run_checks([FULL])


test_variants = run_checks(REST, check_build, check_oracle)


@pytest.mark.once
def test_counts_of_the_paper():
    assert count() == 6_664_636
    assert count(autoencoder_after=()) == 20_306_003
    assert count(**DRCN.presets["encoder_only"]) == 5_620_835


SHALLOW = Case(partial(SMALL, depth=3, autoencoder_after=(1,), char_vocabulary_size=6), ALL, (0, 0))
test_arguments = arguments_act(
    [SHALLOW],
    "max_word_length",
    "pos_tags",
    "antonym",
    "autoencoder_stop_gradient",
    "feature_attention",
    "feature_attention_config",
    depth=2,
    cell="gru",
    char_kernel_size=2,
    recurrent_connection="none",
    attentive_connection="none",
    embedding_connection="none",
    autoencoder_after=(2,),
)


def test_what_layers_are_given():
    model = SMALL(
        char_vocabulary_size=6,
        pos_tags=4,
        antonym=True,
        max_word_length=9,
        autoencoder_stop_gradient=True,
    )
    assert model.input_names == [
        f"{n}_{s}" for s in "12" for n in ("word_ids", "char_ids", "pos", "antonym")
    ]
    assert model.input["char_ids_1"].shape[-1] == 9
    assert model.get_layer("dense_co_attentive_rnn").autoencoder_stop_gradient


@pytest.mark.once
def test_explainer():
    model = built(FULL)
    seen = {n: value(t) for n, t in model.explainer()(ALL).items()}
    np.testing.assert_allclose(seen["probabilities"], value(model(ALL)), atol=1e-6)
    for side, ids, others in (("1", IDS_1, IDS_2), ("2", IDS_2, IDS_1)):
        attention, rates = seen[f"attention_{side}"], seen[f"pool_rates_{side}"]
        assert attention.shape == (3, 5, ids.shape[1], others.shape[1])
        np.testing.assert_allclose(
            attention.sum(-1), np.broadcast_to((ids > 0)[:, None], attention.shape[:3]), atol=1e-5
        )
        assert not attention[np.broadcast_to((others == 0)[:, None, None], attention.shape)].any()
        np.testing.assert_allclose(rates.sum(1), 1, atol=1e-5)
        assert not rates[ids == 0].any()
    assert set(built(REST[0]).explainer()(WORDS)) == {
        "probabilities",
        "pool_rates_1",
        "pool_rates_2",
    }


def test_identical_sentences_of_one_input():
    model = built(Case(SMALL, WORDS, (0, 0)))
    same = {"word_ids_1": IDS_1, "word_ids_2": IDS_1}
    np.testing.assert_allclose(value(model(same)), oracle(model, **same), atol=1e-5)


def test_word_vectors_go_into_both_embeddings():
    model = SMALL()
    matrix = noise(10, 3)
    model.set_word_vectors(matrix)
    tables = [w for w in model.weights if "embedding/embeddings" in w.path]
    assert len(tables) == 2 and all((value(t) == matrix).all() for t in tables)
    assert model.count_params() - model.count_params_without_word_embeddings() == 60


def test_registry_errors():
    assert "drcn" in list_models() and get_model_class("drcn") is DRCN
    assert build_model("drcn", preset="encoder_only", vocabulary_size=9, units=2).attention is False
    for call, message in (
        (lambda: build_model("drnn", vocabulary_size=9), "no model 'drnn'. Use one of: .*drcn"),
        (
            lambda: build_model("drcn", vocabulary_size=9, deep=3),
            "no argument 'deep'. Did you mean depth. It has: .*depth",
        ),
        (lambda: DRCN.from_preset("snly", vocabulary_size=9), "no preset 'snly'. Use one of: snli"),
    ):
        with pytest.raises(InputError, match=message):
            call()


# On TensorFlow every model does, in test_all_models.py. On JAX, where this takes two minutes, a smaller one does, in
# test_run.py.
@pytest.mark.slow
@pytest.mark.backend("torch")
def test_learns_the_embedded_pairs():
    """A tiny DRCN beats a bag of words (59.4%, logistic regression) on pairs that share their words."""
    data = load_pairs("embedded")
    encoder = PairEncoder.fit(data["train"], features=("word",), max_length=16)
    batches = [
        PairBatches(
            data[part],
            encoder,
            batch_size=64,
            shuffle=part == "train",
            bucket_lengths=(16,),
            drop_remainder=True,
        )
        for part in ("train", "validation")
    ]
    model = DRCN(
        len(encoder.vocabulary),
        embedding_dim=48,
        units=32,
        depth=2,
        fixed_embedding=False,
        hidden_units=64,
        embedding_dropout=0.1,
        batch_normalization=True,
    )
    model.compile(
        keras.optimizers.RMSprop(2e-3, clipnorm=5.0),
        "sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    enough = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: setattr(
            model, "stop_training", logs["val_accuracy"] > 0.70
        )
    )
    history = model.fit(
        batches[0].pydataset(),
        validation_data=batches[1].pydataset(),
        epochs=6,
        callbacks=[enough],
        verbose=0,
        shuffle=False,
    )
    assert max(history.history["val_accuracy"]) > 0.70, history.history
