"""An ASGI app that answers pairs with an exported SavedModel. Needs tensorflow, starlette, uvicorn.

SAVED_MODEL=exported/mine uvicorn --app-dir docs/serving app:app --port 8000
"""

import os
from typing import Any

import tensorflow as tf
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

MOST_PAIRS = 1024
MODEL = tf.saved_model.load(os.environ["SAVED_MODEL"])
SERVE = MODEL.signatures["serving_default"]


def columns(body: Any) -> list[tf.Tensor]:
    """The two columns of sentences; a ValueError says what is wrong with them."""
    sides = [
        body.get(name) if isinstance(body, dict) else None for name in ("sentence1", "sentence2")
    ]
    for side in sides:
        if not isinstance(side, list) or not all(isinstance(text, str) for text in side):
            raise ValueError("expected sentence1 and sentence2, two lists of strings")
    if not len(sides[0]) == len(sides[1]) <= MOST_PAIRS:
        raise ValueError(f"expected as many of both, at most {MOST_PAIRS}")
    return [tf.constant([text.encode("utf-8") for text in side], tf.string) for side in sides]


def answers(first: tf.Tensor, second: tf.Tensor) -> list[dict[str, Any]]:
    found = {name: x.numpy() for name, x in SERVE(sentence1=first, sentence2=second).items()}
    if "score" in found:
        return [{"score": score} for score in found["score"].tolist()]
    names = [name.decode() for name in found["label_names"].tolist()]
    rows = zip(found["label"].tolist(), found["probabilities"].tolist())
    return [{"label": label.decode(), "probabilities": dict(zip(names, p))} for label, p in rows]


async def predict(request: Request) -> JSONResponse:
    try:
        first, second = columns(await request.json())
    except ValueError as error:  # no JSON, no UTF-8, or what columns said
        return JSONResponse({"error": str(error)}, status_code=400)
    # TensorFlow runs a function in many threads at once; here none of them holds up the server.
    return JSONResponse(await run_in_threadpool(answers, first, second))


app = Starlette(routes=[Route("/predict", predict, methods=["POST"])])
