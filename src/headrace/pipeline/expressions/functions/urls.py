"""Parts of URLs, as Java's URI reads them (RFC 2396), with escapes decoded; null for invalid URLs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final
from urllib.parse import quote_plus

from headrace.pipeline.expressions.functions.function import Function, signature
from headrace.pipeline.expressions.functions.java_uris import Uri, parse
from headrace.pipeline.expressions.functions.making import scalar


def _part(name: str) -> str:
    return f"try_parse_url({{url}}, '{name}')"


def _decoded(part: str) -> str:
    # In a URL a plus is a plus; only in form data is it a space.
    return f"try_url_decode(replace({part}, '+', '%2B'))"


_PARAMETER: Final = (
    f"element_at(transform(array(get(filter(split({_decoded(_part('QUERY'))}, '&'),"
    " __hr_p -> substring_index(__hr_p, '=', 1) = {name}), 0)),"
    " __hr_f -> CASE WHEN __hr_f IS NOT NULL THEN"
    " CASE WHEN contains(__hr_f, '=') THEN substring(__hr_f, instr(__hr_f, '=') + 1) ELSE '' END END), 1)"
)

_ESCAPES: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")


def _value_decoded(value: str) -> str:
    """Like Java's URLDecoder: a plus is a space, and an invalid escape is an error."""
    if "%" in _ESCAPES.sub("", value):
        raise ValueError(value)
    return _ESCAPES.sub(
        lambda found: bytes.fromhex(found[0].replace("%", "")).decode("utf-8", "replace"),
        value.replace("+", " "),
    )


def _value_encoded(value: str) -> str:
    return quote_plus(value.encode("utf-8", "replace"), safe="*").replace("~", "%7E")


def _of_url(
    part: Callable[[Uri], str | int | None], *, decodes: bool = False
) -> Callable[[str], str | int | None]:
    def python(url: str) -> str | int | None:
        uri = parse(url)
        found = None if uri is None else part(uri)
        return _value_decoded(found.replace("+", "%2B")) if decodes and isinstance(found, str) else found

    return python


_QUERY: Final = _of_url(lambda uri: uri.query, decodes=True)


def _value_of_parameter(url: str, name: str) -> str | None:
    query = _QUERY(url)
    if not isinstance(query, str):
        return None
    for each in query.split("&"):
        own, _, value = each.partition("=")
        if own == name:
            return value
    return None


FUNCTIONS: Final[tuple[Function, ...]] = (
    scalar(
        "URL_DECODE_PARAM",
        "The value of an encoded parameter.",
        signature("VARCHAR value -> VARCHAR", "try_url_decode({value})", _value_decoded),
    ),
    scalar(
        "URL_ENCODE_PARAM",
        "Encoded as a parameter of a URL.",
        signature("VARCHAR value -> VARCHAR", "url_encode({value})", _value_encoded),
    ),
    scalar(
        "URL_EXTRACT_FRAGMENT",
        "What stands behind #.",
        signature(
            "VARCHAR url -> VARCHAR",
            _decoded(_part("REF")),
            _of_url(lambda uri: uri.fragment, decodes=True),
        ),
    ),
    scalar(
        "URL_EXTRACT_HOST",
        "The host.",
        signature("VARCHAR url -> VARCHAR", _part("HOST"), _of_url(lambda uri: uri.host)),
    ),
    scalar(
        "URL_EXTRACT_PARAMETER",
        "The value of the parameter of that name.",
        signature("VARCHAR url, VARCHAR name -> VARCHAR", _PARAMETER, _value_of_parameter),
    ),
    scalar(
        "URL_EXTRACT_PATH",
        "The path.",
        signature(
            "VARCHAR url -> VARCHAR", _decoded(_part("PATH")), _of_url(lambda uri: uri.path, decodes=True)
        ),
    ),
    scalar(
        "URL_EXTRACT_PORT",
        "The port, where the URL names one.",
        signature(
            "VARCHAR url -> INTEGER",
            f"CASE WHEN {_part('HOST')} IS NOT NULL THEN"
            rf" TRY_CAST(regexp_substr(regexp_substr({_part('AUTHORITY')}, r':\d+$'), r'\d+') AS INT) END",
            _of_url(lambda uri: uri.port),
        ),
    ),
    scalar(
        "URL_EXTRACT_PROTOCOL",
        "The protocol.",
        signature("VARCHAR url -> VARCHAR", _part("PROTOCOL"), _of_url(lambda uri: uri.scheme)),
    ),
    scalar(
        "URL_EXTRACT_QUERY",
        "What stands behind the question mark.",
        signature("VARCHAR url -> VARCHAR", _decoded(_part("QUERY")), _QUERY),
    ),
)
