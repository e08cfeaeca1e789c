"""Learning from a teacher: the loss against NumPy, the answers by name, and whole runs."""

import json
import shutil

import keras
import numpy as np
import pytest
from keras import ops

from keras_sentmatch.applications import build_model
from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics import SparseMacroF1
from keras_sentmatch.training import train_ensemble
from keras_sentmatch.training.distillation import (
    DistillationLoss,
    OnLabels,
    compute_teacher_targets,
)
from tests.toys.training import build_tiny, tiny_recipe, tiny_run, tiny_splits

rng = np.random.default_rng(0)
LABELS = np.array([0, 2, 1, 1])
STUDENT, TEACHER = (rng.dirichlet(np.ones(3), 4) for _ in range(2))


def loss_of(weight, temperature, labels, teacher, student):
    loss = DistillationLoss(weight, temperature)
    y = np.column_stack([labels, teacher]).astype("float32")
    return float(ops.convert_to_numpy(loss(y, student.astype("float32"))))


def softer(p, temperature):
    p = p ** (1 / temperature)
    return p / p.sum(-1, keepdims=True)


@pytest.mark.each_backend
@pytest.mark.parametrize("temperature", [1.0, 3.0])
@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_loss_of_probabilities(weight, temperature):
    hard = [-np.log(p[y]) for y, p in zip(LABELS, STUDENT)]
    t, p = softer(TEACHER, temperature), softer(STUDENT, temperature)
    soft = temperature**2 * (t * np.log(t / p)).sum(-1)
    want = np.mean((1 - weight) * np.array(hard) + weight * soft)
    got = loss_of(weight, temperature, LABELS, TEACHER, STUDENT)
    assert got == pytest.approx(want, rel=1e-5)


def test_loss_of_scores():
    labels, teacher, student = (
        np.array([1.0, 4.0, 3.0]),
        np.array([2.0, 1, 5]),
        rng.normal(size=3),
    )
    want = np.mean(0.6 * (labels - student) ** 2 + 0.4 * (teacher - student) ** 2)
    got = loss_of(0.4, 2.0, labels, teacher, student[:, None])
    assert got == pytest.approx(want, rel=1e-5)


@pytest.mark.each_backend
def test_sure_answers_stay_finite():
    sure = np.array([[1.0, 0.0, 0.0]])
    assert np.isfinite(loss_of(0.5, 2.0, [1], sure, sure[:, ::-1]))


@pytest.mark.parametrize(
    "made", [DistillationLoss(0.3, 4.0), OnLabels(SparseMacroF1(3))], ids=["loss", "metric"]
)
def test_configs_come_back(made):
    saved = json.loads(json.dumps(keras.saving.serialize_keras_object(made)))
    again = keras.saving.deserialize_keras_object(saved)
    assert type(again) is type(made) and again.get_config() == made.get_config()
    assert again.name in ("distillation", "macro_f1")


@pytest.mark.each_backend
def test_metrics_see_the_labels():
    y = np.column_stack([LABELS, TEACHER]).astype("float32")
    for make in (lambda: SparseMacroF1(3), keras.metrics.SparseCategoricalAccuracy):
        plain, wrapped = make(), OnLabels(make())
        plain.update_state(LABELS, STUDENT)
        wrapped.update_state(y, STUDENT, sample_weight=np.ones(4))
        assert float(wrapped.result()) == pytest.approx(float(plain.result()))
        wrapped.reset_state()
        assert float(wrapped.result()) == 0


# --- runs ---


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """A run whose labels stand in another order than those of its student's data."""
    splits = {}
    for role, data in tiny_splits().items():
        columns = data.to_dict() | {"label_names": ["yes", "no"], "labels": 1 - data.labels}
        splits[role] = PairDataset.from_dict(columns)
    out = tmp_path_factory.mktemp("teacher") / "run"
    return tiny_run(out, splits=splits, epochs=6)


def settings(*folders, **more):
    return tiny_recipe(teacher=[str(folder) for folder in folders], **more)


