"""What a report says of made-up trials, without training."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.collections import PathCollection

from keras_sentmatch.errors import InputError
from keras_sentmatch.tuning import pictures, write_report
from keras_sentmatch.tuning.importance import LEAST_TRIALS, importance_of
from keras_sentmatch.tuning.report import front_of, luck_of, pareto_front
from keras_sentmatch.tuning.trials import read_trials
from tests.toys.searches import SPACE, made_up_rows, made_up_search

pytestmark = pytest.mark.backend("torch")  # no backend has a part in it: once is enough


@pytest.fixture
def drawn(monkeypatch):
    """The figures by the names of their files."""
    figures = {}
    plain = pictures.save_png
    monkeypatch.setattr(
        pictures,
        "save_png",
        lambda figure, png: (figures.__setitem__(png.stem, figure), plain(figure, png))[1],
    )
    return figures


def dots(panel):
    """How many points the scatters of a panel have."""
    scatters = [found for found in panel.collections if isinstance(found, PathCollection)]
    return sum(len(found.get_offsets()) for found in scatters)


# --- the page, the pictures ---


def test_the_report_of_a_search(tmp_path, drawn):
    rows = made_up_rows(30, seeds=3, failed=(4, 17), running=(29,))
    folder = made_up_search(tmp_path / "a", rows)
    (folder / "best_recipe.toml").write_text("[model]\nsteps = 5\n")
    (folder / "best").mkdir()
    anew = {"seeds": [3, 4], "validation": {"mean": {"accuracy": 0.79}, "sd": {"accuracy": 0.01}}}
    (folder / "best/ensemble.json").write_text(json.dumps(anew))
    report = write_report(folder)
    page = (folder / "report.md").read_text()
    best = max((row for row in rows if row["score"]), key=lambda row: row["score"])
    assert report["status"] == {
        "completed": 27,
        "failed": 2,
        "running": 1,
        "requeued": 0,
    }
    assert report["best"] == {n: None if v == "" else v for n, v in best.items()}
    assert f"Trial {best['trial']}, validation accuracy {best['score']:.4f}: " in page
    assert "trials: 27 completed, 2 failed, 1 running" in page and "mean of 3 seeds" in page
    assert "```toml\n[model]\nsteps = 5\n```" in page
    assert "Retrained with the seeds 3, 4: validation 0.7900 ± 0.0100." in page
    table = [line.split(" | ") for line in page.splitlines() if line.startswith("| 00")]
    scores = [float(cells[1]) for cells in table[:27]]
    assert scores == sorted(scores, reverse=True) and len(table) == 29
    assert {cells[0] for cells in table[27:]} == {"| 0004", "| 0017"}
    assert all(cells[-1] == "MemoryError: too \\| large |" for cells in table[27:])
    for picture in ("sensitivity", "cost", "parallel"):
        assert f"]({picture}.png)" in page and (folder / f"{picture}.png").stat().st_size > 10_000

    panels = {panel.get_xlabel(): panel for panel in drawn["sensitivity"].axes}
    assert list(panels) == ["learning_rate", "k", "size", "T"]
    assert dots(panels["T"]) == dots(panels["learning_rate"]) == 27 * 3
    chosen = [row for row in rows if row["status"] == "completed" and row["model.size"]]
    assert dots(panels["size"]) == len(chosen) * 3 < 27 * 3
    ticks = [tick.get_text() for tick in panels["k"].get_xticklabels()]
    assert ticks == ["none", "soft", "hard"]
    assert panels["learning_rate"].get_xscale() == "log"
    lines = [line for line in drawn["parallel"].axes[0].lines if len(line.get_xdata()) == 5]
    assert len(lines) == 27
    assert "not drawn: 2 failed, 1 running" in drawn["parallel"].get_suptitle()
    for panel in drawn["cost"].axes:
        assert dots(panel) == 27


def test_means_and_spread_at_each_value(tmp_path, drawn):
    rows = made_up_rows(20, seeds=3)
    write_report(made_up_search(tmp_path / "a", rows))
    panel = drawn["sensitivity"].axes[-1]
    (bars,) = panel.containers
    line, _, (segments,) = bars
    for place, (x, shown) in enumerate(zip(*line.get_data())):
        values = sorted({row["model.steps"] for row in rows})
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
    rows[0] |= {"model.kind": "none", "model.size": None}
    report = write_report(made_up_search(tmp_path / "a", rows))
    assert report["luck"] == {"ahead": 0} and report["front"]["parameters"] == ["0000"]
    page = (tmp_path / "a/report.md").read_text()
    assert "One trial: there is nothing to choose from." in page
    assert "Fewer than two parameters took different values." in page
    assert (tmp_path / "a/sensitivity.png").exists() and not (
        tmp_path / "a/importance.png"
    ).exists()


def test_what_was_not_measured(tmp_path):
    """Of a search that was begun before speed was measured, or whose trials' folders are elsewhere."""
    rows = made_up_rows(6)
    for row in rows:
        del row["pair_seconds"], row["pairs_per_second"]
    report = write_report(made_up_search(tmp_path / "a", rows))
    assert report["front"]["pair_seconds"] == [] and report["front"]["parameters"]
    for row in rows:
        row["parameters"] = None
    report = write_report(made_up_search(tmp_path / "b", rows))
    assert not (tmp_path / "b/cost.png").exists()
    assert "cost.png" not in (tmp_path / "b/report.md").read_text()


