"""The scripts that measure, with toy sizes."""

import ast
import csv
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.toys.matchers import make

FOLDER = Path(__file__).parents[2] / "benchmarks"
OTHERS = {
    *sys.stdlib_module_names,
    *"benchmarks keras matplotlib onnxruntime rich scipy sentence_transformers sklearn".split(),
    *"tests torch transformers".split(),
    *"esim model src".split(),  # of the public codes
}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="torch is not installed"),
]


def run(script: str, *options: Any, backend: str = "torch") -> str:
    done = subprocess.run(
        [sys.executable, FOLDER / script, *map(str, options)],
        env=os.environ | {"KERAS_BACKEND": backend},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_scripts_import_what_exists() -> None:
    """Modules of the scripts' own folder and of this library; other packages may be missing."""
    for script in FOLDER.glob("*.py"):
        tree = ast.parse(script.read_text("utf-8"))
        for node in (n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module):
            own = (FOLDER / f"{node.module}.py").exists()
            if not own and not node.module.startswith("keras_sentmatch"):
                assert node.module.split(".")[0] in OTHERS, f"{script.name}: {node.module}"
            elif not own:
                module = importlib.import_module(node.module)
                missing = [a.name for a in node.names if not hasattr(module, a.name)]
                assert not missing, f"{script.name}: {node.module} has no {missing}"


def test_a_recipe_whose_rate_follows_from_the_data_can_be_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    subject = importlib.import_module("subjects").KerasSubject("hybrid", 8, 0, toy=True)
    assert subject.model.optimizer.clipnorm == 5.0


def test_speed_measures_what_has_no_row_yet(tmp_path: Path) -> None:
    out = tmp_path / "speed.csv"
    options = ["--toy", "--backends", "torch,plain", "--out", out]
    run("speed.py", *options, "--models", "esim")
    found = rows(out)
    assert [(r["backend"], r["lengths"]) for r in found] == [
        ("torch", "full"),
        ("torch", "natural"),
        ("plain", "full"),
        ("plain", "natural"),
        ("plain", "bucketed"),
    ]
    for row in found:
        assert float(row["train_pairs_per_s"]) > 0
        assert float(row["answer_pairs_per_s"]) > 0
    assert int(found[0]["peak_mib"]) > 0
    assert "already done" in run("speed.py", *options, "--models", "esim", "--budget", 0)
    assert len(rows(out)) == 5
    assert "would be re2" in run("speed.py", *options, "--models", "re2", "--budget", 0)


def test_gpu_runs_to_its_end_on_the_cpu(tmp_path: Path) -> None:
    """Checks and speed on PyTorch and JAX; again, nothing is left to do."""
    pytest.importorskip("jax")
    options = ["--toy", "--models", "esim", "--out", tmp_path]
    run("gpu.py", *options)
    checks, speed = rows(tmp_path / "checks.csv"), rows(tmp_path / "speed.csv")
    assert [(r["model"], r["backend"]) for r in checks] == [("esim", "torch"), ("esim", "jax")]
    assert all(float(r["largest_difference"]) < 1e-5 < float(r["spread"]) for r in checks)
    assert {(r["backend"], r["precision"]) for r in speed} == {
        (backend, precision)
        for backend in ("torch", "jax", "plain")
        for precision in ("float32", "tf32", "bfloat16")
    }
    assert all(float(r["train_pairs_per_s"]) > 0 and not r["error"] for r in speed)
    assert "already done" in run("gpu.py", *options, "--budget", 5)
    assert len(rows(tmp_path / "speed.csv")) == len(speed)


def test_processes_side_by_side_lose_no_row_of_each_other(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from measuring import Results
results = Results(Path(sys.argv[1]))
for i in range(40):
    row = {"who": sys.argv[2], "i": i, "versions": "none"}
    row |= {"new column": i} if i > 20 else {}
    results.add(row)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "rows.csv")]
    options = {"cwd": FOLDER, "stdout": subprocess.DEVNULL}
    processes = [subprocess.Popen([*command, str(who)], **options) for who in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    found = {(row["who"], int(row["i"]), row["new column"]) for row in rows(tmp_path / "rows.csv")}
    wanted = {i: str(i) if i > 20 else "" for i in range(40)}
    assert found == {(str(who), i, new) for who in range(3) for i, new in wanted.items()}


def test_mine_and_catalog_make_a_row_for_each_method(tmp_path: Path) -> None:
    make("esim", num_classes=1).save(tmp_path / "run")
    (tmp_path / "quora").mkdir()
    lines = [f"{i % 2}\ta dog runs {i}\ta dog moves {i}\t{i}\n" for i in range(20)]
    (tmp_path / "quora" / "bimpm_dev.tsv").write_text("".join(lines), "utf-8")
    out = tmp_path / "mine.csv"
    options = ["--data", tmp_path, "--run", tmp_path / "run", "--sizes", 40, "--out", out]
    run("mine.py", *options, "--methods", "static,matcher", "--threshold", "0.1")
    assert [row["method"] for row in rows(out)] == ["static", "matcher"]
    assert all(row["command"].startswith("python benchmarks/mine.py --data") for row in rows(out))
    assert all(int(row["duplicates"]) == 10 for row in rows(out))
    assert "already done" in run("mine.py", *options, "--methods", "static", "--threshold", "0.1")
    options[-1] = catalog = tmp_path / "catalog.csv"
    run("catalog.py", *options, "--queries", 5, "--candidates", 20)
    (row,) = rows(catalog)
    assert row["sentences"] == "40" and row["queries"] == "5"
    assert float(row["duplicate_retrieved"]) == 1 and float(row["rank_p50_ms"]) > 0
