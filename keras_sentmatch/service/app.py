"""The routes of the service: predictions, ranking, explanations, health, metrics, and the page."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any

from fastapi import Body, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, FailFast, Field
from starlette.exceptions import HTTPException

from keras_sentmatch.display.rendering import content_policy, render_page
from keras_sentmatch.errors import InputError
from keras_sentmatch.explanations import explain as explain_pairs
from keras_sentmatch.inference.base import Array, BaseMatcher, best_first
from keras_sentmatch.service.batching import Job, Overloaded, ServedRun
from keras_sentmatch.service.gate import Gate, Limits, Metrics, Refused, as_json, error_body
from keras_sentmatch.version import __version__

SCRIPT = "service.js"
POLICY = f"{content_policy(SCRIPT, asks=True)}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
RUN = Field(None, description="The name of the run. Default: the first one that is served.")


class Strict(BaseModel):
    """A part of a request. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class Pair(Strict):
    """Two sentences."""

    sentence1: str
    sentence2: str


class Asked(Strict):
    """One pair (`sentence1` and `sentence2`), or many (`pairs`)."""

    sentence1: str | None = None
    sentence2: str | None = None
    pairs: Annotated[list[Pair], FailFast()] = []
    run: str | None = RUN


class Ranked(Strict):
    """One sentence, and the sentences to order by how well they match it."""

    query: str
    candidates: Annotated[list[str], FailFast()]
    top_k: int | None = Field(
        None, ge=1, description="Number of candidates to return. Default: all."
    )
    label: str | None = Field(
        None, description="The label whose probability is the score; required for more than two."
    )
    run: str | None = RUN


class Explained(Pair):
    """A pair whose prediction is explained."""

    erasure: bool = Field(True, description="Also score the pair without each of its words.")
    html: bool = Field(False, description="Add the explanation as HTML.")
    run: str | None = RUN


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


class Word(BaseModel):
    text: str
    change: float | None = Field(
        description="How much the word adds to the probability or score of the answer."
    )
    without: str | None = Field(description="The answer without the word, if it is different.")


class Explaining(Answer):
    run: str
    summary: list[str]
    notes: list[str]
    words: list[list[Word]]
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
    503: {
        "model": Failure,
        "description": "Too many pairs are waiting, or the answer takes too long.",
    },
}


