"""A search in several processes: a chief and two workers of KerasTuner on the loopback address."""

import csv
import json
import os
import socket
import subprocess
import sys

import pytest

from keras_sentmatch.data import natural_logic_pairs

pytest.importorskip("keras_tuner")
pytest.importorskip("grpc")


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.mark.slow
@pytest.mark.backend("torch")  # the processes say nothing new on another one
def test_a_chief_and_two_workers(tmp_path):
    out, port, data = tmp_path / "search", str(free_port()), tmp_path / "pairs.tsv"
    pairs = natural_logic_pairs(100, seed=0)
    rows = zip(pairs.sentence1, pairs.sentence2, map(str, pairs.labels))
    data.write_text("\n".join(map("\t".join, [("sentence1", "sentence2", "label"), *rows])))

    def start(tuner_id, *more):
        variables = {
            "KERASTUNER_TUNER_ID": tuner_id,
            "KERASTUNER_ORACLE_IP": "127.0.0.1",
            "KERASTUNER_ORACLE_PORT": port,
            "KERAS_BACKEND": "torch",
            "OMP_NUM_THREADS": "1",
        }
        command = [
            *(sys.executable, "-c", "from keras_sentmatch.cli import main; main()"),
            *("tune", "re2", "--data", str(data), "--split", "60/20/20"),
            *("--epochs", "1", "--set", "model.units=4", "--tuner", "random"),
            *("--space", "units=4/8,learning_rate", "--trials", "4", "--out", str(out), *more),
        ]
        return subprocess.Popen(
            command, env={**os.environ, **variables}, stdout=-1, stderr=-1, text=True
        )

    chief = start("chief", "--json")
    workers = [start(name) for name in ("worker0", "worker1")]
    other = start("worker2", "--seed", "2")  # another search
    try:
        printed = {p: p.communicate(timeout=300) for p in (other, *workers, chief)}
    finally:
        for process in (chief, *workers, other):
            process.kill()
    assert [p.returncode for p in (*workers, chief)] == [0, 0, 0], printed
    assert other.returncode == 2 and "training.seed was 0, now 2" in printed[other][1]
    report = json.loads(printed[chief][0])
    assert [row["status"] for row in report["trials"]] == ["completed"] * 4
    assert report["retrained"]["test"], "only the chief retrains"
    for worker in workers:
        assert "Waiting for the chief at 127.0.0.1" in printed[worker][1]
        assert "the best of" in printed[worker][0]
    with open(out / "trials.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        metrics = json.loads((out / f"trial_{row['trial']}/seed-0/metrics.json").read_text())
        assert metrics["validation"]["accuracy"] == pytest.approx(float(row["score"]))
    assert len(list(out.glob("trial_*/*/model.keras"))) == 1
