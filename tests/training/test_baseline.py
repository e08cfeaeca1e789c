import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer

from keras_sentmatch.data import PairDataset
from keras_sentmatch.training import load_recipe, train
from keras_sentmatch.training.baseline import bag_of_words_baseline, word_features
from keras_sentmatch.vectors.built_in import load_similarity
from tests.case import value
from tests.toys.training import WORDS, tiny_splits


def test_counts_overlap_and_shares():
    vectorizer = CountVectorizer(analyzer=list, vocabulary=["a", "b", "c"])
    tokens = ([["a", "a", "b", "z"], []], [["b", "c", "z"], ["z"]])
    features = word_features(tokens, vectorizer, np.ones(2)).toarray()
    # three columns for sentence 1, three for sentence 2, three for words in both, two shares
    want = [[2, 1, 0, 0, 1, 1, 0, 1, 0, 2 / 3, 2 / 3], [0] * 11]
    np.testing.assert_allclose(features, want)


def in_english(pairs):
    """Pairs of `tiny_pairs`, with words of the package's table."""
    words = dict(
        zip([*WORDS, "x"], "dog cat man hat car sun moon tree fish bird door red two".split())
    )
    both = (
        [" ".join(words[w] for w in s.split()) for s in side]
        for side in (pairs.sentence1, pairs.sentence2)
    )
    return PairDataset(*both, pairs.labels, label_names=pairs.label_names, task=pairs.task)


def test_matching_features_take_the_similarity_of_the_package():
    splits = {role: in_english(pairs) for role, pairs in tiny_splits().items()}
    recipe = load_recipe("bag_of_words", overrides=["model.matching_features=true"])
    model = train(recipe, splits, None, progress=False).matcher.model
    kept = value(model.wide.matching.map)
    np.testing.assert_array_equal(kept, load_similarity()["map"])


@pytest.mark.parametrize("task, english", [("classification", True), ("regression", False)])
def test_the_model_bag_of_words_is_the_baseline(task, english):
    splits = tiny_splits(task)
    if english:
        splits = {role: in_english(pairs) for role, pairs in splits.items()}
    metrics = train(load_recipe("bag_of_words"), splits, None, progress=False).metrics
    for role in ("validation", "test"):
        for name, figure in metrics["baseline"][role].items():
            want = pytest.approx(figure, abs=1e-3) if isinstance(figure, float) else figure
            assert metrics[role][name] == want, (role, name)
    assert metrics["test"][metrics["test"]["primary"]] > 0.7


def test_it_cannot_see_order():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 300)
    second = ["dog bites man" if label else "man bites dog" for label in labels]
    data = PairDataset(["dog bites man"] * 300, second, labels)
    accuracy = bag_of_words_baseline(data, data)["validation"]["accuracy"]
    assert accuracy == max(np.mean(labels), 1 - np.mean(labels))


def test_it_sees_no_more_than_it_is_told():
    """The label is whether sentence 1 is repeated, or a word of sentence 2: one part tells each."""
    rng = np.random.default_rng(0)
    same, marked = rng.integers(0, 2, (2, 400))
    words = rng.choice(list("abcdefgh"), (400, 2))
    first = [" ".join(row) for row in words]
    second = [
        " ".join([text if same else "y z", "not" if mark else "so"])
        for text, same, mark in zip(first, same, marked)
    ]

    def accuracy(labels, sees):
        data = PairDataset(first, second, labels)
        return bag_of_words_baseline(data, data, sees=sees)["validation"]["accuracy"]

    assert accuracy(marked, "sentence2") == 1 and accuracy(marked, "overlap") < 0.65
    assert accuracy(same, "overlap") == 1
    shuffled = PairDataset(first[::-1], second, marked)
    figures = [
        bag_of_words_baseline(data, data, sees="sentence2")
        for data in (shuffled, PairDataset(first, second, marked))
    ]
    assert figures[0] == figures[1], "sentence 1 changes nothing"
