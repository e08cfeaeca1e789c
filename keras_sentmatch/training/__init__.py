"""Training: recipes, `train`, ensembles and a baseline.

Names are loaded when touched, so that reading a recipe loads no Keras and chooses no backend.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_sentmatch.training.baseline import bag_of_words_baseline as bag_of_words_baseline
    from keras_sentmatch.training.config import EncoderConfig as EncoderConfig
    from keras_sentmatch.training.config import TrainingConfig as TrainingConfig
    from keras_sentmatch.training.config import VectorsConfig as VectorsConfig
    from keras_sentmatch.training.ensemble import train_ensemble as train_ensemble
    from keras_sentmatch.training.recipe import Recipe as Recipe
    from keras_sentmatch.training.recipe import list_recipes as list_recipes
    from keras_sentmatch.training.recipe import load_recipe as load_recipe
    from keras_sentmatch.training.recipe import read_recipe as read_recipe
    from keras_sentmatch.training.run import RunResult as RunResult
    from keras_sentmatch.training.run import train as train
    from keras_sentmatch.training.seeds import set_seed as set_seed

_MODULES = {
    "EncoderConfig": "config",
    "Recipe": "recipe",
    "RunResult": "run",
    "TrainingConfig": "config",
    "VectorsConfig": "config",
    "bag_of_words_baseline": "baseline",
    "list_recipes": "recipe",
    "load_recipe": "recipe",
    "read_recipe": "recipe",
    "set_seed": "seeds",
    "train": "run",
    "train_ensemble": "ensemble",
}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        module = importlib.import_module(f"keras_sentmatch.training.{_MODULES[name]}")
        return getattr(module, name)
    raise AttributeError(f"module 'keras_sentmatch.training' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
