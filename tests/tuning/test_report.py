"""The report of made-up trials, without training."""

import json

import numpy as np
import pytest

from keras_sentmatch.tuning import _trials
from tests.toys.searches import made_up_rows, made_up_trials

pytestmark = pytest.mark.backend("torch")  # no backend has a part in it


def dots(panel):
    return sum(len(found.get_offsets()) for found in panel.collections[:1])


def test_the_report_of_a_search(tmp_path, monkeypatch):
    figures, plain = [], _trials.save_png
    monkeypatch.setattr(
        _trials, "save_png", lambda figure, png: figures.append(figure) or plain(figure, png)
    )
    rows = made_up_rows(30, failed=(4, 17), running=(29,))
    (tmp_path / "best_recipe.toml").write_text("[model]\nsteps = 5\n")
    (tmp_path / "best").mkdir()
    anew = {"seeds": [3, 4], "validation": {"mean": {"accuracy": 0.79}, "sd": {"accuracy": 0.01}}}
    (tmp_path / "best/ensemble.json").write_text(json.dumps(anew))
    page = _trials.write_report(made_up_trials(tmp_path, rows)).read_text()
    best = max((row for row in rows if row["score"]), key=lambda row: row["score"])
    for words in (
        f"Trial {best['trial']}, validation accuracy {best['score']:.4f}: ",
        "trials: 27 completed, 2 failed, 1 running",
        "more is better",
        "```toml\n[model]\nsteps = 5\n```",
        "Retrained with seeds 3, 4: validation 0.7900 ± 0.0100.",
        "| T | `model.steps` | 1, 2, 3, 4, 5, 6, 7, 8 |",
        "](sensitivity.png)",
    ):
        assert words in page
    table = [line.split(" | ") for line in page.splitlines() if line.startswith("| 00")]
    scores = [float(cells[1]) for cells in table[:27]]
    assert scores == sorted(scores, reverse=True) and len(table) == 29
    assert {cells[0] for cells in table[27:]} == {"| 0004", "| 0017"}
    assert all(cells[-1] == "MemoryError: too \\| large |" for cells in table[27:])
    assert (tmp_path / "sensitivity.png").stat().st_size > 10_000
    panels = {panel.get_xlabel(): panel for panel in figures[0].axes}
    assert list(panels) == ["learning_rate", "k", "size", "T"]
    assert dots(panels["T"]) == dots(panels["learning_rate"]) == 27
    chosen = [row for row in rows if row["status"] == "completed" and row["model.size"]]
    assert dots(panels["size"]) == len(chosen) < 27
    assert panels["learning_rate"].get_xscale() == "log"
    (bars,) = panels["T"].containers
    line, _, (segments,) = bars
    for place, (x, shown) in enumerate(zip(*line.get_data())):
        pool = [
            row["score"]
            for row in rows
            if row["status"] == "completed" and row["model.steps"] == place + 1
        ]
        low, high = segments.get_segments()[place][:, 1]
        assert x == place and shown == pytest.approx(np.mean(pool))
        assert (high - low) / 2 == pytest.approx(np.std(pool, ddof=1) if len(pool) > 1 else 0)


def test_one_trial_and_less_is_better(tmp_path):
    rows = made_up_rows(1)
    rows[0] |= {"model.kind": "none", "model.size": None}
    trials = made_up_trials(tmp_path, rows, "val_loss")
    assert "less is better" in _trials.write_report(trials).read_text()
