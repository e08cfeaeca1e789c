"""uvicorn for the service: its socket, its signals, and clients that send no request."""

import asyncio
import contextlib
import logging
import signal
import socket
import threading
from asyncio import TimerHandle
from collections.abc import Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from keras_sentmatch.errors import InputError
from keras_sentmatch.service.gate import as_json, error_body

log = logging.getLogger(__name__)
LINGER = 1.0  # seconds in which a refused client can read the reason


def listen(host: str, port: int) -> socket.socket:
    """Bind a socket to an address; connections wait until a server takes it.

    Raises:
        InputError: The port is in use or forbidden, or the host does not belong to this machine.
    """
    if not 0 <= port < 1 << 16:
        raise InputError(
            f"--port {port} is out of range. Expected a number from 0 (any free port) to 65535."
        )
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise InputError(
            f"--host {host} does not exist ({error.strerror}). Use 127.0.0.1 for this machine alone, or "
            "0.0.0.0 for all its addresses."
        ) from error
    made = socket.socket(family, kind)
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


class Protocol(H11Protocol):
    """HTTP whose clients must send a request in time, and whose errors are JSON."""

    read_seconds = 10.0
    _timer: TimerHandle | None = None
    _ended = False  # refused: further bytes are dropped

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        if self._timer is None and (self.cycle is None or self.cycle.response_complete):
            self._wait()  # the next request on a kept connection
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._stop()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self._send(400, "this is not a valid HTTP request.")

    def _wait(self) -> None:
        self._timer = self.loop.call_later(self.read_seconds, self._give_up)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self._send(408, f"expected a request within {self.read_seconds:g} seconds.")

    def _send(self, status: int, message: str) -> None:
        body = as_json(error_body(status, message))
        head = (
            f"HTTP/1.1 {status} {'Bad Request' if status == 400 else 'Request Timeout'}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
            "connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        # If it were closed while the client still sends, the answer would be lost.
        self._stop()
        self._ended = True
        self.transport.write_eof()
        self.loop.call_later(min(self.read_seconds, LINGER), self.transport.close)


class Server(uvicorn.Server):
    """Stops on SIGTERM and SIGINT once open requests are answered."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        numbers = signal.SIGTERM, signal.SIGINT
        for number in numbers:
            loop.add_signal_handler(number, self._end)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def _end(self) -> None:
        log.info("stopping once open requests are answered (a second signal stops at once)")
        self.force_exit = self.should_exit
        self.should_exit = True


def make_server(app: Any, *, read_seconds: float, grace: float) -> Server:
    """Make a server for an ASGI app.

    Args:
        app: The app.
        read_seconds: Seconds within which a client must send the head of a request.
        grace: Seconds that open requests have when the server stops.
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
    return Server(config)
