"""BiMPM with SFA: a whole forward pass against the oracle, its halves, every switch."""

from functools import partial

from keras_sentmatch.applications import BiMPM
from tests import oracles_hosts
from tests.applications.common import adapt, check_halves, features, model_case
from tests.harness import Case, arguments_act, run_checks, value


def weights_of(layer):
    return [value(w) for w in layer.weights]


def oracle(model, **inputs):
    layers = {layer.name: layer for layer in model.layers}

    def both(name):
        return [weights_of(getattr(layers[name], f"{way}_rnn")) for way in ("forward", "backward")]

    words, matching = layers["word_representation"], layers["matching"]
    lstm = words.char_lstm
    weights = {
        "embeddings": [value(words.word_embeddings[0].embeddings)],
        "char_lstm": [value(lstm.embedding.embeddings), weights_of(lstm.lstm)] if lstm else None,
        "encoder": both("context"),
        "match": {
            strategy: [value(w) for w in kernels]
            for strategy, kernels in zip(oracles_hosts.STRATEGIES, matching.kernels)
        },
        "aggregation": both("aggregation"),
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
    char_units=2,
    max_word_length=6,
    units=3,
    aggregation_units=2,
    hidden_units=4,
    perspectives=2,
)
WITH_CHARS = partial(SMALL, char_vocabulary_size=6)
CASES = [model_case(partial(WITH_CHARS, feature_attention="sfa"), CHARS, oracle, "BiMPM")]

test_checks = run_checks(CASES)

test_halves = run_checks(CASES, check_halves)

test_arguments = arguments_act(
    [Case(WITH_CHARS, CHARS, (0, 0))],
    "max_word_length",
    "feature_attention",
    "feature_attention_config",
)
