"""Requests joined into batches: one thread, what joins, who is to blame, what is too much."""

import asyncio

import pytest

from keras_sentmatch.errors import InputError
from keras_sentmatch.service.batching import Overloaded
from tests.service.stub import Stub, served, share_of


def ask(run, *pairs):
    first, second = zip(*pairs)
    return asyncio.ensure_future(run.ask(lambda m, raw: raw[:, 0].tolist(), first, second))


async def held(run, matcher):
    """A request that the thread is answering until the gate opens."""
    matcher.gate.clear()
    first = ask(run, ("a", "b"))
    while not run.waiting:
        await asyncio.sleep(0)
    while run.waiting:
        await asyncio.sleep(0.001)
    matcher.batches.clear()
    return first


def test_waiting_requests_are_scored_together_and_get_their_own_answers():
    async def check():
        matcher, seen = Stub(), []
        run = served(matcher, batch_size=16, observe=lambda *f: seen.append(f[:2]))
        first = await held(run, matcher)
        asked = [[("x" * i, "y" * j) for j in range(1, 4)] for i in range(7)]
        found = [ask(run, *pairs) for pairs in asked]
        await asyncio.sleep(0)
        matcher.gate.set()
        assert await first == pytest.approx([0.5])
        for pairs, result in zip(asked, found):
            assert await result == pytest.approx([share_of(*pair) for pair in pairs])
        assert matcher.batches == [1, 15, 6] and seen == [(1, 1), (5, 15), (2, 6)]
        assert "matcher_0" in matcher.threads and not matcher.threads - {"matcher_0", "MainThread"}

    asyncio.run(check())


def test_requests_that_arrive_together_are_joined_and_a_large_one_is_answered_alone():
    async def check():
        matcher = Stub()
        run = served(matcher, batch_size=8)
        matcher.batches.clear()
        jobs = [ask(run, ("a", "b" * i)) for i in range(8)]
        assert all(await asyncio.gather(*jobs)) and matcher.batches == [8]
        assert len(await ask(run, *[("a", "b")] * 11)) == 11

    asyncio.run(check())


def test_one_bad_request_does_not_spoil_those_next_to_it():
    async def check():
        run = served(Stub())
        good, bad, bug = (ask(run, (text, "b")) for text in ("a", "poison", "bug"))
        assert await good == pytest.approx([0.5])
        with pytest.raises(InputError, match="poisoned"):
            await bad
        with pytest.raises(ZeroDivisionError):
            await bug
        assert await ask(run, ("a", "b"))

    asyncio.run(check())


def test_requests_without_pairs_keep_their_turn():
    async def check():
        matcher = Stub()
        run = served(matcher)
        matcher.batches.clear()
        before, alone = ask(run, ("a", "b")), asyncio.ensure_future(run.ask(lambda m, raw: m))
        after = ask(run, ("a", "b"))
        assert await alone is matcher and await before == await after
        assert matcher.batches == [1, 0, 1]

    asyncio.run(check())


def test_too_much_is_refused_and_what_was_given_up_is_not_scored():
    async def check():
        matcher = Stub()
        run = served(matcher, most_waiting=3)
        first = await held(run, matcher)
        kept, given_up = (ask(run, ("a", "b")) for _ in "12")
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await ask(run, *[("a", "b")] * 2)
        given_up.cancel()
        matcher.gate.set()
        assert await kept == await first == pytest.approx([0.5])
        assert matcher.batches == [1, 1] and run.waiting == 0

    asyncio.run(check())
