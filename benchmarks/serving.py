"""`keras-sentmatch serve` under load and under hostile requests, beside direct `predict`.

    python benchmarks/serving.py --run runs/mine --pairs pairs.tsv --seconds 600

Starts the command on a free port. For each number of clients, each sends its requests one after the
other, one pair each, drawn at random from the file; every answer is compared with `predict`'s. Then
come hostile requests: deep JSON, bodies of 100 MB, wrong types, bad UTF-8, slow clients. Ends with
status 1 if an answer was wrong, or a hostile request got another status than 4xx.
"""

import http.client
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import measuring
import numpy as np

RESULTS = measuring.Results("serving")
TOLERANCE = 1e-5
JSON = {"content-type": "application/json"}


@contextmanager
def started(run: str, engine: str, backend: str, *more: str) -> Iterator[tuple[int, int]]:
    """The port and the process id of a service with further options."""
    program = "from keras_sentmatch.cli import main; main()"
    options = ["serve", run, "--port", "0", "--engine", engine, *more]
    with tempfile.NamedTemporaryFile("r") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", program, *options],
            env=measuring.environment(backend),
            stderr=open(log.name, "wb"),
        )
        try:
            end = time.monotonic() + 300
            while not (found := re.search(r"serving .* on \S+:(\d+)", Path(log.name).read_text())):
                if time.monotonic() > end or process.poll() is not None:
                    raise RuntimeError(f"the service did not start: {Path(log.name).read_text()}")
                time.sleep(0.2)
            yield int(found[1]), process.pid
        finally:
            process.terminate()
            if process.wait(60) != 0:
                print("the service ended with status", process.returncode)


def resident_mib(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) // 1024


# === Load ===


def same(got: dict[str, Any], want: dict[str, Any]) -> bool:
    if "score" in want:
        return abs(got["score"] - want["score"]) <= TOLERANCE * max(1, abs(want["score"]))
    p, q = got["probabilities"], want["probabilities"]
    close = p.keys() == q.keys() and all(abs(p[name] - q[name]) <= TOLERANCE for name in q)
    tie = np.ptp(np.sort(list(q.values()))[-2:]) <= 2 * TOLERANCE  # either label is right
    return close and (got["label"] == want["label"] or tie)


def client(seed: int, port: int, seconds: float, pairs: list[Any], wanted: list[Any]) -> Any:
    """Sends one pair after the other: the seconds of each, and what was wrong."""
    rng, connection = random.Random(seed), http.client.HTTPConnection("127.0.0.1", port)
    times, wrong, end = [], [], time.monotonic() + seconds
    while (start := time.perf_counter()) and time.monotonic() < end:
        row = rng.randrange(len(pairs))
        try:
            connection.request("POST", "/predict", pairs[row], JSON)
            response = connection.getresponse()
            answer = json.loads(response.read())
        except (OSError, ValueError, http.client.HTTPException) as error:
            wrong.append(repr(error))
            connection.close()
            continue
        times.append(time.perf_counter() - start)
        if response.status != 200 or not same(answer, wanted[row]):
            wrong.append((row, answer))
    return times, wrong


