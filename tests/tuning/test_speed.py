"""How fast a trial answers: what is asked, and what is noted."""

import json
import time
from types import SimpleNamespace

import pytest

from keras_sentmatch.data import PairDataset
from keras_sentmatch.tuning import speed


class SlowMatcher:
    """Takes ten milliseconds, and remembers what it was asked."""

    def __init__(self):
        self.asked = []

    def predict_proba(self, pairs, *, batch_size):
        self.asked.append(pairs)
        time.sleep(0.01)


@pytest.mark.parametrize("rows", [1, 40, 200])
def test_what_is_asked(rows):
    words = [" ".join(["word"] * (1 + number * 7 % rows)) for number in range(rows)]
    matcher = SlowMatcher()
    found = speed.answering_speed(matcher, PairDataset(words, words))
    sizes = [len(asked) for asked in matcher.asked]
    together, alone = min(rows, speed.BATCH), min(rows, speed.ALONE)
    assert sizes.count(together) >= 1 + speed.PASSES
    if rows > 1:
        assert sizes.count(1) == 2 * alone
    lengths = sorted(len(w) for w in words)
    middle = [len(asked.sentence1[0]) for asked in matcher.asked if len(asked) == 1]
    assert lengths[0] <= min(middle) and (rows < 40 or lengths[rows // 4] <= min(middle))
    assert max(middle) <= lengths[-1] and (rows < 40 or max(middle) <= lengths[3 * rows // 4])
    assert found["pair_seconds"] >= 0.01
    assert 0 < found["pairs_per_second"] <= 100 * together


def test_it_is_measured_once(tmp_path, monkeypatch):
    (tmp_path / "metrics.json").write_text('{"seconds": 3.0}')
    loaded = []
    monkeypatch.setattr(
        speed, "Matcher", SimpleNamespace(load=lambda run: loaded.append(run) or SlowMatcher())
    )
    pairs = PairDataset(["a"], ["b"])
    speed.note_speed(tmp_path, None, pairs)
    noted = json.loads((tmp_path / "metrics.json").read_text())
    assert noted["seconds"] == 3.0 and noted["pair_seconds"] > 0 and loaded == [tmp_path]
    speed.note_speed(tmp_path, None, pairs)
    assert json.loads((tmp_path / "metrics.json").read_text()) == noted and len(loaded) == 1
