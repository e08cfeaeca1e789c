"""Chromium, driven over a pipe, without a network but for this machine's own."""

import fcntl
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BROWSER = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-extensions "
    "--disable-background-networking --remote-debugging-pipe"
).split()


class Browser:
    """Chromium's DevTools protocol over a pipe: JSON messages that end with a zero byte."""

    def __init__(self, reader: int, writer: int):
        self.reader, self.writer, self.rest, self.number = reader, writer, b"", 0
        self.session = ""
        self.console: list[str] = []

    def call(self, method: str, **parameters: Any) -> Any:
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writer, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                got = os.read(self.reader, 1 << 16)
                assert got, "the browser ended"
                self.rest += got
            line, _, self.rest = self.rest.partition(b"\0")
            answer = json.loads(line)
            if answer["method" if "method" in answer else "id"] in (
                "Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled",
            ):  # fmt: skip
                self.console.append(str(answer["params"]))
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]

    def open(self, page: Path | str) -> None:
        """Opens a file or an address."""
        address = page.as_uri() if isinstance(page, Path) else page
        self.session, self.console = "", []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        self.call("Log.enable")
        self.call("Runtime.enable")
        self.call("Page.navigate", url=address)
        end = time.monotonic() + 60
        while self.js("document.readyState + location.href") != f"complete{address}":
            assert time.monotonic() < end
            time.sleep(0.02)

    def js(self, code: str) -> Any:
        return self.call("Runtime.evaluate", expression=code)["result"].get("value")

    def press(self, key: str) -> None:
        text = {"text": "\r"} if key == "Enter" else {}
        code = {"Enter": 13, "Tab": 9, "Escape": 27}.get(key, 0)
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key,
                windowsVirtualKeyCode=code, **text,
            )  # fmt: skip


@contextmanager
def started(profile: Path) -> Iterator[Browser]:
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for pair in (os.pipe(), os.pipe()) for end in pair]
    its_in, writer, reader, its_out = ends
    command = [str(BROWSER), *OPTIONS, "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    process = subprocess.Popen(
        ["bash", "-c", f'exec "$0" "$@" 3<&{its_in} 4>&{its_out}', *command, f"--user-data-dir={profile}"],
        pass_fds=(its_in, its_out), stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(its_in)
    os.close(its_out)
    yield Browser(reader, writer)
    process.terminate()
    process.wait()