def load(
    port: int, process: int, clients: int, seconds: float, pairs: list[Any], wanted: list[Any]
) -> dict[str, Any]:
    """A row for so many clients at once."""
    memory: list[int] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(seconds / 40):
            memory.append(resident_mib(process))

    watching = threading.Thread(target=watch)
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(lambda seed: client(seed, port, 2, pairs, wanted), range(clients)))  # warm
        watching.start()
        start = time.perf_counter()
        found, busy = measuring.busy_while(
            lambda: list(
                pool.map(lambda seed: client(seed, port, seconds, pairs, wanted), range(clients))
            )
        )
        spent = time.perf_counter() - start
    ended.set()
    watching.join()
    times = np.array([x for times, _ in found for x in times] or [np.nan])
    wrong = [answer for _, answers in found for answer in answers]
    for answer in wrong[:3]:
        print("wrong:", answer)
    quarter = max(1, len(memory) // 4)
    return {
        "clients": clients,
        "seconds": round(spent),
        "requests": len(times),
        "wrong": len(wrong),
        "pairs_per_s": round(len(times) / spent, 1),
        "p50_ms": round(1000 * float(np.quantile(times, 0.5)), 1),
        "p95_ms": round(1000 * float(np.quantile(times, 0.95)), 1),
        "mib_first_quarter": round(float(np.median(memory[:quarter]))),
        "mib_last_quarter": round(float(np.median(memory[-quarter:]))),
        "busy": round(busy, 2),
    }


def direct(matcher: Any, data: Any, seconds: float) -> tuple[float, float]:
    """Pairs per second of `predict`: one pair a call, and 64."""
    rates = []
    for count in (1, 64):
        rng = random.Random(0)
        for _ in range(50):  # until the shapes are traced
            matcher.predict(data.select([rng.randrange(len(data)) for _ in range(count)]))
        done, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            rows = [rng.randrange(len(data)) for _ in range(count)]
            matcher.predict(data.select(rows))
            done += count
        rates.append(done / (time.perf_counter() - start))
    return rates[0], rates[1]


# === Hostile requests ===


def send(port: int, *parts: bytes, pause: float = 0.0) -> int:
    """The status that a client gets which sends these bytes, with pauses."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        try:
            for part in parts:
                connection.sendall(part)
                time.sleep(pause)
        except OSError:
            pass  # the service has closed: its answer may be there
        answer = connection.recv(1 << 16)
    return int(answer.split()[1]) if answer.startswith(b"HTTP/1.1 ") else 0


def request(path: bytes, body: bytes, length: int | None = None) -> bytes:
    length = len(body) if length is None else length
    return (
        b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        % (path, length)
    ) + body


def deep(port: int, rng: random.Random) -> int:
    inner = rng.choice([b"[", b'{"pairs":', b'{"sentence1":', b'[{"a":'])
    count = rng.randrange(500, 100_000)
    return send(port, request(rng.choice([b"/predict", b"/rank", b"/explain"]), inner * count))


def huge(port: int, rng: random.Random) -> int:
    megabyte = rng.choice([b" ", b"[", b"a", b'"', b"\xff"]) * (1 << 20)
    return send(port, request(b"/predict", b"", 100 << 20), *[megabyte] * 100)


def wrong_types(port: int, rng: random.Random) -> int:
    odd: list[Any] = [
        None,
        7,
        1e308,
        True,
        [],
        {},
        ["a"],
        {"a": 1},
        [[["a"]]],
        "a" * 5000,
        "\ud800",
    ]
    one, two = rng.choice(odd), rng.choice(odd)
    bodies = [
        {"sentence1": one, "sentence2": two},
        {"pairs": one},
        {"pairs": [{"sentence1": one, "sentence2": "b"}]},
        {"pairs": [one] * 1000},
        {"sentence1": "a", "sentence2": "b", "run": rng.choice([7, [], "nobody", ""])},
        {"sentence1": "a", "sentence2": "b", "more": one},
        {"query": one, "candidates": two},
        one,
    ]
    path = rng.choice([b"/predict", b"/rank", b"/explain"])
    return send(port, request(path, json.dumps(rng.choice(bodies)).encode()))


def bad_text(port: int, rng: random.Random) -> int:
    bad = rng.choice([b"\xff", b"\xc3(", b"\xed\xa0\x80", b"\xf8\x88\x80\x80\x80", b"\x80", b"\0"])
    body = b'{"sentence1": "a%s", "sentence2": "b"}' % bad
    return send(port, request(b"/predict", body))


def no_http(port: int, rng: random.Random) -> int:
    head = rng.randbytes(rng.randrange(1, 2000))
    return send(port, head.replace(b"HTTP", b"") + b"\r\n\r\n")


def slow(port: int, rng: random.Random) -> int:
    whole = request(b"/predict", b'{"sentence1": "a", "sentence2": "b"}')
    cut = rng.randrange(len(whole))
    parts = [whole[i : i + 1] for i in range(min(cut, 5))] + [whole[5:cut]]
    return send(port, *parts, pause=0.1)


KINDS: list[tuple[Callable[[int, random.Random], int], float]] = [
    (deep, 0.2), (huge, 0.05), (wrong_types, 0.3), (bad_text, 0.15), (no_http, 0.1), (slow, 0.2),
]  # fmt: skip


def hostile(port: int, process: int, count: int, pair: Any, wanted: Any) -> dict[str, Any]:
    """Hostile requests, eight at once, between good ones: the statuses of each kind."""
    rng = random.Random(0)
    kinds, weights = zip(*KINDS)
    drawn = [(kind, rng.random()) for kind in rng.choices(kinds, weights, k=count)]
    before = resident_mib(process)

    def one(task: Any) -> tuple[str, int]:
        kind, seed = task
        return kind.__name__, kind(port, random.Random(seed))

    with ThreadPoolExecutor(8) as pool:
        statuses = Counter(pool.map(one, drawn))
    for (kind, status), number in sorted(statuses.items()):
        print(f"{kind:12} {status} {number}")
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", "/predict", pair, JSON)
    return {
        "hostile": count,
        "refused": sum(n for (_, status), n in statuses.items() if 400 <= status < 500),
        "alive": same(json.loads(connection.getresponse().read()), wanted),
        "mib_first_quarter": before,
        "mib_last_quarter": resident_mib(process),
    }


# === Results ===

FIELDS = (
    "model engine backend kind clients seconds requests wrong pairs_per_s p50_ms p95_ms direct_1 "
    "direct_64 mib_first_quarter mib_last_quarter busy hostile refused alive cpus command"
).split()


def show(page: Path | None) -> None:
    head = [
        *("model", "runs on", "clients", "minutes", "requests", "wrong", "pairs/s"),
        *(
            "p50 ms",
            "p95 ms",
            "`predict`, 1 at a time: pairs/s",
            "64 at a time",
            "MiB: first, last quarter",
        ),
        "CPUs of service and others",
    ]
    rows = RESULTS.rows()
    lines = [
        [
            *(row["model"], row["engine"] if row["engine"] != "keras" else row["backend"]),
            *(row["clients"], f"{int(row['seconds']) / 60:.1f}", f"{int(row['requests']):,}"),
            *(row["wrong"], row["pairs_per_s"], row["p50_ms"], row["p95_ms"]),
            *(row["direct_1"], row["direct_64"]),
            *(f"{row['mib_first_quarter']}, {row['mib_last_quarter']}", row["busy"]),
        ]
        for row in rows
        if row["kind"] == "load"
    ]
    text = measuring.markdown(head, lines, left=2)
    for row in rows:
        if row["kind"] == "hostile":
            alive = "went on answering" if row["alive"] == "True" else "did not answer any more"
            text += [
                "",
                f"Of {row['hostile']} hostile requests {row['refused']} got a status 4xx; the service "
                f"{alive}. It had {row['mib_first_quarter']} MiB before them and "
                f"{row['mib_last_quarter']} after.",
            ]
    print("\n".join(text))
    if page is not None:
        RESULTS.write(page, text)


def main() -> None:
    parser = measuring.parser(__doc__ or "")
    parser.add_argument("--run", help="a run folder")
    parser.add_argument("--pairs", default="embedded", help="pairs to send: as --data takes them")
    parser.add_argument("--engine", default="keras", help="keras or onnx")
    parser.add_argument("--backend", default=os.environ.get("KERAS_BACKEND", "torch"))
    parser.add_argument("--clients", default="8,64", help="how many at once, one after the other")
    parser.add_argument("--seconds", type=float, default=600, help="for each number of clients")
    parser.add_argument("--hostile", type=int, default=1000, help="how many hostile requests")
    args = parser.parse_args()
    if args.show or args.run is None:
        show(args.write)
        return
    os.environ["KERAS_BACKEND"] = args.backend

    from keras_sentmatch.cli.runs import Run
    from keras_sentmatch.cli.sources import Source

    source = Source(args.pairs)
    data = source.rows() if Path(args.pairs).is_file() else source.split("test")
    run = Run.load(Path(args.run), engine=args.engine)
    wanted = run.matcher.answers(run.matcher.predict_proba(data))
    sides = zip(data.sentence1, data.sentence2)
    pairs = [json.dumps({"sentence1": one, "sentence2": two}) for one, two in sides]
    facts = {
        "model": run.first.info.get("model"),
        "engine": args.engine,
        "backend": args.backend,
        "cpus": measuring.cpus(),
    }
    found = []
    with started(args.run, args.engine, args.backend) as (port, process):
        for clients in map(int, filter(None, args.clients.split(","))):
            alone, many = direct(run.matcher, data, min(10, args.seconds))
            row = load(port, process, clients, args.seconds, pairs, wanted)
            rates = {"direct_1": round(alone, 1), "direct_64": round(many, 1)}
            found.append({"kind": "load", **row, **rates})
    if args.hostile:
        slow = "--read-timeout", "2"
        with started(args.run, args.engine, args.backend, *slow) as (port, process):
            row = hostile(port, process, args.hostile, pairs[0], wanted[0])
            found.append({"kind": "hostile", **row})
    for row in found:
        RESULTS.add(dict.fromkeys(FIELDS, "") | facts | row)
    show(args.write)
    if any(row.get("wrong") or row.get("hostile", 0) != row.get("refused", 0) for row in found):
        sys.exit("There were wrong answers, or hostile requests without a status 4xx.")


if __name__ == "__main__":
    main()