def make_app(
    runs: Sequence[ServedRun],
    limits: Limits | None = None,
    *,
    keys: Sequence[str] = (),
    metrics: Metrics | None = None,
    examples: Sequence[tuple[str, str]] = (),
    started: Callable[[], None] = lambda: None,
) -> FastAPI:
    """Make the ASGI app that serves runs.

    Args:
        runs: The runs, the default first. They are closed when the app ends.
        limits: Limits of a request.
        keys: Keys; every request except `/health` needs one of them unless there are none.
        metrics: Counters of batches and requests.
        examples: Pairs that the page offers.
        started: Function that is called when the app starts.
    """
    limits, metrics = limits or Limits(), metrics or Metrics()
    by_name = {run.name: run for run in runs}
    for run in runs:
        metrics.waiting.labels(run.name).set_function(partial(getattr, run.batcher, "waiting"))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        started()
        yield
        for run in runs:
            await asyncio.to_thread(run.batcher.close)

    app = FastAPI(
        title="keras_sentmatch",
        version=__version__,
        description="Answers pairs of sentences.",
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        separate_input_output_schemas=False,
    )

    def chosen(name: str | None) -> ServedRun:
        if name is None:
            return runs[0]
        if name not in by_name:
            raise Refused(
                422, f"run: no run is named {name!r:.60}. Expected one of {', '.join(by_name)}."
            )
        return by_name[name]

    def checked(place: str, sentences: Sequence[str]) -> None:
        for number, sentence in enumerate(sentences):
            if not _is_text(sentence):
                raise Refused(
                    422,
                    f"{place.format(number)} has half a character (a surrogate). Send valid Unicode.",
                )
            if len(sentence) > limits.characters:
                raise Refused(
                    422,
                    f"{place.format(number)} has {len(sentence):,} characters. Expected at most "
                    f"{limits.characters:,}.",
                )

    def counted(name: str, count: int) -> None:
        if not 0 < count <= limits.pairs:
            raise Refused(422, f"{name} has {count:,} entries. Expected 1 to {limits.pairs:,}.")

    async def result(run: ServedRun, job: Job) -> Any:
        try:
            return await asyncio.wait_for(
                asyncio.wrap_future(run.batcher.submit(job)), limits.answer_seconds
            )
        except Overloaded:
            raise Refused(
                503, "too many pairs are waiting. Try again later.", retry_after="1"
            ) from None
        except TimeoutError:
            raise Refused(
                503,
                f"there was no answer within {limits.answer_seconds:g} seconds. Send fewer pairs, or "
                "try again later.",
                retry_after="1",
            ) from None
        except InputError as error:
            raise Refused(422, str(error)) from None

    @app.post("/predict", responses={200: {"model": OneAnswer | ManyAnswers}, **FAILURES})
    async def predict(asked: Annotated[Asked, Body()]) -> Response:
        """Predict labels or scores for one pair or many pairs."""
        run = chosen(asked.run)
        many = "pairs" in asked.model_fields_set
        if many and asked.sentence1 is None and asked.sentence2 is None:
            counted("pairs", len(asked.pairs))
            first = [pair.sentence1 for pair in asked.pairs]
            second = [pair.sentence2 for pair in asked.pairs]
            checked("pairs[{}].sentence1", first)
            checked("pairs[{}].sentence2", second)
            answers = await result(run, Job(_answers, first, second))
            return _json({"run": run.name, "answers": answers})
        if many or asked.sentence1 is None or asked.sentence2 is None:
            raise Refused(422, "expected either sentence1 and sentence2, or pairs.")
        checked("sentence1", [asked.sentence1])
        checked("sentence2", [asked.sentence2])
        (answer,) = await result(run, Job(_answers, [asked.sentence1], [asked.sentence2]))
        return _json({"run": run.name, **answer})

    @app.post("/rank", responses={200: {"model": Ranking}, **FAILURES})
    async def rank(asked: Annotated[Ranked, Body()]) -> Response:
        """Order candidates by how well they match one sentence, the best first."""
        run, candidates = chosen(asked.run), asked.candidates
        counted("candidates", len(candidates))
        checked("query", [asked.query])
        checked("candidates[{}]", candidates)

        def ranking(matcher: BaseMatcher, scores: Array) -> list[Any]:
            column = matcher.score_column(asked.label)
            scores = scores if column is None else scores[:, column]
            return best_first(scores, candidates, asked.top_k)

        found = await result(run, Job(ranking, [asked.query] * len(candidates), candidates))
        return _json({"run": run.name, "ranking": found})

    @app.post("/explain", responses={200: {"model": Explaining}, **FAILURES})
    async def explain(asked: Annotated[Explained, Body()]) -> Response:
        """Show what the prediction for a pair is based on."""
        run = chosen(asked.run)
        checked("sentence1", [asked.sentence1])
        checked("sentence2", [asked.sentence2])
        if run.engine != "keras":
            raise Refused(
                422, f"{run.name} runs in {run.engine}, which cannot explain. Serve it with Keras."
            )

        def explaining(matcher: BaseMatcher, scores: Array) -> dict[str, Any]:
            return _explanation(matcher, asked)

        return _json({"run": run.name, **await result(run, Job(explaining))})

    @app.get("/runs", responses=FAILURES)
    async def served() -> Response:
        """List the served runs, the default first."""
        return _json({"runs": [run.facts() for run in runs]})

    @app.get("/health", responses={503: FAILURES[503]})
    async def health() -> Response:
        """Check whether the service answers; this needs no key."""
        if not all(run.batcher.alive for run in runs):
            raise Refused(503, "the thread that answers has ended. Start the service again.")
        return _json({"status": "ok"})

    @app.get("/metrics", responses=FAILURES)
    async def measured() -> Response:
        """Return counts and times in Prometheus's format."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        html = draw_page([run.facts() for run in runs], limits, examples)
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
        known = ", ".join(sorted(paths))
        said = {
            404: f"no such path. Expected one of {known}.",
            405: f"the method {request.method} is not allowed here. See /openapi.json.",
        }
        return _failure(
            error.status_code, said.get(error.status_code, str(error.detail)), error.headers
        )

    paths = [*app.openapi()["paths"], "/", "/openapi.json"]
    app.add_middleware(Gate, limits=limits, keys=keys, metrics=metrics, paths=paths)
    return app


def draw_page(
    runs: Sequence[dict[str, Any]], limits: Limits, examples: Sequence[tuple[str, str]] = ()
) -> str:
    """Return the page at `/` for runs, given by their facts, with pairs to try."""
    return render_page(
        "service.html",
        "Compare two sentences",
        script_file=SCRIPT,
        asks=True,
        runs=runs,
        examples=examples,
        facts={"runs": runs, "limits": asdict(limits)},
    )


def _answers(matcher: BaseMatcher, scores: Array) -> list[Any]:
    return list(matcher.answers(scores))


def _explanation(matcher: BaseMatcher, asked: Explained) -> dict[str, Any]:
    pair = {"sentence1": asked.sentence1, "sentence2": asked.sentence2}
    this: Any = matcher  # one of the two classes that `explain` accepts
    found: Any = explain_pairs(this, pair, erasure=asked.erasure)
    answer: dict[str, Any] = {"score": found.score}
    if found.label is not None:
        label = None if found.abstained else found.label
        answer = {"label": label, "probabilities": found.probabilities}
        if matcher.abstain_below is not None:
            answer["abstained"] = found.abstained
    words = [
        [
            {
                "text": word.text,
                "change": word.effect and word.effect.change,
                "without": (word.effect and word.effect.answer) or None,
            }
            for word in found.words(side)
            if word.text
        ]
        for side in (1, 2)
    ]
    more = {"html": found.fragment} if asked.html else {}
    lines = found.summary().splitlines()
    return {**answer, "summary": lines, "notes": found.notes, "words": words, **more}


def _is_text(sentence: str) -> bool:
    try:
        sentence.encode()
    except UnicodeEncodeError:
        return False
    return True


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
    for part in fault["loc"][1:]:
        place += f"[{part}]" if isinstance(part, int) else f".{part:.40}"
    message = fault["msg"][:1].lower() + fault["msg"][1:]
    return f"{place.removeprefix('.') or 'the body'}: {message}."
