"""BiMPM with SFA: a whole forward pass against the oracle, every switch."""

from functools import partial

from keras_sentmatch.applications import BiMPM
from tests import oracles_hosts
from tests.applications.common import adapt, both_ways, features, model_case, weights_of
from tests.harness import Case, arguments_act, run_checks, value


def oracle(model, **inputs):
    layers = {layer.name: layer for layer in model.layers}

    words, matching = layers["word_representation"], layers["matching"]
    lstm = words.char_lstm
    weights = {
        "embeddings": [value(words.word_embeddings[0].embeddings)],
        "char_lstm": [value(lstm.embedding.embeddings), weights_of(lstm.lstm)] if lstm else None,
        "encoder": both_ways(layers["context"]),
        "match": {
            strategy: [value(w) for w in kernels]
            for strategy, kernels in zip(matching.strategies, matching.kernels)
        },
        "aggregation": both_ways(layers["aggregation"]),
        "dense": [weights_of(layers["hidden"]), weights_of(layers["logits"])],
        "adapt": adapt(model),
    }
    return oracles_hosts.bimpm(inputs, weights)["probabilities"]


CHARS = {n: a for n, a in features().items() if n.startswith(("word_ids", "char_ids"))}
SMALL = partial(
    BiMPM,
    vocabulary_size=10,
    embedding_dim=3,
    char_dim=2,
    char_filters=2,
    max_word_length=6,
    units=3,
    aggregation_units=2,
    hidden_units=4,
    perspectives=2,
)
WITH_CHARS = partial(SMALL, char_vocabulary_size=6)
CASES = [model_case(partial(WITH_CHARS, feature_attention="sfa"), CHARS, oracle, "BiMPM")]

test_checks = run_checks(CASES)

test_arguments = arguments_act(
    [Case(WITH_CHARS, CHARS, (0, 0))],
)
