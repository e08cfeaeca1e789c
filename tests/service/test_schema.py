"""The service keeps to its own schema, whatever it is sent: schemathesis."""

import pytest

from keras_sentmatch.service.app import make_app
from keras_sentmatch.service.gate import Limits
from tests.service.stub import Stub, served

schemathesis = pytest.importorskip("schemathesis")
hypothesis = pytest.importorskip("hypothesis")
LIMITS = Limits(pairs=4, characters=50)
schema = schemathesis.openapi.from_asgi("/openapi.json", make_app([served(Stub())], LIMITS))


@schema.parametrize()
@hypothesis.settings(max_examples=40, deadline=None)
def test_every_route_keeps_to_the_schema(case):
    case.call_and_validate()
