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
    """AdamW with a factor on the learning rate of each variable, which acts on its decay too.

    Args:
        learning_rate: A number or a schedule. Defaults to `0.001`.
        weight_decay: As in `keras.optimizers.AdamW`. Defaults to `0.0`.
        rate_factors: Factors on the learning rate, one per trainable variable in the order of the
            model. Defaults to `None`, which is 1 for each.
        **kwargs: Further arguments of `keras.optimizers.AdamW`.

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
        **kwargs: Any,
    ):
        super().__init__(learning_rate, weight_decay, **kwargs)
        self.rate_factors = rate_factors and list(rate_factors)

    def _places(self, variables: Sequence[Any]) -> dict[float, list[int]]:
        """Return places in `variables`, by factor."""
        places: dict[float, list[int]] = {}
        for place, variable in enumerate(variables):
            factors, index = self.rate_factors, self._get_variable_index(variable)
            places.setdefault(1.0 if factors is None else factors[index], []).append(place)
        return places

    def _backend_update_step(
        self, grads: Any, trainable_variables: Any, learning_rate: Any
    ) -> None:
        for factor, places in self._places(trainable_variables).items():
            some_grads = [grads[i] for i in places]
            some_variables = [trainable_variables[i] for i in places]
            super()._backend_update_step(some_grads, some_variables, learning_rate * factor)

    def _apply_weight_decay(self, variables: Any) -> None:
        decay = self.weight_decay
        variables = [
            variable for variable in variables if decay and self._use_weight_decay(variable)
        ]
        for factor, places in self._places(variables).items():
            self.weight_decay = decay * factor
            super()._apply_weight_decay([variables[i] for i in places])
        self.weight_decay = decay

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rate_factors": self.rate_factors}


def make_optimizer(model: keras.Model, settings: TrainingConfig, steps_per_epoch: int) -> Any:
    """Return the optimizer of a recipe for the trainable variables of a model."""
    rate = learning_rate(settings, steps_per_epoch)
    config: dict[str, Any] = {"learning_rate": rate}
    for key in ("clipnorm", "global_clipnorm"):
        if value := getattr(settings, key):
            config[key] = value
    if settings.optimizer != "adamw":
        optimizer = keras.optimizers.get({"class_name": settings.optimizer, "config": config})
        return _finished(optimizer, rate)
    variables = model.trainable_variables
    if settings.backbone_learning_rate:
        factor = settings.backbone_learning_rate / settings.learning_rate
        backbone = {id(variable) for variable in model.backbone_variables}
        config["rate_factors"] = [factor if id(v) in backbone else 1.0 for v in variables]
    optimizer = FineTuningAdamW(weight_decay=settings.weight_decay, **config)
    kept = [v for v in variables if "bias" in v.name or v.name in ("gamma", "beta")]
    optimizer.exclude_from_weight_decay(kept)
    return _finished(optimizer, rate)


def set_steps(optimizer: Any, steps: int) -> None:
    """Stretch a `WarmUpDecay` over another number of steps, without tracing or compiling again."""
    if hasattr(optimizer, "pace"):
        optimizer.pace.assign(optimizer.schedule.total_steps / steps)


def _finished(optimizer: Any, rate: Any) -> Any:
    if isinstance(rate, WarmUpDecay):
        optimizer.schedule = rate
        rate.pace = optimizer.pace = optimizer.add_variable((), "ones", "float32", name="pace")
    return _quick_to_clip(optimizer)


def _quick_to_clip(optimizer: Any) -> Any:
    """On PyTorch, let `clipnorm` clip all gradients in a few calls instead of ten per variable."""
    if keras.config.backend() != "torch" or not optimizer.clipnorm:
        return optimizer
    import torch

    def clip(gradients: Sequence[Any]) -> list[Any]:
        given = [gradient for gradient in gradients if gradient is not None]
        norms = torch.stack(torch._foreach_norm(given))
        rates = (optimizer.clipnorm / norms.clamp(min=optimizer.clipnorm)).unbind()
        clipped = iter(torch._foreach_mul(given, rates))
        return [None if gradient is None else next(clipped) for gradient in gradients]

    optimizer._clip_gradients = clip
    return optimizer


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class WarmUpDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Learning rate that rises over a share of all steps, then falls to zero.

    With N steps and `N_w = floor(N * warm_up)`, step i of the warm-up (`i < N_w`) and a later one
    have, as shares of the maximum:

    - `"cosine"`: `(1 + cos(pi (i - N_w + 1) / N_w)) / 2`, then
      `(1 + cos(pi (i - N_w) / (N - N_w))) / 2`;
    - `"released"`: as in the code released by DRr-Net's author, where the decay counts from step 0
      over `floor(N * (1 - warm_up))` steps, so that the rate jumps down where the decay starts;
    - `"linear"`: `(i + 1) / N_w`, then `(N - i) / (N - N_w)`.

    Args:
        maximum: Learning rate at the end of the warm-up.
        total_steps: N, the number of batches of the whole training.
        warm_up: Share of the steps that warm up. Defaults to `0.05`.
        form: `"cosine"`, `"released"` or `"linear"`. Defaults to `"cosine"`.

    The attribute `pace`, 1 at first, multiplies i: 0.5 makes a training of 2N steps.

    References:
        Zhang et al., DRr-Net, "Implementation Details and Model Training"; Devlin et al. 2019,
        arXiv 1810.04805, Appendix A.2 (linear).
    """

    def __init__(
        self, maximum: float, total_steps: int, warm_up: float = 0.05, form: str = "cosine"
    ):
        super().__init__()
        self.maximum = maximum
        self.total_steps = total_steps
        self.warm_up = warm_up
        self.form = form
        self.pace: Any = 1.0

    def __call__(self, step: Any) -> Any:
        i = ops.cast(step, "float32") * self.pace
        total, warm_up = self.total_steps, math.floor(self.total_steps * self.warm_up)
        if self.form == "linear":
            rising = (i + 1) / max(warm_up, 1)
            falling = ops.maximum(total - i, 0.0) / (total - warm_up)
            return self.maximum * ops.where(i < warm_up, rising, falling)
        until: float = warm_up
        start, length = warm_up, total - warm_up
        if self.form == "released":
            until = total * self.warm_up if warm_up else 0
            start, length = 0, max(math.floor(total * (1 - self.warm_up)), 1)
        rising = (ops.minimum(i, warm_up - 1) - warm_up + 1) / max(warm_up, 1)
        last = length - 1 if self.form == "released" else length
        falling = ops.minimum(i - start, last) / length
        angle = math.pi * ops.where(i < until, rising, falling)
        return self.maximum * 0.5 * (1 + ops.cos(angle))

    def get_config(self) -> dict[str, Any]:
        return {n: getattr(self, n) for n in ("maximum", "total_steps", "warm_up", "form")}


def learning_rate(settings: TrainingConfig, steps_per_epoch: int) -> Any:
    """Return the learning rate of a recipe: a number or a schedule."""
    peak, form = settings.learning_rate, settings.schedule.removesuffix("_warm_up_decay")
    if form == "constant":
        return peak
    if form == "exponential":
        return keras.optimizers.schedules.ExponentialDecay(
            peak, settings.decay_steps, settings.decay_rate
        )
    return WarmUpDecay(peak, steps_per_epoch * settings.epochs, settings.warm_up, form)
