"""Training on several devices (virtual ones of the CPU) gives what one device gives."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_sentmatch.encoders import PairBatches, PairEncoder
from keras_sentmatch.errors import InputError
from keras_sentmatch.training.devices import data_parallel
from keras_sentmatch.training.optimizers import make_optimizer
from tests.toys.training import tiny_pairs, tiny_recipe

# In a process of its own: the number of devices is fixed when a backend starts.
PROGRAM = """
import json, sys
import keras
if keras.config.backend() == "tensorflow":
    import tensorflow as tf
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 4)
from keras_sentmatch.training import train
from tests.toys.training import build_tiny, tiny_pairs, tiny_recipe
splits = {"train": tiny_pairs(92, 92, split="train"), "validation": tiny_pairs(39, 39, split="validation")}
def build(*name, **config):
    model = build_tiny(*name, **config)
    for weight in model.layers[-2].trainable_variables:
        weight.regularizer = keras.regularizers.L2(0.1)
    return model
found = []
for devices in (1, 4, 4):
    recipe = tiny_recipe(devices=devices, batch_size=20, epochs=2, optimizer="sgd", clipnorm=0.02)
    recipe.model["dropout"] = 0.0
    out = f"{sys.argv[1]}/{len(found)}"
    run = train(recipe, splits, out, progress=False, baseline=False, build=build)
    answers = run.matcher.predict_proba(splits["validation"]).tolist()
    found.append({**run.history, "answers": answers, "best": run.metrics["best_epoch"]})
print(json.dumps(found))
"""


@pytest.mark.backend("jax", "tensorflow")
def test_four_devices_train_as_one_does(tmp_path):
    """92 pairs come out even on 4 devices, the 39 of validation do not. Weights have a penalty, gradients are clipped, and
    a second run follows the first."""
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": "4"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    one, *others = json.loads(done.stdout.splitlines()[-1])
    for four in others:
        for name, values in one.items():
            np.testing.assert_allclose(values, four[name], atol=1e-5, err_msg=name)


@pytest.mark.backend("torch")
def test_pytorch_is_refused():
    with pytest.raises(InputError, match="one device on PyTorch"), data_parallel(2):
        pass


@pytest.mark.backend("jax", "tensorflow")
def test_too_many_devices():
    with pytest.raises(InputError, match="devices=99, but .* sees"), data_parallel(99):
        pass
    assert keras.distribution.distribution() is None


@pytest.mark.backend("tensorflow")
def test_what_tensorflow_cannot_on_several_devices():
    settings = tiny_recipe(devices=2, accumulate=3).training
    with pytest.raises(InputError, match="accumulate=3 with training.devices=2.* JAX"):
        make_optimizer(None, settings, 5)


def test_batches_that_do_not_come_out_even():
    pairs = tiny_pairs(10, 0)
    encoder = PairEncoder.fit(pairs, features=["word"])
    batches = PairBatches(pairs, encoder, batch_size=8, multiple_of=4, shuffle=True)
    assert [len(rows) for rows in batches.order(0)] == [8]
    assert len(batches) == 1 and len(list(batches.numpy())) == 1
    left_out = [set(range(10)) - set(batches.order(epoch)[0]) for epoch in range(5)]
    assert len(set(map(frozenset, left_out))) > 1  # others each epoch
    with pytest.raises(InputError, match="batch_size=6 does not divide among 4 devices"):
        PairBatches(pairs, encoder, batch_size=6, multiple_of=4)
