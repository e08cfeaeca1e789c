"""On a real port: slow clients, what is no HTTP, and the command with its signals."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from keras_sentmatch.cli import main
from keras_sentmatch.cli.serve import example_pairs, named_folders, read_keys
from keras_sentmatch.data import load_pairs
from keras_sentmatch.errors import InputError
from keras_sentmatch.service.gate import Limits
from keras_sentmatch.service.server import listen, make_server
from tests.service.live import on_a_port
from tests.service.stub import Stub, served
from tests.toys.matchers import make

PAIR = {"sentence1": "abc", "sentence2": "a"}
LIMITS = Limits(body_bytes=5000, read_seconds=0.3)


@pytest.fixture(scope="module")
def port():
    with on_a_port([served(Stub())], LIMITS) as found:
        yield found


def ask(port, path="/predict", body=PAIR):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    content = None if body is None else json.dumps(body)
    method = "GET" if body is None else "POST"
    connection.request(method, path, content, {"content-type": "application/json"})
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def raw(port, *parts, pause=0.0):
    """Send these bytes with pauses, and return all that the service answers."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        for part in parts:
            client.sendall(part)
            time.sleep(pause)
        return b"".join(iter(lambda: client.recv(1 << 16), b""))


HEAD = b"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"


@pytest.mark.parametrize(
    "parts, status",
    [
        ((), 408),
        ((b"POST /pre",), 408),
        ((b"POST /predict HTTP/1.1\r\n", b"host: x\r\n"), 408),
        ((HEAD + b"content-length: 50\r\n\r\n", b"{"), 408),
        ((b"\x16\x03\x01\x02\x00\x01",), 400),
        ((b"nonsense\r\n\r\n",), 400),
        ((HEAD + b"content-length: 1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",), 422),
        ((HEAD + b"content-length: x\r\n\r\n",), 400),
        ((b"GET / HTTP/1.1\r\nhost: x\r\na: " + b"a" * (1 << 17),), 400),
    ],
)
def test_slow_and_broken_clients_get_an_answer(port, parts, status):
    answer = raw(port, *parts, pause=0.01)
    head, _, body = answer.partition(b"\r\n\r\n")
    if status == 422:  # which of the two headers counts is the parser's choice
        assert head.split()[1][:1] == b"4"
        return
    assert head.split()[1] == b"%d" % status
    assert json.loads(body)["error"]["status"] == status
    assert ask(port)[0] == 200


def test_a_second_request_on_a_kept_connection_has_its_time_too(port):
    body = json.dumps(PAIR).encode()
    whole = HEAD + b"content-length: %d\r\n\r\n" % len(body) + body
    answer = raw(port, whole, whole, b"POST /pre", pause=0.1)
    assert answer.count(b"HTTP/1.1 200") == 2 and answer.count(b"HTTP/1.1 408") == 1


def test_a_large_body_is_refused_so_that_its_sender_reads_why(port):
    length = 20 << 20
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(HEAD + b"content-length: %d\r\n\r\n" % length)
        for _ in range(20):
            client.sendall(b" " * (1 << 20))
        assert client.recv(100).startswith(b"HTTP/1.1 413")


def test_what_is_in_flight_is_answered_at_the_end():
    matcher = Stub(delay=0.5)
    with on_a_port([served(matcher)]) as port:
        found = []
        thread = threading.Thread(target=lambda: found.append(ask(port)[0]))
        thread.start()
        time.sleep(0.2)
    thread.join()
    assert found == [200]
    with pytest.raises(ConnectionRefusedError):
        ask(port)


def test_addresses_that_cannot_be_had():
    with listen("127.0.0.1", 0) as taken:
        assert taken.proto == socket.IPPROTO_TCP, "asyncio would not set TCP_NODELAY"
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port} .*in use"):
            listen("127.0.0.1", port)
    with pytest.raises(InputError, match="Cannot listen on 192.0.2.1"):
        listen("192.0.2.1", 0)


