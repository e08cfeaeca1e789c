"""Learning-rate schedules with a warm-up, and how a recipe's schedule is made."""

import math
from typing import Any

import keras
from keras import ops

from keras_sentmatch.training.config import TrainingConfig


class WarmUpDecay(keras.optimizers.schedules.LearningRateSchedule):
    """What the two schedules have in common; `floor(total_steps * warm_up)` steps warm up."""

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
    """Cosine Warm-Up Decay: up to the maximum along a half cosine, then down along another.

    With N steps and `N_w = floor(N * warm_up)`, step i of the warm-up (`i < N_w`) has
    `minimum + (maximum - minimum) (1 + cos(pi (i - N_w + 1) / N_w)) / 2`, and a later one
    `minimum + (maximum - minimum) (1 + cos(pi (i - N_w) / (N - N_w))) / 2`. After N steps the rate
    stays at the minimum.

    Args:
        maximum: the learning rate at the end of the warm-up.
        total_steps: N, batches in the whole training.
        minimum: the learning rate at the end. Defaults to `0.0`.
        warm_up: share of the steps that warm up. Below one step, none does. Defaults to `0.05`.
        legacy: whether to decay as in the code released by DRr-Net's author: the decay counts from
            step 0 over `floor(N * (1 - warm_up))` steps, so the rate jumps down where the decay
            starts and is flat for the last `warm_up` of the training. Defaults to `False`.

    Raises:
        ValueError: if there are no steps, `warm_up` is not in [0, 1), or the minimum exceeds the
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
    """Up to the maximum along a line, then down to zero along another, as encoders are fine-tuned.

    With N steps and `N_w = floor(N * warm_up)`, step i of the warm-up (`i < N_w`) has
    `maximum (i + 1) / N_w`, and a later one `maximum (N - i) / (N - N_w)`. After N steps it is zero.

    Args:
        maximum: the learning rate at the end of the warm-up.
        total_steps: N, batches in the whole training.
        warm_up: share of the steps that warm up. Below one step, none does. Defaults to `0.1`.

    Raises:
        ValueError: if there are no steps, or `warm_up` is not in [0, 1).

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
    """The learning rate of a recipe: a number, or a schedule."""
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
