"""The baseline that a matcher must beat: logistic regression on a bag of words."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keras_sentmatch.applications.linear_part import solve_linear
from keras_sentmatch.data import PairDataset
from keras_sentmatch.errors import InputError
from keras_sentmatch.metrics import evaluate_predictions
from keras_sentmatch.text import Tokenizer
from keras_sentmatch.training.training_data import class_weights, pair_weights

MAX_TOKENS = 256  # per sentence
MAX_WORDS = 20_000  # of the vocabulary
Tokens = list[list[str]]


def bag_of_words_baseline(
    train: PairDataset,
    validation: PairDataset,
    test: PairDataset | None = None,
    *,
    sees: str = "all",
    class_weight: str | Mapping[str, float] = "none",
    f1_of: str | None = None,
) -> dict[str, dict[str, Any]]:
    """Train a linear model that sees which words occur, but neither their order nor their meaning.

    It is logistic regression (ridge regression for scores) on the count of each word in sentence 1
    and in sentence 2, whether it is in both, and the share of each sentence's words that the other
    one has, with a standard deviation of 1. Validation pairs choose the regularization. With
    `sees="sentence2"` it sees sentence 2 only, with `sees="overlap"` the two shares only.
    """
    for dataset, role in ((train, "training"), (validation, "validation")):
        if dataset.labels is None or not len(dataset):
            raise InputError(
                f"The baseline's {role} pairs are empty or unlabeled. Give labeled pairs."
            )
    from scipy.special import softmax
    from sklearn.feature_extraction.text import CountVectorizer

    tokens = _tokens(train, sees)
    vectorizer = None
    if sees != "overlap" and any(map(any, tokens)):
        vectorizer = CountVectorizer(analyzer=list, max_features=MAX_WORDS)
        vectorizer.fit(tokens[0] + tokens[1])
    scale = 1 / np.maximum(_shares(tokens).std(axis=0), 1e-6)
    parts = {"validation": validation}
    if test is not None and test.labels is not None and len(test):
        parts["test"] = test
    inputs = {
        role: word_features(_tokens(pairs, sees), vectorizer, scale)
        for role, pairs in parts.items()
    }
    classes = 1 if train.task == "regression" else train.num_classes
    by_class, right = class_weights(train, class_weight), np.asarray(validation.labels)
    features = word_features(tokens, vectorizer, scale)
    weights, bias, _ = solve_linear(
        (features, np.asarray(train.labels), pair_weights(train, by_class)),
        (inputs["validation"], right, None if by_class is None else by_class[right]),
        classes,
    )
    logits = {role: features @ weights + bias for role, features in inputs.items()}
    return {
        role: evaluate_predictions(
            parts[role], found[:, 0] if classes == 1 else softmax(found, axis=1), f1_of=f1_of
        )
        for role, found in logits.items()
    }


def _tokens(dataset: PairDataset, sees: str) -> tuple[Tokens, Tokens]:
    tokenize = Tokenizer()

    def tokens(sentences: Sequence[str]) -> Tokens:
        return [tokenize(sentence)[:MAX_TOKENS] for sentence in sentences]

    second = tokens(dataset.sentence2)
    return [[] for _ in second] if sees == "sentence2" else tokens(dataset.sentence1), second


def _shares(tokens: tuple[Tokens, Tokens]) -> np.ndarray:
    """Return the share of each sentence's words that the other sentence has, `[pairs, 2]`."""
    shares = np.zeros((len(tokens[0]), 2))
    for row, (first, second) in enumerate(zip(*tokens)):
        one, two = set(first), set(second)
        both = len(one & two)
        shares[row] = both / max(len(one), 1), both / max(len(two), 1)
    return shares


def word_features(tokens: tuple[Tokens, Tokens], vectorizer: Any | None, scale: np.ndarray) -> Any:
    """Return a sparse matrix: counts of sentences 1 and 2, words in both, and the scaled shares."""
    from scipy import sparse

    shares = _shares(tokens) * scale
    if vectorizer is None:
        return sparse.csr_matrix(shares)
    one, two = (vectorizer.transform(side) for side in tokens)
    return sparse.hstack([one, two, one.sign().multiply(two.sign()), shares], format="csr")
