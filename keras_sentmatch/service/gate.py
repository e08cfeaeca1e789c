"""What every request passes before it reaches a route: its key, its size, its time."""

import asyncio
import base64
import binascii
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from keras_sentmatch.service.limits import Limits, Refused, as_json, error_body
from keras_sentmatch.service.metrics import Metrics

log = logging.getLogger(__name__)
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
OPEN = ("/health",)  # what needs no key
HEADERS = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]


class Gate:
    """ASGI middleware: refuses what has no key, is too large or too slow; counts all requests.

    Args:
        app: What is behind it.
        limits: Of a request.
        keys: Keys, one of which a request must have; empty if none is needed.
        metrics: Where requests are counted.
        paths: The paths that are counted by their names; all others together.
    """

    def __init__(
        self, app: Any, limits: Limits, keys: Sequence[str], metrics: Metrics, paths: Sequence[str]
    ) -> None:
        self.app, self.limits, self.metrics = app, limits, metrics
        self.keys = [key.encode() for key in keys]
        self.paths = frozenset(paths)

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
            await self.app(scope, _replay(body, receive), counted)
        except Refused as refused:
            await _refuse(refused, counted)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            await _refuse(Refused(500, "the service failed; its log has the error."), counted)
        finally:
            path = scope["path"] if scope["path"] in self.paths else "other"
            self.metrics.request(path, status, time.perf_counter() - start)

    async def _admit(self, scope: Scope, receive: Receive) -> bytes:
        """The body of a request that is admitted."""
        headers = {name.lower(): value for name, value in scope["headers"]}
        refused = None
        if self.keys and scope["path"] not in OPEN and not self._knows(headers):
            refused = Refused(
                401,
                "expected one of the keys of --api-key-file, as `Authorization: Bearer KEY` or as "
                "the password of Basic authentication.",
                www_authenticate='Basic realm="keras-sentmatch"',
            )
        elif scope["method"] == "POST" and not _is_json(headers.get(b"content-type", b"")):
            refused = Refused(415, "expected JSON: send Content-Type: application/json.")
        try:
            async with asyncio.timeout(self.limits.read_seconds):
                return await self._read(headers, receive, refused)
        except TimeoutError:
            raise refused or Refused(
                408,
                f"expected the whole request within {self.limits.read_seconds:g} seconds.",
                connection="close",
            ) from None

    async def _read(
        self, headers: dict[bytes, bytes], receive: Receive, refused: Refused | None
    ) -> bytes:
        """The body. One that is too large is still read, and dropped: clients read no answer before."""
        parts: list[bytes] = []
        size, more, most = 0, True, self.limits.body_bytes
        said = headers.get(b"content-length", b"")
        large = Refused(
            413, f"expected a body of at most {most:,} bytes: send fewer pairs at once."
        )
        if refused is None and said.isdigit() and int(said[:18]) > most:
            refused = large
        if refused is not None and b"expect" in headers:  # the client waits with the body
            refused.headers["connection"] = "close"
            raise refused
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Refused(400, "the client left.")
            size += len(message.get("body", b""))
            more = message.get("more_body", False)
            if refused is None and size > most:
                refused = large
            if refused is None:
                parts.append(message.get("body", b""))
            else:
                parts.clear()
        if refused is not None:
            raise refused
        return b"".join(parts)

    def _knows(self, headers: dict[bytes, bytes]) -> bool:
        """Whether there is a right key; takes as long whichever it is, and wherever it differs."""
        kind, _, value = headers.get(b"authorization", b"").partition(b" ")
        given = value.strip()
        if kind.lower() == b"basic":
            try:
                given = base64.b64decode(given, validate=True).partition(b":")[2]
            except binascii.Error:
                given = b""
        return any([hmac.compare_digest(key, given) for key in self.keys])


def _is_json(content_type: bytes) -> bool:
    return content_type.partition(b";")[0].strip().lower() == b"application/json"


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives a body which has been read, then what comes after it."""
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