def test_examples_are_built_in_pairs():
    pairs = load_pairs("embedded")["test"]
    found = example_pairs()
    assert 1 < len(set(found)) == len(found) < 20
    assert set(found) <= set(zip(pairs.sentence1, pairs.sentence2))


def test_names_and_keys(tmp_path):
    (tmp_path / "a=b").mkdir()
    folders = named_folders([str(tmp_path / "a=b"), "old=runs/x", "runs/x"])
    assert list(folders) == ["a=b", "old", "x"]
    with pytest.raises(InputError, match="the name 'x' is empty or used twice"):
        named_folders(["runs/x", "others/x"])
    with pytest.raises(InputError, match="as in NAME=runs/x"):
        named_folders(["=runs/x"])
    file = tmp_path / "keys"
    file.write_text("one-key\n\n  another  \n")
    assert read_keys(file) == ["one-key", "another"]
    for bad in ("", "\n", "two words", "Schlüssel"):
        file.write_text(bad)
        with pytest.raises(InputError, match="Expected one key per line"):
            read_keys(file)


def test_options_that_cannot_be(capsys):
    for options, said in (
        (["--port", "-1"], "'--port'"),
        (["--set", "pairs=0"], "--set pairs=0 is not accepted. Expected LIMIT=NUMBER"),
        (["--set", "read_seconds=nan"], "with a number above 0 for one of body_bytes, pairs"),
        (["--set", "waiting=5"], "--set waiting=5 is not accepted"),
        (["--api-key-file", "nowhere/keys"], "cannot be read"),
        ([], "not a run folder"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["serve", "nowhere/run", "--port", "0", *options])
        assert ended.value.code == 2 and said in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.backend("torch")
@pytest.mark.parametrize("engine", ["keras", "onnx"])
def test_the_command(engine, tmp_path):
    """A port of its own, answers, also when the folder has gone, and an end."""
    if engine == "onnx":
        pytest.importorskip("onnxruntime")
    run, gone = tmp_path / "mine", tmp_path / "gone"
    matcher = make("re2")
    matcher.save(run)
    want = matcher.predict(**PAIR).probabilities
    keys = tmp_path / "keys"
    keys.write_text("secret\n")
    program = "from keras_sentmatch.cli import main; main()"
    command = [sys.executable, "-c", program, "serve", str(run), "--port", "0"]
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [*command, "--engine", engine],
            stderr=stderr,
            env={**os.environ, "KERAS_BACKEND": "torch"},
        )

    def wait_for(text, seconds=240):
        end = time.monotonic() + seconds
        while text not in log.read_text("utf-8"):
            assert time.monotonic() < end and process.poll() is None, log.read_text("utf-8")
            time.sleep(0.1)

    try:
        wait_for("serving mine on ")
        port = int(re.search(r"serving mine on \S+:(\d+)", log.read_text())[1])
        status, answer = ask(port)
        assert status == 200 and answer["probabilities"] == pytest.approx(want, abs=1e-5)
        other = subprocess.run(
            [*command[:-1], str(port)], capture_output=True, text=True, timeout=240
        )
        assert other.returncode == 2 and f"port {port} (Address already in use)" in other.stderr
        run.rename(gone)
        unknown = {"sentence1": "abc zebra", "sentence2": "a brand new wordling"}
        assert ask(port, body=unknown)[0] == 200, "from memory"
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) in (0, -signal.SIGTERM)
    finally:
        process.kill()


def test_a_second_ctrl_c_ends_the_service_at_once(monkeypatch):
    """Without a traceback of uvicorn, which cancels what it waits for."""
    ended = []
    monkeypatch.setattr(os, "_exit", ended.append)
    server = make_server(None, read_seconds=1, grace=1)
    server.handle_exit(signal.SIGINT, None)
    assert server.should_exit and not ended
    server.handle_exit(signal.SIGINT, None)
    assert ended == [130]
