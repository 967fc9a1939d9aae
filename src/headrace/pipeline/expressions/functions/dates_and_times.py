"""Functions of DATE, TIME and TIMESTAMP.

TIME is an INT of milliseconds since midnight. Zones that are not named are UTC, as the session's. Texts are
read strictly: the 31st of June is none (in ksqlDB it is the 30th).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Final
from zoneinfo import available_timezones

from headrace.pipeline.expressions.functions.function import Call, Function, Signature, signature
from headrace.pipeline.expressions.functions.making import scalar
from headrace.pipeline.expressions.functions.refusing import refused
from headrace.pipeline.expressions.functions.spark_text import string_literal
from headrace.pipeline.expressions.functions.time_formats import (
    DATE_LETTERS,
    TIME_LETTERS,
    ZONE_LETTERS,
    Run,
    is_format,
    joined,
    letters,
    read,
    supported,
    without_weekdays,
    zone_text,
)

_DAY: Final = 86_400_000
_UNITS: Final = {"MILLISECOND": 1, "SECOND": 1000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": _DAY}
# Milliseconds that Spark's microseconds can hold.
_LARGEST: Final = 9_223_372_036_854_775

# Now, and not when the batch began, which may have been minutes ago.
_NOW: Final = "TRY_CAST(reflect('java.lang.System', 'currentTimeMillis') AS BIGINT)"

_CERTAIN_ZONE: Final = re.compile(r"UTC|GMT|Z|[+-](?:0\d|1[0-7]):[0-5]\d")

_Letters = frozenset[str]


def _timestamp(milliseconds: str) -> str:
    fits = f"{milliseconds} BETWEEN -{_LARGEST} AND {_LARGEST}"
    return f"CASE WHEN {fits} THEN timestamp_millis({milliseconds}) END"


def _movable(timestamp: str) -> str:
    """Null where another zone could be beyond what Spark's microseconds hold."""
    bounds = "TIMESTAMP'0001-01-02 00:00:00' AND TIMESTAMP'9999-12-30 00:00:00'"
    return f"CASE WHEN {timestamp} BETWEEN {bounds} THEN {timestamp} END"


def _midnight(date: str) -> str:
    return (
        f"CASE WHEN {date} BETWEEN DATE'0001-01-01' AND DATE'9999-12-31' THEN CAST({date} AS TIMESTAMP) END"
    )


def _zone(call: Call, name: str) -> str:
    """The zone, or null where it is none. Java is asked, unless the answer is certain."""
    constant = call.string(name)
    if constant is not None and (_CERTAIN_ZONE.fullmatch(constant) or constant in _regions()):
        return f"{{{name}}}"
    return f"try_reflect('java.time.ZoneId', 'of', {{{name}}})"


@cache
def _regions() -> frozenset[str]:
    """Names such as `Europe/London`; others mean something else to Java, or nothing."""
    return frozenset(name for name in available_timezones() if "/" in name and not name.startswith("Etc/"))


def _template(text: str) -> str:
    """Text that stands in a template as it is."""
    return text.replace("{", "{{").replace("}", "}}")


def _formatted(value: str, allowed: _Letters) -> Callable[[Call], str]:
    """`value` is Spark SQL of a TIMESTAMP; letters that are not allowed have no value in it."""

    def spark(call: Call) -> str:
        zone = _zone(call, "zone") if "zone" in call.texts else None
        shifted = value if zone is None else f"from_utc_timestamp({_movable(value)}, {zone})"
        pattern = call.string("format")
        if pattern is None:
            plain = allowed if zone is None else allowed - ZONE_LETTERS
            return f"CASE WHEN {is_format('{format}', plain)} THEN date_format({shifted}, {{format}}) END"
        runs = read(pattern)
        if runs is None or not letters(runs) <= allowed:
            return "CAST(NULL AS STRING)"
        offset = f"((unix_seconds({shifted}) - unix_seconds({value})) DIV 60)"
        found = _written(supported(runs, pattern), shifted, zone, offset)
        # Null of null, also where the format has nothing of the value.
        return found if "date_format" in found else f"CASE WHEN {value} IS NOT NULL THEN {found} END"

    return spark


def _written(runs: tuple[Run, ...], value: str, zone: str | None, offset: str) -> str:
    parts: list[str] = []
    plain: list[Run] = []

    def flush() -> None:
        if plain:
            parts.append(f"date_format({value}, {_template(string_literal(joined(tuple(plain))))})")
            plain.clear()

    for run in runs:
        if run.letter and run.letter in ZONE_LETTERS:
            flush()
            parts.append(zone_text(run, zone, offset))
        else:
            plain.append(run)
    flush()
    return parts[0] if len(parts) == 1 else f"concat({', '.join(parts)})" if parts else "''"


