"""`POST /sql` and `DELETE /sql/{id}` in front of a desk: the answer is streamed as the worker gives it.

The body is `{"query": "SELECT …"}` as JSON, with `parameters`, `freshness`, `rollups`, `after`,
`after_seconds`, `engine` and `id` if wanted, or the SQL itself as text; `after`, `after_seconds` and `engine`
may be in the address, too. Invariants: an error before the first byte has the common JSON error format; after
it, the connection is closed before the answer is complete, so no client takes a part for the whole; a client
that goes away ends its question. Nothing here takes long: the worker has encoded what passes through.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import msgspec
from litestar import Request, Response, delete, get, post
from litestar.params import FromPath, RawBody
from litestar.types import ASGIApp, ControllerRouterHandler, Receive, Scope, Send

from headrace.core.errors import HeadraceError
from headrace.http.disconnection import while_client_waits
from headrace.query.questions import DUCKDB, LIVE, ON, SPARK, Question, new_question_id
from headrace.query.receipts.receipt import After, receipts_of, seconds_of
from headrace.query.result_formats import CSV, JSON, MEDIA_TYPES, NDJSON
from headrace.query.result_values import encoded

if TYPE_CHECKING:
    # The gateway passes questions on, and does without what answers them.
    from headrace.query.desk import Answer, Desk
    from headrace.query.spark.desk import SparkDesk

MOST_BODY_BYTES: Final = 2 * 1024 * 1024
# The id of a question: a client may choose it, and finds it in the answer.
QUESTION_HEADER: Final = "Headrace-Question"
_RETRY_SECONDS: Final = b"1"

# The content type that curl sends by default with --data is read as plain SQL.
_TEXT_TYPES: Final = frozenset({"", "application/sql", "application/x-www-form-urlencoded", "text/plain"})
_WITH_CHARSET: Final = frozenset({CSV, NDJSON})
_REMEDY: Final = 'Send {"query": "SELECT …"} as application/json, or the SQL as text/plain.'

_log = logging.getLogger(__name__)


class _SqlRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON body of `POST /sql`."""

    query: str
    parameters: list[Any] = []
    freshness: str = LIVE
    rollups: str = ON
    after: Any = None
    after_seconds: float | None = None
    id: str = ""
    engine: str = ""


class SqlDesks:
    """Who answers: DuckDB at the desk, or Spark, if this process can ask it."""

    def __init__(self, desk: Desk, spark: SparkDesk | None = None) -> None:
        self._desk = desk
        self._spark = spark

    def chosen(self, engine: str) -> Desk | SparkDesk:
        """Raises bad_request."""
        if engine in ("", DUCKDB):
            return self._desk
        if engine == SPARK and self._spark is not None:
            return self._spark
        raise HeadraceError(
            "bad_request",
            f"There is no engine `{engine[:100]}` here.",
            remedy=f"Use `{DUCKDB}`, the default{f', or `{SPARK}`' if self._spark is not None else ''}.",
        )

    def cancel(self, question_id: str) -> bool:
        at_spark = self._spark is not None and self._spark.cancel(question_id)
        return self._desk.cancel(question_id) or at_spark

    def state(self, question_id: str) -> str | None:
        at_spark = self._spark.state(question_id) if self._spark is not None else None
        return at_spark or self._desk.state(question_id)


def sql_handlers(desk: Desk, spark: SparkDesk | None = None) -> list[ControllerRouterHandler]:
    """The routes, for an application that also has others."""
    desks = SqlDesks(desk, spark)

    @post("/sql", status_code=200, request_max_body_size=MOST_BODY_BYTES)
    async def sql(request: Request[Any, Any, Any], body: RawBody) -> ASGIApp:
        media_type = request.accept.best_match(list(MEDIA_TYPES), default=JSON) or JSON
        question, engine = asked_question(request, body, media_type)
        return SqlAnswer(desks.chosen(engine), question, media_type)

    @delete("/sql/{question_id:str}", status_code=200)
    async def cancel(question_id: FromPath[str]) -> Response[bytes]:
        if not desks.cancel(question_id):
            raise _not_found(question_id)
        return Response(encoded({"cancelled": question_id}), media_type=JSON)

    @get("/sql/{question_id:str}")
    async def state(question_id: FromPath[str]) -> Response[bytes]:
        found = desks.state(question_id)
        if found is None:
            raise _not_found(question_id)
        return Response(encoded({"question": question_id, "state": found}), media_type=JSON)

    return [sql, cancel, state]


