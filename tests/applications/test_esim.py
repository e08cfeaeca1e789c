"""ESIM with SFA: a whole forward pass against the oracle, its halves, every switch."""

from functools import partial

from keras_sentmatch.applications import ESIM
from tests import oracles_hosts
from tests.applications.common import WORDS, adapt, check_halves, model_case
from tests.harness import arguments_act, check_oracle, run_checks, value


def weights_of(layer):
    return [value(w) for w in layer.weights]


def oracle(model, **inputs):
    layers = {layer.name: layer for layer in model.layers}

    def both(name):
        return [weights_of(getattr(layers[name], f"{way}_rnn")) for way in ("forward", "backward")]

    words = layers["word_representation"].word_embeddings
    weights = {
        "embeddings": [value(e.embeddings) for e in words],
        "encoder": both("encoding"),
        "projection": weights_of(layers["projection"]),
        "composition": both("composition"),
        "dense": [weights_of(layers["hidden"]), weights_of(layers["logits"])],
        "adapt": adapt(model),
    }
    return oracles_hosts.esim(inputs, weights)["probabilities"]


SMALL = partial(ESIM, vocabulary_size=10, embedding_dim=3, units=4)
CASES = [model_case(partial(SMALL, feature_attention="sfa"), WORDS, oracle, "ESIM")]
ATTENDED = partial(SMALL, feature_attention="sfa", placement="attended")

test_checks = run_checks(CASES)

test_halves = run_checks(CASES, check_halves)

test_attended = run_checks([model_case(ATTENDED, WORDS, oracle, "attended")], check_oracle)

test_arguments = arguments_act(
    CASES,
    feature_attention="fa",
    placement="attended",
    feature_attention_config={"feature_attention_config": {"branches": 2}},
)
