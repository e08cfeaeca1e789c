"""What a recipe says of word vectors reaches them."""

import pytest

from keras_sentmatch.applications import get_model_class, list_models
from keras_sentmatch.training import Recipe
from keras_sentmatch.training._model import make_model
from keras_sentmatch.training.encoding import fit_encoder
from tests.toys.training import build_tiny, tiny_splits


def trains_vectors(name):
    """The default of the model's argument; `None` without the argument."""
    argument = get_model_class(name).arguments().get("trainable_embedding")
    return argument and argument.default


@pytest.mark.parametrize(
    "name", [name for name in list_models() if trains_vectors(name) is not None]
)
def test_random_vectors_are_trained(name):
    seen: dict = {}

    def build(name, **config):
        seen.update(config)
        return build_tiny(name, **config)

    tables = {"encoder": {"features": ["word"]}, "vectors": {"source": "none", "dim": 8}}
    for model in ({}, {"trainable_embedding": False}):
        recipe, splits = Recipe.from_tables(name, **tables, model=model), tiny_splits()
        encoder, vectors, _ = fit_encoder(recipe, splits, False)
        make_model(recipe, splits["train"], encoder, vectors, build)
        assert seen.get("trainable_embedding", trains_vectors(name)) is True
