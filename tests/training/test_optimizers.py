"""AdamW with a rate and a decay for each variable, against the formulas in NumPy."""

import json

import keras
import numpy as np
import pytest

from keras_sentmatch.training import Recipe
from keras_sentmatch.training.optimizers import FineTuningAdamW, make_optimizer
from keras_sentmatch.training.schedules import LinearWarmUpDecay

STARTS = (np.array([1.0, -2.0]), np.array([[0.5], [1.5]]), np.array([3.0]))
RATES, DECAYS = (0.02, 1.0, 1.0), (1.0, 1.0, 0.0)


def gradients(step):
    rng = np.random.default_rng(step)
    return [rng.normal(size=start.shape).astype("float32") for start in STARTS]


def adamw(steps, rate, decay, rates=RATES, decays=DECAYS, b1=0.9, b2=0.999, epsilon=1e-7):
    """The values after each step; `rate` and `steps` give the learning rate and the gradients of one."""
    x = [start.copy() for start in STARTS]
    m, v = ([np.zeros_like(start) for start in STARTS] for _ in range(2))
    for t, given in enumerate(steps, 1):
        for i, g in enumerate(given):
            r = rate(t - 1) * rates[i]
            x[i] = x[i] - r * decays[i] * decay * x[i]
            m[i] = b1 * m[i] + (1 - b1) * g
            v[i] = b2 * v[i] + (1 - b2) * g**2
            # Keras adds epsilon before it corrects the second moment
            step = r * np.sqrt(1 - b2**t) / (1 - b1**t)
            x[i] = x[i] - step * m[i] / (np.sqrt(v[i]) + epsilon)
    return x


def values(variables):
    return [keras.ops.convert_to_numpy(variable) for variable in variables]


def apply(optimizer, variables, grads):
    grads = [keras.ops.convert_to_tensor(g) for g in grads]
    if keras.config.backend() == "torch":
        import torch

        with torch.no_grad():
            optimizer.apply(grads, variables)
    else:
        optimizer.apply(grads, variables)


def optimizer(**more):
    given = {"rate_factors": RATES, "decay_factors": DECAYS, "weight_decay": 0.1}
    return FineTuningAdamW(**{"learning_rate": 0.05, **given, **more})


@pytest.mark.parametrize("schedule", [False, True])
def test_updates_are_those_of_the_formulas(schedule):
    rate = LinearWarmUpDecay(0.05, 8, 0.5) if schedule else 0.05
    chosen = optimizer(learning_rate=rate)
    variables = [keras.Variable(start) for start in STARTS]
    for step in range(5):
        apply(chosen, variables, gradients(step))
    by_hand = [0.0125, 0.025, 0.0375, 0.05, 0.05] if schedule else [0.05] * 5
    want = adamw(map(gradients, range(5)), lambda step: by_hand[step], 0.1)
    for x, y in zip(values(variables), want):
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=1e-6)


def test_the_config_comes_back():
    schedule = LinearWarmUpDecay(0.05, 8)
    chosen = optimizer(learning_rate=schedule, global_clipnorm=1.0, gradient_accumulation_steps=2)
    saved = json.loads(json.dumps(keras.saving.serialize_keras_object(chosen)))
    assert saved["registered_name"] == "keras_sentmatch>FineTuningAdamW"
    again = keras.saving.deserialize_keras_object(saved)
    assert again.get_config() == chosen.get_config()
    assert again.get_config()["rate_factors"] == list(RATES)
    assert again.weight_decay == 0.1 and again.gradient_accumulation_steps == 2


@pytest.mark.parametrize("name", ["rate_factors", "decay_factors"])
def test_factors_of_another_model(name):
    with pytest.raises(ValueError, match=f"{name} must have one number for each of the 3 .* 2"):
        optimizer(**{name: [1.0, 1.0]}).build([keras.Variable(start) for start in STARTS])


# --- in a recipe ---


def layered(**training):
    """A model of which the first layer is the backbone, with the optimizer of the recipe."""
    x = keras.Input((2,))
    layers = [
        keras.layers.Dense(3, name="old"),
        keras.layers.LayerNormalization(name="norm"),
        keras.layers.Dense(1, name="new"),
    ]
    y = x
    for layer in layers:
        y = layer(y)
    model = keras.Model(x, y)
    model.backbone_variables = layers[0].variables
    settings = {"optimizer": "adamw", "learning_rate": 0.5, "epochs": 2, **training}
    recipe = Recipe.from_tables("tiny", model={"backbone": "any"}, training=settings)
    return model, make_optimizer(model, recipe.training, 10)


