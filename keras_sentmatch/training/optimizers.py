"""AdamW for fine-tuning, and how a recipe's optimizer is made."""

from collections.abc import Sequence
from typing import Any

import keras

from keras_sentmatch.training.config import TrainingConfig
from keras_sentmatch.training.schedules import learning_rate

# On PyTorch Keras makes a subclass of AdamW that updates all variables in a few calls: that class.
_AdamW: Any = type(keras.optimizers.AdamW.__new__(keras.optimizers.AdamW))


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class FineTuningAdamW(_AdamW):
    """AdamW with a learning rate and a weight decay for each variable.

    With Adam's moments m and v, the learning rate r and the factors f and d of a variable x:
    `x = x - r f d weight_decay x`, then `x = x - r f m / (sqrt(v) + epsilon)`. A schedule acts on all
    variables.

    Args:
        learning_rate: A number or a schedule. Defaults to `0.001`.
        weight_decay: As in `keras.optimizers.AdamW`. Defaults to `0.0`.
        rate_factors: Multipliers of the learning rate, one for each trainable variable in the order
            of the model. `None` is 1 for each. Defaults to `None`.
        decay_factors: The same for the weight decay; 0 turns it off. Defaults to `None`.
        **kwargs: Further arguments of `keras.optimizers.AdamW`.

    Raises:
        ValueError: At `build`, if the number of factors is not that of the trainable variables.

    References:
        Loshchilov and Hutter 2019, arXiv 1711.05101 (AdamW); Howard and Ruder 2018, arXiv
        1801.06146 (rates by layer).
    """

    weight_decay: Any

    def __init__(
        self,
        learning_rate: Any = 0.001,
        weight_decay: float = 0.0,
        *,
        rate_factors: Sequence[float] | None = None,
        decay_factors: Sequence[float] | None = None,
        **kwargs: Any,
    ):
        super().__init__(learning_rate, weight_decay, **kwargs)
        self.rate_factors = rate_factors and list(rate_factors)
        self.decay_factors = decay_factors and list(decay_factors)

    def build(self, variables: list[Any]) -> None:
        for name in ("rate_factors", "decay_factors"):
            factors = getattr(self, name)
            if factors is not None and len(factors) != len(variables):
                raise ValueError(
                    f"{name} must have one number for each of the {len(variables)} trainable variables. "
                    f"Received: {len(factors)}"
                )
        super().build(variables)

    def _factors(self, variables: Sequence[Any], *names: str) -> dict[float, list[int]]:
        """Places in `variables` by the product of their factors."""
        places: dict[float, list[int]] = {}
        for place, variable in enumerate(variables):
            index, product = self._get_variable_index(variable), 1.0
            for name in names:
                factors = getattr(self, name)
                product *= 1.0 if factors is None else factors[index]
            places.setdefault(product, []).append(place)
        return places

    def _backend_update_step(
        self, grads: Any, trainable_variables: Any, learning_rate: Any
    ) -> None:
        for factor, places in self._factors(trainable_variables, "rate_factors").items():
            some_grads = [grads[i] for i in places]
            some_variables = [trainable_variables[i] for i in places]
            super()._backend_update_step(some_grads, some_variables, learning_rate * factor)

    def _apply_weight_decay(self, variables: Any) -> None:
        decay = self.weight_decay
        groups = self._factors(variables, "rate_factors", "decay_factors")
        for factor, places in groups.items():
            if decay * factor:
                self.weight_decay = decay * factor
                super()._apply_weight_decay([variables[i] for i in places])
        self.weight_decay = decay

    def get_config(self) -> dict[str, Any]:
        factors = {"rate_factors": self.rate_factors, "decay_factors": self.decay_factors}
        return {**super().get_config(), **factors}


def make_optimizer(model: keras.Model, settings: TrainingConfig, steps_per_epoch: int) -> Any:
    """The optimizer of a recipe's `[training]`, for this model's trainable variables."""
    config: dict[str, Any] = {"learning_rate": learning_rate(settings, steps_per_epoch)}
    for key in ("clipnorm", "global_clipnorm"):
        if value := getattr(settings, key):
            config[key] = value
    if settings.accumulate > 1:
        config["gradient_accumulation_steps"] = settings.accumulate
    if settings.optimizer == "adamw":
        variables = model.trainable_variables
        if settings.weight_decay:
            config["decay_factors"] = [float(not _bias_or_norm(v.name)) for v in variables]
        if settings.backbone_learning_rate:
            factor = settings.backbone_learning_rate / settings.learning_rate
            backbone = {id(variable) for variable in model.backbone_variables}
            config["rate_factors"] = [factor if id(v) in backbone else 1.0 for v in variables]
        optimizer: Any = FineTuningAdamW(weight_decay=settings.weight_decay, **config)
    else:
        optimizer = keras.optimizers.get({"class_name": settings.optimizer, "config": config})
    if keras.config.backend() == "torch" and (settings.clipnorm or settings.global_clipnorm):
        _clip_together(optimizer)
    return optimizer


def _clip_together(optimizer: Any) -> None:
    """Makes an optimizer on PyTorch clip all gradients at once.

    Keras needs a dozen calls for each variable; on a GPU two of these wait for it.
    """
    import torch

    def clipped(grads: list[Any]) -> list[Any]:
        known = [grad for grad in grads if grad is not None]
        norms = torch.stack(torch._foreach_norm(known))
        limit = optimizer.clipnorm or optimizer.global_clipnorm
        if optimizer.global_clipnorm:
            norms = torch.linalg.vector_norm(norms).expand(len(known))
            norms = norms + (norms - norms)  # NaN instead of infinity: no gradient is usable
        scaled = iter(torch._foreach_mul(known, (limit / norms.clamp(min=limit)).unbind()))
        return [None if grad is None else next(scaled) for grad in grads]

    optimizer._clip_gradients = clipped


def _bias_or_norm(name: str) -> bool:
    return "bias" in name or name in ("gamma", "beta")
