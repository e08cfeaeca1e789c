"""Several seeds a trial. The trainings are fakes; a seed adds a ten-thousandth to the score."""

import csv
import json

import pytest

from keras_sentmatch.errors import InputError
from tests.toys.fake_training import FakeTrain, fake_search, trained
from tests.tuning.test_search_logic import TUNERS, killed

pytest.importorskip("keras_tuner")
pytestmark = pytest.mark.backend("torch")
SEEDS = ("seed-0", "seed-1", "seed-2")


def test_a_score_is_the_mean_of_its_seeds(tmp_path):
    out = tmp_path / "a"
    result = fake_search(out, FakeTrain(tmp_path / "log"), trials=3, seeds=3, retrain=1)
    with open(out / "trials.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(result.trials) == 3, "a row a trial"
    for row, trial in zip(rows, result.trials):
        scores = [float(row[f"score_seed_{seed}"]) for seed in range(3)]
        assert scores[1] - scores[0] == pytest.approx(1e-4) == pytest.approx(scores[2] - scores[1])
        assert float(row["score"]) == pytest.approx(scores[1]) == trial["score"]
        assert float(row["score_sd"]) == pytest.approx(1e-4)
        assert (float(row["seconds"]), int(row["best_epoch"])) == (3.0, 1)
        assert float(row["pair_seconds"]) == 0.001 * int(row["model.steps"])
    assert trained(tmp_path / "log") == [
        *(f"{n}/{seed}" for n in range(3) for seed in SEEDS),
        "best",
    ]
    assert json.loads((out / "retrain.json").read_text())["seeds"] == [3], "no trial had it"
    best = max(result.trials, key=lambda row: row["score"])["trial"]
    kept = {str(path.parent.relative_to(out / "trials")) for path in out.glob("trials/*/*/*.keras")}
    assert kept == {f"{best}/{seed}" for seed in SEEDS}


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("tuner", ["grid", "hyperband"])
def test_no_finished_seed_runs_again(tuner, late, tmp_path):
    out, log, options = tmp_path / "a", tmp_path / "log", {"tuner": tuner, **TUNERS[tuner]}
    options |= {"seeds": 3}
    whole = fake_search(tmp_path / "b", FakeTrain(tmp_path / "log2"), **options)
    killed(lambda: fake_search(out, FakeTrain(log, kill=4, late=late), **options))
    assert trained(log)[-1].endswith("/seed-1"), "in the second trial"
    result = fake_search(out, FakeTrain(log), resume=True, **options)
    assert result.trials == whole.trials
    again = {name for name in trained(log) if trained(log).count(name) > 1}
    assert again == (set() if late else {trained(log)[4]})


def test_a_seed_that_fails_fails_the_trial(tmp_path):
    fake = FakeTrain(tmp_path / "log", fail={4}, error=MemoryError("full"))
    result = fake_search(tmp_path / "a", fake, trials=3, seeds=3)
    assert [row["status"] for row in result.trials] == ["completed", "failed", "completed"]
    assert result.trials[1]["score_seed_0"] is None and result.trials[1]["error"]
    assert "Traceback" in (tmp_path / "a/trials/1/error.txt").read_text()
    assert not (tmp_path / "a/trials/1/seed-0/model.keras").exists()
    assert len(trained(tmp_path / "log")) == 8, "its third seed was not trained"


def test_other_seeds_are_another_search(tmp_path):
    fake = FakeTrain(tmp_path / "log")
    fake_search(tmp_path / "a", fake, trials=1, seeds=2)
    with pytest.raises(InputError, match="another search: seeds was 2, now 1"):
        fake_search(tmp_path / "a", fake, trials=1, resume=True)
    with pytest.raises(InputError, match="seeds is 0; at least 1"):
        fake_search(tmp_path / "b", fake, seeds=0)


def test_one_seed_has_no_columns_of_seeds(tmp_path):
    result = fake_search(tmp_path / "a", FakeTrain(tmp_path / "log"), trials=1)
    assert not [name for name in result.trials[0] if name.startswith("score_")]
