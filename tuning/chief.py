"""KerasTuner's chief, which draws the trials of a search, and its client in each worker, which trains them, with what they
lack: a worker that dies is noticed, a chief that comes back is found again, and the cause of a failure reaches the table.

A worker holds one call open for as long as it lives. Where that breaks, on either side, the other one is gone.

This module imports KerasTuner: import it inside functions.
"""

import contextlib
import functools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from typing import Any

import grpc
from keras_tuner import HyperParameters
from keras_tuner.engine import trial as trial_module
from keras_tuner.src import protos
from keras_tuner.src.distribute import oracle_chief, oracle_client

from keras_sentmatch.errors import InputError
from keras_sentmatch.training.resume import difference

WAIT = 600.0  # seconds that a worker waits for a chief that is not there
HEAD_START = 5.0  # seconds that a chief that came back leaves to workers that still train
LEAVE = 10.0  # seconds that a chief waits for its workers to hear of the end
MOST_WORKERS = 500
CTRL_C = "Ctrl-C"
SECONDS = 1000
# A machine that vanished, and closed no connection, is noticed after 40 seconds.
OPTIONS = [
    ("grpc.keepalive_time_ms", 20 * SECONDS),
    ("grpc.keepalive_timeout_ms", 20 * SECONDS),
    ("grpc.http2.max_pings_without_data", 0),
    # While a trial trains, pings are all there is: a chief that counts them as too many ends the connection.
    ("grpc.http2.min_ping_interval_without_data_ms", 10 * SECONDS),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.max_reconnect_backoff_ms", 2 * SECONDS),
    ("grpc.enable_http_proxy", 0),
    ("grpc.so_reuseport", 0),  # a second chief on the port is an error
]
AWAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)  # dead, or ending
Status = trial_module.TrialStatus


class Gone(Exception):
    """The chief ended the search, or is away for too long; `args[0]` is what to raise in the end."""


def _told(values: Mapping[str, Any]) -> HyperParameters:
    found = HyperParameters()
    found.values = dict(values)
    return found


def _message(trial_id: str, status: str, values: Mapping[str, Any]) -> Any:
    """A trial on its way: its values, or what KerasTuner's messages have no other place for.

    Not the space: making a message of its conditions, KerasTuner prints them.
    """
    return trial_module.Trial(_told(values), trial_id, status).to_proto()