def test_less_is_better_where_the_loss_decides(tmp_path):
    rows = made_up_rows(9)
    trials = read_trials(made_up_search(tmp_path / "a", rows, "val_loss"))
    assert trials.completed[0]["score"] == min(row["score"] for row in rows)
    front = [row for row in trials.completed if row["trial"] in front_of(trials, "parameters")]
    assert trials.completed[0] in front
    write_report(tmp_path / "a")
    assert "less is better" in (tmp_path / "a/report.md").read_text()


def test_what_did_not_learn_does_not_flatten_the_rest(tmp_path, drawn):
    rows = made_up_rows(20, seeds=2)
    rows[3] |= {"score": 0.4, "score_seed_0": 0.35, "score_seed_1": 0.45}
    write_report(made_up_search(tmp_path / "a", rows))
    for panel in (*drawn["sensitivity"].axes, *drawn["cost"].axes):
        assert panel.get_ylim()[0] > 0.7
    assert dots(drawn["sensitivity"].axes[-1]) == 40, "it is drawn, at the edge"
    assert "far worse than the others: 1" in drawn["sensitivity"].get_suptitle()
    (bars,) = drawn["sensitivity"].axes[-1].containers
    assert min(bars[0].get_ydata()) > 0.7
    for row in rows:  # none that learned has a size
        row |= {"model.kind": "none", "model.size": None}
    rows[3] |= {"model.kind": "soft", "model.size": 2.0}
    write_report(made_up_search(tmp_path / "b", rows))
    panels = {panel.get_xlabel(): panel for panel in drawn["sensitivity"].axes}
    assert dots(panels["size"]) == 2 and not panels["size"].containers


def test_a_folder_that_is_none(tmp_path):
    with pytest.raises(InputError, match="holds no search.json: give the folder that tune --out"):
        write_report(tmp_path)
    folder = made_up_search(tmp_path / "a", made_up_rows(3, failed=(0, 1, 2)))
    with pytest.raises(InputError, match="None of the 3 trials in .*: there is nothing to report"):
        write_report(folder)
    (folder / "trials.csv").write_text("trial,status\n0,completed\n")
    with pytest.raises(InputError, match="has no column model.kind, .*score"):
        write_report(folder)
    (folder / "trials.csv").unlink()
    with pytest.raises(InputError, match="has no trials.csv yet: wait"):
        write_report(folder)
    (folder / "search.json").write_text('{"space": {}}')
    with pytest.raises(InputError, match="lacks 'training'"):
        write_report(folder)


# --- fronts, luck, importance ---

costs = st.integers(1, 3).flatmap(
    lambda columns: st.lists(
        st.lists(st.integers(0, 5) | st.floats(-2, 2), min_size=columns, max_size=columns),
        min_size=1,
        max_size=15,
    )
)


@settings(max_examples=150, deadline=None)
@given(costs)
def test_the_front_is_that_of_brute_force(rows):
    def beats(one, other):
        return all(a <= b for a, b in zip(one, other)) and one != other

    expected = [i for i, row in enumerate(rows) if not any(beats(other, row) for other in rows)]
    assert pareto_front(rows) == expected


def test_the_front_of_trials(tmp_path):
    rows = made_up_rows(4)
    for row, score, size in zip(rows, (0.7, 0.8, 0.75, 0.9), (10, 30, 40, 50)):
        row |= {"score": score, "parameters": size}
    trials = read_trials(made_up_search(tmp_path / "a", rows))
    assert front_of(trials, "parameters") == ["0000", "0001", "0003"]


def test_luck(tmp_path):
    rng = np.random.default_rng(0)
    rows = made_up_rows(40, seeds=4)
    ahead = []
    for _ in range(300):
        scores = 0.8 + 0.01 * rng.standard_normal((40, 4))
        ahead.append(scores.mean(1).max() - np.median(scores.mean(1)))
    for row, found in zip(rows, scores):
        row |= {"score": float(found.mean()), "score_sd": float(found.std(ddof=1))}
    luck = luck_of(read_trials(made_up_search(tmp_path / "a", rows)))
    assert luck["ahead"] == pytest.approx(ahead[-1])
    assert luck["seed_sd"] == pytest.approx(0.01, rel=0.15)
    assert luck["by_luck"] == pytest.approx(np.mean(ahead), rel=0.15)
    near = 2 * luck["seed_sd"] * np.sqrt(2 / 4)
    means = np.sort(scores.mean(1))
    assert luck["alike"] == (means[:-1] >= means[-1] - near).sum()


