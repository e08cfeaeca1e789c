"""Served runs: each has one thread that touches its matcher and scores pairs of many requests."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.base import Array, BaseMatcher
from keras_sentmatch.inference.matcher import Matcher
from keras_sentmatch.inference.onnx import OnnxMatcher
from keras_sentmatch.safety import first_line

PROBE = [
    {"sentence1": "A dog runs.", "sentence2": "An animal moves."},
    {"sentence1": "", "sentence2": ""},
    {"sentence1": "who wrote it?", "sentence2": "Ünïcödé 字 🐕"},
]


class Overloaded(Exception):
    """More pairs are waiting than allowed."""


class Observer(Protocol):
    """Function that is called after each batch."""

    def __call__(self, requests: int, pairs: int, seconds: float) -> None: ...


@dataclass
class Job:
    """The work of one request.

    Attributes:
        finish: Function that makes the result from the matcher and the scores of the pairs.
        sentence1: The first sentences.
        sentence2: The second sentences; both are empty if no scores are needed.
        result: Future that receives the result or the error.
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
    """A thread that owns a matcher and answers jobs from all other threads.

    While it scores one batch, new jobs wait; it then takes as many of them together as fit into a
    batch. A job that finds the thread idle waits a moment for others.

    Args:
        matcher: The matcher.
        batch_size: Maximum number of pairs per batch.
        wait: Seconds that a job waits for others.
        most_waiting: Maximum number of waiting pairs.
        observe: Function that is called after each batch.
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
        """Queue a job; its future receives the result.

        Raises:
            Overloaded: Too many pairs are waiting.
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
        """Answer the waiting jobs, then end the thread."""
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
            del jobs  # so that the waiting thread keeps nothing of them

    def _next(self) -> list[Job]:
        """Return jobs to answer together: jobs with pairs, or one job without; none at the end."""
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
            else:  # one of them caused the error
                for job in jobs:
                    self._score([job])
            return
        self._observe(len(jobs), len(first), time.perf_counter() - start)
        done = 0
        for job in jobs:
            job.end(matcher, scores[done : done + len(job.sentence1)])
            done += len(job.sentence1)


@dataclass
class ServedRun:
    """A run that is served.

    Attributes:
        name: Name of the run in requests.
        batcher: The thread that answers.
        engine: Engine that runs the model.
    """

    name: str
    batcher: Batcher
    engine: str = "keras"

    @classmethod
    def start(
        cls,
        name: str,
        folder: Path,
        load: Callable[[Path], BaseMatcher],
        *,
        engine: str = "keras",
        **options: Any,
    ) -> "ServedRun":
        """Load and probe a run, and start its thread with the options of `Batcher`."""
        return cls(name, Batcher(load_and_probe(folder, load), **options), engine)

    @property
    def matcher(self) -> BaseMatcher:
        return self.batcher.matcher

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
            "engine": self.engine,
            "explains": self.engine == "keras",
        }


def load_and_probe(folder: Path, load: Callable[[Path], BaseMatcher]) -> BaseMatcher:
    """Load a matcher and let it answer; after that nothing of the folder is needed.

    Raises:
        InputError: The matcher cannot be loaded, or does not answer.
    """
    matcher = load(folder)
    if isinstance(matcher, Matcher):
        matcher.explainer()  # Keras names the parts of a model by counters of the thread: in this one
    members: list[Any] = getattr(matcher, "members", [matcher])
    for member in members:
        if isinstance(member, OnnxMatcher):
            member.read_tables()
    try:
        answers = matcher.predict(PROBE)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{folder} does not answer test pairs: {first_line(error)}") from error
    if len(answers) != len(PROBE):
        raise InputError(f"{folder} gave {len(answers)} answers to {len(PROBE)} test pairs.")
    return matcher
