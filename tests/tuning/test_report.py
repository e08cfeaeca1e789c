"""The report of made-up trials, without training."""

import json
from pathlib import Path

import numpy as np
import pytest

from keras_sentmatch.errors import InputError
from keras_sentmatch.tuning import _search_pictures as pictures
from keras_sentmatch.tuning._search_report import front_of, luck_of, write_report
from tests.toys.searches import made_up_rows, made_up_trials

pytestmark = pytest.mark.backend("torch")  # no backend has a part in it


@pytest.fixture
def drawn(monkeypatch):
    """The figures by the names of their files."""
    figures, plain = {}, pictures.save_png

    def save(figure, png):
        figures[Path(png).stem] = figure
        return plain(figure, png)

    monkeypatch.setattr(pictures, "save_png", save)
    return figures


def dots(panel):
    return sum(len(found.get_offsets()) for found in panel.collections[:1])


def test_the_report_of_a_search(tmp_path, drawn):
    rows = made_up_rows(30, seeds=3, failed=(4, 17), running=(29,))
    (tmp_path / "best_recipe.toml").write_text("[model]\nsteps = 5\n")
    (tmp_path / "best").mkdir()
    anew = {"seeds": [3, 4], "validation": {"mean": {"accuracy": 0.79}, "sd": {"accuracy": 0.01}}}
    (tmp_path / "best/ensemble.json").write_text(json.dumps(anew))
    page = write_report(made_up_trials(tmp_path, rows)).read_text()
    best = max((row for row in rows if row["score"]), key=lambda row: row["score"])
    assert f"Trial {best['trial']}, validation accuracy {best['score']:.4f}: " in page
    assert "trials: 27 completed, 2 failed, 1 running" in page and "mean of 3 seeds" in page
    assert "more is better" in page and "```toml\n[model]\nsteps = 5\n```" in page
    assert "Retrained with seeds 3, 4: validation 0.7900 ± 0.0100." in page
    assert "| T | `model.steps` | 1, 2, 3, 4, 5, 6, 7, 8 |" in page
    table = [line.split(" | ") for line in page.splitlines() if line.startswith("| 00")]
    scores = [float(cells[1]) for cells in table[:27]]
    assert scores == sorted(scores, reverse=True) and len(table) == 29
    assert {cells[0] for cells in table[27:]} == {"| 0004", "| 0017"}
    assert all(cells[-1] == "MemoryError: too \\| large |" for cells in table[27:])
    for picture in ("sensitivity", "cost"):
        assert f"]({picture}.png)" in page
        assert (tmp_path / f"{picture}.png").stat().st_size > 10_000
    panels = {panel.get_xlabel(): panel for panel in drawn["sensitivity"].axes}
    assert list(panels) == ["learning_rate", "k", "size", "T"]
    assert dots(panels["T"]) == dots(panels["learning_rate"]) == 27 * 3
    chosen = [row for row in rows if row["status"] == "completed" and row["model.size"]]
    assert dots(panels["size"]) == len(chosen) * 3 < 27 * 3
    ticks = [tick.get_text() for tick in panels["k"].get_xticklabels()]
    assert ticks == ["none", "soft", "hard"]
    assert panels["learning_rate"].get_xscale() == "log"
    assert "not drawn: 2 failed, 1 running" in drawn["cost"].get_suptitle()
    assert dots(drawn["cost"].axes[0]) == 27


def test_means_and_spread_at_each_value(tmp_path, drawn):
    rows = made_up_rows(20, seeds=3)
    write_report(made_up_trials(tmp_path, rows))
    (bars,) = drawn["sensitivity"].axes[-1].containers
    line, _, (segments,) = bars
    values = sorted({row["model.steps"] for row in rows})
    for place, (x, shown) in enumerate(zip(*line.get_data())):
        pool = [
            row[f"score_seed_{seed}"]
            for row in rows
            for seed in range(3)
            if row["model.steps"] == values[place]
        ]
        low, high = segments.get_segments()[place][:, 1]
        assert x == place and shown == pytest.approx(np.mean(pool))
        assert (high - low) / 2 == pytest.approx(np.std(pool, ddof=1))


