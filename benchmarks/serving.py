"""`keras-sentmatch serve` under load, next to an encoder behind FastAPI.

    apt install wrk
    python benchmarks/serving.py --run runs/mine --pairs pairs.tsv --encoder path/to/minilm

wrk sends pairs drawn at random over connections that stay open: one pair per request from 1, 8 and 64 clients, then
32 per request from 8. Both services take turns. First, answers are compared with `predict`: the script ends with
status 1 if one is wrong. The encoder is the int8 model of a sentence-pair classifier, without a trained last layer.
"""

import argparse
import http.client
import json
import os
import random
import re
import subprocess
import sys
import tempfile
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
LOADS = ((1, 1), (8, 1), (64, 1), (8, 32))  # clients, pairs per request
SCRIPT = """
local bodies = {}
for line in io.lines(os.getenv("BODIES")) do bodies[#bodies + 1] = line end
wrk.method, wrk.headers["content-type"] = "POST", "application/json"
function request() return wrk.format(nil, nil, nil, bodies[math.random(#bodies)]) end
function done(summary, latency)
  local e = summary.errors
  local wrong = e.connect + e.read + e.write + e.status + e.timeout
  local ms = { latency:percentile(50) / 1000, latency:percentile(95) / 1000 }
  print(("RESULT %d %d %.2f %.2f"):format(summary.requests, wrong, ms[1], ms[2]))
end
"""
ENCODER = """
import numpy, onnxruntime, pydantic, sys, tokenizers, uvicorn
from fastapi import FastAPI

app, folder = FastAPI(), sys.argv[1]
tokenizer = tokenizers.Tokenizer.from_file(f"{folder}/tokenizer.json")
tokenizer.enable_truncation(128)
tokenizer.enable_padding()
session = onnxruntime.InferenceSession(f"{folder}/int8.onnx", providers=["CPUExecutionProvider"])

class Pair(pydantic.BaseModel):
    sentence1: str
    sentence2: str

class Pairs(pydantic.BaseModel):
    pairs: list[Pair]

def answers(pairs):
    found = tokenizer.encode_batch([(pair.sentence1, pair.sentence2) for pair in pairs])
    columns = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
    given = {n: numpy.array([getattr(one, of) for one in found]) for n, of in columns.items()}
    (logits,) = session.run(None, given)
    odds = numpy.exp(logits - logits.max(-1, keepdims=True))
    return (odds / odds.sum(-1, keepdims=True)).tolist()

@app.post("/predict")
def predict(body: Pairs | Pair):
    return answers(body.pairs if isinstance(body, Pairs) else [body])

uvicorn.run(app, port=int(sys.argv[2]), log_level="warning")
"""


@contextmanager
def started(command: list[str]) -> Iterator[tuple[int, int]]:
    """Yield the port and the process id of a service. Its last argument is the port, or 0 if it prints one."""
    with tempfile.NamedTemporaryFile("r") as log:
        process = subprocess.Popen(
            [sys.executable, *command],
            env=measuring.environment("torch"),
            stderr=open(log.name, "wb"),
        )
        try:
            end = time.monotonic() + 300
            port = int(command[-1])
            while True:
                if time.monotonic() > end or process.poll() is not None:
                    raise RuntimeError(f"the service did not start: {Path(log.name).read_text()}")
                if found := re.search(r"serving .* on \S+:(\d+)", Path(log.name).read_text()):
                    port = int(found[1])
                if port and is_up(port):
                    break
                time.sleep(0.2)
            yield port, process.pid
        finally:
            process.terminate()
            process.wait(60)


