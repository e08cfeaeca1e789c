"""AdamW with a rate and a decay per variable, and schedules, against the formulas in NumPy."""

import json

import keras
import numpy as np
import pytest
from keras import ops

from keras_sentmatch.training import Recipe
from keras_sentmatch.training._model import compile_model
from keras_sentmatch.training.optimizers import (
    FineTuningAdamW,
    WarmUpDecay,
    make_optimizer,
    set_steps,
)
from tests.oracles_recurrent import cosine_warm_up_decay
from tests.toys.training import build_tiny, tiny_pairs, tiny_recipe, tiny_run

pytestmark = pytest.mark.each_backend

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


@pytest.mark.parametrize("schedule", [False, True])
def test_updates_are_those_of_the_formulas(schedule):
    rate = WarmUpDecay(0.05, 8, 0.5, "linear") if schedule else 0.05
    chosen = FineTuningAdamW(rate, 0.1, rate_factors=RATES)
    variables = [keras.Variable(start) for start in STARTS]
    chosen.exclude_from_weight_decay(variables[2:])
    for step in range(5):
        apply(chosen, variables, gradients(step))
    by_hand = [0.0125, 0.025, 0.0375, 0.05, 0.05] if schedule else [0.05] * 5
    want = adamw(map(gradients, range(5)), lambda step: by_hand[step], 0.1)
    for x, y in zip(values(variables), want):
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=1e-6)


def test_the_config_comes_back():
    chosen = FineTuningAdamW(WarmUpDecay(0.05, 8), 0.1, rate_factors=RATES, global_clipnorm=1.0)
    saved = json.loads(json.dumps(keras.saving.serialize_keras_object(chosen)))
    again = keras.saving.deserialize_keras_object(saved)
    assert type(again) is FineTuningAdamW and again.get_config() == chosen.get_config()
    assert again.rate_factors == list(RATES)


# --- in a recipe ---


def layered(**training):
    """A model of which the first layer is the backbone, with the optimizer of the recipe."""
    dense, norm = keras.layers.Dense, keras.layers.LayerNormalization
    layers = [dense(3, name="old"), norm(name="norm"), dense(1, name="new")]
    x = y = keras.Input((2,))
    for layer in layers:
        y = layer(y)
    model = keras.Model(x, y)
    model.backbone_variables = layers[0].variables
    settings = {"optimizer": "adamw", "learning_rate": 0.5, "epochs": 2, **training}
    recipe = Recipe.from_tables("tiny", model={"backbone": "any"}, training=settings)
    return model, make_optimizer(model, recipe.training, 10)


def test_biases_and_norms_do_not_decay():
    model, chosen = layered(weight_decay=0.01)
    decaying = [v.path for v in model.trainable_variables if chosen._use_weight_decay(v)]
    assert decaying == ["old/kernel", "new/kernel"]
    assert chosen.weight_decay == 0.01 and chosen.rate_factors is None


def compiled_fit(batch_size, rows=8, **training):
    keras.utils.set_random_seed(0)
    model, chosen = layered(weight_decay=0.02, **training)
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
    before, after = compiled_fit(8, backbone_learning_rate=0.01, global_clipnorm=1.0)
    for name, rate in (("old/bias", 0.01), ("new/bias", 0.5), ("norm/beta", 0.5)):
        np.testing.assert_allclose(np.abs(after[name] - before[name]), rate, rtol=1e-3)
    for name, rate in (("old/kernel", 0.01), ("new/kernel", 0.5)):
        step = after[name] - before[name] * (1 - 0.02 * rate)
        np.testing.assert_allclose(np.abs(step), rate, rtol=1e-2)


def test_mixed_float16(tmp_path):
    keras.config.set_dtype_policy("mixed_float16")
    before, after = compiled_fit(4, backbone_learning_rate=0.01)
    moved = [np.abs(after[name] - before[name]).max() for name in ("old/bias", "new/bias")]
    assert 0 < moved[0] <= 0.021 < moved[1]


# --- schedules ---


def rate(schedule, step):
    return float(keras.ops.convert_to_numpy(schedule(step)))


