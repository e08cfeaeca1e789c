"""A recipe and its space as a `keras_tuner.HyperModel`. This module imports KerasTuner: import it inside functions."""

from collections.abc import Iterable, Mapping
from typing import Any

import keras
import keras_tuner

from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders import PairBatches
from keras_sentmatch.training.adapt import adapted
from keras_sentmatch.training.callbacks import (
    metric_callbacks,
    monitor_of,
    stopping_callbacks,
)
from keras_sentmatch.training.distillation import TeacherTargets, compute_teacher_targets
from keras_sentmatch.training.prepare import (
    Build,
    EncodingCache,
    check_splits,
    fit_arguments,
    make_batches,
    make_model,
)
from keras_sentmatch.training.ranking import check_ranking_loss, compared_pairs
from keras_sentmatch.training.recipe import Recipe
from keras_sentmatch.training.seeds import set_seed
from keras_sentmatch.tuning.oracles import configuration, declare
from keras_sentmatch.tuning.space import Configuration, Space
from keras_sentmatch.tuning.spaces import narrowed_space


class PairHyperModel(keras_tuner.HyperModel):
    """The models of a recipe's search space, for KerasTuner's own tuners; `search` is made of it too.

    A trial has the seed of the recipe, and trains as `train` does: the same batches, figures and
    early stopping. What the space does not allow fails, and is not tried again.

    Args:
        recipe: What `load_recipe` gives: the default configuration, and all that is not searched.
        pairs: As for `train`.
        space: What to search, as for `search`. Default: everything that `space_of(recipe)` has.
        fix: Values by name, for parameters that are not to be searched.
        build: As for `train`.
        teacher_targets: As for `train`.
        encodings: As for `train`.
        progress: Whether to show the reading of word vectors.

    Example:

    ```python
    import keras_tuner

    from keras_sentmatch.data import natural_logic_pairs
    from keras_sentmatch.training import load_recipe
    from keras_sentmatch.tuning import PairHyperModel

    pairs = {
        "train": natural_logic_pairs(64, seed=0),
        "validation": natural_logic_pairs(32, seed=0, split="validation"),
    }
    recipe = load_recipe("drr_net", overrides=["training.epochs=1", "model.units=4"])
    tuner = keras_tuner.RandomSearch(
        PairHyperModel(recipe, pairs, space={"T": [1, 2]}),
        objective="val_accuracy",
        max_trials=2,
        directory="searches",
        project_name="drr_net",
    )
    tuner.search()
    tuner.get_best_hyperparameters()[0].values
    ```
    """

    def __init__(
        self,
        recipe: Recipe,
        pairs: Mapping[str, PairDataset],
        space: Space | Mapping[str, Any] | Iterable[str] | None = None,
        *,
        fix: Mapping[str, Any] | None = None,
        build: Build | None = None,
        teacher_targets: TeacherTargets | None = None,
        encodings: EncodingCache | None = None,
        progress: bool = False,
    ) -> None:
        super().__init__(name=recipe.name)
        check_splits(pairs)
        recipe, _ = adapted(recipe, pairs, searching=True)
        self.space = narrowed_space(recipe, space, fix)
        if recipe.training.teacher and teacher_targets is None:
            teacher_targets = compute_teacher_targets(recipe.training, pairs, progress)
        check_ranking_loss(recipe, pairs["train"])
        self.pairs = {**pairs, "train": compared_pairs(pairs["train"], recipe.training)}
        self.targets = {} if teacher_targets is None else teacher_targets.targets
        self.encodings = encodings or EncodingCache()
        self.progress = progress
        self._builder = build

    def declare_hyperparameters(self, hp: Any) -> None:
        """Tells KerasTuner of the space."""
        declare(self.space, hp)

    def configuration(self, hp: Any) -> Configuration:
        """What is chosen, by the names of the parameters."""
        return configuration(self.space, hp.values)

    def recipe(self, hp: Any) -> Recipe:
        """The recipe of what is chosen; Hyperband chooses the epochs."""
        recipe = self.space.recipe(self.configuration(hp))
        epochs = hp.values.get("tuner/epochs", recipe.training.epochs)
        return recipe.with_training(epochs=epochs)

    def build(self, hp: Any) -> keras.Model:
        """The compiled model.

        Raises:
            keras_tuner.errors.FailedTrialError: The space does not allow it.
        """
        declare(self.space, hp)
        conflict = self.space.conflict(self.configuration(hp))
        if conflict is not None:
            raise keras_tuner.errors.FailedTrialError(conflict)
        return self.model(self.recipe(hp))

    def fit(self, hp: Any, model: keras.Model, *args: Any, **kwargs: Any) -> Any:
        """Trains it on the recipe's batches; `epochs` among `kwargs` win over the recipe's."""
        recipe = self.recipe(hp)
        settings = recipe.training
        batches = self.batches(recipe, model)
        monitor, mode = monitor_of(self.pairs["train"].task, settings.monitor)
        callbacks = [
            *metric_callbacks(self.pairs, batches, settings),
            *stopping_callbacks(monitor, mode, settings),
            *kwargs.pop("callbacks", []),
        ]
        more = {"epochs": settings.epochs, "verbose": 0, **kwargs}
        data = fit_arguments(batches, more.get("initial_epoch", 0))
        return model.fit(*args, **data, callbacks=callbacks, **more)

    def model(self, recipe: Recipe) -> keras.Model:
        """The compiled model of a recipe, as `train` would begin with it."""
        encoder, vectors, _ = self.encodings.fit(recipe, self.pairs, self.progress)
        set_seed(recipe.training.seed)
        return make_model(recipe, self.pairs["train"], encoder, vectors, self._builder)

    def batches(self, recipe: Recipe, model: keras.Model) -> dict[str, PairBatches]:
        """The batches of training and validation pairs."""
        encoder, _, _ = self.encodings.fit(recipe, self.pairs, self.progress)
        training = recipe.training
        return make_batches(self.pairs, self.targets, encoder, model, training, self.encodings)
