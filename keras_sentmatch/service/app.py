"""The routes of the service: predictions, ranking, explanations, health, metrics, and the page."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import Body, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    FailFast,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic_core import PydanticCustomError
from starlette.exceptions import HTTPException

from keras_sentmatch.display.rendering import content_policy, render_page
from keras_sentmatch.errors import InputError
from keras_sentmatch.inference.base import Array, BaseMatcher
from keras_sentmatch.service.batching import Overloaded, ServedRun
from keras_sentmatch.service.gate import Gate, Limits, Metrics, Refused, as_json, error_body
from keras_sentmatch.version import __version__

SCRIPT = "service.js"
POLICY = f"{content_policy(SCRIPT, asks=True)}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


class Strict(BaseModel):
    """A part of a request. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


def request_models(runs: Sequence[ServedRun], limits: Limits) -> tuple[Any, Any, Any]:
    """Return the types of the bodies of `/predict`, `/rank` and `/explain`."""
    labels = dict.fromkeys(label for run in runs for label in run.matcher.label_names or ())
    names: Any = Literal[tuple(run.name for run in runs)]
    label: Any = Literal[tuple(labels)] | None if labels else None
    name = Field(None, description="Name of the run. Default: the first one.")
    to_run: Any = create_model("ToRun", __base__=Strict, run=(names | None, name))
    sentence: Any = Annotated[str, Field(max_length=limits.characters)]
    size: Any = Field(min_length=1, max_length=limits.pairs)
    flag: Any = Annotated[bool, Field(strict=True)]
    sides: Any = {"sentence1": (sentence, ...), "sentence2": (sentence, ...)}
    pair: Any = create_model("Pair", __base__=Strict, **sides)
    one: Any = create_model("PairToPredict", __base__=to_run, **sides)
    pairs: Any = Annotated[list[pair], FailFast(), size]
    many: Any = create_model("PairsToPredict", __base__=to_run, pairs=(pairs, ...))
    top_k: Any = Annotated[int, Field(ge=1), BeforeValidator(_number)]
    rank: Any = create_model(
        "Rank",
        __base__=to_run,
        query=(sentence, ...),
        candidates=(Annotated[list[sentence], FailFast(), size], ...),
        top_k=(top_k | None, Field(None, description="Candidates to return. Default: all.")),
        label=(label, Field(None, description="Label whose probability is the score.")),
    )
    without: Any = Field(True, description="Also score the pair without each of its words.")
    html: Any = Field(False, description="Add the explanation as HTML.")
    explain: Any = create_model(
        "Explain", __base__=to_run, **sides, erasure=(flag, without), html=(flag, html)
    )
    predict: Any = Annotated[
        Annotated[one, Tag(KINDS[0])] | Annotated[many, Tag(KINDS[1])], Discriminator(_kind)
    ]
    return predict, rank, explain


def takes(model: Any) -> Callable[[Any], Any]:
    """Declare the type of a route's body."""

    def declare(route: Any) -> Any:
        route.__annotations__["asked"] = Annotated[model, Body()]
        return route

    return declare


KINDS = ("one pair", "many pairs")
PAIR = '{"sentence1": "A dog runs.", "sentence2": "A dog moves."}'
JSON_TYPES = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}


def _number(value: Any) -> Any:
    """Refuse what pydantic takes for an integer, although JSON has other types for it."""
    if isinstance(value, bool | str):
        raise PydanticCustomError("int_type", "Input should be a valid integer")
    return value


def _kind(body: Any) -> str:
    return KINDS[isinstance(body, dict) and "pairs" in body]


class Answer(BaseModel):
    """A label with the probabilities of all labels, or a score."""

    label: str | None = None
    probabilities: dict[str, float] | None = None
    abstained: bool | None = Field(None, description="Only for runs that can abstain.")
    score: float | None = None


class OneAnswer(Answer):
    run: str


class ManyAnswers(BaseModel):
    run: str
    answers: list[Answer]


class Match(BaseModel):
    index: int = Field(description="Position among the candidates, from 0.")
    sentence: str
    score: float


class Ranking(BaseModel):
    run: str
    ranking: list[Match]