def is_up(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    try:
        connection.request("GET", "/openapi.json")
        return connection.getresponse().status == 200
    except OSError:
        return False


def int8_encoder(encoder: Path, folder: Path) -> None:
    """Write the int8 model of a sentence-pair classifier on the encoder, and its tokenizer."""
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    AutoTokenizer.from_pretrained(encoder).save_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(encoder, num_labels=2).eval()
    names = ["input_ids", "attention_mask", "token_type_ids"]
    torch.onnx.export(
        model,
        dict.fromkeys(names, torch.ones(2, 8, dtype=torch.int64)),
        str(folder / "float32.onnx"),
        input_names=names,
        output_names=["logits"],
        dynamic_axes={name: {0: "pairs", 1: "pieces"} for name in names},
        dynamo=False,
    )
    files = (str(folder / f"{name}.onnx") for name in ("float32", "int8"))
    quantize_dynamic(*files, weight_type=QuantType.QInt8)


# === Correct answers ===


def same(got: dict[str, Any], want: dict[str, Any]) -> bool:
    if "score" in want:
        return abs(got["score"] - want["score"]) <= TOLERANCE * max(1, abs(want["score"]))
    p, q = got["probabilities"], want["probabilities"]
    close = p.keys() == q.keys() and all(abs(p[name] - q[name]) <= TOLERANCE for name in q)
    tie = np.ptp(np.sort(list(q.values()))[-2:]) <= 2 * TOLERANCE  # either label is right
    return close and (got["label"] == want["label"] or tie)


def wrong_answers(port: int, bodies: list[str], wanted: list[Any]) -> int:
    """Send each pair from one of eight clients, and count the answers that are not those of `predict`."""

    def client(first: int) -> int:
        connection, wrong = http.client.HTTPConnection("127.0.0.1", port), 0
        for body, want in zip(bodies[first::8], wanted[first::8]):
            connection.request("POST", "/predict", body, JSON)
            response = connection.getresponse()
            answer = json.loads(response.read())
            wrong += response.status != 200 or not same(answer, want)
        return wrong

    with ThreadPoolExecutor(8) as pool:
        return sum(pool.map(client, range(8)))


# === Load ===


def load(port: int, process: int, clients: int, pairs: int, seconds: int, files: Path) -> dict:
    """Return a row for this number of clients at once."""
    (files / "load.lua").write_text(SCRIPT)
    options = [f"-c{clients}", "-t1", "-s", str(files / "load.lua")]
    url = f"http://127.0.0.1:{port}/predict"
    bodies = os.environ | {"BODIES": str(files / f"bodies-{pairs}.txt")}
    for duration in (3, seconds):  # the first to warm up
        done = subprocess.run(
            ["wrk", *options, f"-d{duration}s", url], env=bodies, capture_output=True, text=True
        )
    found = re.search(r"RESULT (\d+) (\d+) (\S+) (\S+)", done.stdout)
    if not found:
        sys.exit(f"wrk said: {done.stdout} {done.stderr}")
    status = Path(f"/proc/{process}/status").read_text()
    return {
        "clients": clients,
        "pairs_per_request": pairs,
        "seconds": seconds,
        "requests": int(found[1]),
        "failed": int(found[2]),
        "pairs_per_s": round(int(found[1]) * pairs / seconds, 1),
        "p50_ms": float(found[3]),
        "p95_ms": float(found[4]),
        "mib": int(re.search(r"VmRSS:\s+(\d+)", status)[1]) // 1024,  # type: ignore[index]
    }


def arguments() -> argparse.Namespace:
    parser = measuring.parser(__doc__)
    parser.add_argument("--run", required=True, help="a run folder")
    parser.add_argument("--pairs", default="embedded", help="pairs to send: as --data takes them")
    parser.add_argument("--encoder", type=Path, help="folder of the peer; without it, no peer")
    parser.add_argument("--seconds", type=int, default=20, help="for each number of clients")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    from keras_sentmatch.cli.runs import Run
    from keras_sentmatch.cli.sources import Source

    source = Source(args.pairs)
    data = source.rows() if Path(args.pairs).is_file() else source.split("test")
    run = Run.load(Path(args.run), engine="onnx")
    wanted = run.matcher.answers(run.matcher.predict_proba(data))
    sides = [{"sentence1": a, "sentence2": b} for a, b in zip(data.sentence1, data.sentence2)]
    program = "from keras_sentmatch.cli import main; main()"
    commands = {"library": ["-c", program, "serve", args.run, "--port", "0"]}
    with tempfile.TemporaryDirectory() as name:
        files, draw = Path(name), random.Random(0)
        for pairs in {pairs for _, pairs in LOADS}:
            drawn = [draw.choices(sides, k=pairs) for _ in range(2000)]
            lines = [json.dumps(some[0] if pairs == 1 else {"pairs": some}) for some in drawn]
            (files / f"bodies-{pairs}.txt").write_text("\n".join(lines) + "\n")
        if args.encoder:
            int8_encoder(args.encoder, files)
            commands["encoder"] = ["-c", ENCODER, name, "8765"]
        facts = {"model": run.first.info.get("model"), "cpus": measuring.cpus()}
        with started(commands["library"]) as (port, _):
            wrong = wrong_answers(port, [json.dumps(pair) for pair in sides], wanted)
        found = []
        for clients, pairs in LOADS:
            for who, command in commands.items():
                with started(command) as (port, process):
                    row = load(port, process, clients, pairs, args.seconds, files)
                found.append(facts | {"service": who} | row)
    for row in found:
        RESULTS.add(
            row | ({"compared": len(sides), "wrong": wrong} if row["service"] == "library" else {})
        )
    if wrong:
        sys.exit(f"{wrong} of {len(sides)} responses were wrong.")


if __name__ == "__main__":
    main()
