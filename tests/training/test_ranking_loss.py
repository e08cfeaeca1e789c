"""Losses that compare the candidates of a question, and their batches."""

import logging

import keras
import numpy as np
import pytest
from keras import ops

from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders import PairBatches, PairEncoder
from keras_sentmatch.encoders.batches import packed
from keras_sentmatch.errors import InputError
from keras_sentmatch.training._model import compile_model
from keras_sentmatch.training._ranking import RankingLoss
from tests.toys.training import (
    build_tiny,
    tiny_pairs,
    tiny_recipe,
    tiny_run,
    tiny_splits,
)

KINDS = ("pairwise", "listwise")
# Of the questions 0 to 4 the last two have one kind of candidate only; -1 fills the batch.
TARGETS = np.array(
    [[1, 0], [0, 1], [0, 0], [1, 1], [0, 0], [1, 0], [0, 3], [1, 4], [0, 1], [-1, -1], [-1, -1]]
)


def probabilities(seed=0, spread=2.0, rows=11):
    logits = np.random.default_rng(seed).normal(size=(rows, 2)) * spread
    p = np.exp(logits - logits.max(1, keepdims=True))
    return (p / p.sum(1, keepdims=True)).astype("float32")


def by_hand(kind, targets, p):
    """The mean over the questions with both kinds of candidates, in loops."""
    costs = []
    for question in sorted({q for y, q in targets if y >= 0}):
        rows = [i for i, (y, q) in enumerate(targets) if q == question and y >= 0]
        scores = {i: np.log(np.float64(p[i, 1])) - np.log(np.float64(p[i, 0])) for i in rows}
        right = [i for i in rows if targets[i, 0] == 1]
        wrong = [i for i in rows if targets[i, 0] == 0]
        if not right or not wrong:
            continue
        if kind == "pairwise":
            pairs = [np.log1p(np.exp(scores[w] - scores[r])) for r in right for w in wrong]
            costs.append(np.mean(pairs))
        else:
            total = sum(np.exp(score) for score in scores.values())
            costs.append(-np.mean([np.log(np.exp(scores[r]) / total) for r in right]))
    return np.mean(costs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_loss_is_the_mean_over_questions(kind, seed):
    loss, p = RankingLoss(kind), probabilities(seed)
    wanted = by_hand(kind, TARGETS, p)
    assert float(loss(TARGETS, p)) == pytest.approx(wanted, rel=1e-5)
    order = np.random.default_rng(seed).permutation(len(TARGETS))
    assert float(loss(TARGETS[order], p[order])) == pytest.approx(wanted, rel=1e-5)
    rows = ops.convert_to_numpy(RankingLoss(kind, reduction="none")(TARGETS, p))
    assert rows.shape == (11,) and (rows[[1, 2, 4, 6, 7, 8, 9, 10]] == 0).all()
    assert (rows[[0, 3, 5]] > 0).all()
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert again.kind == kind


@pytest.mark.parametrize("kind", KINDS)
def test_a_shift_of_all_scores_of_a_question_changes_nothing(kind):
    p = probabilities()
    odds = p[:, 1] / p[:, 0] * np.where(TARGETS[:, 1] == 0, 7.0, 1.0)
    shifted = np.column_stack([1 / (1 + odds), odds / (1 + odds)]).astype("float32")
    one, two = (float(RankingLoss(kind)(TARGETS, x)) for x in (p, shifted))
    assert one == pytest.approx(two, rel=1e-4)


def gradient(kind, targets, logits):
    """Of the loss by the logits."""
    loss = RankingLoss(kind)
    backend = keras.config.backend()
    logits = logits.astype("float32")
    if backend == "torch":
        x = ops.convert_to_tensor(logits).requires_grad_()
        loss(targets, ops.softmax(x)).backward()
        return x.grad.cpu().numpy()
    if backend == "jax":
        import jax

        return np.asarray(jax.grad(lambda x: loss(targets, ops.softmax(x)))(logits))
    import tensorflow as tf

    x = tf.Variable(logits)
    with tf.GradientTape() as tape:
        found = loss(targets, ops.softmax(x))
    return tape.gradient(found, x).numpy()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1.0, 30.0, 200.0])
