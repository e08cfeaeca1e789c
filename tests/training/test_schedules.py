import json

import keras
import numpy as np
import pytest

from keras_sentmatch.errors import InputError
from keras_sentmatch.training import Recipe, load_recipe
from keras_sentmatch.training.prepare import compile_model
from keras_sentmatch.training.schedules import CosineWarmUpDecay, LinearWarmUpDecay
from tests.oracles_recurrent import cosine_warm_up_decay
from tests.toys.training import build_tiny, tiny_pairs, tiny_recipe, tiny_run


def rate(schedule, step):
    return float(keras.ops.convert_to_numpy(schedule(step)))


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 19, 20, 21, 30, 39, 200])
@pytest.mark.parametrize("warm_up", [0.0, 0.05, 0.3])
def test_against_the_oracle_also_without_a_step_of_warm_up(steps, warm_up, legacy):
    if legacy and int(steps * (1 - warm_up)) == 0:
        pytest.skip("the released form has no step of decay to divide by")
    schedule = CosineWarmUpDecay(2e-3, steps, 1e-4, warm_up, legacy)
    points = np.unique(np.linspace(0, steps + 3, 8).astype(int))
    want = [cosine_warm_up_decay(int(i), steps, 2e-3, 1e-4, warm_up, legacy) for i in points]
    assert [rate(schedule, int(i)) for i in points] == pytest.approx(want, rel=1e-4)


def test_one_step_of_the_released_form_is_finite():
    assert rate(CosineWarmUpDecay(1e-3, 1, legacy=True), 0) == pytest.approx(1e-3)


@pytest.mark.parametrize("steps", [1, 7, 20, 40])
@pytest.mark.parametrize("warm_up", [0.0, 0.1, 0.5])
def test_the_linear_form(steps, warm_up):
    """Up over the whole steps in the share of the warm-up, then down, to nothing after the last."""
    up = int(steps * warm_up)
    want = [1e-3 * (i + 1) / up for i in range(up)]
    want += [1e-3 * (steps - i) / (steps - up) for i in range(up, steps + 1)] + [0.0]
    schedule = LinearWarmUpDecay(1e-3, steps, warm_up)
    got = [rate(schedule, i) for i in range(steps + 2)]
    assert got == pytest.approx(want, rel=1e-5) and max(got) == pytest.approx(1e-3)
    again = LinearWarmUpDecay.from_config(json.loads(json.dumps(schedule.get_config())))
    assert rate(again, steps // 2) == rate(schedule, steps // 2)


def test_it_goes_through_json_and_a_saved_model(tmp_path):
    schedule = CosineWarmUpDecay(1e-3, 100, 1e-5, 0.1, True)
    saved = json.loads(json.dumps(keras.optimizers.schedules.serialize(schedule)))
    assert saved["registered_name"] == "keras_sentmatch>CosineWarmUpDecay"
    again = keras.optimizers.schedules.deserialize(saved)
    assert type(again) is CosineWarmUpDecay and again.get_config() == schedule.get_config()
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(schedule), "mse")
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras").optimizer
    assert rate(loaded._learning_rate, 30) == pytest.approx(rate(schedule, 30))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"total_steps": 0}, "total_steps must be at least 1. Received: total_steps=0"),
        ({"warm_up": 1.0}, "warm_up must be at least 0 and below 1. Received: warm_up=1.0"),
        (
            {"minimum": 2e-3},
            "minimum must lie between 0 and maximum=0.001. Received: minimum=0.002",
        ),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        CosineWarmUpDecay(**{"maximum": 1e-3, "total_steps": 10, **arguments})
    if "minimum" not in arguments:
        with pytest.raises(ValueError, match=message):
            LinearWarmUpDecay(**{"maximum": 1e-3, "total_steps": 10, **arguments})


# --- in a recipe ---


def optimizer_of(**training):
    pairs, recipe = tiny_pairs(45, 0), tiny_recipe(**training)
    model = build_tiny("tiny", vocabulary_size=9, num_classes=2, embedding_dim=2)
    compile_model(model, pairs, recipe.training)
    return model.optimizer


def test_the_schedules_of_a_recipe():
    schedule = optimizer_of(schedule="cosine_warm_up_decay", epochs=4, warm_up=0.25)._learning_rate
    assert schedule.get_config() == {
        "maximum": 0.02,
        "total_steps": 12,  # 45 pairs in batches of 20, 4 epochs
        "minimum": 0.0,
        "warm_up": 0.25,
        "legacy": False,
    }
    schedule = optimizer_of(schedule="linear_warm_up_decay", epochs=4, warm_up=0.25)._learning_rate
    assert schedule.get_config() == {"maximum": 0.02, "total_steps": 12, "warm_up": 0.25}
    schedule = optimizer_of(schedule="exponential", decay_rate=0.5, decay_steps=10)._learning_rate
    assert [rate(schedule, i) for i in (0, 10, 30)] == pytest.approx([0.02, 0.01, 0.0025])
    assert float(keras.ops.convert_to_numpy(optimizer_of().learning_rate)) == pytest.approx(0.02)


