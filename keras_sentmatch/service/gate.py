"""The gate before the routes: keys, limits, refusals, and the counters that Prometheus reads."""

import asyncio
import base64
import binascii
import contextlib
import hmac
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

log = logging.getLogger(__name__)
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
OPEN = ("/health",)  # paths that need no key
HEADERS = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]
SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
PAIRS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class Limits:
    """Limits of a request."""

    body_bytes: int = 1 << 20
    pairs: int = 1024  # or candidates to rank
    characters: int = 2000  # of a sentence
    read_seconds: float = 10.0  # within which the whole request must arrive
    answer_seconds: float = 30.0


class Refused(Exception):
    """A request that is not answered, with its HTTP status."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def error_body(status: int, message: str) -> dict[str, Any]:
    """Return the body of an error; all errors have this form."""
    return {"error": {"status": status, "message": message}}


def as_json(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


class Metrics:
    """The counters of one service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # memory, CPU seconds, open files
        PlatformCollector(registry=self.registry)
        at: Any = {"registry": self.registry}
        self.requests = Counter("sentmatch_requests", "Requests.", ("path", "status"), **at)
        self.seconds = Histogram(
            "sentmatch_request_seconds", "From headers to answer.", ("path",), buckets=SECONDS, **at
        )
        self.pairs = Counter("sentmatch_pairs", "Pairs scored.", ("run",), **at)
        self.batch_pairs = Histogram(
            "sentmatch_batch_pairs", "Pairs scored together.", ("run",), buckets=PAIRS, **at
        )
        self.batch_requests = Histogram(
            "sentmatch_batch_requests", "Requests answered together.", ("run",), buckets=PAIRS, **at
        )
        self.batch_seconds = Histogram(
            "sentmatch_batch_seconds", "Scoring a batch.", ("run",), buckets=SECONDS, **at
        )
        self.waiting = Gauge("sentmatch_waiting_pairs", "Pairs that wait.", ("run",), **at)

    def batch(self, run: str, requests: int, pairs: int, seconds: float) -> None:
        """Count a batch of scores."""
        self.pairs.labels(run).inc(pairs)
        self.batch_pairs.labels(run).observe(pairs)
        self.batch_requests.labels(run).observe(requests)
        self.batch_seconds.labels(run).observe(seconds)

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self.requests.labels(path, str(status)).inc()
        self.seconds.labels(path).observe(seconds)

    def text(self) -> bytes:
        """Return all counters in Prometheus's text format."""
        return generate_latest(self.registry)


class Gate:
    """ASGI middleware: refuses requests without a key, too large or too slow; counts all requests.

    The paths `posts` expect JSON. Requests for other paths than `paths` are counted together. `quick`
    has functions by path that return the response to a body, or None if the app is to answer.
    """

    def __init__(
        self,
        app: Any,
        limits: Limits,
        keys: Sequence[str],
        metrics: Metrics,
        paths: Sequence[str],
        posts: Sequence[str],
        quick: Mapping[str, Callable[[bytes], Awaitable[Any]]],
    ) -> None:
        self.app, self.limits, self.metrics = app, limits, metrics
        self.keys = [key.encode() for key in keys]
        self.paths, self.posts, self.quick = frozenset(paths), frozenset(posts), quick

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500

        async def counted(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        try:
            body = await self._admit(scope, receive)
            response = None
            if scope["method"] == "POST" and scope["path"] in self.quick:
                response = await self.quick[scope["path"]](body)
            if response is None:
                await self.app(scope, _replay(body, receive), counted)
            else:
                await response(scope, receive, counted)
        except Refused as refused:
            await _refuse(refused, counted)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            await _refuse(Refused(500, "the service failed. Its log has the error."), counted)
        finally:
            path = scope["path"] if scope["path"] in self.paths else "other"
            self.metrics.request(path, status, time.perf_counter() - start)

    async def _admit(self, scope: Scope, receive: Receive) -> bytes:
        """Return the body of an admitted request."""
        headers = {name.lower(): value for name, value in scope["headers"]}
        refused, most = None, self.limits.body_bytes
        if self.keys and scope["path"] not in OPEN and not self._knows(headers):
            refused = Refused(
                401,
                "expected one of the keys of --api-key-file, as `Authorization: Bearer KEY` or as "
                "the password of Basic authentication.",
                www_authenticate='Basic realm="keras-sentmatch"',
            )
        elif scope["method"] == "POST" and scope["path"] in self.posts:
            kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
            if kind != b"application/json":
                refused = Refused(415, "expected JSON. Send Content-Type: application/json.")
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.read_seconds):
                more = True
                while more:  # also if it is refused: clients read the answer only after sending
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(400, "the client left.")
                    more = message.get("more_body", False)
                    if refused is None:
                        body += message.get("body", b"")
                    if len(body) > most:
                        refused = Refused(
                            413,
                            f"expected a body of at most {most:,} bytes. Send fewer pairs at once.",
                        )
                        body.clear()
        except TimeoutError:
            refused = refused or Refused(
                408,
                f"expected the whole request within {self.limits.read_seconds:g} seconds.",
                connection="close",
            )
        if refused is not None:
            raise refused
        return bytes(body)

    def _knows(self, headers: dict[bytes, bytes]) -> bool:
        """Whether the request has a valid key; the time does not depend on which one, or how near."""
        kind, _, value = headers.get(b"authorization", b"").partition(b" ")
        given = value.strip() if kind.lower() == b"bearer" else b""
        if kind.lower() == b"basic":
            with contextlib.suppress(binascii.Error):
                given = base64.b64decode(value.strip(), validate=True).partition(b":")[2]
        return any([hmac.compare_digest(key, given) for key in self.keys])


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives a body that was read already, then what comes after it."""
    given = False

    async def again() -> MutableMapping[str, Any]:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _refuse(refused: Refused, send: Send) -> None:
    body = as_json(error_body(refused.status, refused.message))
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    headers += [(name.encode(), value.encode()) for name, value in refused.headers.items()]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