def test_gradients_are_finite_and_point_the_right_way(kind, size):
    """Also where probabilities are 0: the last size."""
    logits = np.random.default_rng(0).normal(size=(len(TARGETS), 2)) * size
    found = gradient(kind, TARGETS, logits)
    assert np.isfinite(found).all()
    right, wrong = [0, 3, 5], [1, 2, 4, 8]
    assert (found[right, 1] <= 0).all() and (found[wrong, 1] >= 0).all()
    np.testing.assert_array_equal(found[[6, 7, 9, 10]], 0)
    if size < 100:
        sure = np.zeros((2, 2))
        sure[:, 0] = [40, 0]  # the right one has a probability of 4e-18: it still learns
        assert abs(gradient(kind, TARGETS[[0, 2]], sure)[0, 1]) > 0.1


# --- batches ---


def ranked(sizes, seed=0):
    """Pairs of questions of these sizes, their rows mixed; the first of each is right."""
    rng = np.random.default_rng(seed)
    groups = np.repeat([f"q{i}" for i in range(len(sizes))], sizes)
    labels = np.concatenate([[1] + [0] * (size - 1) for size in sizes])
    words = [" ".join(["w"] * int(n)) for n in rng.integers(1, 9, len(groups))]
    pairs = PairDataset(words, words[::-1], labels, label_names=("no", "yes"), groups=groups)
    return pairs.select(rng.permutation(len(groups)))


SIZES = [3, 7, 1, 5, 5, 2, 2, 4, 6, 11, 3, 3, 8, 2, 5, 17]


def question_batches(shuffle=True, **options):
    pairs = ranked(SIZES)
    options = {"batch_size": 8, "shuffle": shuffle, "seed": 1, "bucket_lengths": 2, **options}
    options.setdefault("questions", pairs.groups)
    return pairs, PairBatches(pairs, PairEncoder.fit(pairs), **options)


@pytest.mark.parametrize("shuffle", [True, False])
def test_batches_keep_questions_whole(shuffle):
    pairs, made = question_batches(shuffle)
    seen, shapes, beside = [], set(), set()
    for epoch in range(4):
        order, place = made.order(epoch), {}
        assert len(order) == len(made)
        assert sorted(np.concatenate(order).tolist()) == list(range(len(pairs)))
        for number, rows in enumerate(order):
            for group in {pairs.groups[i] for i in rows}:
                assert place.setdefault(group, number) == number
        batches = list(made.numpy(epoch))
        for rows, (x, y) in zip(order, batches):
            real = len(rows)
            assert len(y) % 8 == 0 and len(y) - real < 8 and y.dtype == np.int32
            np.testing.assert_array_equal(y[:real, 0], pairs.labels[rows])
            assert (y[real:] == -1).all()
            questions = [pairs.groups[i] for i in rows]
            assert [questions[i] == questions[0] for i in range(real)] == (
                y[:real, 1] == y[0, 1]
            ).tolist()
            shapes.add(x["word_ids_1"].shape)
        seen.append([rows.tolist() for rows in order])
        (mine,) = (rows for rows in order if "q3" in {pairs.groups[i] for i in rows})
        beside.add(frozenset(pairs.groups[i] for i in mine))
    assert {rows for rows, _ in shapes} == {8, 16, 24}  # a question of 11, and one of 17
    assert len(made) <= 12  # 84 rows fill 10.5 batches of 8
    assert (seen[0] != seen[1]) == shuffle
    assert (len(beside) > 2) == shuffle, (
        "questions with the same number of candidates change places"
    )
    again = question_batches(shuffle)[1]
    assert [rows.tolist() for rows in again.order(3)] == seen[3]


def test_packing_leaves_little_room():
    sizes = np.random.default_rng(0).integers(1, 31, 2000)
    batches = packed(sizes, 64)
    assert sorted(np.concatenate(batches).tolist()) == list(range(2000))
    filled = [sizes[batch].sum() for batch in batches]
    assert max(filled) <= 64 and len(batches) <= 1.02 * sizes.sum() / 64 + 1
    assert packed(np.array([3]), 1) == [[0]]


def test_batches_of_every_kind_are_the_same():
    _, made = question_batches()
    source = made.pydataset()
    found = [source[i] for i in range(len(source))]
    if keras.config.backend() == "tensorflow":
        found = list(made.tf_data())
    for (_, one), (_, two) in zip(found, made.numpy(), strict=True):
        np.testing.assert_array_equal(np.asarray(one), two)


@pytest.mark.once
@pytest.mark.parametrize(
    "options, message",
    [
        ({"targets": np.ones((84, 2))}, "targets"),
        ({"weights": np.ones(84)}, "weights"),
        ({"drop_remainder": True}, "drop_remainder"),
        ({"questions": ["a", "b", "c"]}, "3 questions for 84 pairs"),
    ],
)
def test_what_breaks_questions_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        question_batches(**options)


