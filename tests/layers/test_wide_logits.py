"""WideLogits, against a loop over words."""

from functools import partial

import numpy as np

from keras_sentmatch.layers.hybrid import MOST, WideLogits
from tests.applications.common import WORDS
from tests.harness import Case, noise, run_checks, value


def logits(layer, word_ids_1, word_ids_2, features):
    out = []
    for a, b, f in zip(word_ids_1, word_ids_2, features):
        total = value(layer.bias) + f @ value(layer.kernel)
        total = total + sum(value(layer.words_1)[i] for i in a if i > 1)
        total = total + sum(value(layer.words_2)[i] for i in b if i > 1)
        if layer.products:
            z = np.clip((f - value(layer.mean)) * value(layer.inverse_scale), -MOST, MOST)
            kernel = value(layer.product_kernel)
            total = total + sum(
                x * y * kernel[len(z) * i + j] for i, x in enumerate(z) for j, y in enumerate(z)
            )
        both = {i for i in a if i > 1} & set(b)
        out.append(total + sum(value(layer.words_both)[i] for i in both))
    return np.array(out)


CASES = [
    Case(
        partial(WideLogits, vocabulary_size=10, num_classes=2),
        {**WORDS, "features": noise(3, 5)},
        (3 * 20 + 10 + 2, 0),
        logits,
        float32_outputs=True,
        zero_pads=False,
    ),
    Case(
        partial(WideLogits, vocabulary_size=10, num_classes=2, products=True),
        {**WORDS, "features": noise(3, 5)},
        (3 * 20 + 10 + 2 + 50, 10),
        logits,
        float32_outputs=True,
        zero_pads=False,
    ),
]

test_checks = run_checks(CASES)
