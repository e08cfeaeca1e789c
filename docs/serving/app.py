"""An ASGI app that answers pairs with an exported SavedModel. Needs TensorFlow and uvicorn.

SAVED_MODEL=exported/mine uvicorn --app-dir docs/serving app:app --port 8000
"""

import asyncio
import json
import os
from typing import Any

import tensorflow as tf

MOST_PAIRS = 1024
MOST_BYTES = 8 << 20
MODEL = tf.saved_model.load(os.environ["SAVED_MODEL"])
SERVE = MODEL.signatures["serving_default"]


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    status, answer = await respond(scope, receive)
    body = json.dumps(answer).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def respond(scope: dict[str, Any], receive: Any) -> tuple[int, Any]:
    """The status and the answer to a request."""
    if (scope["method"], scope["path"]) != ("POST", "/predict"):
        return 404, {"error": "expected POST /predict"}
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MOST_BYTES:
            return 413, {"error": f"expected at most {MOST_BYTES} bytes"}
    try:  # in a thread, where neither parsing nor TensorFlow holds up the server
        return 200, await asyncio.to_thread(answers, body)
    except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, or what columns said
        return 400, {"error": str(error)}


def answers(body: bytes) -> list[dict[str, Any]]:
    """The answers to the pairs of a request."""
    first, second = columns(json.loads(body))
    found = {name: x.numpy() for name, x in SERVE(sentence1=first, sentence2=second).items()}
    if "score" in found:
        return [{"score": score} for score in found["score"].tolist()]
    names = [name.decode() for name in found["label_names"].tolist()]
    rows = zip(found["label"].tolist(), found["probabilities"].tolist())
    return [{"label": label.decode(), "probabilities": dict(zip(names, p))} for label, p in rows]


def columns(request: Any) -> list[tf.Tensor]:
    """The two columns of sentences; a ValueError says what is wrong with them."""
    names = ("sentence1", "sentence2")
    sides = [request.get(name) if isinstance(request, dict) else None for name in names]
    for side in sides:
        if not isinstance(side, list) or not all(isinstance(text, str) for text in side):
            raise ValueError("expected sentence1 and sentence2, two lists of strings")
    if not len(sides[0]) == len(sides[1]) <= MOST_PAIRS:
        raise ValueError(f"expected as many of both, at most {MOST_PAIRS}")
    return [tf.constant([text.encode("utf-8") for text in side], tf.string) for side in sides]