class Chief(oracle_chief.OracleServicer):
    """Gives out trials, and again those of workers that died.

    Args:
        oracle: Draws them; its `max_retries_per_trial` says how often a trial is given out again.
        identity: Of the search, which must be the worker's too.
        ended: Called after each trial, with the small files of its folder by name.
        lost: Called when a worker died, with its name and its trial.
        outcome: What workers are told in the end.
    """

    def __init__(
        self,
        oracle: Any,
        identity: Mapping[str, Any],
        ended: Callable[[Any, dict[str, str]], None],
        lost: Callable[[str, Any], None],
        outcome: Callable[[], dict[str, Any]],
    ) -> None:
        super().__init__(oracle)
        self._identity = identity
        self._ended, self._lost, self._outcome = ended, lost, outcome
        self._lock = threading.RLock()
        self._opened, self._over = threading.Event(), threading.Event()
        self._error: BaseException | None = None
        self._told: set[str] = set()
        self.workers: dict[str, threading.Event] = {}  # those that are there; set when they go
        self.joined: set[str] = set()  # those that ever were

    @contextlib.contextmanager
    def serving(self, address: str) -> Iterator[int]:
        """Listens at an address while the body runs, which gets the port; however it ends, the workers hear of it."""
        # Each worker holds a thread.
        threads = futures.ThreadPoolExecutor(2 * MOST_WORKERS)
        server = grpc.server(threads, options=OPTIONS)
        protos.get_service_grpc().add_OracleServicer_to_server(self, server)
        try:
            port = server.add_insecure_port(address)
        except RuntimeError as error:
            raise InputError(
                f"No chief can listen at {address} ({error}): is there another one? Name an address of this machine by "
                "KERASTUNER_ORACLE_IP, and a free port by KERASTUNER_ORACLE_PORT."
            ) from error
        server.start()
        try:
            yield port
        except BaseException as error:
            self._error = error
            raise
        finally:
            self._over.set()
            for gone in list(self.workers.values()):
                gone.set()
            server.stop(LEAVE).wait()

    def run(self, look: Callable[[], None], others: bool = True) -> None:
        """Gives out trials until there are no more.

        Args:
            look: Called again and again meanwhile.
            others: Whether there may be workers that were there before the chief.
        """
        if others and self.oracle._retry_queue:
            self._over.wait(HEAD_START)
        self._opened.set()
        while not self._over.wait(0.2):
            look()
        if self._error is not None:
            raise self._error
        end = time.monotonic() + LEAVE
        while self.workers.keys() - self._told and time.monotonic() < end:
            time.sleep(0.05)

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """One call at a time; an error ends the search, and `run` raises it. KerasTuner would keep its lock for ever."""
        with self._lock:
            try:
                yield
            except Exception as error:
                self._error = self._error or error
                self._over.set()

    # What workers call.

    def UpdateSpace(self, request: Any, context: Any) -> Any:
        """The call that a worker holds open."""
        worker, gone, refusal = _caller(context), threading.Event(), "The search has ended."
        told = HyperParameters.from_proto(request.hyperparameters).values
        identity = json.loads(told["identity"])
        if not context.add_callback(gone.set):
            gone.set()
        with self._guarded():
            if not self._over.is_set():
                refusal = self._refusal(worker, identity, told["trial_id"])
            if not refusal:
                self.workers[worker] = gone
                self.joined.add(worker)
        if refusal:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, refusal)
        gone.wait()
        with self._guarded():
            del self.workers[worker]
            if not self._over.is_set():
                self._lose(worker)
        if isinstance(self._error, KeyboardInterrupt):
            context.abort(grpc.StatusCode.ABORTED, CTRL_C)
        if self._error is not None:
            why = f"{type(self._error).__name__}: {self._error}"
            context.abort(grpc.StatusCode.ABORTED, f"The chief ended the search: {why}")
        return protos.get_service().UpdateSpaceResponse()

    def CreateTrial(self, request: Any, context: Any) -> Any:
        worker, found = request.tuner_id, _message("", Status.IDLE, {})
        with self._guarded():
            if worker in self.workers and self._opened.is_set() and self._error is None:
                trial = self.oracle.create_trial(worker)
                if trial.status != Status.STOPPED:
                    values = trial.hyperparameters.values
                    found = _message(trial.trial_id, trial.status, values)
                elif not self.oracle.ongoing_trials:  # one whose worker dies is still to do
                    found = _message("", Status.STOPPED, {"outcome": json.dumps(self._outcome())})
                    self._told.add(worker)
                    self._over.set()
        return protos.get_service().CreateTrialResponse(trial=found)

    def EndTrial(self, request: Any, context: Any) -> Any:
        worker, ended = _caller(context), trial_module.Trial.from_proto(request.trial)
        with self._guarded():
            if not self._over.is_set() and self._has(worker, ended.trial_id):
                self._end(worker, ended)
        return protos.get_service().EndTrialResponse()

    def _end(self, worker: str, ended: Any) -> None:
        told, trial = ended.hyperparameters.values, self.oracle.trials[ended.trial_id]
        if ended.status == Status.INVALID:
            raise RuntimeError(f"A bug ended trial {trial.trial_id} on {worker}: {told['message']}")
        trial.status, trial.message = ended.status, told["message"] or None
        if trial.status == Status.COMPLETED:
            self.oracle.update_trial(trial.trial_id, {self.oracle.objective.name: told["score"]})
        self.oracle.end_trial(trial)
        self._ended(trial, json.loads(told["files"]))

    def _refusal(self, worker: str, identity: Mapping[str, Any], trial_id: str) -> str:
        if worker in self.workers:
            return f"There is a worker {worker!r} already: give each another KERASTUNER_TUNER_ID."
        if differing := difference(self._identity, identity):
            return (
                f"The chief's search is another one (was: the chief's, now: this one's): {'; '.join(differing)}. Give each "
                "worker the chief's command, and the same pairs."
            )
        if trial_id and trial_id not in self.oracle.trials:
            return f"The chief knows no trial {trial_id}: it was not begun anew with --resume."
        over = trial_id and self.oracle.trials[trial_id].status in (Status.COMPLETED, Status.FAILED)
        if trial_id and not over and not self._has(worker, trial_id):
            return f"Trial {trial_id} was given to another worker, as this one was away: start it again."
        return ""

    def _has(self, worker: str, trial_id: str) -> bool:
        """Whether a trial is a worker's; one that waits to be given out again is, to a worker that still trains it."""
        ongoing, waiting = self.oracle.ongoing_trials, self.oracle._retry_queue
        if trial_id in waiting and worker not in ongoing:
            waiting.remove(trial_id)
            ongoing[worker] = self.oracle.trials[trial_id]
            ongoing[worker].status = Status.RUNNING
        return worker in ongoing and ongoing[worker].trial_id == trial_id

    def _lose(self, worker: str) -> None:
        trial = self.oracle.ongoing_trials.get(worker)
        if trial is not None:
            trial.status = Status.INVALID
            times = 1 + self.oracle._run_times[trial.trial_id]
            trial.message = f"its worker died, {times} times so far (killed, or out of memory?)"
            self.oracle.end_trial(trial)  # puts it in the queue, unless it was there too often
        self._lost(worker, trial)


