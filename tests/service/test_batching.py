"""Requests joined into batches: one thread, what joins, who is to blame, what is too much."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from keras_sentmatch.errors import InputError
from keras_sentmatch.service.batching import Batcher, Job, Overloaded
from tests.service.stub import Stub, share_of

pytestmark = pytest.mark.once


def pairs_job(*pairs):
    first, second = zip(*pairs)
    return Job(lambda matcher, scores: scores[:, 0].tolist(), first, second)


def test_waiting_requests_are_scored_together_and_get_their_own_answers():
    matcher, seen = Stub(), []
    batcher = Batcher(matcher, batch_size=16, wait=0, observe=lambda *f: seen.append(f[:2]))
    matcher.gate.clear()
    held = batcher.submit(pairs_job(("a", "b")))
    while batcher.waiting:
        pass  # until the thread has taken it
    asked = [[("x" * i, "y" * j) for j in range(1, 4)] for i in range(7)]
    found = [batcher.submit(pairs_job(*pairs)) for pairs in asked]
    matcher.gate.set()
    assert held.result(10) == pytest.approx([0.5])
    for pairs, result in zip(asked, found):
        assert result.result(10) == pytest.approx([share_of(*pair) for pair in pairs])
    batcher.close()
    assert matcher.batches == [1, 15, 6] and seen == [(1, 1), (5, 15), (2, 6)]
    assert matcher.threads == {"matcher"} and not batcher.alive


def test_a_request_waits_a_moment_for_others():
    matcher = Stub()
    batcher = Batcher(matcher, wait=0.5)
    with ThreadPoolExecutor(8) as pool:
        jobs = [pairs_job(("a", "b" * i)) for i in range(8)]
        assert all(f.result(10) for f in pool.map(batcher.submit, jobs))
    batcher.close()
    assert len(matcher.batches) < 8 and sum(matcher.batches) == 8


def test_more_than_a_batch_at_once_is_answered_alone():
    matcher = Stub()
    batcher = Batcher(matcher, batch_size=4, wait=0)
    assert len(batcher.submit(pairs_job(*[("a", "b")] * 11)).result(10)) == 11
    batcher.close()


def test_one_bad_request_does_not_spoil_those_beside_it():
    matcher = Stub()
    batcher = Batcher(matcher, wait=0.2)
    good, bad, bug = (batcher.submit(pairs_job((text, "b"))) for text in ("a", "poison", "bug"))
    assert good.result(10) == pytest.approx([0.5])
    with pytest.raises(InputError, match="poisoned"):
        bad.result(10)
    with pytest.raises(ZeroDivisionError):
        bug.result(10)
    assert batcher.submit(pairs_job(("a", "b"))).result(10)
    batcher.close()


def test_other_jobs_keep_their_turn():
    matcher = Stub()
    batcher = Batcher(matcher, wait=0.1)
    before = batcher.submit(pairs_job(("a", "b")))
    alone = batcher.submit(Job(lambda matcher, scores: (matcher, scores)))
    after = batcher.submit(pairs_job(("a", "b")))
    assert alone.result(10) == (matcher, None)
    assert before.result(10) == after.result(10)
    batcher.close()
    assert matcher.batches == [1, 1]


def test_too_much_is_refused_and_what_waits_is_answered_at_the_end():
    matcher = Stub()
    batcher = Batcher(matcher, wait=0, most_waiting=3)
    matcher.gate.clear()
    first = batcher.submit(pairs_job(("a", "b")))
    while batcher.waiting:
        pass
    kept, given_up = (batcher.submit(pairs_job(("a", "b"))) for _ in "12")
    with pytest.raises(Overloaded):
        batcher.submit(pairs_job(*[("a", "b")] * 2))
    assert given_up.cancel()
    matcher.gate.set()
    batcher.close()
    assert first.done() and kept.result(0) == pytest.approx([0.5])
    assert matcher.batches == [1, 1] and batcher.waiting == 0
    with pytest.raises(Overloaded):
        batcher.submit(pairs_job(("a", "b")))
