"""`keras-sentmatch tune`, from what is typed to what is printed and written."""

import json

import keras
import pytest

from keras_sentmatch import applications
from tests.cli.test_cli import error_of, run
from tests.toys.fake_training import FakeTrain, trained, without_cost
from tests.toys.searches import made_up_rows, made_up_search

pytest.importorskip("keras_tuner")


@pytest.fixture(autouse=True)
def same_environment(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", keras.config.backend())
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")


@pytest.fixture
def log(tmp_path, monkeypatch):
    """Trials take no time; the file has a line for each."""
    without_cost(monkeypatch, FakeTrain(tmp_path / "log"))
    return tmp_path / "log"


GRID = ["tune", "drr_net", "--limit", 60, "--tuner", "grid"]


def test_a_grid_of_two_letters(log, tmp_path, capsys):
    out = tmp_path / "a"
    narrow = ["--space", "T=1:3,l_s=1/2", "--fix", "batch_size=16", "--set", "model.units=8"]
    assert run(*GRID, *narrow, "--epochs", 2, "--seed", 0, "--out", out) == 0
    printed = capsys.readouterr()
    assert "the best of 6 trials" in printed.out and str(out / "best_recipe.toml") in printed.out
    assert "limited to 60 training pairs" in printed.err
    assert f"report: {out / 'report.md'}" in printed.out and (out / "sensitivity.png").exists()
    assert "| T | `model.steps` | 1, 2, 3 | 1, 2, 3 |" in (out / "report.md").read_text()
    best = (out / "best_recipe.toml").read_text()
    wanted = {"steps": 3, "depth": 2, "batch_size": 16, "units": 8, "epochs": 2, "seed": 0}
    assert [name for name, value in wanted.items() if f"\n{name} = {value}\n" not in best] == []
    assert trained(log) == ["0000", "0001", "0002", "0003", "0004", "0005", "best"]
    again = [*narrow, "--epochs", 2, "--out", out, "--resume", "--json"]
    assert run(*GRID, *again) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["configuration"] == {"model.steps": 3, "model.depth": 2}
    assert len(report["trials"]) == 6 and report["score"] == max(
        t["score"] for t in report["trials"]
    )
    assert report["retrained"]["validation"] and not report["interrupted"]
    assert len(trained(log)) == 7, "nothing ran again"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["drr_net", "--space", "TT"], "drr_net has no 'TT' to search here; there is training."),
        (["drr_net", "--fix", "T"], "--fix 'T': expected NAME=VALUE"),
        (["drr_net", "--fix", "T=x"], "model.steps can't be 'x'; it must be one of 1, 2"),
        (["esim", "--space", "r1"], "matters only where model.feature_attention is sfa"),
        (["drr_net", "--trials", "0"], "trials is 0; at least 1"),
        (["drr_net", "--workers", "-1"], "workers is -1; at least 0"),
        (["drr_net", "--objective", "map"], "does not exist for classification with 3 classes"),
        (["drr_net", "--resume"], "--resume needs --out"),
        (["drr_net", "--limit", "0"], "--limit 0: must be at least 1"),
        (["esim", "--backbone", "bert"], "esim has no pretrained encoder"),
        (["nothing"], "no model 'nothing'"),
    ],
)
def test_what_is_refused(arguments, message, capsys):
    assert message in error_of(capsys, "tune", *arguments)


def test_search_report_without_a_search(tmp_path, capsys):
    assert "holds no search.json: give the folder" in error_of(capsys, "search-report", tmp_path)


def test_search_report(tmp_path, capsys):
    rows = made_up_rows(12, failed=(4,), running=(11,))
    folder = made_up_search(tmp_path / "search", rows)
    assert run("search-report", folder, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    best = max((row for row in rows if row["score"]), key=lambda row: row["score"])
    assert report["best"]["trial"] == best["trial"] and str(folder / "report.md") in report["files"]
    assert run("search-report", folder) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0] == (
        "10 completed, 1 failed, 1 running; the best: trial "
        f"{best['trial']}, val_accuracy {best['score']:.4f}"
    )
    assert lines[1:] == report["files"] and "next:" not in captured.err
    (folder / "best").mkdir()
    (folder / "best" / "metrics.json").write_text('{"validation": {}}')
    assert run("search-report", folder) == 0
    assert f"next: keras-sentmatch evaluate {folder / 'best'}" in capsys.readouterr().err
    made_up_search(tmp_path / "none", made_up_rows(3, failed=range(3)))
    assert "None of the 3 trials" in error_of(capsys, "search-report", tmp_path / "none")
    (folder / "report.md").unlink()
    (folder / "report.md").mkdir()
    assert f"cannot write into {folder}: Is a" in error_of(capsys, "search-report", folder)


def test_a_search_that_is_stopped_shows_what_it_found(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("keras_sentmatch.tuning.searching.write_report", lambda folder: None)
    log, out = tmp_path / "log", tmp_path / "a"
    without_cost(monkeypatch, FakeTrain(log, fail={1}, error=ValueError("too small")))
    narrow = ["--space", "T=1:3", "--out", out, "--retrain", 0]
    assert run(*GRID, *narrow) == 0
    captured = capsys.readouterr()
    assert "the best of 2 trials (1 more did not finish)" in " ".join(captured.out.split())
    again = f"train drr_net --recipe {out / 'best_recipe.toml'} --data embedded"
    assert f"next: keras-sentmatch {again}" in captured.err
    without_cost(monkeypatch, FakeTrain(tmp_path / "b", fail={1}, error=KeyboardInterrupt()))
    assert run(*GRID, *narrow[:2], "--out", tmp_path / "c", "--retrain", 0) == 130
    captured = capsys.readouterr()
    assert "the best of 1 trials (1 more did not finish)" in " ".join(captured.out.split())
    assert "--resume continues" in captured.err and "next:" not in captured.err


def build_bad(name, **config):
    raise ValueError("the cause")


def test_a_search_without_a_trained_trial_fails(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(applications, "build_model", build_bad)
    error = error_of(capsys, *GRID, "--space", "T", "--out", tmp_path / "a")
    assert "The default configuration (T=4) can't be trained: ValueError: the cause" in error
    fake = FakeTrain(tmp_path / "log", fail=range(9), error=ValueError("the cause"))
    without_cost(monkeypatch, fake)
    error = error_of(capsys, *GRID, "--space", "T", "--out", tmp_path / "b")
    assert "None of 3 trials completed" in error and "ValueError: the cause" in error
