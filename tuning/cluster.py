"""A chief, which draws the trials of a search, and its workers, which train them.

Each worker holds one TCP connection, over which it sends requests and gets replies as lines of JSON.
Where a connection breaks, the other side is gone: a chief hands out the trial of a lost worker
again, and a worker waits for its chief to come back. KerasTuner's own chief notices neither, and
passes on no cause of a failure.
"""

import contextlib
import json
import queue
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from keras_tuner.engine.trial import Trial

from keras_sentmatch.errors import InputError
from keras_sentmatch.training.resume import difference
from keras_sentmatch.tuning.oracles import SearchOracle

WAIT = 600.0  # seconds that a worker waits for a chief that is away
HEAD_START = 5.0  # seconds for workers that still train to claim trials from a resumed chief
LEAVE = 10.0  # seconds that a chief waits for its workers to hear of the end
CTRL_C = "Ctrl-C"
# A machine that vanished without closing its connections is noticed after 40 seconds.
KEEPALIVE = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 2, "TCP_USER_TIMEOUT": 40_000}

Message = dict[str, Any]


class ChiefGone(Exception):
    """The chief ended the search, or has been away too long; `args[0]` is the error to raise."""


class Connection:
    """Sends and receives messages; several threads may send."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._lines = connected.makefile("rb")
        self._lock = threading.Lock()
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEPALIVE.items():
            if hasattr(socket, name):  # not all systems have all of them
                connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def send(self, message: Message) -> None:
        """Sends a message; nothing happens if the other side is gone, which `messages` notices."""
        with self._lock, contextlib.suppress(OSError):
            self._socket.sendall(json.dumps(message).encode() + b"\n")

    def messages(self) -> Iterator[Message]:
        """The messages of the other side, until it is gone."""
        with contextlib.suppress(OSError, ValueError):
            for line in self._lines:
                if line.endswith(b"\n"):  # else it was cut off
                    yield json.loads(line)

    def close(self) -> None:
        """Ends the connection for both sides."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@dataclass
class Chief:
    """Hands out trials, and again those of workers that died."""

    oracle: SearchOracle
    identity: Mapping[str, Any]  # of the search; a worker's must be the same
    ended: Callable[[Trial, dict[str, str]], None]  # gets each trial and its folder's small files
    lost: Callable[[str, Trial | None], None]  # called when a worker died with its trial
    outcome: Callable[[], dict[str, Any]]  # what workers are told in the end
    workers: dict[str, Connection] = field(default_factory=dict)  # those that are there now
    joined: set[str] = field(default_factory=set)  # those that ever were

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._open, self._over = threading.Event(), threading.Event()
        self._error: BaseException | None = None
        self._informed: set[str] = set()  # workers that have the outcome

    @contextlib.contextmanager
    def serving(self, host: str, port: int) -> Iterator[int]:
        """Listens while the body runs, which gets the port. Workers are told however it ends."""
        chief = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                chief._serve(Connection(self.request))

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True  # of a chief that was killed
            daemon_threads = True
            request_queue_size = 128

        try:
            server = Server((host, port), Handler)
        except OSError as error:
            raise InputError(
                f"No chief can listen at {host}:{port} ({error}): is there another one? Name an "
                "address of this machine by KERASTUNER_ORACLE_IP, and a free port by "
                "KERASTUNER_ORACLE_PORT."
            ) from error
        threading.Thread(target=server.serve_forever, args=[0.1], daemon=True).start()
        try:
            yield server.server_address[1]
        except BaseException as error:
            self._error = error
            raise
        finally:
            self._over.set()
            for connection in list(self.workers.values()):
                connection.send({"over": self._reason()})
                connection.close()
            server.shutdown()
            server.server_close()

    def _reason(self) -> str:
        if isinstance(self._error, KeyboardInterrupt):
            return CTRL_C
        if self._error is None:
            return "The chief has ended the search."
        return f"The chief ended the search: {type(self._error).__name__}: {self._error}"

    def run(self, watch: Callable[[], None], others: bool = True) -> None:
        """Hands out trials until there are no more, calling `watch` now and then.

        `others`: whether workers may have been there before the chief.
        """
        if others and self.oracle.is_waiting:
            self._over.wait(HEAD_START)
        self._open.set()
        while not self._over.wait(0.2):
            watch()
        if self._error is not None:
            raise self._error
        end = time.monotonic() + LEAVE
        while self.workers.keys() - self._informed and time.monotonic() < end:
            time.sleep(0.05)

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """One request at a time; an error ends the search, and `run` raises it."""
        with self._lock:
            try:
                yield
            except Exception as error:
                self._error = self._error or error
                self._over.set()

    def _serve(self, connection: Connection) -> None:
        """Answers a worker until it is gone."""
        messages = connection.messages()
        hello = next(messages, None)
        if hello is None or not {"worker", "identity", "trial"} <= hello.keys():
            return
        worker, refusal = hello["worker"], self._reason()
        with self._guarded():
            if not self._over.is_set():
                refusal = self._refusal(worker, hello["identity"], hello["trial"])
            if not refusal:
                self.workers[worker] = connection
                self.joined.add(worker)
        if refusal:
            connection.send({"over": refusal})
            return
        for message in messages:
            reply: Message = {}
            with self._guarded():
                reply = self._reply(worker, message)
            connection.send({**reply, "request": message["request"]})
            if "outcome" in reply:
                self._informed.add(worker)
        with self._guarded():
            if self.workers.get(worker) is not connection:
                return  # the worker has come back by another one
            del self.workers[worker]
            if not self._over.is_set():
                self.lost(worker, self.oracle.lose(worker))

    def _reply(self, worker: str, message: Message) -> Message:
        if "bug" in message:
            raise RuntimeError(
                f"A bug ended trial {message['trial']} on {worker}: {message['bug']}"
            )
        if "trial" in message:
            if not self._over.is_set() and self.oracle.has_trial(worker, message["trial"]):
                trial = self.oracle.finish(message["trial"], message["score"], message["message"])
                self.ended(trial, message["files"])
            return {}
        if not self._open.is_set() or self._error is not None:
            return {"status": "IDLE"}
        trial = self.oracle.create_trial(worker)
        if trial.status != "STOPPED":
            return {"status": trial.status, "trial": trial.get_state()}
        if self.oracle.ongoing_trials:  # their workers may die
            return {"status": "IDLE"}
        self._over.set()
        return {"status": "STOPPED", "outcome": self.outcome()}

    def _refusal(self, worker: str, identity: Mapping[str, Any], trial_id: str) -> str:
        returns = bool(trial_id) and self.oracle.has_trial(worker, trial_id)
        if worker in self.workers and not returns:
            return f"There is a worker {worker!r} already: give each another KERASTUNER_TUNER_ID."
        if differing := difference(self.identity, identity):
            return (
                "The chief's search is a different one (was: the chief's, now: this one's): "
                f"{'; '.join(differing)}. Give each worker the chief's command, and the same pairs."
            )
        if not trial_id:
            return ""
        if trial_id not in self.oracle.trials:
            return f"The chief knows no trial {trial_id}: it was not started with --resume."
        over = self.oracle.trials[trial_id].status in ("COMPLETED", "FAILED")
        if not over and not self.oracle.has_trial(worker, trial_id):
            return f"Trial {trial_id} was given to another worker while this one was away: start it again."
        return ""


