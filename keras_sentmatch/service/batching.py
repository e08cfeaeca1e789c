"""Served runs: each has one thread that touches its matcher and scores pairs of many requests."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.base import Array, BaseMatcher
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.safety import first_line

PROBE = [
    {"sentence1": "A dog runs.", "sentence2": "An animal moves."},
    {"sentence1": "", "sentence2": ""},
    {"sentence1": "who wrote it?", "sentence2": "Ünïcödé 字 🐕"},
]
Finish = Callable[[BaseMatcher, Array], Any]


class Overloaded(Exception):
    """More pairs are waiting than allowed."""


@dataclass(eq=False)
class Job:
    """The work of one request; its sentences are empty if no scores are needed."""

    sentence1: Sequence[str]
    sentence2: Sequence[str]
    finish: Finish  # makes the result from the matcher and the raw scores of the pairs
    result: "asyncio.Future[Any]"

    @property
    def size(self) -> int:
        """The number of pairs for which the job counts."""
        return max(1, len(self.sentence1))


@dataclass
class ServedRun:
    """A run that is served.

    While its thread scores one batch, new requests wait; it then takes as many of them together as
    fit into a batch. After each batch, `observe` is called with its numbers of requests and pairs,
    and its seconds.
    """

    name: str
    matcher: BaseMatcher  # only the thread uses it
    thread: ThreadPoolExecutor
    load_keras: Callable[[], BaseMatcher]  # for explanations, if another engine predicts
    explains: bool = True
    batch_size: int = 64  # most pairs per batch
    most_waiting: int = 16_384  # pairs
    observe: Callable[[int, int, float], None] = lambda requests, pairs, seconds: None
    waiting: int = 0  # pairs
    _jobs: deque[Job] = field(default_factory=deque)
    _worker: "asyncio.Task[None] | None" = None
    _explaining: ThreadPoolExecutor | None = None
    _explained: BaseMatcher | None = None

    @classmethod
    def start(
        cls, name: str, folder: Path, load: Callable[..., BaseMatcher], **options: Any
    ) -> "ServedRun":
        """Load a matcher and let it predict, so that it is ready.

        It needs its folder again only to explain with another engine. `load(folder)` loads the run,
        `load(folder, "keras")` its Keras model. `options` are further attributes.

        Raises:
            InputError: The matcher cannot be loaded, or does not answer.
        """
        matcher = load(folder)
        if isinstance(matcher, Matcher) and matcher.engine == "keras":
            matcher.explainer()  # Keras names its parts by counters of the thread: here as the model's
        try:
            matcher.predict(PROBE)
            for member in getattr(matcher, "members", [matcher]):
                if isinstance(member, Matcher):
                    member.warm_up(options.get("batch_size", cls.batch_size))
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"{folder} does not answer test pairs: {first_line(error)}") from error
        members = getattr(matcher, "members", [matcher])
        explains = find_spec("keras") is not None and all(isinstance(m, Matcher) for m in members)
        thread = ThreadPoolExecutor(1, thread_name_prefix="matcher")
        return cls(name, matcher, thread, partial(load, folder, "keras"), explains, **options)

    async def explain(self, finish: Callable[[BaseMatcher], Any]) -> Any:
        """Return what `finish` makes of a matcher with a Keras model, which is loaded at the first call."""
        if self.matcher.engine == "keras":
            return await self.ask(lambda matcher, _: finish(matcher))
        loop = asyncio.get_running_loop()
        if self._explaining is None:
            self._explaining = ThreadPoolExecutor(1, thread_name_prefix="explaining")

        def explained() -> Any:
            self._explained = self._explained or self.load_keras()
            return finish(self._explained)

        return await loop.run_in_executor(self._explaining, explained)

    async def ask(
        self, finish: Finish, sentence1: Sequence[str] = (), sentence2: Sequence[str] = ()
    ) -> Any:
        """Score pairs, and return what `finish` makes of the matcher and the raw scores.

        Raises:
            Overloaded: Too many pairs are waiting.
        """
        loop = asyncio.get_running_loop()
        job = Job(sentence1, sentence2, finish, loop.create_future())
        if self.waiting + job.size > self.most_waiting:
            raise Overloaded
        self._jobs.append(job)
        self.waiting += job.size
        if self._worker is None or self._worker.done():
            self._worker = loop.create_task(self._work())
        try:
            return await job.result
        except asyncio.CancelledError:  # it was given up: it makes room for others
            if job in self._jobs:
                self._jobs.remove(job)
                self.waiting -= job.size
            raise

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0)  # for requests that have arrived at the same time
        while self._jobs:
            jobs = [self._take()]
            while self._jobs and self._fits(jobs):
                jobs.append(self._take())
            jobs = [job for job in jobs if not job.result.done()]  # others were given up
            found = await loop.run_in_executor(self.thread, self._answer, jobs)
            for job, (result, error) in zip(jobs, found):
                if job.result.done():
                    continue
                if error is None:
                    job.result.set_result(result)
                else:
                    job.result.set_exception(error)

    def _take(self) -> Job:
        job = self._jobs.popleft()
        self.waiting -= job.size
        return job

    def _fits(self, jobs: list[Job]) -> bool:
        sizes = [len(job.sentence1) for job in [*jobs, self._jobs[0]]]
        return 0 not in sizes and sum(sizes) <= self.batch_size

    def _answer(self, jobs: list[Job]) -> list[tuple[Any, Exception | None]]:
        """Return the result or the error of each job; in the thread."""
        start, matcher = time.perf_counter(), self.matcher
        first = [sentence for job in jobs for sentence in job.sentence1]
        second = [sentence for job in jobs for sentence in job.sentence2]
        try:
            raw = matcher.raw_scores(PairDataset(first, second), self.batch_size)
        except Exception as error:
            if len(jobs) == 1:
                return [(None, error)]
            return [self._answer([job])[0] for job in jobs]  # one of them caused the error
        if first:
            self.observe(len(jobs), len(first), time.perf_counter() - start)
        found: list[tuple[Any, Exception | None]] = []
        for job in jobs:
            some, raw = np.split(raw, [len(job.sentence1)])
            try:
                found.append((job.finish(matcher, some), None))
            except Exception as error:
                found.append((None, error))
        return found

    def facts(self) -> dict[str, Any]:
        """Return the public facts of the run."""
        matcher = self.matcher
        members: list[Any] = getattr(matcher, "members", [matcher])
        names = matcher.label_names
        return {
            "name": self.name,
            "task": matcher.task,
            "labels": None if names is None else list(names),
            "model": members[0].info.get("model"),
            "data": members[0].info.get("data"),
            "members": len(members),
            "engine": matcher.engine,
            "explains": self.explains,
        }
