"""ESIM with SFA: a whole forward pass against the oracle, every switch."""

from functools import partial

from keras_sentmatch.applications import ESIM
from tests import oracles_hosts
from tests.applications.common import WORDS, adapt, both_ways, model_case, weights_of
from tests.harness import arguments_act, check_oracle, run_checks, value


def oracle(model, **inputs):
    layers = {layer.name: layer for layer in model.layers}

    words = layers["word_representation"].word_embeddings
    weights = {
        "embeddings": [value(e.embeddings) for e in words],
        "encoder": both_ways(layers["encoding"]),
        "projection": weights_of(layers["projection"]),
        "composition": both_ways(layers["composition"]),
        "dense": [weights_of(layers["hidden"]), weights_of(layers["logits"])],
        "adapt": adapt(model),
    }
    return oracles_hosts.esim(inputs, weights)["probabilities"]


SMALL = partial(ESIM, vocabulary_size=10, embedding_dim=3, units=4)
CASES = [model_case(partial(SMALL, feature_attention="sfa"), WORDS, oracle, "ESIM")]
ATTENDED = partial(SMALL, feature_attention="sfa", placement="attended")

test_checks = run_checks(CASES)

test_attended = run_checks([model_case(ATTENDED, WORDS, oracle, "attended")], check_oracle)

test_arguments = arguments_act(CASES, placement="attended")
