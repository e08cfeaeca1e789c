"""DRr-Net: whole forward passes against the oracle, the losses of its two inner predictions."""

from functools import partial

import keras
import numpy as np
import pytest

from keras_sentmatch.applications import DRrNet
from tests.applications.common import WORDS, classified, features, model_case, represented
from tests.case import built, value, weights_of
from tests.harness import arguments_act, check_oracle, run_checks
from tests.layers.test_drr_net import pooled, reread, stacked
from tests.layers.test_recurrent import highway
from tests.oracles import sigmoid

ALL = features()
FLOAT32 = ("logits", "probabilities", "p_h", "p_v", "gate_h", "gate_v")


def forward(model, **inputs):
    """Each prediction by name."""
    xs, masks = represented(model, inputs)
    states = [stacked(model.encoding, highway(model.highway, x), m) for x, m in zip(xs, masks)]
    vectors, found, total = {}, {}, 0.0
    if model.pooling.built:
        vectors["h"] = [pooled(model.pooling, *given)[0] for given in zip(states, masks)]
    h = vectors.get("h", (None, None))
    if model.use_dynamic:
        given = zip(states, masks, reversed(h), h)
        vectors["v"] = [reread(model.rereading, *each)[0] for each in given]
    for name, head in model.heads.items():
        a, b = vectors[name]
        matched = np.concatenate([a, b, a * b, a - b], -1)  # eq 7
        p = found[f"p_{name}"] = classified([*head.mlp, head.classify], matched)
        kernel, bias = weights_of(head.gate)
        total = total + sigmoid(p @ kernel + bias) * p  # eq 8
    return found | {"probabilities": classified([*model.mlp, model.logits], total)}


def oracle(model, **inputs):
    return forward(model, **inputs)["probabilities"]


SMALL = partial(
    DRrNet,
    vocabulary_size=10,
    embedding_dim=3,
    char_dim=2,
    char_filters=2,
    char_kernel_size=3,
    max_word_length=6,
    units=3,
    depth=2,
    attention_units=2,
    steps=2,
    beta=3.0,
    hidden_units=8,
)


def case(make, inputs, name):
    return model_case(make, inputs, oracle, name, float32_sublayers=FLOAT32)


FULL = case(
    partial(
        SMALL, char_vocabulary_size=6, pos_tags=3, pos_dim=2, antonym=True, trainable_embedding=True
    ),
    ALL,
    "full",
)
PLAIN = partial(SMALL, exact_match=False)
REST = [
    case(SMALL, WORDS, "words"),
    case(partial(PLAIN, num_classes=1, selection="hard"), WORDS, "hard score"),
    case(
        partial(PLAIN, init_projection=False, num_classes=2, depth=1),
        WORDS,
        "no projection",
    ),
    case(
        partial(PLAIN, use_global=False, use_guide=False, use_initial_vector=False),
        WORDS,
        "no global vector at all",
    ),
]
CASES = [FULL, *REST]
WORDS_ONLY = REST[0]


test_checks = run_checks([FULL])


test_variants = run_checks(REST, check_oracle)


test_arguments = arguments_act([FULL], "aux_loss_weight", selection="hard")


# --- the losses of p_h and p_v ---

LABELS = np.array([2, 0, 1])
SPARSE = keras.losses.SparseCategoricalCrossentropy()
SMOOTHED = keras.losses.CategoricalCrossentropy(label_smoothing=0.1)
# What compile is given, the same as a Loss, the labels, what else fit is given.
FORMS = {
    "sparse": ("sparse_categorical_crossentropy", SPARSE, LABELS, {}),
    "one-hot": ({"probabilities": SMOOTHED}, SMOOTHED, np.eye(3)[LABELS], {}),
    "weighted": ([SPARSE], SPARSE, LABELS, {"sample_weight": np.array([0.5, 2.0, 0.0])}),
    "score": ("mse", keras.losses.MeanSquaredError(), np.array([[0.3], [1.0], [-2.0]]), {}),
}


def loss_of(form, predictions):
    _, loss, y, more = FORMS[form]
    return float(value(loss(y, predictions.astype("float32"), **more)))


def compiled(form, **config):
    model = built(WORDS_ONLY, dropout=0.0, num_classes=1 if form == "score" else 3, **config)
    jit = "auto" if keras.config.backend() == "jax" else False
    model.compile(keras.optimizers.SGD(0.0), FORMS[form][0], jit_compile=jit)
    return model


@pytest.mark.each_backend
@pytest.mark.parametrize(
    "form",
    [
        pytest.param(form, marks=() if form in ("one-hot", "score") else pytest.mark.once)
        for form in FORMS
    ],
)
def test_auxiliary_losses_with_every_form_of_label(form):
    """In training they add to the loss, in evaluation they don't; the output stays one tensor."""
    model = compiled(form, aux_loss_weight=0.5)
    _, _, y, more = FORMS[form]
    want = forward(model, **WORDS)
    plain, *auxiliary = (loss_of(form, want[n]) for n in ("probabilities", "p_h", "p_v"))
    history = model.fit(WORDS, y, batch_size=3, epochs=2, verbose=0, **more)
    assert history.history["loss"] == pytest.approx([plain + 0.5 * sum(auxiliary)] * 2, rel=1e-4)
    again = model.evaluate(WORDS, y, batch_size=3, verbose=0, **more)
    assert again == pytest.approx(plain, rel=1e-4)
    assert model.output_shape == (None, 1 if form == "score" else 3)


@pytest.mark.each_backend
def test_auxiliary_losses_teach():
    """With a deaf last layer only they reach what predicts p_h and p_v."""
    for weight, learns in ((1.0, True), (0.0, False)):
        model = compiled("sparse", aux_loss_weight=weight)
        model.compile(keras.optimizers.SGD(0.1), model.loss, jit_compile=False)
        model.get_layer("logits").kernel.assign(np.zeros((8, 3)))
        names = ("p_h", "p_v", "pooling", "rereading", "mlp_hidden_1")
        before = {n: weights_of(model.get_layer(n)) for n in names}
        model.train_on_batch(WORDS, LABELS)
        for name in names:
            after = weights_of(model.get_layer(name))
            moved = any((a != b).any() for a, b in zip(after, before[name]))
            assert moved is (learns and name != "mlp_hidden_1"), (name, weight)


@pytest.mark.each_backend
def test_a_saved_model_still_has_them(tmp_path):
    model = compiled("sparse")
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    losses = [m.train_on_batch(WORDS, LABELS) for m in (model, again)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0] > 1.2 * again.test_on_batch(WORDS, LABELS)
