"""Optimizers and learning-rate schedules, and how a recipe's are made."""

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_sentmatch.training.config import TrainingConfig

# On PyTorch, Keras has a subclass of AdamW that updates all variables in a few calls.
_AdamW: Any = type(keras.optimizers.AdamW.__new__(keras.optimizers.AdamW))


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class FineTuningAdamW(_AdamW):
    """AdamW with a learning rate and a weight decay per variable.

    With Adam's moments m and v, the learning rate r and the factors f and d of a variable x:
    `x = x - r f d weight_decay x`, then `x = x - r f m / (sqrt(v) + epsilon)`. A schedule acts on all
    variables.

    Args:
        learning_rate: A number or a schedule. Defaults to `0.001`.
        weight_decay: As in `keras.optimizers.AdamW`. Defaults to `0.0`.
        rate_factors: Factors on the learning rate, one per trainable variable in the order of the
            model. Defaults to `None`, which is 1 for each.
        decay_factors: Factors on the weight decay; 0 turns it off. Defaults to `None`.
        **kwargs: Further arguments of `keras.optimizers.AdamW`.

    Raises:
        ValueError: At `build`, if there are more or fewer factors than trainable variables.

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
                    f"{name} must have one number per trainable variable ({len(variables)}). "
                    f"Received: {len(factors)}"
                )
        super().build(variables)

    def _factors(self, variables: Sequence[Any], *names: str) -> dict[float, list[int]]:
        """Return places in `variables`, by the product of their factors."""
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
    """Return the optimizer of a recipe for the trainable variables of a model."""
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
    """Make an optimizer on PyTorch clip all gradients at once.

    Keras needs a dozen calls per variable; on a GPU two of them wait for the device.
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


class WarmUpDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Base of the two schedules with `floor(total_steps * warm_up)` steps of warm-up."""

    def __init__(self, maximum: float, total_steps: int, warm_up: float):
        super().__init__()
        if total_steps < 1:
            raise ValueError(
                f"total_steps must be at least 1. Received: total_steps={total_steps!r}"
            )
        if not 0 <= warm_up < 1:
            raise ValueError(
                f"warm_up must be at least 0 and below 1. Received: warm_up={warm_up!r}"
            )
        self.maximum = maximum
        self.total_steps = total_steps
        self.warm_up = warm_up

    def get_config(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("maximum", "total_steps", "warm_up")}


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class CosineWarmUpDecay(WarmUpDecay):
    """Cosine Warm-Up Decay: rise to the maximum along a half cosine, then fall along another.

    With N steps and `N_w = floor(N * warm_up)`, step i of the warm-up (`i < N_w`) has
    `minimum + (maximum - minimum) (1 + cos(pi (i - N_w + 1) / N_w)) / 2`, and a later one
    `minimum + (maximum - minimum) (1 + cos(pi (i - N_w) / (N - N_w))) / 2`. After N steps the rate
    stays at the minimum.

    Args:
        maximum: Learning rate at the end of the warm-up.
        total_steps: N, the number of batches of the whole training.
        minimum: Learning rate at the end. Defaults to `0.0`.
        warm_up: Share of the steps that warm up. Defaults to `0.05`.
        legacy: Whether to decay as in the code released by DRr-Net's author: the decay counts from
            step 0 over `floor(N * (1 - warm_up))` steps, so the rate jumps down where the decay
            starts and is flat for the last `warm_up` of the training. Defaults to `False`.

    Raises:
        ValueError: There are no steps, `warm_up` is not in [0, 1), or the minimum exceeds the
            maximum.

    References:
        Zhang et al., DRr-Net, "Implementation Details and Model Training".
    """

    def __init__(
        self,
        maximum: float,
        total_steps: int,
        minimum: float = 0.0,
        warm_up: float = 0.05,
        legacy: bool = False,
    ):
        super().__init__(maximum, total_steps, warm_up)
        if not 0 <= minimum <= maximum:
            raise ValueError(
                f"minimum must lie between 0 and maximum={maximum!r}. Received: minimum={minimum!r}"
            )
        self.minimum = minimum
        self.legacy = legacy

    def __call__(self, step: Any) -> Any:
        i = ops.cast(step, "float32")
        total, warm_up = self.total_steps, math.floor(self.total_steps * self.warm_up)
        rising = (ops.minimum(i, warm_up - 1) - warm_up + 1) / max(warm_up, 1)
        if self.legacy:
            until = total * self.warm_up if warm_up else 0
            length = max(math.floor(total * (1 - self.warm_up)), 1)
            falling = ops.minimum(i, length - 1) / length
        else:
            until, length = warm_up, total - warm_up
            falling = ops.minimum(i - warm_up, length) / length
        angle = math.pi * ops.where(i < until, rising, falling)
        return self.minimum + (self.maximum - self.minimum) * 0.5 * (1 + ops.cos(angle))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "minimum": self.minimum, "legacy": self.legacy}


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class LinearWarmUpDecay(WarmUpDecay):
    """Rise to the maximum along a line, then fall to zero along another; for fine-tuning.

    With N steps and `N_w = floor(N * warm_up)`, step i of the warm-up (`i < N_w`) has
    `maximum (i + 1) / N_w`, and a later one `maximum (N - i) / (N - N_w)`. After N steps it is zero.

    Args:
        maximum: Learning rate at the end of the warm-up.
        total_steps: N, the number of batches of the whole training.
        warm_up: Share of the steps that warm up. Defaults to `0.1`.

    Raises:
        ValueError: There are no steps, or `warm_up` is not in [0, 1).

    References:
        Devlin et al. 2019, arXiv 1810.04805, Appendix A.2.
    """

    def __init__(self, maximum: float, total_steps: int, warm_up: float = 0.1):
        super().__init__(maximum, total_steps, warm_up)

    def __call__(self, step: Any) -> Any:
        i = ops.cast(step, "float32")
        total, warm_up = self.total_steps, math.floor(self.total_steps * self.warm_up)
        rising = (i + 1) / max(warm_up, 1)
        falling = ops.maximum(total - i, 0.0) / (total - warm_up)
        return self.maximum * ops.where(i < warm_up, rising, falling)


def learning_rate(settings: TrainingConfig, steps_per_epoch: int) -> Any:
    """Return the learning rate of a recipe: a number or a schedule."""
    peak, steps = settings.learning_rate, steps_per_epoch * settings.epochs
    if settings.schedule == "cosine_warm_up_decay":
        return CosineWarmUpDecay(peak, steps, warm_up=settings.warm_up)
    if settings.schedule == "linear_warm_up_decay":
        return LinearWarmUpDecay(peak, steps, settings.warm_up)
    if settings.schedule == "exponential":
        return keras.optimizers.schedules.ExponentialDecay(
            peak, settings.decay_steps, settings.decay_rate
        )
    return peak
