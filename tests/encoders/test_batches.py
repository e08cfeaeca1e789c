import itertools
import warnings

import keras
import numpy as np
import pytest

from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders import PairBatches, PairEncoder
from keras_sentmatch.encoders.batches import least_padding
from keras_sentmatch.errors import InputError


def dataset(rows=53, labels="int", seed=0) -> PairDataset:
    rng = np.random.default_rng(seed)
    words = [f"w{i}" for i in range(40)]
    first, second = (
        [" ".join(rng.choice(words, rng.integers(0, 15))) for _ in range(rows)] for _ in "12"
    )
    values = {"int": rng.integers(0, 3, rows), "float": rng.random(rows), None: None}[labels]
    return PairDataset(first, second, values)


def batches(rows=53, labels="int", **options) -> PairBatches:
    data = dataset(rows, labels)
    options = {"batch_size": 8, "shuffle": True, "seed": 3, **options}
    return PairBatches(data, PairEncoder.fit(data, max_word_length=5), **options)


def assert_equal(got, want):
    got, want = list(got), list(want)
    assert len(got) == len(want)
    for (x, y), (other_x, other_y) in zip(got, want):
        assert list(x) == list(other_x)
        for name in x:
            np.testing.assert_array_equal(np.asarray(x[name]), other_x[name])
        np.testing.assert_array_equal(np.asarray(y), other_y)
        assert np.asarray(y).dtype == other_y.dtype


@pytest.mark.parametrize("shuffle", [True, False])
def test_the_short_batch_is_filled(shuffle):
    made = batches(shuffle=shuffle, fills=True)
    for epoch in range(3):
        order = made.order(epoch)
        assert [len(rows) for rows in order] == [8] * len(made) == [8] * 7
        assert all(len(set(rows.tolist())) == 8 for rows in order)
        assert np.unique(np.concatenate(order)).size == 53
    assert {rows for rows, _ in made.shapes()} == {8}
    (alone,) = batches(fills=True, batch_size=64).order()
    assert len(alone) == 53, "there are no other rows"


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("drop", [True, False])
def test_every_row_once_in_the_same_shapes(shuffle, drop):
    made = batches(shuffle=shuffle, drop_remainder=drop)
    shapes = []
    for epoch in range(5):
        order = made.order(epoch)
        rows = np.concatenate(order)
        assert len(order) == len(made) == (6 if drop else 7)
        assert len(set(rows.tolist())) == len(rows) == (48 if drop else 53)
        assert sorted(len(part) for part in order)[0] == (8 if drop else 5)
        shapes.append(sorted(x["word_ids_1"].shape for x, _ in made.numpy(epoch)))
        for x, _ in made.numpy(epoch):
            assert x["word_ids_1"].shape == x["word_ids_2"].shape
            assert x["char_ids_1"].shape == (*x["word_ids_1"].shape, 5)
    assert all(shape == shapes[0] for shape in shapes)
    assert sorted(set(shapes[0])) == made.shapes()
    assert {length for _, length in made.shapes()} <= set(made.bucket_lengths)
    assert made.bucket_lengths[-1] == 14 and len(made.bucket_lengths) <= 5


def test_batches_equal_encode():
    data = dataset()
    encoder = PairEncoder.fit(data)
    made = PairBatches(data, encoder, batch_size=8, shuffle=True)
    for part, (x, y) in zip(made.order(2), made.numpy(2)):
        rows = data.select(part)
        want = encoder.encode(rows.sentence1, rows.sentence2, length=x["word_ids_1"].shape[1])
        assert list(x) == list(want)
        for name in want:
            np.testing.assert_array_equal(x[name], want[name])
        np.testing.assert_array_equal(y, data.labels[part])


def test_order_is_a_function_of_seed_and_epoch():
    def rows(made, epoch):
        return [part.tolist() for part in made.order(epoch)]

    made = batches()
    assert rows(made, 4) == rows(batches(), 4)
    assert rows(made, 4) != rows(made, 5)
    assert rows(made, 4) != rows(batches(seed=4), 4)
    assert rows(batches(shuffle=False), 0) == rows(batches(shuffle=False), 9)


def test_rows_labels_and_features():
    made = batches(shuffle=False, bucket_lengths=[16])
    assert np.concatenate(made.order()).tolist() == list(range(53))
    assert made.shapes() == [(5, 16), (8, 16)]
    assert next(batches().numpy())[1].dtype == np.int32
    assert next(batches(labels="float").numpy())[1].dtype == np.float32
    assert isinstance(next(batches(labels=None).numpy()), dict)
    targets, weights = np.arange(159, dtype="float64").reshape(53, 3), np.arange(53)
    made = batches(labels=None, targets=targets, weights=weights)
    for rows, (_, y, w) in zip(made.order(), made.numpy()):
        assert y.dtype == w.dtype == np.float32
        np.testing.assert_array_equal(y, targets[rows])
        np.testing.assert_array_equal(w, weights[rows])
    names = ["word_ids_2", "word_ids_1"]
    assert list(next(batches(features=names).numpy())[0]) == ["word_ids_1", "word_ids_2"]


