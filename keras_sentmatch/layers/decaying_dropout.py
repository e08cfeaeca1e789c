"""Dropout that grows with the steps of training."""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="keras_sentmatch")
class DecayingDropout(keras.layers.Layer):
    """Dropout whose share of kept values decays: `keep = (1 - rate) * decay ** (t / decay_steps)` at training step t.

    The layer counts the steps itself, in a weight that is saved with it, so that training can go on where it stopped. It
    must be called once a step. With `decay=1.0` it is plain dropout.

    Args:
        rate: share of values dropped at the first step. Defaults to `0.0`.
        decay: what `keep` is multiplied by every `decay_steps` steps, without jumps. Defaults to `0.977`.
        decay_steps: see `decay`. Defaults to `10_000`.
        seed: of the random numbers. Defaults to `None`.

    Call arguments:
        x: of any shape.
        training: whether to drop anything, and to count the step. Defaults to `None`, no.

    Output shape:
        Same as `x`.

    Masking:
        Works on each value alone: a zero stays zero.

    Example:
        >>> import numpy as np
        >>> from keras_sentmatch.layers import DecayingDropout
        >>> layer = DecayingDropout(decay=0.5, decay_steps=1)
        >>> _ = [layer(np.ones((1, 4), "float32"), training=True) for _ in range(3)]
        >>> round(float(layer.keep()), 4)
        0.125

    References:
        Gong, Luo, Zhang, DIIN, section 4.2 (keep rate 1, decay 0.977 every 10,000 steps).
    """

    def __init__(
        self,
        rate: float = 0.0,
        decay: float = 0.977,
        decay_steps: int = 10_000,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if not (0 <= rate < 1 and 0 < decay <= 1 and decay_steps >= 1):
            raise ValueError(
                "rate must be in [0, 1), decay in (0, 1], decay_steps at least 1. "
                f"Received: rate={rate}, decay={decay}, decay_steps={decay_steps}"
            )
        self.rate = rate
        self.decay = decay
        self.decay_steps = decay_steps
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def build(self, x_shape: Any) -> None:
        self.steps = self.add_weight(
            shape=(), initializer="zeros", dtype="int32", trainable=False, name="steps"
        )

    def keep(self) -> Any:
        """The share of values kept at the step that comes next, float32."""
        t = ops.cast(self.steps, "float32") / self.decay_steps
        return (1.0 - self.rate) * ops.power(ops.cast(self.decay, "float32"), t)

    def call(self, x: Any, training: bool | None = None) -> Any:
        if not training:
            return x
        keep = self.keep()
        self.steps.assign(self.steps + 1)
        kept = keras.random.uniform(ops.shape(x), dtype="float32", seed=self.seed_generator) < keep
        return ops.where(kept, x / ops.cast(keep, x.dtype), ops.cast(0, x.dtype))

    def compute_output_shape(self, x_shape: Any) -> Any:
        return x_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "rate": self.rate,
            "decay": self.decay,
            "decay_steps": self.decay_steps,
            "seed": self.seed,
        }