def _parsed(of_parsed: str, allowed: _Letters, needed: Callable[[_Letters], bool]) -> Callable[[Call], str]:
    """`PARSED` in `of_parsed` is Spark SQL of the TIMESTAMP that the text says."""

    def spark(call: Call) -> str:
        zone = _zone(call, "zone") if "zone" in call.texts else None
        pattern = call.string("format")
        if pattern is None:
            parsed = "try_to_timestamp({value}, {format})"
            if zone is not None:
                has_zone = """regexp_replace({format}, r"'[^']*'", '') RLIKE '[VzOXxZ]'"""
                parsed = f"CASE WHEN {has_zone} THEN {parsed} ELSE to_utc_timestamp({parsed}, {zone}) END"
            parsed = f"CASE WHEN {is_format('{format}', allowed - frozenset('EFqQ'))} THEN {parsed} END"
        else:
            runs = read(pattern)
            if runs is None or not letters(runs) <= allowed or not needed(letters(runs)):
                return of_parsed.replace("PARSED", "CAST(NULL AS TIMESTAMP)")
            if letters(runs) & frozenset("FqQ"):
                raise refused(f"The format {pattern!r} has letters that Spark cannot read.")
            bare, value = without_weekdays(supported(runs, pattern), "{value}")
            parsed = f"try_to_timestamp({value}, {_template(string_literal(bare))})"
            if zone is not None and not letters(runs) & ZONE_LETTERS:
                parsed = f"to_utc_timestamp({parsed}, {zone})"
        return of_parsed.replace("PARSED", parsed)

    return spark


_ALL: Final = DATE_LETTERS | TIME_LETTERS | ZONE_LETTERS
_WITH_ZONE: Final = ("", ", VARCHAR zone")


def _is_full_date(found: _Letters) -> bool:
    return "y" in found and ("D" in found or ("d" in found and bool(found & frozenset("ML"))))


def _is_full_time(found: _Letters) -> bool:
    return bool(found & frozenset("Hk")) or ("a" in found and bool(found & frozenset("hK")))


def _formatting(
    parameter: str, value: str, allowed: _Letters, *, zones: bool = False
) -> tuple[Signature, ...]:
    return tuple(
        signature(f"{parameter}, VARCHAR format{zone} -> VARCHAR", _formatted(value, allowed))
        for zone in (_WITH_ZONE if zones else ("",))
    )


def _parsing(
    returns: str,
    of_parsed: str,
    allowed: _Letters = _ALL,
    needed: Callable[[_Letters], bool] = bool,
    *,
    zones: bool = False,
) -> tuple[Signature, ...]:
    return tuple(
        signature(f"VARCHAR value, VARCHAR format{zone} -> {returns}", _parsed(of_parsed, allowed, needed))
        for zone in (_WITH_ZONE if zones else ("",))
    )


def _unit(call: Call) -> int:
    word = call.texts["unit"].strip().upper()
    found = _UNITS.get(word.removesuffix("S"))
    if found is None:
        raise refused(
            f"{word} is no unit of time here.", "DAYS, HOURS, MINUTES, SECONDS and MILLISECONDS are."
        )
    return found


def _moved(name: str, kind: str, description: str, spark: Callable[[str], str], sign: str) -> Function:
    """`spark` makes the moved value of how many milliseconds it is to be moved by."""

    def template(call: Call) -> str:
        return spark(f"{sign}CAST({{interval}} AS BIGINT) * {_unit(call)}L")

    return scalar(
        name, description, signature(f"UNIT unit, INTEGER interval, {kind} value -> {kind}", template)
    )


def _moved_date(by: str) -> str:
    # Java's division goes towards zero, as DIV does.
    return f"date_from_unix_date(TRY_CAST((unix_date({{value}}) * {_DAY}L + ({by})) DIV {_DAY}L AS INT))"


def _moved_time(by: str) -> str:
    return f"CAST(pmod({{value}} + ({by}), {_DAY}L) AS INT)"


def _moved_timestamp(by: str) -> str:
    return f"timestamp_micros(try_add(unix_micros({{value}}), try_multiply({by}, 1000L)))"