def test_tags_come_from_the_columns():
    columns = {"tags_1": [["NN"], ["DT", "NN"]], "tags_2": [[], ["NN"]]}
    data = PairDataset(["dog", "a dog"], ["", "dog"], [0, 1], columns=columns)
    encoder = PairEncoder.fit(data, features=("word", "pos"), tokenizer="whitespace")
    x, _ = next(PairBatches(data, encoder, batch_size=2).numpy())
    assert x["pos_1"].tolist() == [[3, 0], [2, 3]]
    with pytest.raises(InputError, match="tags_1 and tags_2, or make the encoder with a tagger"):
        PairBatches(PairDataset(["dog"], ["dog"], [0]), encoder, batch_size=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size=0"),
        ({"rows": 0}, "has 0 pairs"),
        ({"batch_size": 64, "drop_remainder": True}, "has 53 pairs, which fill no batch"),
        ({"bucket_lengths": [8, 4]}, r"14 tokens, more than any of bucket_lengths=\[4, 8\]"),
        ({"features": ["pos_1"]}, "does not make pos_1. It makes word_ids_1"),
        ({"weights": np.ones(2)}, "are 2 weights for 53 pairs"),
        ({"labels": None, "weights": np.ones(53)}, "have weights, but no labels"),
        ({"labels": None, "targets": np.zeros((2, 3))}, "are 2 targets for 53 pairs"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(InputError, match=message):
        batches(**options)


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_bucket_lengths_pad_least(count):
    lengths = np.random.default_rng(count).integers(1, 8, 40)

    def padded(tops):
        return sum(min(top for top in tops if top >= length) for length in lengths)

    found = least_padding(lengths, count)
    kinds = np.unique(lengths).tolist()
    size = min(count, len(kinds))
    choices = [c for c in itertools.combinations(kinds, size) if c[-1] == max(kinds)]
    assert len(found) == size and padded(found) == min(map(padded, choices))


def test_pydataset_without_fit():
    made = batches()
    source = made.pydataset(epoch=1)
    for epoch in (1, 2):
        source.on_epoch_begin()
        assert_equal((source[i] for i in range(len(source))), made.numpy(epoch))
        source.on_epoch_end()
    source.on_epoch_begin()
    source[0]
    source.on_epoch_end()  # a look ahead
    assert source.epoch == 3
    with pytest.raises(IndexError):
        source[len(source)]


def reader_of_words(*layers) -> keras.Model:
    word_ids = keras.Input((None,), dtype="int32", name="word_ids_1")
    x = keras.layers.GlobalMaxPooling1D()(keras.layers.Embedding(99, 1)(word_ids))
    for layer in layers:
        x = layer(x)
    return keras.Model({"word_ids_1": word_ids}, x)


@pytest.mark.each_backend
@pytest.mark.parametrize("rows", [53, 200])
def test_tf_data_gives_the_next_epoch_each_time(rows):
    pytest.importorskip("tensorflow")
    made = batches(rows)
    data = made.tf_data(epoch=2)
    assert int(data.cardinality()) == len(made)
    for epoch in (2, 3, 4):
        assert_equal(data, made.numpy(epoch))
    for _ in data:  # an iteration that is left early is no epoch
        break
    assert_equal(data, made.numpy(5))
    spec = batches(labels=None, drop_remainder=True).tf_data().element_spec
    assert spec["char_ids_1"].shape.as_list() == [8, None, 5]


@pytest.mark.parametrize(
    ("kind", "rows", "shuffle"),
    [
        ("pydataset", 53, True),  # Keras's default: it shuffles the numbers it asks for
        ("pydataset", 120, False),
        ("tf_data", 53, False),
        ("tf_data", 120, False),  # long enough to be prefetched
    ],
)
def test_fit_sees_each_epoch_in_its_order(kind, rows, shuffle):
    """The running loss of a model that always says 0, a mean of squared labels, shows the order."""
    made = batches(rows, labels="float", features=["word_ids_1"])
    model = reader_of_words(keras.layers.Dense(1, kernel_initializer="zeros"))
    model.compile(optimizer=keras.optimizers.SGD(0.0), loss="mse")
    seen = []
    record = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda step, logs: seen.append(float(logs["loss"]))
    )
    source = getattr(made, kind)(epoch=2)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*ran out of data")
        for epochs in (2, 1):  # two calls of fit, validation in between
            options = {"epochs": epochs, "shuffle": shuffle, "callbacks": [record], "verbose": 0}
            model.fit(source, validation_data=getattr(made, kind)(), **options)
    want = []
    for epoch in (2, 3, 4):
        values = [dataset(rows, "float").labels[part] ** 2 for part in made.order(epoch)]
        counts = np.cumsum([len(value) for value in values])
        want += (np.cumsum([value.sum() for value in values]) / counts).tolist()
    np.testing.assert_allclose(seen, want, rtol=1e-5)