@pytest.mark.parametrize("form", ["cosine", "released"])
@pytest.mark.parametrize("steps", [1, 2, 19, 20, 21, 39, 200])
@pytest.mark.parametrize("warm_up", [0.0, 0.05, 0.3])
def test_against_the_oracle_also_without_a_step_of_warm_up(steps, warm_up, form):
    released = form == "released"
    if released and int(steps * (1 - warm_up)) == 0:
        pytest.skip("the released form has no step of decay to divide by")
    schedule = WarmUpDecay(2e-3, steps, warm_up, form)
    points = np.unique(np.linspace(0, steps + 3, 8).astype(int))
    want = [cosine_warm_up_decay(int(i), steps, 2e-3, 0.0, warm_up, released) for i in points]
    assert [rate(schedule, int(i)) for i in points] == pytest.approx(want, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("steps", [1, 7, 20, 40])
@pytest.mark.parametrize("warm_up", [0.0, 0.1, 0.5])
def test_the_linear_form(steps, warm_up):
    """Up over the whole steps in the share of the warm-up, then down, to nothing after the last."""
    up = int(steps * warm_up)
    want = [1e-3 * (i + 1) / up for i in range(up)]
    want += [1e-3 * (steps - i) / (steps - up) for i in range(up, steps + 1)] + [0.0]
    schedule = WarmUpDecay(1e-3, steps, warm_up, "linear")
    got = [rate(schedule, i) for i in range(steps + 2)]
    assert got == pytest.approx(want, rel=1e-5) and max(got) == pytest.approx(1e-3)


def test_reference_values_of_the_released_form():
    schedule = WarmUpDecay(1e-3, 1000, form="released")
    wanted = {0: 1.0e-6, 1: 3.9e-6, 25: 5.314e-4, 49: 1e-3, 50: 9.932e-4, 51: 9.929e-4}
    wanted |= {500: 4.587e-4, 949: 0.0, 999: 0.0, 5000: 0.0}
    for step, want in wanted.items():
        assert rate(schedule, step) == pytest.approx(want, rel=6e-4, abs=5e-8)


def optimizer_of(**training):
    pairs, recipe = tiny_pairs(45, 0), tiny_recipe(**training)
    model = build_tiny("tiny", vocabulary_size=9, num_classes=2, embedding_dim=2)
    compile_model(model, pairs, recipe.training, batches=3)
    return model.optimizer


def test_a_schedule_is_stretched_over_another_number_of_steps():
    optimizer = optimizer_of(schedule="cosine_warm_up_decay", epochs=4, warm_up=0.25)  # 12 steps
    set_steps(optimizer, 24)
    wanted = WarmUpDecay(0.02, 12, 0.25)
    optimizer.iterations.assign(16)
    found = float(keras.ops.convert_to_numpy(optimizer.learning_rate))
    assert found == pytest.approx(rate(wanted, 8)) != rate(wanted, 11)
    set_steps(optimizer_of(), 24)  # a constant rate has nothing to stretch


def test_the_schedules_of_a_recipe():
    for form in ("cosine", "released", "linear"):
        made = optimizer_of(schedule=f"{form}_warm_up_decay", epochs=4, warm_up=0.25)
        assert made._learning_rate.get_config() == {
            "maximum": 0.02,
            "total_steps": 12,  # 3 batches in each of 4 epochs
            "warm_up": 0.25,
            "form": form,
        }
    schedule = optimizer_of(schedule="exponential", decay_rate=0.5, decay_steps=10)._learning_rate
    assert [rate(schedule, i) for i in (0, 10, 30)] == pytest.approx([0.02, 0.01, 0.0025])
    assert float(keras.ops.convert_to_numpy(optimizer_of().learning_rate)) == pytest.approx(0.02)


def test_the_learning_rate_of_a_run_with_warm_up():
    """5 batches an epoch: up for 5, down for 10. Epochs' logs have the learning rate that is next."""
    result = tiny_run(None, schedule="cosine_warm_up_decay", warm_up=0.34, epochs=3)
    want = [cosine_warm_up_decay(5 * i, 15, 0.02, 0.0, 0.34, False) for i in (1, 2, 3)]
    assert result.history["learning_rate"] == pytest.approx(want, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_each_gradient_is_clipped_by_its_norm(name):
    optimizer = optimizer_of(optimizer=name, clipnorm=0.5)
    given = [scale * np.ones((2, 3), "float32") for scale in (0.0, 0.01, 0.5, 100.0)]
    clipped = optimizer._clip_gradients([*map(ops.convert_to_tensor, given), None])
    assert clipped.pop() is None
    for gradient, found in zip(given, clipped):
        want = gradient * 0.5 / max(0.5, np.linalg.norm(gradient))
        np.testing.assert_allclose(ops.convert_to_numpy(found), want, rtol=1e-5)