def test_one_trial(tmp_path):
    rows = made_up_rows(1)
    rows[0] |= {"model.kind": "none", "model.size": None, "parameters": None}
    trials = made_up_trials(tmp_path, rows)
    assert luck_of(trials) == {"ahead": 0} and front_of(trials) == []
    page = write_report(trials).read_text()
    assert "One trial: there is nothing to choose from." in page and "cost.png" not in page


def test_less_is_better_if_the_loss_decides(tmp_path):
    rows = made_up_rows(9)
    trials = made_up_trials(tmp_path, rows, "val_loss")
    assert trials.completed[0]["score"] == min(row["score"] for row in rows)
    assert trials.completed[0] in front_of(trials)
    assert "less is better" in write_report(trials).read_text()


def test_scores_far_below_do_not_flatten_the_rest(tmp_path, drawn):
    rows = made_up_rows(20, seeds=2)
    rows[3] |= {"score": 0.4, "score_seed_0": 0.35, "score_seed_1": 0.45}
    write_report(made_up_trials(tmp_path, rows))
    for panel in (*drawn["sensitivity"].axes, *drawn["cost"].axes):
        assert panel.get_ylim()[0] > 0.7
    panel = drawn["sensitivity"].axes[-1]
    assert dots(panel) == 40 and panel.collections[0].get_offsets()[:, 1].min() > 0.7
    assert "far worse than the others: 1" in drawn["sensitivity"].get_suptitle()
    (bars,) = panel.containers
    assert min(bars[0].get_ydata()) > 0.7
    for row in rows:  # no trial with a size has learned
        row |= {"model.kind": "none", "model.size": None}
    rows[3] |= {"model.kind": "soft", "model.size": 2.0}
    write_report(made_up_trials(tmp_path, rows))
    panels = {panel.get_xlabel(): panel for panel in drawn["sensitivity"].axes}
    assert dots(panels["size"]) == 2 and not panels["size"].containers


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "report.md").mkdir()
    with pytest.raises(InputError, match=f"Cannot write into {tmp_path}: Is a"):
        write_report(made_up_trials(tmp_path, made_up_rows(3)))


@pytest.mark.parametrize("seed", range(20))
def test_the_front_is_that_of_brute_force(seed, tmp_path):
    rows, rng = made_up_rows(12), np.random.default_rng(seed)
    for row in rows:
        row |= {"score": int(rng.integers(5)) / 5, "parameters": int(rng.integers(1, 6))}

    def beats(one, other):
        both = [one["score"] - other["score"], other["parameters"] - one["parameters"]]
        return min(both) >= 0 and max(both) > 0

    expected = {
        (row["score"], row["parameters"])
        for row in rows
        if not any(beats(other, row) for other in rows)
    }
    found = front_of(made_up_trials(tmp_path, rows))
    assert [row["parameters"] for row in found] == sorted(size for _, size in expected)
    assert {(row["score"], row["parameters"]) for row in found} == expected


def test_luck(tmp_path):
    rng = np.random.default_rng(0)
    rows = made_up_rows(40, seeds=4)
    ahead = []
    for _ in range(300):
        scores = 0.8 + 0.01 * rng.standard_normal((40, 4))
        ahead.append(scores.mean(1).max() - np.median(scores.mean(1)))
    for row, found in zip(rows, scores):
        row |= {"score": float(found.mean()), "score_sd": float(found.std(ddof=1))}
    luck = luck_of(made_up_trials(tmp_path, rows))
    assert luck["ahead"] == pytest.approx(ahead[-1])
    assert luck["seed_sd"] == pytest.approx(0.01, rel=0.15)
    assert luck["by_luck"] == pytest.approx(np.mean(ahead), rel=0.15)
    near = 2 * luck["seed_sd"] * np.sqrt(2 / 4)
    means = np.sort(scores.mean(1))
    assert luck["alike"] == (means[:-1] >= means[-1] - near).sum()