def test_importance(tmp_path, drawn):
    pytest.importorskip("sklearn")
    folder = made_up_search(tmp_path / "a", made_up_rows(60))
    report = write_report(folder)
    shares = report["importance"]["shares"]
    assert set(shares) == set(SPACE) and next(iter(shares)) == "model.steps"
    assert shares["model.steps"] > 0.5 > 0.1 > abs(shares["training.learning_rate"])
    assert 0.5 < report["importance"]["explained"] <= 1
    assert len(drawn["importance"].axes[0].patches) == 4
    assert "| T | 0." in (folder / "report.md").read_text()
    # fewer trials, and the old picture must not stay
    made_up_search(folder, made_up_rows(LEAST_TRIALS - 1))
    report = write_report(folder)
    assert report["importance"] is None and "at least 20 are needed" in report["no_importance"]
    assert not (folder / "importance.png").exists()


def test_importance_of_noise(tmp_path):
    pytest.importorskip("sklearn")
    rows = made_up_rows(LEAST_TRIALS)
    scores = np.random.default_rng(1).random(len(rows))
    for row, score in zip(rows, scores):
        row["score"] = float(score)
    found, reason = importance_of(read_trials(made_up_search(tmp_path / "a", rows)))
    assert found is None and "does not predict" in reason


# --- TensorBoard ---

# As TensorBoard itself reads them; with its stub in the place of TensorFlow, which takes long to load.
READER = """
import json, sys, types
sys.modules["tensorboard.compat.notf"] = types.ModuleType("notf")
from tensorboard import context
from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
from tensorboard.plugins import base_plugin
from tensorboard.plugins.hparams import (
    api_pb2, backend_context, get_experiment, list_session_groups
)
runs = plugin_event_multiplexer.EventMultiplexer().AddRunsFromDirectory(sys.argv[1]).Reload()
found = base_plugin.TBContext(data_provider=data_provider.MultiplexerDataProvider(runs, "."))
backend, request = backend_context.Context(found), context.RequestContext()
experiment = get_experiment.Handler(request, backend, "", api_pb2.GetExperimentRequest()).run()
column = api_pb2.ColParams(metric=api_pb2.MetricName(tag="val_accuracy"))
asked = api_pb2.ListSessionGroupsRequest(
    start_index=0, slice_size=99, allowed_statuses=[1, 2, 3], aggregation_type=1
)
groups = list_session_groups.Handler(request, backend, "", asked).run()
plain = lambda value: getattr(value, value.WhichOneof("kind"))
print(json.dumps({
    "parameters": {i.name: i.WhichOneof("domain") for i in experiment.hparam_infos},
    "trials": {
        g.name: {
            "values": {name: plain(value) for name, value in g.hparams.items()},
            "metrics": {m.name.tag: m.value for m in g.metric_values},
            "status": g.sessions[0].status,
        }
        for g in groups.session_groups
    },
}))
"""


def test_tensorboard_reads_the_trials(tmp_path):
    pytest.importorskip("tensorboard")
    rows = made_up_rows(5, seeds=2, failed=(3,), running=(4,))
    folder = made_up_search(tmp_path / "a", rows)
    write_report(folder)
    write_report(folder)  # anew, not twice
    command = [sys.executable, "-c", READER, str(folder / "tensorboard")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    intervals = {"learning_rate": "domain_interval"}
    assert found["parameters"] == {
        name: intervals.get(name, "domain_discrete") for name in ("learning_rate", "k", "size", "T")
    }
    assert set(found["trials"]) == {row["trial"] for row in rows}
    for row in rows:
        trial = found["trials"][row["trial"]]
        expected = {"k": row["model.kind"], "T": row["model.steps"], "size": row["model.size"]}
        expected["learning_rate"] = row["training.learning_rate"]
        assert trial["values"] == {n: v for n, v in expected.items() if v is not None}
        over = row["status"] == "completed"
        assert trial["metrics"].get("val_accuracy") == (
            pytest.approx(row["score"]) if over else None
        )
        assert trial["metrics"].get("parameters") == row["parameters"]
    assert [found["trials"][f"000{n}"]["status"] for n in (0, 3, 4)] == [1, 2, 3]


def test_a_report_loads_neither_keras_nor_tensorflow(tmp_path):
    folder = made_up_search(tmp_path / "a", made_up_rows(2))
    code = (
        "import sys\nfrom keras_sentmatch.cli import main\n"
        f"try: main(['search-report', {str(folder)!r}])\nexcept SystemExit as e: assert not e.code\n"
        "print(sorted({'keras', 'tensorflow', 'torch', 'jax'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    assert "2 completed; the best: trial 000" in done.stdout
    assert str(folder / "report.md") in done.stdout and done.stdout.endswith("[]\n")