def test_answers_are_matched_by_name(teacher):
    splits = tiny_splits()
    teacher_targets = compute_teacher_targets(
        settings(teacher.folder).training, splits, progress=False
    )
    for role, rows in (("train", 100), ("validation", 40)):
        target, data = teacher_targets.targets[role], splits[role]
        assert target.shape == (rows, 3) and target.dtype == np.float32
        np.testing.assert_array_equal(target[:, 0], data.labels)
        answers = teacher.matcher.predict_proba(data)  # yes, no
        np.testing.assert_allclose(target[:, 1:], answers[:, ::-1], atol=1e-6)
    facts = teacher_targets.facts
    assert facts["parameters"] == teacher.metrics["parameters"]
    assert facts["models"] == ["tiny on tiny, seed 0"]


@pytest.mark.parametrize("folds", [0, 2])
def test_a_student_learns_from_answers_alone(teacher, folds, tmp_path):
    """Its labels are wrong, and it sees none of them, also if it learns from all pairs."""
    splits = tiny_splits()
    for role in ("train", "validation"):
        wrong = splits[role].to_dict() | {"labels": (1 - splits[role].labels).tolist()}
        splits[role] = PairDataset.from_dict(wrong)
    more = {"epochs": 6, "folds": folds, "monitor": "val_loss"}
    recipe = settings(teacher.folder, distillation_weight=1.0, **more)
    result = tiny_run(tmp_path / "a", recipe=recipe, splits=splits)
    assert result.metrics["rows"]["train"] == (140 if folds else 100)
    assert result.metrics["test"]["accuracy"] > 0.7
    assert result.history["accuracy"][-1] < 0.3  # on the wrong labels
    facts = json.loads((tmp_path / "a" / "metrics.json").read_text())["teacher"]
    assert facts["weight"] == 1.0
    card = (tmp_path / "a" / "README.md").read_text()
    assert "Teacher: tiny on tiny, seed 0 (" in card
    assert str(teacher.folder) in (tmp_path / "a" / "recipe.toml").read_text()


def test_scores_and_ensembles_of_teachers_and_of_students(tmp_path):
    splits = tiny_splits("regression")
    tiny_run(tmp_path / "t" / "seed-0", splits=splits, epochs=1)
    shutil.copytree(tmp_path / "t" / "seed-0", tmp_path / "t" / "seed-1")
    (tmp_path / "t" / "ensemble.json").write_text('{"seeds": [0, 1]}')
    ensemble, _ = train_ensemble(
        settings(tmp_path / "t", epochs=1),
        splits,
        tmp_path / "s",
        [1],
        progress=False,
        build=build_tiny,
        baseline=False,
    )
    facts = json.loads((tmp_path / "s" / "seed-1" / "metrics.json").read_text())["teacher"]
    assert len(facts["models"]) == 2
    assert np.isfinite(ensemble.predict_proba(splits["test"])).all()


@pytest.mark.backend("torch")  # nothing in it depends on the backend
def test_auxiliary_losses_learn_from_the_teacher_too():
    sizes = {"units": 3, "attention_units": 2, "hidden_units": 4, "depth": 1, "steps": 1}
    model = build_model("drr_net", vocabulary_size=9, num_classes=3, embedding_dim=4, **sizes)
    ids = rng.integers(1, 9, (4, 5))
    x = {"word_ids_1": ids, "word_ids_2": ids[::-1]}
    y = np.column_stack([LABELS, TEACHER]).astype("float32")
    for weight in (0.0, 1.0):
        model.compile(keras.optimizers.SGD(1e-9), DistillationLoss(weight))
        with_auxiliary, main = model.train_on_batch(x, y), model.test_on_batch(x, y)
        assert float(with_auxiliary) > 1.5 * float(main) > 0  # p_h and p_v add theirs


def test_teachers_of_something_else(teacher):
    scores = tiny_splits("regression")
    with pytest.raises(InputError, match="predicts no, yes, but the training pairs have scores"):
        compute_teacher_targets(settings(teacher.folder).training, scores, progress=False)
