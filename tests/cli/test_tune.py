"""`keras-sentmatch tune`, from what is typed to what is printed and written."""

import json

import keras
import pytest

from keras_sentmatch import applications
from tests.cli.test_cli import error_of, run
from tests.toys.fake_training import FakeTrain, trained, without_cost

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
    narrow = "--space T=1:3,l_s=1/2 --set training.batch_size=16 --set model.units=8".split()
    assert run(*GRID, *narrow, "--epochs", 2, "--seed", 0, "--out", out) == 0
    printed = capsys.readouterr()
    assert "the best of 6 trials" in printed.out and str(out / "best_recipe.toml") in printed.out
    assert "limited to 60 training pairs" in printed.err
    assert f"report: {out / 'report.md'}" in printed.out and (out / "sensitivity.png").exists()
    assert "`model.steps`" in (out / "report.md").read_text()
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


def test_a_search_that_is_stopped_shows_what_it_found(tmp_path, capsys, monkeypatch):
    fake = FakeTrain(tmp_path / "a", fail={1}, error=ValueError("too small"))
    without_cost(monkeypatch, fake)
    narrow = ["--space", "T=1:3", "--retrain", 0, "--out"]
    assert run(*GRID, *narrow, tmp_path / "b") == 0
    captured = capsys.readouterr()
    assert "the best of 2 trials (1 more did not finish)" in " ".join(captured.out.split())
    without_cost(monkeypatch, FakeTrain(tmp_path / "c", fail={1}, error=KeyboardInterrupt()))
    assert run(*GRID, *narrow, tmp_path / "d") == 130
    captured = capsys.readouterr()
    assert "the best of 1 trials (1 more did not finish)" in " ".join(captured.out.split())
    assert "--resume continues" in captured.err and "next:" not in captured.err


def test_a_search_without_a_trained_trial_fails(tmp_path, capsys, monkeypatch):
    def build_bad(name, **config):
        raise ValueError("the cause")

    monkeypatch.setattr(applications, "build_model", build_bad)
    error = error_of(capsys, *GRID, "--space", "T", "--out", tmp_path / "a")
    assert "None of 3 trials completed" in error and "ValueError: the cause" in error
