"""TensorFlow traces every model and shape, which takes longer than the few calls that follow."""

from collections.abc import Iterator

import keras
import pytest


@pytest.fixture
def without_tracing() -> Iterator[None]:
    if keras.backend.backend() != "tensorflow":
        yield
        return
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)
