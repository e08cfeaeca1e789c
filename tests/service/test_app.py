"""The routes, without a port: answers, limits, keys, errors in one form, metrics."""

import base64
import json
import re
import time

import pytest
from fastapi.testclient import TestClient

from keras_sentmatch import explain
from keras_sentmatch.errors import InputError
from keras_sentmatch.service.app import make_app
from keras_sentmatch.service.gate import Limits, Metrics
from tests.service.stub import Stub, served, share_of
from tests.toys.matchers import make

JSON = {"content-type": "application/json"}
PAIR = {"sentence1": "abc", "sentence2": "a"}
LIMITS = Limits(body_bytes=5000, pairs=4, characters=50, read_seconds=1, answer_seconds=0.5)


@pytest.fixture
def client():
    with client_of([served(Stub())]) as found:
        yield found


def client_of(runs, limits=LIMITS, **options):
    return TestClient(make_app(runs, limits, **options), raise_server_exceptions=False)


def failure(response, status):
    """The message of an error, which has the one form."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    (error,) = response.json().values()
    assert error.keys() == {"status", "message"} and error["status"] == status
    return error["message"]


def test_one_pair_and_many(client):
    one = client.post("/predict", json=PAIR).json()
    assert one == {"run": "stub", "label": "no", "probabilities": pytest.approx(shares("abc", "a"))}
    pairs = [PAIR, {"sentence1": "", "sentence2": "字🐕"}]
    many = client.post("/predict", json={"pairs": pairs, "run": "stub"}).json()
    assert [a["label"] for a in many["answers"]] == ["no", "yes"]
    assert many["answers"][1]["probabilities"] == pytest.approx(shares("", "字🐕"))


def shares(one, two):
    return {"no": share_of(one, two), "yes": 1 - share_of(one, two)}


def test_candidates_in_order(client):
    asked = {"query": "abc", "candidates": ["abcdef", "", "abc"]}
    found = client.post("/rank", json=asked).json()["ranking"]
    assert [match["index"] for match in found] == [0, 2, 1]
    assert found[0]["sentence"] == "abcdef" and found[0]["score"] == pytest.approx(7 / 11)
    found = client.post("/rank", json={**asked, "label": "no", "top_k": 1}).json()["ranking"]
    assert [match["index"] for match in found] == [1]
    for bad, said in (
        ({"label": "x"}, "label: input should be 'no' or 'yes'"),
        ({"top_k": True}, "top_k: input should be a valid integer"),
        ({"top_k": 0}, "top_k: input should be greater"),
        ({"candidates": []}, "candidates: list should have at least 1"),
    ):
        assert said in failure(client.post("/rank", json={**asked, **bad}), 422)


def test_scores_and_several_runs():
    runs = [served(Stub(), "first"), served(Stub(None), "second")]
    with client_of(runs) as client:
        assert client.post("/predict", json=PAIR).json()["run"] == "first"
        answer = client.post("/predict", json={**PAIR, "run": "second"}).json()
        assert answer == {"run": "second", "score": pytest.approx(4 / 6)}
        asked = {"query": "a", "candidates": ["ab", ""], "run": "second"}
        found = client.post("/rank", json=asked).json()["ranking"]
        assert [match["index"] for match in found] == [1, 0]
        message = failure(client.post("/predict", json={**PAIR, "run": "third"}), 422)
        assert message == "run: input should be 'first' or 'second'."
        facts = client.get("/runs").json()["runs"]
    assert [(run["name"], run["task"], run["labels"]) for run in facts] == [
        ("first", "classification", ["no", "yes"]),
        ("second", "regression", None),
    ]


UNANSWERABLE = [
    ({}, "sentence1: field required"),
    ({"sentence1": "a"}, "sentence2: field required"),
    ({**PAIR, "pairs": [PAIR]}, "sentence1: extra inputs are not permitted"),
    ({"sentence1": 7, "sentence2": "a"}, "sentence1: input should be a valid string"),
    ({"pairs": [PAIR, {**PAIR, "sentence2": None}]}, "pairs[1].sentence2: input"),
    ({"pairs": [["a", "b"]]}, 'pairs[0] is an array. Expected a JSON object such as {"sentence1"'),
    ({"pairs": [PAIR, 1.5]}, "pairs[1] is a number"),
    ({"pairs": "ab"}, "pairs: input"),
    ({"pairs": []}, "pairs: list should have at least 1 item"),
    ({"pairs": [PAIR] * 5}, "pairs: list should have at most 4 items"),
    ({"pairs": [PAIR, {**PAIR, "sentence1": "a" * 51}]}, "pairs[1].sentence1: string should"),
    ({**PAIR, "sentence2": "\ud800"}, "sentence2: input should be a valid string"),
    ({**PAIR, "sentnce": "a"}, "sentnce: extra inputs are not permitted"),
    ([PAIR], "the body is an array. Expected a JSON object of named fields"),
    (None, "the body is null"),
    (b"", "the body: field required"),
    (b"{", "the body is not valid JSON"),
    (b'{"sentence1": "\xff"}', "not JSON in UTF-8"),
    (b"[" * 4000, "nested too deeply"),
]


def test_what_cannot_be_answered(client):
    for body, said in UNANSWERABLE:
        content = body if isinstance(body, bytes) else json.dumps(body)
        assert said in failure(client.post("/predict", content=content, headers=JSON), 422)


def test_a_body_of_wrong_entries_is_left_at_the_first():
    start = time.perf_counter()
    with client_of([served(Stub())], Limits()) as client:
        body = b'{"pairs":[' + b"0," * 500_000 + b"0]}"
        assert "pairs[0]" in failure(client.post("/predict", content=body, headers=JSON), 422)
    assert time.perf_counter() - start < 10


def test_too_large_another_type_another_path(client):
    message = failure(client.post("/predict", content=b"x" * 5001, headers=JSON), 413)
    assert "at most 5,000 bytes" in message
    parts = (b"x" * 1000 for _ in range(8))
    assert failure(client.post("/predict", content=parts, headers=JSON), 413) == message
    assert "application/json" in failure(client.post("/predict", data={"sentence1": "a"}), 415)
    assert "/predict" in failure(client.get("/nothing"), 404)
    assert "GET" in failure(client.get("/predict"), 405)
    assert "POST" in failure(client.post("/health", content=b"x"), 405)
    assert "/health" in failure(client.get("/health/", follow_redirects=False), 404)


def test_a_failure_says_nothing_of_the_machine(client, caplog):
    message = failure(client.post("/predict", json={**PAIR, "sentence1": "bug"}), 500)
    assert "secret" not in message and "a secret of the machine" in caplog.text
    assert "poisoned" in failure(client.post("/predict", json={**PAIR, "sentence1": "poison"}), 422)
    assert client.post("/predict", json=PAIR).status_code == 200


def test_what_takes_too_long_and_what_is_too_much():
    matcher = Stub()
    run = served(matcher, most_waiting=3)
    with client_of([run]) as client:
        matcher.gate.clear()
        for _ in range(5):  # what was given up makes room
            response = client.post("/predict", json=PAIR)
            assert "within 0.5 seconds" in failure(response, 503)
        assert response.headers["retry-after"] == "1"
        large = client.post("/predict", json={"pairs": [PAIR] * 4})
        assert "too many pairs are waiting" in failure(large, 503)
        matcher.gate.set()
        assert client.get("/health").json() == {"status": "ok"}
        end = time.monotonic() + 20
        while client.post("/predict", json=PAIR).status_code != 200:
            assert time.monotonic() < end


def test_keys():
    with client_of([served(Stub())], keys=["secret", "other"]) as client:
        basic = base64.b64encode(b"anybody:other").decode()
        for good in ("Bearer secret", "bearer other", f"Basic {basic}"):
            response = client.post("/predict", json=PAIR, headers={"authorization": good})
            assert response.status_code == 200, good
        wrong = (
            "secret|Bearer|Bearer secret-|Bearer other-secret|Basic %|Basic c2VjcmV0|Digest secret"
        )
        for bad in (None, "", *wrong.split("|")):
            headers = {} if bad is None else {"authorization": bad}
            response = client.post("/predict", json=PAIR, headers=headers)
            failure(response, 401)
            assert response.headers["www-authenticate"].startswith("Basic")
        for path in ("/", "/runs", "/metrics", "/openapi.json", "/nothing"):
            assert client.get(path).status_code == 401, path
        assert client.get("/health").status_code == 200


def test_metrics_count_requests_and_batches():
    metrics = Metrics()
    run = served(Stub(), observe=lambda *figures: metrics.batch("stub", *figures))
    with client_of([run], metrics=metrics) as client:
        client.post("/predict", json={"pairs": [PAIR] * 3})
        client.post("/predict", json={})
        client.get("/a/made/up/path")
        response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = dict(re.findall(r"^(\w+(?:{.*?})?) (\S+)$", response.text, re.MULTILINE))
    for name, value in {
        'sentmatch_requests_total{path="/predict",status="200"}': 1,
        'sentmatch_requests_total{path="/predict",status="422"}': 1,
        'sentmatch_requests_total{path="other",status="404"}': 1,
        'sentmatch_pairs_total{run="stub"}': 3,
        'sentmatch_batch_pairs_bucket{le="2.0",run="stub"}': 0,
        'sentmatch_batch_pairs_bucket{le="4.0",run="stub"}': 1,
        'sentmatch_waiting_pairs{run="stub"}': 0,
    }.items():
        assert float(lines[name]) == value, name


def test_an_explanation(monkeypatch):
    matcher = make("re2")
    run = served(matcher)
    with client_of([run], Limits(answer_seconds=300)) as client:
        asked = {"sentence1": "A dog runs.", "sentence2": "no small <i>cat"}
        found = client.post("/explain", json=asked).json()
        want = explain(matcher, asked)
        assert found["label"] == want.label and found["summary"] == want.summary().splitlines()
        assert [[word["text"] for word in side] for side in found["words"]] == [
            [effect.word for effect in want.effects if effect.side == side] for side in (1, 2)
        ]
        assert found["words"][0][1]["change"] == pytest.approx(want.effects[1].change, abs=1e-5)
        assert "html" not in found
        html = client.post("/explain", json={**asked, "html": True}).json()["html"]
        assert "Word by word" in html and "<html" not in html and "<i>cat" not in html
        monkeypatch.setattr(matcher, "abstain_below", (1.0,) * len(matcher.label_names))
        unsure = client.post("/explain", json={**asked, "html": True}).json()
        assert unsure["label"] is None and unsure["abstained"] is True
        assert unsure["probabilities"] == found["probabilities"]
        assert "The matcher abstains" in unsure["html"]
        assert "abstained" not in found or found["abstained"] is None
        bare = client.post("/explain", json={**asked, "erasure": False}).json()
        assert {word["change"] for side in bare["words"] for word in side} == {None}


def test_a_run_that_explains_nothing():
    with client_of([served(Stub())]) as client:
        assert "served without Keras" in failure(client.post("/explain", json=PAIR), 409)
        assert client.get("/runs").json()["runs"][0]["explains"] is False


def test_a_run_is_served_only_if_it_answers():
    broken = Stub()
    broken.raw_scores = lambda *_: 1 / 0
    with pytest.raises(InputError, match="does not answer test pairs"):
        served(broken)


def test_the_page_loads_nothing_from_elsewhere_and_shows_labels_as_text():
    label = "<script>alert(1)</script>"
    with client_of([served(Stub((label, "yes")), "</script><b>run")]) as client:
        response = client.get("/")
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy
    assert (
        "unsafe-eval" not in policy and "'unsafe-inline'" not in policy.partition("script-src")[2]
    )
    assert label not in response.text and "</script><b>" not in response.text
    outside = re.findall(
        r"(?:src|href|action)=[\"'\w/:.]+|url\(|@import|https?://[\w./]+", response.text
    )
    assert set(outside) == {
        'href="openapi.json"', 'href="metrics"',
    }  # fmt: skip