class Client:
    """A worker's connection to its chief, which is made again whenever it breaks."""

    def __init__(self, address: tuple[str, int], worker: str, identity: Mapping[str, Any]) -> None:
        self.address, self.worker, self.identity = address, worker, identity
        self.trial_id = ""  # of the trial that runs
        self.gone: BaseException | None = None
        self._requests = 0
        self._connection: Connection | None = None
        self._replies: queue.Queue[Message] = queue.Queue()
        threading.Thread(target=self._receive, daemon=True).start()

    def close(self) -> None:
        """Leaves the chief."""
        self.gone = self.gone or InputError("This worker has left its chief.")
        if self._connection is not None:
            self._connection.close()

    def check(self) -> None:
        """Raises `ChiefGone` if there is nothing more to do for the chief."""
        if self.gone is not None:
            raise ChiefGone(self.gone)

    def next_trial(self) -> tuple[Trial | None, dict[str, Any]]:
        """The next trial; or None and the outcome of the search."""
        while (reply := self._ask({}))["status"] == "IDLE":
            time.sleep(0.5)
        if reply["status"] == "STOPPED":
            return None, reply["outcome"]
        trial = Trial.from_state(reply["trial"])
        self.trial_id = trial.trial_id
        return trial, {}

    def end_trial(self, score: float | None, message: str | None, files: dict[str, str]) -> None:
        """Reports the trial that ran."""
        trial = self.trial_id
        self._ask({"trial": trial, "score": score, "message": message, "files": files})
        self.trial_id = ""

    def report_bug(self, error: Exception, trace: str) -> None:
        """Reports an error that ends the search."""
        if self.trial_id and self.gone is None:
            self._ask({"trial": self.trial_id, "bug": f"{error!r}\n\n{trace}"})

    def _ask(self, message: Message) -> Message:
        """The reply to a request, which is sent again when the chief comes back."""
        self._requests += 1
        request, sent_over = self._requests, None
        self.check()
        while True:
            connection = self._connection
            if connection is not None and connection is not sent_over:
                connection.send({**message, "request": request})
                sent_over = connection
            try:
                reply = self._replies.get(timeout=0.05)
            except queue.Empty:
                self.check()  # the last reply may come with the end of the search
            else:
                if reply["request"] == request:  # else of one that was sent twice
                    return reply

    def _receive(self) -> None:
        """Connects, and connects again."""
        while self.gone is None:
            connection = self._connect()
            if connection is None:
                return
            hello = {"worker": self.worker, "identity": self.identity, "trial": self.trial_id}
            connection.send(hello)
            self._connection = connection
            for message in connection.messages():
                if message.get("over") == CTRL_C:
                    self.gone = self.gone or KeyboardInterrupt()
                elif "over" in message:
                    self.gone = self.gone or InputError(message["over"])
                else:
                    self._replies.put(message)
            self._connection = None
            connection.close()

    def _connect(self) -> Connection | None:
        end = time.monotonic() + WAIT
        while self.gone is None:
            try:
                found = socket.create_connection(self.address, timeout=5)
            except OSError:
                if time.monotonic() > end:
                    self.gone = InputError(
                        f"No chief answered at {self.address[0]}:{self.address[1]} for {WAIT:g} "
                        "seconds: start it there, with --resume if its search was begun, and then "
                        "this worker again."
                    )
                time.sleep(0.2)
            else:
                found.settimeout(None)
                return Connection(found)
        return None