def _converted(call: Call) -> str:
    target, source = _zone(call, "target"), _zone(call, "source")
    return (
        f"timestamp_micros(unix_micros(from_utc_timestamp({_movable('{value}')}, {target}))"
        f" - unix_micros(from_utc_timestamp({_movable('{value}')}, {source})) + unix_micros({{value}}))"
    )


_MIDNIGHT: Final = (
    "element_at(transform(array(PARSED), __hr_t ->"
    " CASE WHEN __hr_t = date_trunc('DAY', __hr_t) THEN CAST(__hr_t AS DATE) END), 1)"
)

FUNCTIONS: Final[tuple[Function, ...]] = (
    scalar(
        "CONVERT_TZ",
        "A timestamp of one zone as that of another.",
        signature(
            "TIMESTAMP value, VARCHAR source, VARCHAR target -> TIMESTAMP",
            _converted,
        ),
    ),
    _moved("DATEADD", "DATE", "A date so much later.", _moved_date, ""),
    _moved("DATESUB", "DATE", "A date so much earlier.", _moved_date, "-"),
    scalar(
        "DATETOSTRING",
        "Days since 1970-01-01 in that format.",
        *_formatting("INTEGER value", _midnight("date_from_unix_date({value})"), DATE_LETTERS),
    ),
    scalar(
        "FORMAT_DATE",
        "A date in that format.",
        *_formatting("DATE value", _midnight("{value}"), DATE_LETTERS),
    ),
    scalar(
        "FORMAT_TIME",
        "A time in that format.",
        *_formatting("TIME value", "timestamp_millis({value})", TIME_LETTERS),
    ),
    scalar(
        "FORMAT_TIMESTAMP",
        "A timestamp in that format, in UTC or in that zone.",
        *_formatting("TIMESTAMP value", "{value}", _ALL, zones=True),
    ),
    scalar(
        "FROM_DAYS",
        "The date so many days after 1970-01-01.",
        signature("INTEGER days -> DATE", "date_from_unix_date({days})"),
    ),
    scalar(
        "FROM_UNIXTIME",
        "The timestamp so many milliseconds after 1970-01-01.",
        signature("BIGINT milliseconds -> TIMESTAMP", _timestamp("{milliseconds}")),
    ),
    scalar(
        "PARSE_DATE",
        "The date that the text says in that format.",
        *_parsing("DATE", _MIDNIGHT),
    ),
    scalar(
        "PARSE_TIME",
        "The time that the text says in that format.",
        *_parsing("TIME", "CAST(unix_millis(PARSED) AS INT)", TIME_LETTERS, _is_full_time),
    ),
    scalar(
        "PARSE_TIMESTAMP",
        "The timestamp that the text says in that format.",
        *_parsing("TIMESTAMP", "date_trunc('MILLISECOND', PARSED)", zones=True),
    ),
    scalar(
        "STRINGTODATE",
        "The days since 1970-01-01 that the text says in that format.",
        *_parsing("INTEGER", "unix_date(CAST(PARSED AS DATE))", _ALL, _is_full_date),
    ),
    scalar(
        "STRINGTOTIMESTAMP",
        "The milliseconds since 1970-01-01 that the text says in that format.",
        *_parsing("BIGINT", "unix_millis(PARSED)", zones=True),
    ),
    _moved("TIMEADD", "TIME", "A time so much later, around midnight.", _moved_time, ""),
    _moved("TIMESTAMPADD", "TIMESTAMP", "A timestamp so much later.", _moved_timestamp, ""),
    _moved("TIMESTAMPSUB", "TIMESTAMP", "A timestamp so much earlier.", _moved_timestamp, "-"),
    scalar(
        "TIMESTAMPTOSTRING",
        "Milliseconds since 1970-01-01 in that format, in UTC or in that zone.",
        *_formatting("BIGINT value", f"({_timestamp('{value}')})", _ALL, zones=True),
    ),
    _moved("TIMESUB", "TIME", "A time so much earlier, around midnight.", _moved_time, "-"),
    scalar(
        "UNIX_DATE",
        "The days since 1970-01-01, of a date or of today.",
        signature("-> INTEGER", f"CAST({_NOW} DIV {_DAY}L AS INT)"),
        signature("DATE date -> INTEGER", "unix_date({date})"),
    ),
    scalar(
        "UNIX_TIMESTAMP",
        "The milliseconds since 1970-01-01, of a timestamp or of now.",
        signature("-> BIGINT", _NOW),
        signature("TIMESTAMP timestamp -> BIGINT", "unix_millis({timestamp})"),
    ),
)
