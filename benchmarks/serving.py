"""Several clients use the server of docs/serving; every answer is compared with Matcher.predict.

    python benchmarks/serving.py --run runs/mine --pairs pairs.tsv

Exports the run as a SavedModel (unless --saved-model names one), starts uvicorn on a free port, and
lets each client send its requests one after the other: random pairs of the file, 1 to 16 at a time.
Ends with status 1 if an answer was wrong. Needs uvicorn.
"""

import argparse
import http.client
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any

import measuring
import numpy as np

ROOT = Path(__file__).parents[1]
RESULTS = measuring.Results("serving")
MOST_AT_ONCE = 16
TOLERANCE = 1e-5


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def ask(connection: http.client.HTTPConnection, pairs: list[tuple[str, str]]) -> Any:
    first, second = zip(*pairs)
    body = json.dumps({"sentence1": first, "sentence2": second})
    connection.request("POST", "/predict", body)
    return json.loads(connection.getresponse().read())


def wait_for(port: int, pair: tuple[str, str], server: subprocess.Popen, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.poll() is None:
        try:
            ask(http.client.HTTPConnection("127.0.0.1", port), [pair])
            return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"no answer from the server in {seconds} s (status {server.poll()})")


def same(got: dict[str, Any], want: dict[str, Any]) -> bool:
    if "score" in want:
        return abs(got["score"] - want["score"]) <= TOLERANCE * max(1, abs(want["score"]))
    p, q = got["probabilities"], want["probabilities"]
    close = p.keys() == q.keys() and all(abs(p[name] - q[name]) <= TOLERANCE for name in q)
    tie = np.ptp(np.sort(list(q.values()))[-2:]) <= 2 * TOLERANCE  # either label is right
    return close and (got["label"] == want["label"] or tie)


def client(
    seed: int, port: int, requests: int, pairs: list[tuple[str, str]], wanted: list[Any]
) -> tuple[list[float], int, list[Any]]:
    """Sends requests one after the other: their seconds, the answers, and the wrong ones."""
    rng, connection = random.Random(seed), http.client.HTTPConnection("127.0.0.1", port)
    seconds, answers, wrong = [], 0, []
    for _ in range(requests):
        rows = rng.choices(range(len(pairs)), k=rng.randint(1, MOST_AT_ONCE))
        start = time.perf_counter()
        try:
            got = ask(connection, [pairs[row] for row in rows])
        except (OSError, ValueError, http.client.HTTPException) as error:
            wrong.append(repr(error))
            connection.close()
            continue
        seconds.append(time.perf_counter() - start)
        answers += len(rows)
        if len(got) != len(rows):
            wrong.append(got)
        else:
            wrong += [(r, g) for r, g in zip(rows, got) if not same(g, wanted[r])]
    return seconds, answers, wrong


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", required=True, help="a run folder")
    parser.add_argument("--pairs", required=True, help="pairs to send: TSV, CSV or JSONL")
    parser.add_argument("--saved-model", type=Path, help="its export, if it exists")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--requests", type=int, default=100, help="per client")
    parser.add_argument("--wait", type=float, default=300, help="seconds for the server to start")
    args = parser.parse_args()

    from keras_sentmatch.cli.runs import Run
    from keras_sentmatch.data import read_pairs

    run, data = Run.load(Path(args.run)), read_pairs(args.pairs)
    pairs = list(zip(data.sentence1, data.sentence2))
    wanted = run.matcher.answers(run.matcher.predict_proba(data))
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.saved_model
        if folder is None:
            folder = Path(temporary, "model")
            run.matcher.export(folder)
        port = free_port()
        server = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "--app-dir", str(ROOT / "docs" / "serving")]
            + ["app:app", "--port", str(port), "--log-level", "warning"],
            env={**os.environ, "SAVED_MODEL": str(folder), "TF_CPP_MIN_LOG_LEVEL": "3"},
        )
        try:
            wait_for(port, pairs[0], server, args.wait)
            start = time.perf_counter()
            with ThreadPoolExecutor(args.clients) as pool:
                rest = [repeat(x) for x in (port, args.requests, pairs, wanted)]
                found = list(pool.map(client, range(args.clients), *rest))
            seconds = time.perf_counter() - start
        finally:
            server.terminate()
            server.wait()
    times = np.array([x for times, _, _ in found for x in times] or [np.nan])
    wrong = [answer for _, _, answers in found for answer in answers]
    row = {
        "model": run.first.model.name,
        "clients": args.clients,
        "requests": len(times),
        "pairs": sum(answers for _, answers, _ in found),
        "wrong": len(wrong),
        "requests_per_s": round(len(times) / seconds, 1),
        "median_ms": round(1000 * float(np.median(times)), 2),
        "p99_ms": round(1000 * float(np.quantile(times, 0.99)), 2),
        "cpus": measuring.cpus(),
    }
    RESULTS.add(row)
    print(json.dumps(row, indent=1))
    if wrong:
        sys.exit(f"{len(wrong)} wrong answers, the first: {wrong[0]}")


if __name__ == "__main__":
    main()