def test_biases_and_norms_do_not_decay():
    model, chosen = layered(weight_decay=0.01)
    names = [variable.path for variable in model.trainable_variables]
    by_name = dict(zip(names, chosen.decay_factors))
    assert by_name == {
        "old/kernel": 1.0,
        "old/bias": 0.0,
        "norm/gamma": 0.0,
        "norm/beta": 0.0,
        "new/kernel": 1.0,
        "new/bias": 0.0,
    }
    assert chosen.weight_decay == 0.01 and chosen.rate_factors is None


def compiled_fit(accumulate, batch_size, rows=8, **training):
    keras.utils.set_random_seed(0)
    model, chosen = layered(weight_decay=0.02, accumulate=accumulate, **training)
    jit = keras.config.backend() == "jax"
    model.compile(chosen, "mse", jit_compile=jit)
    before = {v.path: value for v, value in zip(model.variables, values(model.variables))}
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(rows, 2)), rng.normal(size=(rows, 1))
    model.fit(x, y, batch_size=batch_size, epochs=1, shuffle=False, verbose=0)
    after = {v.path: value for v, value in zip(model.variables, values(model.variables))}
    return before, after


def test_a_compiled_step_moves_the_backbone_less():
    """Adam's first step is the learning rate in the direction of the sign, whatever the gradient."""
    before, after = compiled_fit(1, 8, backbone_learning_rate=0.01, global_clipnorm=1.0)
    for name, rate in (("old/bias", 0.01), ("new/bias", 0.5), ("norm/beta", 0.5)):
        np.testing.assert_allclose(np.abs(after[name] - before[name]), rate, rtol=1e-3)
    for name, rate in (("old/kernel", 0.01), ("new/kernel", 0.5)):
        step = after[name] - before[name] * (1 - 0.02 * rate)
        np.testing.assert_allclose(np.abs(step), rate, rtol=1e-2)


def test_accumulated_batches_are_one_larger_batch():
    options = {"backbone_learning_rate": 0.1, "schedule": "linear_warm_up_decay", "warm_up": 0.0}
    _, whole = compiled_fit(1, 8, **options | {"schedule": "constant"})
    _, parts = compiled_fit(4, 2, **options | {"schedule": "constant"})
    for name, value in whole.items():
        np.testing.assert_allclose(parts[name], value, rtol=1e-4, atol=1e-5)
    # The schedule counts batches: the one update comes with the 4th of 20 (2 epochs of 10).
    before, after = compiled_fit(4, 2, **options)
    step = 0.5 * (20 - 3) / 20
    np.testing.assert_allclose(np.abs(after["new/bias"] - before["new/bias"]), step, rtol=1e-3)


def test_mixed_float16(tmp_path):
    keras.config.set_dtype_policy("mixed_float16")
    before, after = compiled_fit(1, 4, backbone_learning_rate=0.01)
    moved = [np.abs(after[name] - before[name]).max() for name in ("old/bias", "new/bias")]
    assert 0 < moved[0] <= 0.021 < moved[1]


def test_without_factors_it_is_keras_own():
    ours, keras_own = FineTuningAdamW(0.05, 0.1), keras.optimizers.AdamW(0.05, 0.1)
    results = []
    for chosen in (ours, keras_own):
        variables = [keras.Variable(start) for start in STARTS]
        for step in range(3):
            apply(chosen, variables, gradients(step))
        results.append(values(variables))
    for x, y in zip(*results):
        np.testing.assert_allclose(x, y, rtol=1e-6)


@pytest.mark.each_backend
@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
@pytest.mark.parametrize("limit", [0.5, 100.0])
@pytest.mark.parametrize("kind", ["clipnorm", "global_clipnorm"])
def test_clipped_gradients_are_keras_own(kind, limit, bad):
    """All at once on PyTorch; where one is not finite, a global norm leaves none that is."""
    _, optimizer = layered(**{kind: limit})
    keras_own = type(optimizer).from_config(optimizer.get_config())
    arrays = [*gradients(0), np.zeros((2, 2), "float32")]
    arrays[0][0] += bad
    grads = [*map(keras.ops.convert_to_tensor, arrays), None]
    found, expected = (x._clip_gradients(grads) for x in (optimizer, keras_own))
    assert found.pop() is None and expected.pop() is None
    for one, two in zip(found, expected, strict=True):
        one, two = (keras.ops.convert_to_numpy(x) for x in (one, two))
        np.testing.assert_allclose(one, two, rtol=1e-6)
