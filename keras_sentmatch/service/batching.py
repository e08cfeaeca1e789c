"""Pairs of many requests scored together, by the one thread that touches a matcher."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from keras_sentmatch.inference.base import Array, BaseMatcher


class Overloaded(Exception):
    """More pairs are waiting than allowed."""


class Observer(Protocol):
    """A function that is called after each batch."""

    def __call__(self, requests: int, pairs: int, seconds: float) -> None: ...


@dataclass
class Job:
    """What one request needs from the matcher.

    Attributes:
        finish: Makes the result from the matcher and the scores of the pairs.
        sentence1: The first sentences.
        sentence2: The second sentences; both empty if the matcher is wanted without scores.
        result: Where the result, or the error, arrives.
    """

    finish: Callable[[BaseMatcher, Array], Any]
    sentence1: Sequence[str] = ()
    sentence2: Sequence[str] = ()
    result: "Future[Any]" = field(default_factory=Future)

    def end(self, matcher: BaseMatcher, scores: Any) -> None:
        try:
            self.result.set_result(self.finish(matcher, scores))
        except Exception as error:
            self.result.set_exception(error)


class Batcher:
    """A thread that owns a matcher, and answers what is submitted from any other thread.

    While it scores one batch, requests wait; it takes them together, as many as fit into a batch.
    A request that finds it idle waits a moment for others.

    Args:
        matcher: What answers. It may be replaced at any time, from the next batch on.
        batch_size: Most pairs scored at once.
        wait: Seconds that a request waits for others.
        most_waiting: Most pairs that may wait.
        observe: Called after each batch of scores.
    """

    def __init__(
        self,
        matcher: BaseMatcher,
        *,
        batch_size: int = 64,
        wait: float = 0.003,
        most_waiting: int = 16_384,
        observe: Observer = lambda requests, pairs, seconds: None,
    ) -> None:
        self.matcher = matcher
        self.batch_size, self.wait, self.most_waiting = batch_size, wait, most_waiting
        self.waiting = 0  # pairs
        self._observe = observe
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="matcher", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread still answers."""
        return self._thread.is_alive()

    def submit(self, job: Job) -> "Future[Any]":
        """Queues a job; its future has the result.

        Raises:
            Overloaded: Too many pairs wait already.
        """
        pairs = max(1, len(job.sentence1))
        with self._changed:
            if self._closed or self.waiting + pairs > self.most_waiting:
                raise Overloaded
            self.waiting += pairs
            self._jobs.append(job)
            self._changed.notify()
        return job.result

    def close(self) -> None:
        """Answers what waits, then ends the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while jobs := self._next():
            jobs = [job for job in jobs if job.result.set_running_or_notify_cancel()]
            if jobs and jobs[0].sentence1:
                self._score(jobs)
            elif jobs:
                jobs[0].end(self.matcher, None)
            del jobs  # while the thread waits, nothing of them is kept

    def _next(self) -> list[Job]:
        """Jobs to be answered together: pairs, or one job without; none at the end."""
        with self._changed:
            while not self._jobs and not self._closed:
                self._changed.wait()
            end = time.monotonic() + self.wait
            while not (self._closed or self._full()) and (left := end - time.monotonic()) > 0:
                self._changed.wait(left)
            jobs: list[Job] = []
            count = 0
            while self._jobs and (not jobs or self._fits(count)):
                jobs.append(self._jobs.popleft())
                count += max(1, len(jobs[-1].sentence1))
                if not jobs[-1].sentence1:
                    break
            self.waiting -= count
            return jobs

    def _full(self) -> bool:
        return self.waiting >= self.batch_size or not all(job.sentence1 for job in self._jobs)

    def _fits(self, count: int) -> bool:
        pairs = len(self._jobs[0].sentence1)
        return 0 < pairs <= self.batch_size - count

    def _score(self, jobs: list[Job]) -> None:
        matcher, start = self.matcher, time.perf_counter()
        first = [sentence for job in jobs for sentence in job.sentence1]
        second = [sentence for job in jobs for sentence in job.sentence2]
        try:
            scores = matcher.predict_proba(
                sentence1=first, sentence2=second, batch_size=self.batch_size
            )
        except Exception as error:
            if len(jobs) == 1:
                jobs[0].result.set_exception(error)
            else:  # one of them is to blame
                for job in jobs:
                    self._score([job])
            return
        self._observe(len(jobs), len(first), time.perf_counter() - start)
        done = 0
        for job in jobs:
            job.end(matcher, scores[done : done + len(job.sentence1)])
            done += len(job.sentence1)
