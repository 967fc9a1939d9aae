"""`GET /receipts/{topic}/{partition}/{offset}`: what has become of an event; with `wait`, once it is settled.

Without `wait` the answer says what is the case now. With `wait=sql` or `wait=lake` it comes when the event
can be seen there, or never will be: 200; or when `timeout` seconds are over: 202, with how far it is.
`table`, once or several times, names the tables that count. Invariant: a client that goes away frees its
place at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from litestar import Request, get
from litestar.params import FromPath
from litestar.types import ASGIApp, ControllerRouterHandler, Receive, Scope, Send

from headrace.core.errors import HeadraceError
from headrace.http.disconnection import while_client_waits
from headrace.query.receipts.receipt import Receipt, parse_receipt, seconds_of
from headrace.query.receipts.settling import LOOK_SECONDS, IsDone, in_lake, in_sql, now
from headrace.query.result_formats import JSON
from headrace.query.result_values import encoded

if TYPE_CHECKING:
    # With it come Arrow and numpy, which the gateway does without.
    from headrace.query.receipts.watching import Receipts

_RETRY_SECONDS: Final = b"1"
_WAITS: Final[dict[str, IsDone]] = {"sql": in_sql, "lake": in_lake}
_PARAMETERS: Final = frozenset({"wait", "timeout", "table"})


def receipt_handlers(receipts: Receipts | None) -> list[ControllerRouterHandler]:
    """The route. `receipts` is None where there is no log."""

    @get("/receipts/{topic:str}/{partition:str}/{offset:str}")
    async def receipt(
        request: Request[Any, Any, Any], topic: FromPath[str], partition: FromPath[str], offset: FromPath[str]
    ) -> ASGIApp:
        if receipts is None:
            raise HeadraceError("query_unavailable", "Nothing can be told of receipts without a log.")
        found = parse_receipt(f"{topic}/{partition}/{offset}")
        return _ReceiptAnswer(receipts, found, _wait_of(request), _tables_of(request), _seconds_of(request))

    return [receipt]


class _ReceiptAnswer:
    """The answer to one request, as an ASGI application: it notices at any time that the client has gone."""

    def __init__(
        self, receipts: Receipts, receipt: Receipt, wait: str, tables: frozenset[str] | None, seconds: float
    ) -> None:
        self._receipts = receipts
        self._receipt = receipt
        self._wait = wait
        self._tables = tables
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        await while_client_waits(self._answer(send), receive)

    async def _answer(self, send: Send) -> None:
        is_done = _WAITS.get(self._wait, now)
        headers: list[tuple[bytes, bytes]] = []
        try:
            (trace,) = await self._receipts.traces(
                [self._receipt],
                is_done,
                seconds=self._seconds if self._wait else LOOK_SECONDS,
                tables=self._tables,
            )
            status = 200 if not self._wait or is_done(trace) else 202
            body = encoded(trace.as_json())
        except HeadraceError as error:
            status, body = error.http_status, encoded(error.as_json())
            if error.code == "too_many_waiting":
                headers.append((b"retry-after", _RETRY_SECONDS))
        headers += [(b"content-type", JSON.encode()), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})


def _wait_of(request: Request[Any, Any, Any]) -> str:
    unknown = [name for name in request.query_params if name not in _PARAMETERS]
    if unknown:
        raise HeadraceError(
            "bad_request",
            f"There is no parameter `{unknown[0][:100]}`.",
            remedy="The parameters are `wait`, `timeout` and `table`.",
        )
    wait = str(request.query_params.get("wait", ""))
    if wait and wait not in _WAITS:
        raise HeadraceError(
            "bad_request",
            f"`wait={wait[:100]}` is not possible.",
            remedy="Use `wait=sql` or `wait=lake`, or leave it out.",
        )
    return wait


def _tables_of(request: Request[Any, Any, Any]) -> frozenset[str] | None:
    names = request.query_params.getall("table", [])
    return frozenset(str(name).casefold() for name in names) or None


def _seconds_of(request: Request[Any, Any, Any]) -> float:
    return seconds_of(request.query_params.get("timeout"), "timeout")
