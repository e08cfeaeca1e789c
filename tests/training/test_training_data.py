"""What a run learns from: class weights, the column of weights, pairs made by rule."""

import json

import keras
import numpy as np
import pytest

from keras_sentmatch.applications.linear_part import solve_linear
from keras_sentmatch.data import PairDataset, load_pairs, read_pairs
from keras_sentmatch.training import Recipe, load_recipe, train
from keras_sentmatch.training.config import TrainingConfig
from keras_sentmatch.training.distillation import with_labels
from keras_sentmatch.training.training_data import class_weights, joined, made_pairs, pair_weights
from tests.toys.training import build_tiny, tiny_run, tiny_splits

RARE = 0.1


def noisy(rows, seed, weight=None):
    """Pairs of the same two sentences; a tenth of the labels is yes. `weight`: of yes, of no."""
    labels = np.arange(rows) % int(1 / RARE) == 0
    columns = {} if weight is None else {"weight": np.where(labels, *weight).tolist()}
    return PairDataset(
        ["w1"] * rows, ["w2"] * rows, labels.astype(int), label_names=("no", "yes"), columns=columns
    )


def no_dropout(name, **config):
    return build_tiny(name, dropout=0.0, **config)


@pytest.mark.parametrize(
    "settings, weight, wanted",
    [({"class_weight": "balanced"}, None, 0.5), ({"class_weight": {"no": 0.5}}, (1.5, 1.0), 0.25)],
)
def test_the_answers_follow_the_weights(settings, weight, wanted):
    """All pairs are the same, so a model can only learn how often the answer is yes."""
    splits = {"train": noisy(200, 0, weight), "validation": noisy(50, 1)}
    more = {"epochs": 20, "patience": 20, "learning_rate": 0.05, "batch_size": 100}
    more |= {"monitor": "val_loss"}
    found = []

    class Last(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            batch = {n: np.array([[2]], "int32") for n in ("word_ids_1", "word_ids_2")}
            batch["word_ids_2"][:] = 3
            found.append(float(self.model.predict_on_batch(batch)[0, 1]))

    options = {"callbacks": [Last()]}
    tiny_run(None, splits=splits, build=no_dropout, options=options, **more, **settings)
    assert found[-1] == pytest.approx(wanted, abs=0.06)


def test_balanced_weights_and_tables_by_label():
    pairs = PairDataset(["a"] * 6, ["b"] * 6, [0, 0, 0, 1, 1, 2], label_names="xyz")
    np.testing.assert_allclose(class_weights(pairs, "balanced"), [6 / 9, 1, 2])
    np.testing.assert_allclose(class_weights(pairs, {"z": 3}), [1, 1, 3])
    assert class_weights(pairs, "none") is None
    by_class = class_weights(pairs, {"z": 3})
    some = pairs.select([0, 5])
    weighted = PairDataset.from_dict(some.to_dict() | {"columns": {"weight": [1, 2]}})
    np.testing.assert_allclose(pair_weights(weighted, by_class), [2 / 7, 12 / 7])
    assert pair_weights(some, None) is None


def test_a_column_of_weights_is_read(tmp_path):
    path = tmp_path / "pairs.csv"
    rows = [f"a{i},b{i},{i % 2},{i / 10}" for i in range(40)]
    path.write_text("\n".join(["sentence1,sentence2,label,weight", *rows]))
    splits = load_pairs(path)
    first = splits["train"]
    wanted = [int(sentence[1:]) / 10 for sentence in first.sentence1]
    np.testing.assert_allclose(first.weights, wanted)
    assert read_pairs(path, weight=False).weights is None
    named = tmp_path / "named.csv"
    named.write_text(path.read_text().replace("weight", "trust"))
    assert read_pairs(named).weights is None
    np.testing.assert_allclose(read_pairs(named, weight="trust").weights, np.arange(40) / 10)
    both = joined(read_pairs(path), read_pairs(named))
    np.testing.assert_allclose(both.weights[-3:], 1)
    np.testing.assert_allclose(both.select([2, 3]).weights, [0.2, 0.3])


def test_figures_of_each_class_and_the_f1_of_one(tmp_path):
    result = tiny_run(tmp_path / "a", epochs=4, monitor="val_f1:no", options={"baseline": True})
    metrics = result.metrics
    assert metrics["monitor"] == "val_f1:no"
    row = metrics["classes"]["validation"][0]
    assert metrics["validation"]["f1:no"] == pytest.approx(row["f1"])
    assert max(result.history["val_f1:no"]) == pytest.approx(row["f1"])
    assert {"f1:no"} <= metrics["baseline"]["validation"].keys() & metrics["majority"].keys()
    assert 0 < metrics["standard_error"] < 0.2
    pairs = tiny_splits()["validation"]
    outputs = result.matcher.predict_proba(pairs)
    told = np.bincount(outputs[pairs.labels == 0].argmax(1), minlength=2).tolist()
    assert row["answers"] == dict(zip(("no", "yes"), told))
    hits = (pairs.labels == 0)[np.argsort(-outputs[:, 0], kind="stable")]
    by_hand = (np.cumsum(hits) / np.arange(1, len(hits) + 1))[hits].mean()
    assert row["average_precision"] == pytest.approx(by_hand, abs=0.02)
    mean = np.mean([row["f1"] for row in metrics["classes"]["validation"]])
    assert mean == pytest.approx(metrics["validation"]["macro_f1"]) and not metrics["rare"]
    assert not (tmp_path / "a/precision_recall.png").exists()
    assert json.loads((tmp_path / "a/metrics.json").read_text())["classes"] == metrics["classes"]


def test_the_linear_model_weighs(tmp_path):
    """What weighs three times as much is the same as three times there."""
    rng = np.random.default_rng(0)
    features, check = rng.normal(size=(2, 60, 4))
    labels, right = (x[:, 0] + rng.normal(size=60) > 0 for x in (features, check))
    weights, rows = np.ones(60), [*range(60), *range(20), *range(20)]
    weights[:20] = 3
    for classes in (2, 1):
        y, r = labels.astype(int), right.astype(int)
        one = solve_linear((features, y, weights), (check, r), classes)
        two = solve_linear((features[rows], y[rows]), (check, r), classes)
        plain = solve_linear((features, y), (check, r), classes)
        np.testing.assert_allclose(one[0], two[0], atol=1e-3)
        assert np.abs(one[0] - plain[0]).max() > 0.01
    data = {"train": noisy(100, 0), "validation": noisy(50, 1)}
    for setting, wanted in (("none", RARE), ("balanced", 0.5)):
        recipe = load_recipe("bag_of_words", overrides=[f"training.class_weight={setting}"])
        result = train(recipe, data, tmp_path / setting, progress=False)
        for metrics in (result.metrics, result.metrics["baseline"]):
            nll = -RARE * np.log(wanted) - (1 - RARE) * np.log(1 - wanted)
            assert metrics["validation"]["nll"] == pytest.approx(nll, abs=0.01)


# --- pairs made by rule ---

NAMES = ("not_paraphrase", "paraphrase")
THINGS = [f"thing{letter}" for letter in "abcdefghijklmnopqrst"]


@pytest.fixture
def words(tmp_path):
    file = tmp_path / "antonyms.txt"
    file.write_text("\n".join(map(" ".join, zip(THINGS[::2], THINGS[1::2]))), "utf-8")
    return str(file)


def pairs(rows, split="train"):
    texts = [
        f"The {THINGS[i % 20]} saw {'two three four'.split()[i % 3]} dogs." for i in range(rows)
    ]
    seconds = [text if i % 4 else "Nothing here." for i, text in enumerate(texts)]
    labels = [int(i % 4 > 0) for i in range(rows)]
    return PairDataset(texts, seconds, labels, label_names=NAMES, name="own", split=split)


def test_each_rule_makes_its_share_with_its_label(words):
    train = pairs(100)
    settings = TrainingConfig(augment=["SwapAnt", "NumWord", "AppendIrr"], lexicon=[words])
    made, counts = made_pairs(train, settings)
    assert counts == {"SwapAnt": 10, "NumWord": 10, "AppendIrr": 10} and len(made) == 30
    assert set(np.array(made.labels[:20])) == {0}  # they were paraphrases
    assert len(set(zip(made.sentence1, made.sentence2))) == 30
    assert not set(zip(made.sentence1, made.sentence2)) & set(zip(train.sentence1, train.sentence2))
    again, _ = made_pairs(train, settings)
    assert again.fingerprint() == made.fingerprint()


def test_the_convention_of_sick_is_neutral():
    names = ("entailment", "neutral", "contradiction")
    two = "Two dogs run.", "Two dogs run."
    for name, label in (("sick", "neutral"), ("snli", "contradiction")):
        data = PairDataset(*zip(two), ["entailment"], label_names=names, name=name)
        made, _ = made_pairs(data, TrainingConfig(augment=["NumWord"]))
        assert names[made.labels[0]] == label


def test_only_training_sees_made_pairs():
    splits = {role: pairs(n, role) for role, n in (("train", 60), ("validation", 20), ("test", 20))}
    recipe = Recipe.from_tables(
        "tiny", vectors={"source": "none", "dim": 8}, training={"epochs": 1}
    )
    recipe = recipe.with_training(augment=("NumWord",))
    result = tiny_run(None, splits=splits, recipe=recipe)
    assert result.metrics["made_pairs"] == {"NumWord": 18}
    assert result.metrics["rows"] == {"train": 60, "validation": 20, "test": 20}
    numbers = {"eight", "nine", "ten", "eleven", "twelve"}
    assert numbers & set(result.matcher.encoder.vocabulary.words), "they were read"


def test_a_teacher_is_not_asked_about_made_pairs():
    targets = np.array([[1, 0.3, 0.7]], "float32")
    more = PairDataset(["a"], ["b"], [0], label_names=NAMES)
    np.testing.assert_allclose(with_labels(targets, more), [[1, 0.3, 0.7], [0, 1, 0]], rtol=1e-6)
    scores = PairDataset(["a"], ["b"], [2.5])
    got = with_labels(np.array([[4, 3.5]]), scores)
    np.testing.assert_allclose(got, [[4, 3.5], [2.5, 2.5]])
