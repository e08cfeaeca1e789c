"""The baseline that a matcher must beat: logistic regression on a bag of words."""

from collections import Counter
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_sentmatch.data import PairDataset, Tokenizer
from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics import evaluate_predictions
from keras_sentmatch.training.seeds import set_seed

MAX_TOKENS = 256  # of a sentence; the baseline reads no further
Tokens = list[list[str]]


def bag_of_words_baseline(
    train: PairDataset,
    validation: PairDataset,
    test: PairDataset | None = None,
    *,
    max_words: int = 20_000,
    epochs: int = 30,
    seed: int = 0,
    sees: str = "all",
) -> dict[str, Any]:
    """Trains a linear model that sees which words occur, but neither their order nor their meaning.

    Its inputs: the count of each word in sentence 1 and in sentence 2, whether it stands in both,
    and the share of either sentence's words that the other one has. What a matcher scores above it,
    it owes to more than vocabulary. Counts are never laid out as a dense matrix: counts times
    weights is a sum of rows of the weights. Softmax regression for classification and ranking,
    linear for regression; stops when the validation loss has not fallen for 3 epochs, and keeps the
    best.

    Args:
        train: Labeled pairs to learn from; their most frequent words make the vocabulary.
        validation: Labeled pairs to stop by.
        test: Pairs to measure on as well, if they are labeled.
        max_words: Words in the vocabulary.
        epochs: Most epochs.
        seed: Of the order of the rows; the weights start at 0.
        sees: `"sentence2"`: the words of sentence 2 alone (of inference the hypothesis: what is
            scored above chance is a trait of how the data was made). `"overlap"`: the two shares
            alone.

    Returns:
        `{"validation": figures, "test": figures}`, as `evaluate_predictions` gives them; the second
        only for labeled `test` pairs.

    Raises:
        InputError: Unlabeled or empty training or validation pairs.

    Example:

    ```python
    from keras_sentmatch.data import load_pairs
    from keras_sentmatch.training import bag_of_words_baseline

    pairs = load_pairs("embedded")
    bag_of_words_baseline(pairs["train"], pairs["validation"])["validation"]["accuracy"]
    ```
    """
    for dataset, role in ((train, "training"), (validation, "validation")):
        if dataset.labels is None or not len(dataset):
            raise InputError(
                f"The baseline's {role} pairs are empty or unlabeled; give labeled ones."
            )
    if sees not in ("all", "sentence2", "overlap"):
        raise InputError(f'sees={sees!r}: expected "all", "sentence2" or "overlap".')
    set_seed(seed)
    measured = {"validation": validation}
    if test is not None and test.labels is not None and len(test):
        measured["test"] = test
    tokens = _tokens(train, sees)
    counts = Counter(word for side in tokens for words in side for word in words)
    ids = {word: i for i, (word, _) in enumerate(counts.most_common(max_words), 1)}
    if sees == "overlap":
        ids = {}
    labels = np.asarray(train.labels)
    inputs = {
        role: make_features(_tokens(dataset, sees), ids) for role, dataset in measured.items()
    }
    model = _linear_model(len(ids), train, labels)
    model.fit(
        make_features(tokens, ids),
        labels,
        validation_data=(inputs["validation"], np.asarray(validation.labels)),
        batch_size=256,
        epochs=epochs,
        callbacks=[keras.callbacks.EarlyStopping(patience=3, restore_best_weights=True)],
        verbose=0,
    )
    return {
        role: evaluate_predictions(dataset, model.predict(inputs[role], batch_size=1024, verbose=0))
        for role, dataset in measured.items()
    }


def _tokens(dataset: PairDataset, sees: str) -> tuple[Tokens, Tokens]:
    tokenize = Tokenizer()
    first, second = (
        [tokenize(sentence)[:MAX_TOKENS] for sentence in side]
        for side in (dataset.sentence1, dataset.sentence2)
    )
    return [[] for _ in first] if sees == "sentence2" else first, second


def make_features(tokens: tuple[Tokens, Tokens], ids: dict[str, int]) -> dict[str, np.ndarray]:
    """`bag`: rows of the weights, 0 for padding; `shares`: of each sentence's words in the
    other."""
    bags: list[list[int]] = []
    shares = np.zeros((len(tokens[0]), 2), "float32")
    for row, (first, second) in enumerate(zip(*tokens)):
        words1, words2 = set(first), set(second)
        both = words1 & words2
        sides = (first, second, sorted(both))
        bags.append(
            [
                ids[word] + part * len(ids)
                for part, side in enumerate(sides)
                for word in side
                if word in ids
            ]
        )
        shares[row] = len(both) / max(len(words1), 1), len(both) / max(len(words2), 1)
    bag = np.zeros((len(bags), max([1, *map(len, bags)])), "int32")
    for row, entries in enumerate(bags):
        bag[row, : len(entries)] = entries
    return {"bag": bag, "shares": shares}


def _linear_model(words: int, train: PairDataset, labels: np.ndarray) -> keras.Model:
    regression = train.task == "regression"
    outputs = 1 if regression else train.num_classes
    bag = keras.Input((None,), dtype="int32", name="bag")
    shares = keras.Input((2,), name="shares")
    weights = keras.layers.Embedding(3 * words + 1, outputs, embeddings_initializer="zeros")(bag)
    used = ops.expand_dims(ops.cast(ops.not_equal(bag, 0), weights.dtype), -1)
    start = keras.initializers.Constant(labels.mean() if regression else 0.0)
    dense = keras.layers.Dense(outputs, kernel_initializer="zeros", bias_initializer=start)
    scores = ops.sum(weights * used, axis=1) + dense(shares)
    answer = scores if regression else ops.softmax(scores)
    model = keras.Model({"bag": bag, "shares": shares}, answer)
    loss = "mean_squared_error" if regression else "sparse_categorical_crossentropy"
    # On TensorFlow XLA takes longer to compile this than it takes to train.
    jit_compile = keras.config.backend() == "jax"
    model.compile(keras.optimizers.Adam(0.01), loss, jit_compile=jit_compile)
    return model
