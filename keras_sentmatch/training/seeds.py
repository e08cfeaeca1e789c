"""One seed for everything random."""

import keras

from keras_sentmatch.errors import InputError


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
        raise InputError(f"seed={seed!r}; expected an integer from 0 to {2**32 - 1}.")
    keras.utils.set_random_seed(seed)
