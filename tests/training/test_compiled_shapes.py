"""How many programs JAX has to compile for a run."""

import keras
import pytest

from keras_sentmatch.training import train
from tests.toys.training import build_tiny, tiny_recipe, tiny_splits


@pytest.mark.backend("jax")
def test_batches_have_few_shapes_and_the_screen_says_how_many(tmp_path, caplog):
    caplog.set_level("INFO")
    shapes = {"train": set(), "test": set()}

    class Counting(keras.Model):
        def compute_loss(self, x, y, y_pred, sample_weight=None, training=True):
            shapes["train" if training else "test"].add(x["word_ids_1"].shape)
            return super().compute_loss(x, y, y_pred, sample_weight, training)

    def build(name, **config):
        model = build_tiny(name, **config)
        return Counting(model.input, model.output, name=name)

    splits = tiny_splits()  # 100 and 40 pairs of 4 to 8 words
    recipe = tiny_recipe(batch_size=16, epochs=2)
    train(recipe, splits, tmp_path / "run", build=build, baseline=False, progress=False)
    # Two lengths, or three, and the short batch at the end.
    assert len(shapes["train"]) <= 4 and len(shapes["test"]) <= 3
    count = len(shapes["train"]) + len(shapes["test"])
    assert f"compiling {count} programs, one for each shape of a batch" in caplog.text
