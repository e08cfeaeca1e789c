"""Training: recipes, `train`, ensembles and a baseline.

Names are loaded when touched, so that reading a recipe loads no Keras and chooses no backend.
"""

from typing import TYPE_CHECKING

from keras_sentmatch.lazy import lazy

if TYPE_CHECKING:
    from keras_sentmatch.training.baseline import bag_of_words_baseline as bag_of_words_baseline
    from keras_sentmatch.training.config import EncoderConfig as EncoderConfig
    from keras_sentmatch.training.config import TrainingConfig as TrainingConfig
    from keras_sentmatch.training.config import VectorsConfig as VectorsConfig
    from keras_sentmatch.training.crossval import cross_validate as cross_validate
    from keras_sentmatch.training.ensemble import train_ensemble as train_ensemble
    from keras_sentmatch.training.recipe import Recipe as Recipe
    from keras_sentmatch.training.recipe import list_recipes as list_recipes
    from keras_sentmatch.training.recipe import load_recipe as load_recipe
    from keras_sentmatch.training.recipe import read_recipe as read_recipe
    from keras_sentmatch.training.run import RunResult as RunResult
    from keras_sentmatch.training.run import train as train
    from keras_sentmatch.training.seeds import set_seed as set_seed

_modules = {
    "EncoderConfig": "training.config",
    "Recipe": "training.recipe",
    "RunResult": "training.run",
    "TrainingConfig": "training.config",
    "VectorsConfig": "training.config",
    "bag_of_words_baseline": "training.baseline",
    "cross_validate": "training.crossval",
    "list_recipes": "training.recipe",
    "load_recipe": "training.recipe",
    "read_recipe": "training.recipe",
    "set_seed": "training.seeds",
    "train": "training.run",
    "train_ensemble": "training.ensemble",
}
__all__, __getattr__, __dir__ = lazy(__name__, _modules)
