"""Training: recipes, `train`, and several runs together.

Names are loaded when touched, so that reading a recipe loads no Keras and chooses no backend.
"""

from typing import TYPE_CHECKING

from keras_sentmatch.lazy import lazy

if TYPE_CHECKING:
    from keras_sentmatch.training._repeated_runs import cross_validate as cross_validate
    from keras_sentmatch.training._repeated_runs import train_ensemble as train_ensemble
    from keras_sentmatch.training.recipe import Recipe as Recipe
    from keras_sentmatch.training.recipe import load_recipe as load_recipe
    from keras_sentmatch.training.run import train as train

_modules = {
    "Recipe": "training.recipe",
    "cross_validate": "training._repeated_runs",
    "load_recipe": "training.recipe",
    "train": "training.run",
    "train_ensemble": "training._repeated_runs",
}
__all__, __getattr__, __dir__ = lazy(__name__, _modules)
