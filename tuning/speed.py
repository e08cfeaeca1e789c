"""How fast a trial's model answers, measured in the trial's process when it is trained."""

import statistics
import time
from pathlib import Path

from keras_sentmatch.data import PairDataset
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.inference.run_folder import read_json, write_json

BATCH = 64
ALONE = 16  # pairs asked one by one
PASSES = 3  # of the batch


def answering_speed(matcher: Matcher, pairs: PairDataset) -> dict[str, float]:
    """Times a matcher from strings to probabilities, when everything is compiled.

    It answers pairs of middling length, which need few shapes: JAX compiles each. Returns
    `pair_seconds`, the median of 16 pairs asked one by one, and `pairs_per_second`, of a batch of 64
    in the best of three passes.
    """
    sizes = [len(first) + len(second) for first, second in zip(pairs.sentence1, pairs.sentence2)]
    order = sorted(range(len(pairs)), key=sizes.__getitem__)
    start = max(0, (len(order) - BATCH) // 2)
    middle = order[start : start + BATCH]
    batch = pairs.select(middle)
    first = (len(middle) - ALONE) // 2 if len(middle) > ALONE else 0
    alone = [pairs.select([row]) for row in middle[first : first + ALONE]]

    def seconds(asked: PairDataset) -> float:
        before = time.perf_counter()
        matcher.predict_proba(asked, batch_size=BATCH)
        return time.perf_counter() - before

    for asked in (batch, *alone):
        seconds(asked)
    best = min(seconds(batch) for _ in range(PASSES))
    return {
        "pair_seconds": round(statistics.median(map(seconds, alone)), 6),
        "pairs_per_second": round(len(batch) / best, 1),
    }


def note_speed(run: Path, matcher: Matcher | None, pairs: PairDataset) -> None:
    """Adds the speed to a run's `metrics.json`, unless it is there; may load the matcher."""
    metrics = read_json(run / "metrics.json")
    if "pair_seconds" not in metrics:
        speed = answering_speed(matcher or Matcher.load(run), pairs)
        write_json(run / "metrics.json", {**metrics, **speed})
