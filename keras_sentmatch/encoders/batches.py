"""Batches of encoded pairs in a few shapes: arrays, a `tf.data` pipeline, a Keras `PyDataset`."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from keras_sentmatch.data import PairDataset
from keras_sentmatch.encoders.base import EncodedPairs
from keras_sentmatch.encoders.subwords import Encoder
from keras_sentmatch.errors import InputError, argument

Batch = tuple[Any, ...] | dict[str, np.ndarray]  # (inputs, labels[, weights]), or inputs


class PairBatches:
    """Batches of a data set: encoded once, in a few shapes, in an order that the epoch determines.

    A row goes to the shortest length bucket that holds both sentences. A batch comes from one bucket
    and is padded to its length on both sides. Rows that do not fill a batch move to the next longer
    bucket, so at most one short batch remains, at the longest length. Every epoch has the same shapes,
    and its order depends on `(seed, epoch)` alone.

    Args:
        dataset: The pairs.
        encoder: The encoder. It counts truncated sentences in its `report`.
        batch_size: Number of pairs per batch.
        shuffle: Whether each epoch has a new order of rows and batches. Otherwise rows keep the order
            of the data set inside each bucket, short buckets first. Defaults to `False`.
        seed: Seed of the order. Defaults to `0`.
        bucket_lengths: Lengths to pad to, or the number of lengths, which are then chosen for the
            least padding. A backend that compiles does so once per length. Defaults to `5`.
        features: Names of the arrays to yield (a model's input names). Defaults to all arrays of the
            encoder.
        drop_remainder: Whether the short batch is left out. Defaults to `False`.
        fills: Whether rows of another batch fill the short batch, so that a backend that compiles
            each shape compiles one program less. These rows occur twice in the epoch. Defaults to
            `False`.
        targets: Array with one row per pair, used instead of the labels.
        weights: Weight of each pair in the loss, which follows the labels in a batch.
        encoded: Result of `encode_dataset` for these pairs and this encoder, if known.

    Raises:
        InputError: If there are no pairs or no whole batch, the batch size is below 1, a bucket is
            shorter than a sentence, the encoder does not make an array, or pairs without labels have
            weights.

    Example:

    >>> from keras_sentmatch.encoders import PairEncoder
    >>> data = PairDataset(["A dog.", "One cat."], ["A cat.", "No dog."], [1, 0])
    >>> inputs, labels = next(PairBatches(data, PairEncoder.fit(data), batch_size=2).numpy())
    >>> inputs["word_ids_1"].shape
    (2, 3)
    """

    def __init__(
        self,
        dataset: PairDataset,
        encoder: Encoder,
        *,
        batch_size: int,
        shuffle: bool = False,
        seed: int = 0,
        bucket_lengths: Sequence[int] | int = 5,
        features: Collection[str] | None = None,
        drop_remainder: bool = False,
        fills: bool = False,
        targets: np.ndarray | None = None,
        weights: np.ndarray | None = None,
        encoded: EncodedPairs | None = None,
    ):
        if batch_size < 1:
            raise InputError(f"{argument('batch_size', batch_size)} must be at least 1.")
        if len(dataset) < (batch_size if drop_remainder else 1):
            raise InputError(
                f"The data set {dataset.name!r} {dataset.split} has {len(dataset)} pairs, which fill no "
                "batch. Give more pairs, or a smaller batch_size."
            )
        names = encoder.input_names
        if unknown := sorted(set(features or ()) - set(names)):
            raise InputError(
                f"The encoder does not make {', '.join(unknown)}. It makes {', '.join(names)}. Make an "
                f"encoder with other features (now {encoder.features})."
            )
        self.features = tuple(n for n in names if features is None or n in features)
        self._pairs = encode_dataset(dataset, encoder) if encoded is None else encoded
        self.targets: np.ndarray | None = None
        given = dataset.labels if targets is None else targets
        if given is not None:
            _check_count("targets", given, dataset)
            given = np.asarray(given)
            self.targets = given.astype("f4" if given.dtype.kind == "f" else "i4")
        self.weights = None if weights is None else np.asarray(weights, "float32")
        if self.weights is not None:
            _check_count("weights", self.weights, dataset)
            if self.targets is None:
                raise InputError(
                    "The pairs have weights, but no labels. Leave out weights=…, or give labels."
                )
        self.num_rows, self.batch_size = len(dataset), batch_size
        self.shuffle, self.seed, self.drop_remainder = shuffle, seed, drop_remainder
        self.fills = fills
        lengths = np.maximum(self._pairs.lengths.max(1), 1)
        if isinstance(bucket_lengths, int):
            bucket_lengths = least_padding(lengths, max(bucket_lengths, 1))
        self.bucket_lengths = tuple(sorted({int(length) for length in bucket_lengths}))
        if not self.bucket_lengths or self.bucket_lengths[-1] < lengths.max():
            raise InputError(
                f"The longest sentence has {lengths.max()} tokens, more than any of "
                f"bucket_lengths={list(self.bucket_lengths)}. Add a longer bucket."
            )
        self._row_lengths = lengths

    def __len__(self) -> int:
        full, rest = divmod(self.num_rows, self.batch_size)
        return full + (rest > 0 and not self.drop_remainder)

    def order(self, epoch: int = 0) -> list[np.ndarray]:
        """Return the row numbers of each batch of an epoch."""
        return [rows for rows, _ in self._plan(epoch)]

    def shapes(self) -> list[tuple[int, int]]:
        """Return the shapes (pairs, length) of the batches, which are the same in every epoch."""
        return sorted({(len(rows), length) for rows, length in self._plan(0)})

    def numpy(self, epoch: int = 0) -> Iterator[Batch]:
        """Yield the batches of an epoch.

        They are `(inputs, labels)`, `(inputs, labels, weights)` with weights, or `inputs` without
        labels. `inputs` is a dict of int32 arrays; `labels` are int32, or float32 for regression.
        """
        for rows, length in self._plan(epoch):
            yield self._batch(rows, length)

    def tf_data(self, epoch: int = 0) -> Any:
        """Return a `tf.data.Dataset` of the batches, with known length, from `epoch` on.

        Each full iteration is one epoch: with `model.fit(…, shuffle=False)` Keras's epoch e gets
        `order(epoch + e)`. An iteration that stops early does not count (on JAX and PyTorch, Keras
        looks at one batch before it trains).
        """
        import tensorflow as tf

        def generate() -> Iterator[Batch]:
            nonlocal epoch
            now = epoch
            for step, batch in enumerate(self.numpy(now), 1):
                if step == len(self):
                    epoch = now + 1
                yield batch

        rows = self.batch_size if self.drop_remainder else None

        def spec(array: np.ndarray) -> Any:
            return tf.TensorSpec((rows, None, *array.shape[2:]), array.dtype)

        first = next(self.numpy())
        inputs = first[0] if isinstance(first, tuple) else first
        signature: Any = tf.nest.map_structure(spec, inputs)
        if isinstance(first, tuple):
            more = (tf.TensorSpec((rows, *a.shape[1:]), a.dtype) for a in first[1:])
            signature = signature, *more
        dataset = tf.data.Dataset.from_generator(generate, output_signature=signature)
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(len(self)))
        return dataset.prefetch(4) if len(self) > 8 else dataset

    def pydataset(self, epoch: int = 0) -> Any:
        """Return the batches as a `keras.utils.PyDataset`, which needs no TensorFlow.

        Keras's epoch e gets `order(epoch + e)`, with `fit(shuffle=True)` too. The attribute `epoch` is
        the epoch that comes next.
        """
        return _pydataset_class()(self, epoch)

    def _batch(self, rows: np.ndarray, length: int) -> Batch:
        arrays = self._pairs.arrays(rows, length)
        inputs = {name: arrays[name] for name in self.features}
        if self.targets is None:
            return inputs
        weights = () if self.weights is None else (self.weights[rows],)
        return inputs, self.targets[rows], *weights

    def _plan(self, epoch: int) -> list[tuple[np.ndarray, int]]:
        """Return the rows and the length of each batch."""
        rng = np.random.default_rng((self.seed, epoch))
        rows = rng.permutation(self.num_rows) if self.shuffle else np.arange(self.num_rows)
        plan = plan_batches(rows, self._row_lengths, self.bucket_lengths, self.batch_size)
        plan = plan[: len(self)]
        if self.fills and (missing := self.batch_size - len(plan[-1][0])) and len(plan) > 1:
            plan[-1] = np.concatenate([plan[-1][0], plan[0][0][:missing]]), plan[-1][1]
        return [plan[i] for i in rng.permutation(len(plan))] if self.shuffle else plan


def _check_count(name: str, values: Any, dataset: PairDataset) -> None:
    if len(values) != len(dataset):
        raise InputError(
            f"There are {len(values)} {name} for {len(dataset)} pairs. Give one per pair."
        )


def plan_batches(
    rows: np.ndarray, lengths: np.ndarray, bucket_lengths: Sequence[int], batch_size: int
) -> list[tuple[np.ndarray, int]]:
    """Return the rows of each batch and the length to pad it to.

    `lengths` holds the length of each row, by row number; `bucket_lengths` rise. Rows that do not fill
    a batch move on to the next bucket, so only the last batch can be short.
    """
    bucket = np.searchsorted(bucket_lengths, lengths)
    plan: list[tuple[np.ndarray, int]] = []
    rest = rows[:0]
    for number, length in enumerate(bucket_lengths):
        mine = np.concatenate([rest, rows[bucket[rows] == number]])
        full = len(mine) // batch_size * batch_size
        plan += [(part, length) for part in mine[:full].reshape(-1, batch_size)]
        rest = mine[full:]
    if len(rest):
        plan.append((rest, bucket_lengths[-1]))
    return plan


def prediction_lengths(longest: int, max_length: int) -> list[int]:
    """Return the lengths that predictions are padded to, up to that of the longest sentence."""
    buckets = [min(8, max_length)]
    while buckets[-1] < longest:
        buckets.append(min(2 * buckets[-1], max_length))
    return buckets


def prediction_batches(
    lengths: np.ndarray, batch_size: int, max_length: int
) -> Iterator[tuple[np.ndarray, int, int]]:
    """Yield the rows of each batch of a prediction, and the number of rows and the length to fill.

    Few shapes occur: 1, 8 or `batch_size` rows, and the lengths 8, 16, 32, … and `max_length`.
    """
    lengths = np.minimum(lengths, max_length)
    buckets = prediction_lengths(lengths.max(initial=0), max_length)
    order = np.argsort(lengths, kind="stable")
    for rows, length in plan_batches(order, lengths, buckets, batch_size):
        yield rows, next(n for n in sorted({1, 8, batch_size}) if n >= len(rows)), length


def encode_dataset(dataset: PairDataset, encoder: Encoder) -> EncodedPairs:
    """Encode a data set, with its tags if the encoder uses them."""
    tags = dataset.tags if "pos" in encoder.features else None
    return encoder.encode_pairs(dataset.sentence1, dataset.sentence2, tags=tags)


def _pydataset_class() -> Any:
    import keras

    class PairPyDataset(keras.utils.PyDataset):
        """See `PairBatches.pydataset`."""

        def __init__(self, batches: PairBatches, epoch: int):
            super().__init__()  # one worker: requests come one after the other
            self.batches = batches
            self.epoch = epoch
            self._plan = batches._plan(epoch)
            self._place: dict[int, int] = {}  # index asked for -> place in the plan
            self._begun = False

        def __len__(self) -> int:
            return len(self.batches)

        def __getitem__(self, index: int) -> Batch:
            if not 0 <= index < len(self):
                raise IndexError(index)
            place = self._place.setdefault(index, len(self._place))
            if place == 1 and not self._begun and keras.backend.backend() == "tensorflow":
                # From the first two batches Keras infers which dimensions vary: give two lengths.
                lengths = [length for _, length in self._plan]
                place = next((i for i, n in enumerate(lengths) if n != lengths[0]), place)
            return self.batches._batch(*self._plan[place])

        def on_epoch_begin(self) -> None:
            # Requests since the last epoch were looks ahead, such as Keras's for the shapes.
            self._begun = True
            self._place.clear()

        def on_epoch_end(self) -> None:
            # Keras also calls this after looking at one batch before training, which is no epoch.
            if len(self._place) == len(self):
                self.epoch += 1
                self._plan = self.batches._plan(self.epoch)
            self._begun = False
            self._place.clear()

    return PairPyDataset


def least_padding(lengths: np.ndarray, count: int) -> list[int]:
    """Choose at most `count` lengths to pad to with the least padding, for rows of `lengths`."""
    tops, rows = np.unique(lengths, return_counts=True)
    before, kinds = [0, *np.cumsum(rows).tolist()], [0, *tops.tolist()]
    # best[i]: (padded tokens, lengths) of the rows of the i shortest kinds, in the buckets so far
    best: list[tuple[float, list[int]]] = [(0, []), *((np.inf, []) for _ in tops)]
    for _ in range(min(count, len(tops))):
        best[1:] = [
            min(
                (best[j][0] + kinds[i] * (before[i] - before[j]), [*best[j][1], kinds[i]])
                for j in range(i)
            )
            for i in range(1, len(kinds))
        ]
    return best[-1][1]
