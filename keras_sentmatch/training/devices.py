"""Data-parallel training: a copy of the model on each device, and a share of every batch."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import keras

from keras_sentmatch.errors import InputError


@contextmanager
def data_parallel(count: int) -> Iterator[None]:
    """Models made in this context train on `count` devices: GPUs, or CPUs if there are none.

    Uses `keras.distribution.DataParallel` on JAX and `tf.distribute.MirroredStrategy` on TensorFlow;
    on PyTorch Keras trains on one device. The rows of each batch must be a multiple of `count`
    (`PairBatches(multiple_of=count)`).

    Args:
        count: Number of devices; 1 changes nothing.

    Raises:
        InputError: PyTorch, or fewer devices.
    """
    backend = keras.config.backend()
    if count == 1:
        yield
    elif backend == "jax":
        devices = keras.distribution.list_devices()
        _check(count, devices)
        parallel = keras.distribution.DataParallel(devices=devices[:count])
        before = keras.distribution.distribution()
        keras.distribution.set_distribution(parallel)
        try:
            yield
        finally:
            keras.distribution.set_distribution(before)
    elif backend == "tensorflow":
        import tensorflow as tf

        kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
        devices = [device.name for device in tf.config.list_logical_devices(kind)]
        _check(count, devices)
        with _mirrored(tuple(devices[:count])).scope():
            yield
    else:
        raise InputError(
            f"training.devices={count}: Keras trains on one device on PyTorch. Leave it at 1, or use "
            "JAX or TensorFlow."
        )


@cache
def _mirrored(devices: tuple[str, ...]) -> Any:
    """Cached: a second strategy on the same devices would reuse the first one's collective keys."""
    import tensorflow as tf

    return tf.distribute.MirroredStrategy(devices)


def _check(count: int, devices: list[str]) -> None:
    if not 1 <= count <= len(devices):
        raise InputError(
            f"training.devices={count}, but {keras.config.backend()} sees {len(devices)}: "
            f"{', '.join(devices)}."
        )
