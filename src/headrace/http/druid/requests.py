"""Requests of Druid's SQL API: the statement, how its answer is wanted, its context and its parameters."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote_plus

import msgspec

from headrace.core.errors import HeadraceError
from headrace.http.admission import FORM
from headrace.http.druid.answers import JSON
from headrace.query.druid.calls import Context
from headrace.query.druid.parameters import Parameter
from headrace.query.druid.results import MEDIA_TYPES, Wanted
from headrace.query.druid.translating import Statement, read
from headrace.query.druid.zones import UTC_ZONE, zone_of
from headrace.query.receipts.receipt import NOTHING, After, receipts_of, seconds_of
from headrace.query.references.spelling import respelled

# It comes back in a header.
_ID: Final = re.compile(r"[!-~]{1,200}")
_REMEDY: Final = 'Send {"query": "SELECT …"} as application/json, or the SQL as text/plain.'


class _Parameter(msgspec.Struct):
    type: str
    value: Any = None


class _Body(msgspec.Struct, rename="camel"):
    query: str
    result_format: str | None = None
    header: bool = False
    types_header: bool = False
    sql_types_header: bool = False
    context: dict[str, Any] | None = None
    parameters: list[_Parameter] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DruidRequest:
    """`settings` are the context; SET statements in the text come on top of it."""

    query: str
    result_format: str = "object"
    header: bool = False
    types_header: bool = False
    sql_types_header: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    parameters: tuple[Parameter, ...] = ()


def request_of(body: bytes, media_type: str) -> DruidRequest:
    """Raises bad_request."""
    try:
        if media_type != JSON:
            text = body.decode("utf-8")
            return DruidRequest(query=unquote_plus(text) if media_type == FORM else text)
        content = msgspec.json.decode(body, type=_Body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise HeadraceError("bad_request", f"The request cannot be read: {error}.", remedy=_REMEDY) from error
    formats = {name.lower(): name for name in MEDIA_TYPES}
    wanted = formats.get((content.result_format or "object").lower())
    if wanted is None:
        raise HeadraceError(
            "bad_request",
            f"There is no result format {str(content.result_format)[:60]}.",
            remedy=f"There are {', '.join(MEDIA_TYPES)}.",
        )
    return DruidRequest(
        query=content.query,
        result_format=wanted,
        header=content.header,
        types_header=content.types_header,
        sql_types_header=content.sql_types_header,
        settings=content.context or {},
        parameters=tuple(Parameter(type=each.type, value=each.value) for each in content.parameters or ()),
    )


def query_id_of(settings: Mapping[str, Any]) -> str:
    """The id that the request has chosen, or a new one. Raises bad_request."""
    chosen = settings.get("sqlQueryId")
    if chosen is None:
        return str(uuid.uuid4())
    if not isinstance(chosen, str) or not _ID.fullmatch(chosen):
        raise HeadraceError(
            "bad_request", "sqlQueryId must be 1 to 200 visible ASCII characters.", remedy="Leave it out."
        )
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request with its statement read and its context understood. `freshness` is empty if it says none."""

    statement: Statement
    parameters: tuple[Parameter, ...]
    context: Context
    wanted: Wanted
    timeout_seconds: float | None
    freshness: str = ""
    after: After = NOTHING


def asked_of(request: DruidRequest) -> Asked:
    """Raises HeadraceError. Takes its time with a long statement."""
    found = respelled(request.query)
    statement = read(found.sql)
    settings = {**request.settings, **statement.settings}
    zone = settings.get("sqlTimeZone")
    context = Context(
        zone=UTC_ZONE if zone is None else zone_of(str(zone)),
        exact_distinct=not _is_true(settings.get("useApproximateCountDistinct")),
    )
    stringify = settings.get("sqlStringifyArrays")
    wanted = Wanted(
        format=request.result_format,
        header=request.header,
        types_header=request.header and request.types_header,
        sql_types_header=request.header and request.sql_types_header,
        stringify_arrays=stringify is None or _is_true(stringify),
        zone=context.zone,
    )
    return Asked(
        statement=statement,
        parameters=request.parameters,
        context=context,
        wanted=wanted,
        timeout_seconds=timeout_of(settings),
        after=After(
            receipts=receipts_of(settings.get("after")),
            seconds=seconds_of(settings.get("afterSeconds"), "afterSeconds"),
        ),
        freshness=found.freshness or str(settings.get("freshness", "")),
    )


def timeout_of(settings: Mapping[str, Any]) -> float | None:
    """In seconds; None if the request sets no limit of its own. Raises bad_request."""
    given = settings.get("timeout")
    if given is None:
        return None
    try:
        milliseconds = int(str(given))
        if milliseconds < 0:
            raise ValueError(given)
    except ValueError as error:
        raise HeadraceError(
            "bad_request", f"The timeout {str(given)[:60]} is no number of milliseconds."
        ) from error
    return milliseconds / 1000 or None


def _is_true(value: object) -> bool:
    return value is True or (isinstance(value, str) and value.lower() == "true")