def _caller(context: Any) -> str:
    return dict(context.invocation_metadata())["tuner-id"]


class Client(oracle_client.OracleClient):
    """What stands for the oracle in a worker, and asks the chief, as KERASTUNER_ORACLE_IP and _PORT say.

    Args:
        oracle: That of a search of one's own.
        identity: Of the search.
        files: The small files of a trial's folder by name.

    Attributes:
        outcome: What the chief told in the end.
        score: Of the last trial.
    """

    def __init__(
        self, oracle: Any, identity: Mapping[str, Any], files: Callable[[str], dict[str, str]]
    ) -> None:
        super().__init__(oracle)
        self.address = ":".join(os.environ[f"KERASTUNER_ORACLE_{part}"] for part in ("IP", "PORT"))
        self.outcome: dict[str, Any] = {}
        self._identity, self._files = json.dumps(identity), files
        self._trial: Any = None
        self._trial_id, self.score = "", 0.0
        self._gone: BaseException | None = None
        self._channel = grpc.insecure_channel(self.address, OPTIONS)
        self._metadata = (("tuner-id", self.tuner_id),)
        self._plain = protos.get_service_grpc().OracleStub(self._channel)
        self.stub = _Again(self._plain, self._metadata, self.check)
        threading.Thread(target=self._hold, daemon=True).start()

    def close(self) -> None:
        """Leaves the chief."""
        self._gone = self._gone or InputError("This worker has left its chief.")
        self._channel.close()

    def _hold(self) -> None:
        """Holds the call open; where the chief went away, waits for it and calls again."""
        while self._gone is None:
            try:
                grpc.channel_ready_future(self._channel).result(timeout=WAIT)
                told = _told({"identity": self._identity, "trial_id": self._trial_id})
                request = protos.get_service().UpdateSpaceRequest(hyperparameters=told.to_proto())
                self._plain.UpdateSpace(request, metadata=self._metadata)
                self._gone = InputError("The chief has ended the search.")
            except grpc.FutureTimeoutError:
                self._gone = InputError(
                    f"No chief answered at {self.address} for {WAIT:g} seconds: start it there, with --resume if its search "
                    "was begun, and then this worker again."
                )
            except ValueError:  # closed
                return
            except grpc.RpcError as error:
                if error.code() in AWAY:
                    time.sleep(0.2)
                elif error.details() == CTRL_C:
                    self._gone = KeyboardInterrupt()
                else:
                    self._gone = InputError(error.details())

    def check(self) -> None:
        """Raises `Gone` where there is nothing more to do for the chief."""
        if self._gone is not None:
            raise Gone(self._gone)

    def create_trial(self, tuner_id: str) -> Any:
        self.check()
        trial = super().create_trial(tuner_id)
        if trial.status == Status.RUNNING:
            self._trial, self._trial_id = trial, trial.trial_id
        elif trial.status == Status.STOPPED:
            self.outcome = json.loads(trial.hyperparameters.values["outcome"])
        return trial

    def get_trial(self, trial_id: str) -> Any:
        """The trial that runs."""
        return self._trial

    def update_trial(self, trial_id: str, metrics: Mapping[str, float], step: int = 0) -> None:
        """Keeps the score until `end_trial`: a chief that dies between two messages would have half of it."""
        self.score = metrics[self.objective.name]

    def end_trial(self, trial: Any) -> None:
        told = {
            "message": trial.message or "",
            "score": float(self.score),
            "files": json.dumps(self._files(trial.trial_id)),
        }
        message = _message(trial.trial_id, trial.status, told)
        self.stub.EndTrial(protos.get_service().EndTrialRequest(trial=message))
        self._trial_id = ""

    def report(self, error: Exception, trace: str) -> None:
        """Tells the chief of a bug in a trial."""
        if self._trial_id:
            told = {"message": f"{error!r}\n\n{trace}"}
            message = _message(self._trial_id, Status.INVALID, told)
            self.stub.EndTrial(protos.get_service().EndTrialRequest(trial=message))


class _Again:
    """KerasTuner's stub, whose calls say who calls, and are made again when the chief comes back."""

    def __init__(self, stub: Any, metadata: Any, check: Callable[[], None]) -> None:
        self._stub, self._metadata, self._check = stub, metadata, check

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return functools.partial(self._call, getattr(self._stub, name))

    def _call(self, call: Callable[..., Any], request: Any, **unused: Any) -> Any:
        while True:
            self._check()  # the call that is held open knows how long to wait
            try:
                return call(request, metadata=self._metadata)
            except grpc.RpcError as error:
                if error.code() not in AWAY:
                    raise
                time.sleep(0.2)
