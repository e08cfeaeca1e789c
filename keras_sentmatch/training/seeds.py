"""One seed for everything random."""

import keras
import numpy as np

from keras_sentmatch.errors import InputError, argument


def set_seed(seed: int) -> None:
    """Seeds Python, NumPy and Keras's backend.

    Same seed, same numbers: on one backend, device and set of versions. Another backend draws other
    weights from the same seed.

    Args:
        seed: 0 to 2³²−1; 0 is a seed like any other.

    Raises:
        InputError: The seed is not such an integer.

    Example:

    ```python
    from keras_sentmatch.training import set_seed

    set_seed(0)
    ```
    """
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**32:
        raise InputError(f"{argument('seed', seed)}; expected an integer from 0 to {2**32 - 1}.")
    keras.utils.set_random_seed(seed)


def generator_states() -> dict[str, np.ndarray]:
    """The states of PyTorch's random generators, which dropout draws from, as bytes by name.

    On TensorFlow and JAX there are none: Keras's dropout keeps its state in a variable.
    """
    if keras.config.backend() != "torch":
        return {}
    import torch

    states = [torch.get_rng_state(), *torch.cuda.get_rng_state_all()]
    return {f"torch{i}": state.numpy() for i, state in enumerate(states)}


def set_generator_states(states: dict[str, np.ndarray]) -> None:
    """Brings back what `generator_states` gave (of as many GPUs as there are now)."""
    if keras.config.backend() != "torch":
        return
    import torch

    first, *gpus = (torch.from_numpy(state.copy()) for state in states.values())
    torch.set_rng_state(first)
    torch.cuda.set_rng_state_all(gpus[: torch.cuda.device_count()])