class Explaining(OneAnswer):
    summary: list[str]
    notes: list[str]
    words: list[list[dict[str, Any]]] = Field(
        description="For each sentence its words: the `text`, the `change` that the word makes to the "
        "probability or score of the answer, and another answer `without` it."
    )
    html: str | None = None


class Problem(BaseModel):
    status: int
    message: str


class Failure(BaseModel):
    """The form of every error."""

    error: Problem


FAILURES: dict[int | str, dict[str, Any]] = {
    401: {"model": Failure, "description": "The key is missing or wrong."},
    408: {"model": Failure, "description": "The request arrived too slowly."},
    413: {"model": Failure, "description": "The body is too large."},
    415: {"model": Failure, "description": "The body is not JSON."},
    422: {"model": Failure, "description": "The request cannot be answered."},
    500: {"model": Failure, "description": "An error of the service itself."},
    503: {"model": Failure, "description": "Too many pairs are waiting, or it takes too long."},
}
CANNOT = {"model": Failure, "description": "The engine of this run cannot explain."}


def make_app(
    runs: Sequence[ServedRun],
    limits: Limits | None = None,
    *,
    keys: Sequence[str] = (),
    metrics: Metrics | None = None,
    examples: Sequence[tuple[str, str]] = (),
    started: Callable[[], None] = lambda: None,
) -> FastAPI:
    """Make the ASGI app that serves runs, the default first.

    Every request except `/health` needs one of the keys, if there are any. The page offers the
    examples. `started` is called when the app starts.
    """
    limits, metrics = limits or Limits(), metrics or Metrics()
    to_predict, to_rank, to_explain = request_models(runs, limits)
    by_name = {run.name: run for run in runs}
    for run in runs:
        metrics.waiting.labels(run.name).set_function(partial(getattr, run, "waiting"))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        started()
        yield

    app = FastAPI(
        title="keras_sentmatch",
        version=__version__,
        description="Answers pairs of sentences.",
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # a redirect would name the host that the client claims
        lifespan=lifespan,
        separate_input_output_schemas=False,
    )

    async def result(run: ServedRun, *job: Any) -> Any:
        answer = run.ask(*job) if len(job) > 1 else run.explain(*job)
        try:
            async with asyncio.timeout(limits.answer_seconds):
                return await answer
        except Overloaded:
            said = "too many pairs are waiting. Try again later."
        except TimeoutError:
            said = (
                f"there was no answer within {limits.answer_seconds:g} seconds. Send fewer pairs, or "
                "try again later."
            )
        except InputError as error:
            raise Refused(422, str(error)) from None
        raise Refused(503, said, retry_after="1")

    reader = TypeAdapter(to_predict)

    async def quick_predict(body: bytes) -> Response | None:
        """Answer a valid request without the ways of FastAPI, which take longer than a prediction."""
        try:
            asked = reader.validate_json(body)
        except ValidationError:
            return None  # FastAPI says what is wrong
        response: Response = await predict(asked)
        return response

    @app.post("/predict", responses={200: {"model": OneAnswer | ManyAnswers}, **FAILURES})
    @takes(to_predict)
    async def predict(asked: Any) -> Response:
        """Predict labels or scores for one pair or many pairs."""
        run = by_name[asked.run or runs[0].name]
        pairs = getattr(asked, "pairs", None)
        first = [pair.sentence1 for pair in pairs or [asked]]
        second = [pair.sentence2 for pair in pairs or [asked]]
        answers = await result(run, _answers, first, second)
        return _json({"run": run.name, **({"answers": answers} if pairs else answers[0])})

    @app.post("/rank", responses={200: {"model": Ranking}, **FAILURES})
    @takes(to_rank)
    async def rank(asked: Any) -> Response:
        """Order candidates by how well they match one sentence, the best first."""
        run, candidates = by_name[asked.run or runs[0].name], asked.candidates

        def ranking(matcher: BaseMatcher, raw: Array) -> list[Any]:
            return list(matcher.best_first(raw, candidates, label=asked.label, top_k=asked.top_k))

        found = await result(run, ranking, [asked.query] * len(candidates), candidates)
        return _json({"run": run.name, "ranking": found})

    @app.post("/explain", responses={200: {"model": Explaining}, 409: CANNOT, **FAILURES})
    @takes(to_explain)
    async def explain(asked: Any) -> Response:
        """Show what the prediction for a pair is based on."""
        run = by_name[asked.run or runs[0].name]
        if not run.explains:
            raise Refused(409, f"{run.name} is served without Keras, which explanations need.")
        return _json({"run": run.name, **await result(run, partial(_explanation, asked))})

    @app.get("/runs", responses=FAILURES)
    async def served() -> Response:
        """List the served runs, the default first."""
        return _json({"runs": [run.facts() for run in runs]})

    @app.get("/health")
    async def health() -> Response:
        """Check whether the service answers; this needs no key."""
        return _json({"status": "ok"})

    @app.get("/metrics", response_class=PlainTextResponse, responses=FAILURES)
    async def measured() -> Response:
        """Return counts and times in Prometheus's format."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        facts = [run.facts() for run in runs]
        html = render_page(
            "service.html",
            "Compare two sentences",
            script_file=SCRIPT,
            asks=True,
            runs=facts,
            examples=examples,
            facts={"runs": facts, "limits": asdict(limits)},
        )
        return Response(
            html.encode("utf-8", "xmlcharrefreplace"),
            media_type="text/html",
            headers={"content-security-policy": POLICY},
        )

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return _failure(422, _first_fault(error.errors()[0]))

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> Response:
        if error.status_code == 400:
            return _failure(422, "the body is not JSON in UTF-8, or is nested too deeply.")
        said = {
            404: f"no such path. Expected one of {', '.join(sorted(paths))}.",
            405: f"the method {request.method} is not allowed here. See /openapi.json.",
        }.get(error.status_code, str(error.detail))
        return _failure(error.status_code, said, error.headers)

    described = app.openapi()["paths"]
    paths = [*described, "/", "/openapi.json"]
    posts = [path for path, methods in described.items() if "post" in methods]
    quick = {"/predict": quick_predict}
    app.add_middleware(
        Gate, limits=limits, keys=keys, metrics=metrics, paths=paths, posts=posts, quick=quick
    )
    return app


def _answers(matcher: BaseMatcher, raw: Array) -> list[Any]:
    return list(matcher.answers(matcher.tempered(raw)))


def _explanation(asked: Any, matcher: BaseMatcher) -> dict[str, Any]:
    from keras_sentmatch.explanations import explain  # another engine does not need what it imports

    pair = {"sentence1": asked.sentence1, "sentence2": asked.sentence2}
    this: Any = matcher  # one of the two classes that `explain` accepts
    found: Any = explain(this, pair, erasure=asked.erasure)
    answer: dict[str, Any] = {"score": found.score}
    if found.label is not None:
        label = None if found.abstained else found.label
        answer = {"label": label, "probabilities": found.probabilities}
        if matcher.abstain_below is not None:
            answer["abstained"] = found.abstained

    def shown(word: Any) -> dict[str, Any]:
        change, without = (word.effect.change, word.effect.answer) if word.effect else (None, None)
        return {"text": word.text, "change": change, "without": without or None}

    words = [[shown(word) for word in found.words(side) if word.text] for side in (1, 2)]
    more = {"html": found.fragment} if asked.html else {}
    lines = found.summary().splitlines()
    return {**answer, "summary": lines, "notes": found.notes, "words": words, **more}


def _json(content: Any) -> Response:
    return Response(as_json(content), media_type="application/json")


def _failure(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    body = as_json(error_body(status, message))
    return Response(body, status, dict(headers or {}), media_type="application/json")


def _first_fault(fault: Mapping[str, Any]) -> str:
    """Describe the fault of a request: `pairs[3].sentence1: input should be a valid string.`"""
    if fault["type"] == "json_invalid":
        return (
            f"the body is not valid JSON: {fault['ctx']['error']} at character {fault['loc'][-1]}."
        )
    place = ""
    for part in (part for part in fault["loc"][1:] if part not in KINDS):
        place += f"[{part}]" if isinstance(part, int) else f".{part:.40}"
    place = place.removeprefix(".") or "the body"
    if fault["type"] == "model_attributes_type":
        wanted = f"such as {PAIR}" if place.startswith("pairs") else "of named fields"
        came = JSON_TYPES.get(type(fault["input"]), "a number")
        return f"{place} is {came}. Expected a JSON object {wanted}."
    message = fault["msg"][:1].lower() + fault["msg"][1:]
    return f"{place}: {message}."