# --- training ---


def overlap_splits():
    """Only the order within a question can be learned: its length says nothing across questions."""

    def pairs(questions, seed, split):
        rng = np.random.default_rng(seed)
        first, second, labels, groups = [], [], [], []
        for q in range(questions):
            right = int(rng.integers(4))
            for i in range(4):
                first.append(f"q{q % 6}")
                second.append(f"w{rng.integers(3) + (0 if i == right else 3)}")
                labels.append(int(i == right))
                groups.append(str(q))
        return PairDataset(
            first, second, labels, label_names=("no", "yes"), groups=groups, split=split
        )

    return {"train": pairs(40, 0, "train"), "validation": pairs(20, 1, "validation")}


@pytest.mark.parametrize("kind, policy", [("pairwise", "float32"), ("listwise", "mixed_bfloat16")])
def test_map_rises(tmp_path, kind, policy):
    settings = {"splits": overlap_splits(), "ranking_loss": kind, "dtype_policy": policy}
    result = tiny_run(tmp_path / "a", **settings, epochs=3, learning_rate=0.05)
    found = result.history
    assert max(found["val_map"]) > 0.95  # 0.52 by chance
    assert found["loss"][-1] < 0.5 * found["loss"][0]
    assert found["val_loss"][-1] < found["val_loss"][0]
    assert set(found) >= {"accuracy", "val_accuracy", "val_macro_f1", "val_mrr"}
    assert "ranking_loss" in (tmp_path / "a/recipe.toml").read_text()
    assert result.metrics["validation"]["map"] == pytest.approx(max(found["val_map"]))


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_of_an_epoch_is_that_of_its_questions(tmp_path, kind):
    """What Keras logs is the loss of all rows at once: each batch has the same number of questions."""
    splits = tiny_splits("ranking")
    result = tiny_run(
        tmp_path / "a", splits=splits, ranking_loss=kind, epochs=1, batch_size=40, learning_rate=0.1
    )
    validation = splits["validation"]
    numbers = np.unique(validation.groups, return_inverse=True)[1]
    p = result.matcher.predict_proba(validation)
    wanted = by_hand(kind, np.column_stack([validation.labels, numbers]), p)
    assert result.history["val_loss"][-1] == pytest.approx(wanted, rel=1e-3)
    by_label = (p.argmax(1) == validation.labels).mean()
    assert result.history["val_accuracy"][-1] == pytest.approx(by_label)


@pytest.mark.once
def test_what_teaches_nothing_is_left_out_and_said(tmp_path, caplog):
    splits = overlap_splits()
    labels = np.array(splits["train"].labels)
    labels[:40] = 0  # ten questions without a right candidate
    groups = [*splits["train"].groups[:-32], *["many"] * 32]
    data = splits["train"].to_dict() | {"labels": labels, "groups": groups}
    splits["train"] = PairDataset.from_dict(data)
    sizes = []

    def build(name, **config):
        model = build_tiny(name, **config)
        fit = model.fit

        def watched(*args, x, **more):
            sizes.append(len(x))
            return fit(*args, x=x, **more)

        model.fit = watched
        return model

    with caplog.at_level(logging.INFO):
        result = tiny_run(
            tmp_path / "a", splits=splits, build=build, ranking_loss="listwise", epochs=1
        )
    text = caplog.text
    assert "23 of 33 training questions have right and wrong candidates" in text
    assert "the other 40 pairs are left out" in text
    assert "questions with more than 20 candidates (up to 32): 1;" in text
    assert result.metrics["rows"]["train"] == 160
    assert sizes == [5]  # 32 candidates and two questions of 4, then five questions in each


def test_the_schedule_counts_batches_by_question():
    pairs = tiny_pairs(45, 0, "ranking")  # nine questions of five
    more = {"schedule": "cosine_warm_up_decay", "epochs": 4, "batch_size": 7}
    totals = []
    for kind in ("pointwise", "pairwise"):
        recipe = tiny_recipe(ranking_loss=kind, **more)
        model = build_tiny("tiny", vocabulary_size=9, num_classes=2, embedding_dim=2)
        compile_model(model, pairs, recipe.training)
        totals.append(model.optimizer._learning_rate.get_config()["total_steps"])
    assert totals == [28, 36]