@pytest.mark.parametrize(
    "schedule", ["cosine_warm_up_decay", "linear_warm_up_decay", "exponential"]
)
def test_a_schedule_beside_plateau_factor(schedule):
    message = "schedule is '.*' and training.plateau_factor is 0.85: both would set the learning"
    with pytest.raises(InputError, match=message):
        Recipe.from_tables("tiny", training={"schedule": schedule, "plateau_factor": 0.85})
    override = f"training.schedule={schedule}"
    with pytest.raises(InputError, match="Set training.plateau_factor=1 or training.schedule="):
        load_recipe("drcn", overrides=[override])
    recipe = load_recipe("drcn", overrides=[override, "training.plateau_factor=1.0"])
    assert recipe.training.schedule == schedule


@pytest.mark.parametrize(
    "training, message",
    [
        ({"schedule": "cosine"}, 'schedule is \'cosine\'; expected one of "constant", "cosine_wa'),
        ({"warm_up": 1}, "warm_up is 1; expected a number of at least 0, below 1"),
        ({"decay_rate": 1.5}, "decay_rate is 1.5; expected a number above 0, at most 1"),
        ({"decay_steps": 0}, "decay_steps is 0; expected an integer of at least 1"),
    ],
)
def test_bad_recipes(training, message):
    with pytest.raises(InputError, match=message):
        Recipe.from_tables("tiny", training=training)


def test_a_run_with_warm_up_and_early_stopping(tmp_path):
    """5 batches an epoch: up for 5, down for 10. Epochs' logs have the learning rate that is next."""
    result = tiny_run(
        tmp_path / "a", schedule="cosine_warm_up_decay", warm_up=0.34, epochs=3, patience=1
    )
    rates = result.history["learning_rate"]
    want = [cosine_warm_up_decay(5 * i, 15, 0.02, 0.0, 0.34, False) for i in (1, 2, 3)]
    assert rates == pytest.approx(want[: len(rates)], rel=1e-4, abs=1e-9)
    assert "learning_rate" in (tmp_path / "a" / "history.csv").read_text().partition("\n")[0]
    stopped = tiny_run(
        tmp_path / "b",
        schedule="exponential",
        decay_rate=1e-3,
        decay_steps=1,
        epochs=9,
        patience=1,
        monitor="val_accuracy",
    )
    assert len(stopped.history["loss"]) < 9  # nothing is learned any more, so it stops


def test_the_plateau_still_lowers_a_constant_rate(tmp_path):
    result = tiny_run(tmp_path / "a", plateau_factor=0.5, epochs=4, learning_rate=1e-12)
    assert result.history["learning_rate"][-1] < 1e-12


def test_reference_values_of_the_released_form():
    schedule = CosineWarmUpDecay(1e-3, 1000, legacy=True)
    for step, want in {
        0: 1.0e-6,
        1: 3.9e-6,
        25: 5.314e-4,
        49: 1e-3,
        50: 9.932e-4,
        51: 9.929e-4,
        500: 4.587e-4,
        949: 0.0,
        999: 0.0,
        5000: 0.0,
    }.items():
        assert rate(schedule, step) == pytest.approx(want, rel=6e-4, abs=5e-8)
    # Its quirks: a jump of 0.7% where the decay begins, and a flat end.
    assert rate(schedule, 50) / rate(schedule, 49) == pytest.approx(0.993, abs=5e-4)
    assert rate(schedule, 950) == rate(schedule, 999) > 0


def test_the_corrected_form():
    schedule = CosineWarmUpDecay(1e-3, 1000)
    rates = [rate(schedule, step) for step in range(0, 1001)]
    assert rates[49] == rates[50] == pytest.approx(1e-3)
    assert rates[525] == pytest.approx(5e-4)
    assert np.all(np.diff(rates[:50]) > 0)
    assert np.all(np.diff(rates[50:]) < 0)  # to the last step
    assert rates[1000] == pytest.approx(0, abs=1e-10) and rate(schedule, 2000) == rates[1000]
    assert rate(CosineWarmUpDecay(1e-3, 1000, minimum=1e-4), 1000) == pytest.approx(1e-4)
