"""`keras-sentmatch serve` under load, next to direct `predict`.

    python benchmarks/serving.py --run runs/mine --pairs pairs.tsv --seconds 600

Starts the command on a free port. For each number of clients, each sends its requests one after the
other, one pair each, drawn at random from the file. Every response is compared with `predict`; the
script ends with status 1 if one was wrong. Memory is that of the service in the first and the last
quarter of the time.
"""

import http.client
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
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
def started(run: str, engine: str, backend: str) -> Iterator[tuple[int, int]]:
    """Yield the port and the process id of a service."""
    program = "from keras_sentmatch.cli import main; main()"
    options = ["serve", run, "--port", "0", "--engine", engine]
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
    """Send one pair after the other. Returns the seconds of each, and wrong responses."""
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
    """Return a row for this number of clients at once."""
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
    """Return pairs per second of `predict` with one pair per call, and with 64."""
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


def main() -> None:
    parser = measuring.parser(__doc__)
    parser.add_argument("--run", required=True, help="a run folder")
    parser.add_argument("--pairs", default="embedded", help="pairs to send: as --data takes them")
    parser.add_argument("--engine", default="onnx", help="keras or onnx")
    parser.add_argument("--backend", default=os.environ.get("KERAS_BACKEND", "torch"))
    parser.add_argument("--clients", default="8,64", help="how many at once, one after the other")
    parser.add_argument("--seconds", type=float, default=600, help="for each number of clients")
    args = parser.parse_args()
    os.environ["KERAS_BACKEND"] = args.backend

    from keras_sentmatch.cli.runs import Run
    from keras_sentmatch.cli.sources import Source

    source = Source(args.pairs)
    data = source.rows() if Path(args.pairs).is_file() else source.split("test")
    run = Run.load(Path(args.run), engine=args.engine)
    wanted = run.matcher.answers(run.matcher.predict_proba(data))
    sides = zip(data.sentence1, data.sentence2)
    pairs = [json.dumps({"sentence1": one, "sentence2": two}) for one, two in sides]
    facts = {"model": run.first.info.get("model"), "engine": args.engine}
    facts |= {"backend": args.backend, "cpus": measuring.cpus()}
    found = []
    with started(args.run, args.engine, args.backend) as (port, process):
        for clients in map(int, filter(None, args.clients.split(","))):
            alone, many = direct(run.matcher, data, min(10, args.seconds))
            row = load(port, process, clients, args.seconds, pairs, wanted)
            rates = {"direct_1": round(alone, 1), "direct_64": round(many, 1)}
            found.append({"kind": "load", **row, **rates})
    for row in found:
        RESULTS.add(facts | row)
    if any(row["wrong"] for row in found):
        sys.exit("There were wrong responses.")


if __name__ == "__main__":
    main()
