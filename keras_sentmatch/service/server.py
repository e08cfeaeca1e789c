"""uvicorn for the service: its socket, and clients that send no request."""

import asyncio
import logging
import os
import signal
import socket
import sys
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol  # httptools's, or else h11's

from keras_sentmatch.errors import InputError
from keras_sentmatch.service.gate import as_json, error_body

LINGER = 1.0  # seconds in which a refused client can read the reason
HEAD_BYTES = 1 << 16  # of the head of a request
SWITCH = 0.0005  # seconds after which a thread lets another one run Python

Base: Any = AutoHTTPProtocol


def listen(host: str, port: int) -> socket.socket:
    """Bind a socket to an address; connections wait until a server takes it.

    Raises:
        InputError: The port is in use or forbidden, or the host does not belong to this machine.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise InputError(
            f"--host {host} does not exist ({error.strerror}). Use 127.0.0.1 for this machine alone, or "
            "0.0.0.0 for all its addresses."
        ) from error
    # asyncio sends small answers at once (TCP_NODELAY) only if the socket names its protocol.
    made = socket.socket(family, kind, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(2048)
    except OSError as error:
        made.close()
        raise InputError(
            f"Cannot listen on {host}, port {port} ({error.strerror}). Name another one with --port."
        ) from error
    return made


class Protocol(Base):
    """HTTP whose clients must send a request in time, and whose errors are JSON."""

    read_seconds = 10.0
    _timer: asyncio.TimerHandle | None = None
    _ended = False  # refused: further bytes are dropped
    _head = 0  # bytes of a request whose head is not complete

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        if self._timer is None and (self.cycle is None or self.cycle.response_complete):
            self._wait()  # the next request on a kept connection
        before = self.cycle
        self._head += len(data)
        super().data_received(data)
        if self.cycle is not before:
            self._head = 0
            self._stop()
        elif self._timer is not None and self._head > HEAD_BYTES:
            self._refuse(400, f"expected a head of at most {HEAD_BYTES:,} bytes.")

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "this is not a valid HTTP request.")

    def _wait(self) -> None:
        message = f"expected a request within {self.read_seconds:g} seconds."
        self._timer = self.loop.call_later(self.read_seconds, self._refuse, 408, message)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: int, message: str) -> None:
        self._stop()
        if self.transport.is_closing():
            return
        body = as_json(error_body(status, message))
        head = (
            f"HTTP/1.1 {status} Refused\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self._ended = True
        self.transport.write_eof()
        # If it were closed while the client still sends, the answer would be lost.
        self.loop.call_later(min(self.read_seconds, LINGER), self.transport.close)


class Server(uvicorn.Server):
    """A server that a second Ctrl-C ends at once, without uvicorn's traceback."""

    def handle_exit(self, sig: int, frame: Any) -> None:
        if self.should_exit and sig == signal.SIGINT:
            os._exit(130)
        super().handle_exit(sig, frame)


def make_server(app: Any, *, read_seconds: float, grace: float) -> uvicorn.Server:
    """Make a server, which SIGTERM and SIGINT stop once open requests are answered.

    A client must send the head of a request within `read_seconds`. Open requests have `grace`
    seconds when the server stops.
    """
    protocol = type("Protocol", (Protocol,), {"read_seconds": read_seconds})
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(grace) + 1,
    )
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    sys.setswitchinterval(SWITCH)  # the thread of a matcher would keep answers waiting
    return Server(config)
