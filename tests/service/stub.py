"""A matcher that answers by the length of its sentences, and runs of it without a folder."""

import threading
import time
from pathlib import Path

import numpy as np

from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.base import BaseMatcher
from keras_sentmatch.service.batching import ServedRun


class Stub(BaseMatcher):
    """The probability of the first label is the share of the first sentence's characters."""

    info = {"model": "stub"}
    engine = "onnx"

    def __init__(self, names=("no", "yes"), delay=0.0):
        task = "classification" if names else "regression"
        super().__init__(names, task, 1.0, None)
        self.delay, self.batches, self.threads = delay, [], set()
        self.gate = threading.Event()
        self.gate.set()

    def raw_scores(self, pairs, batch_size):
        self.gate.wait(20)
        time.sleep(self.delay)
        self.batches.append(len(pairs))
        self.threads.add(threading.current_thread().name)
        if "poison" in pairs.sentence1:
            raise InputError("poisoned")
        if "bug" in pairs.sentence1:
            raise ZeroDivisionError("a secret of the machine")
        share = np.array([share_of(*pair) for pair in zip(pairs.sentence1, pairs.sentence2)])
        if self.label_names is None:
            return share.astype("float32")
        rest = (1 - share) / (len(self.label_names) - 1)
        columns = [share, *[rest] * (len(self.label_names) - 1)]
        return np.stack(columns, axis=1).astype("float32")


def share_of(one, two):
    return (len(one) + 1) / (len(one) + len(two) + 2)


def served(matcher, name="stub", **options):
    """A run of a matcher; `options` are the batcher's."""
    return ServedRun.start(name, Path("nowhere"), lambda folder, engine=None: matcher, **options)