def _not_found(question_id: str) -> HeadraceError:
    return HeadraceError(
        "question_not_found",
        f"No question with the id {question_id[:128]} is being answered.",
        remedy=f"The header {QUESTION_HEADER} of an answer, or of its request, has the id.",
    )


def asked_question(request: Request[Any, Any, Any], body: bytes, answer_format: str) -> tuple[Question, str]:
    """The question in a request, and the engine it is for. Raises bad_request and unsupported_media_type."""
    content_type = request.content_type[0].lower()
    try:
        if content_type == JSON:
            asked = msgspec.json.decode(body, type=_SqlRequest)
        elif content_type in _TEXT_TYPES:
            asked = _SqlRequest(query=body.decode("utf-8"))
        else:
            raise HeadraceError(
                "unsupported_media_type",
                f"Content type {content_type[:200]} is not supported here.",
                remedy=_REMEDY,
            )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HeadraceError(
            "bad_request", f"Cannot read the request body: {error}.", remedy=_REMEDY
        ) from error
    chosen = asked.id or request.headers.get(QUESTION_HEADER, "")
    engine = asked.engine or str(request.query_params.get("engine", ""))
    question = Question(
        sql=asked.query,
        parameters=tuple(asked.parameters),
        answer_format=answer_format,
        freshness=asked.freshness,
        rollups=asked.rollups,
        after=_after(request, asked),
        question_id=chosen or new_question_id(),
    )
    return question, engine


def _after(request: Request[Any, Any, Any], asked: _SqlRequest) -> After:
    given = request.query_params
    seconds = given.get("after_seconds") if asked.after_seconds is None else asked.after_seconds
    return After(
        receipts=receipts_of([asked.after, *given.getall("after", [])]),
        seconds=seconds_of(seconds, "after_seconds"),
    )


class SqlAnswer:
    """The answer to one request, as an ASGI application: it notices at any time that the client has gone."""

    def __init__(self, desk: Desk | SparkDesk, question: Question, media_type: str) -> None:
        self._desk = desk
        self._question = question
        self._media_type = media_type

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        await while_client_waits(self._answer(send), receive)

    async def _answer(self, send: Send) -> None:
        try:
            answer = await self._desk.ask(self._question)
        except HeadraceError as error:
            await self._refuse(error, send)
            return
        except Exception as error:
            _log.error("POST /sql failed.", exc_info=error)
            await self._refuse(
                HeadraceError(
                    "process_failed",
                    "Answering the request failed.",
                    remedy="See the log file of the query process.",
                ),
                send,
            )
            return
        try:
            await self._send(answer, send)
        finally:
            answer.close()

    async def _send(self, answer: Answer, send: Send) -> None:
        media_type = self._media_type
        if media_type in _WITH_CHARSET:
            media_type += "; charset=utf-8"
        await send(self._start(200, media_type, []))
        # Raises on failure: the server then closes the connection without the end of the body.
        async for part in answer.parts():
            await send({"type": "http.response.body", "body": bytes(part), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _refuse(self, error: HeadraceError, send: Send) -> None:
        body = encoded(error.as_json())
        headers = [(b"content-length", b"%d" % len(body))]
        if error.code in ("too_many_questions", "too_many_waiting"):
            headers.append((b"retry-after", _RETRY_SECONDS))
        await send(self._start(error.http_status, JSON, headers))
        await send({"type": "http.response.body", "body": body, "more_body": False})

    def _start(self, status: int, media_type: str, headers: list[tuple[bytes, bytes]]) -> Any:
        common = [
            (b"content-type", media_type.encode()),
            (QUESTION_HEADER.lower().encode(), self._question.question_id.encode()),
        ]
        return {"type": "http.response.start", "status": status, "headers": [*common, *headers]}
