"""Parts of URLs, by RFC 2396 as Java's URI reads it: null of what is none. Escaped characters are decoded."""

from __future__ import annotations

from typing import Final

from headrace.pipeline.expressions.functions.function import Function, signature
from headrace.pipeline.expressions.functions.making import scalar


def _part(name: str) -> str:
    return f"try_parse_url({{url}}, '{name}')"


def _decoded(part: str) -> str:
    # A plus is itself in a URL: only forms mean a space by it.
    return f"try_url_decode(replace({part}, '+', '%2B'))"


_PARAMETER: Final = (
    f"element_at(transform(array(get(filter(split({_decoded(_part('QUERY'))}, '&'),"
    " __hr_p -> substring_index(__hr_p, '=', 1) = {name}), 0)),"
    " __hr_f -> CASE WHEN __hr_f IS NOT NULL THEN"
    " CASE WHEN contains(__hr_f, '=') THEN substring(__hr_f, instr(__hr_f, '=') + 1) ELSE '' END END), 1)"
)

FUNCTIONS: Final[tuple[Function, ...]] = (
    scalar(
        "URL_DECODE_PARAM",
        "The value of an encoded parameter.",
        signature("VARCHAR value -> VARCHAR", "try_url_decode({value})"),
    ),
    scalar(
        "URL_ENCODE_PARAM",
        "Encoded as a parameter of a URL.",
        signature("VARCHAR value -> VARCHAR", "url_encode({value})"),
    ),
    scalar(
        "URL_EXTRACT_FRAGMENT",
        "What stands behind #.",
        signature("VARCHAR url -> VARCHAR", _decoded(_part("REF"))),
    ),
    scalar("URL_EXTRACT_HOST", "The host.", signature("VARCHAR url -> VARCHAR", _part("HOST"))),
    scalar(
        "URL_EXTRACT_PARAMETER",
        "The value of the parameter of that name.",
        signature("VARCHAR url, VARCHAR name -> VARCHAR", _PARAMETER),
    ),
    scalar("URL_EXTRACT_PATH", "The path.", signature("VARCHAR url -> VARCHAR", _decoded(_part("PATH")))),
    scalar(
        "URL_EXTRACT_PORT",
        "The port, where the URL names one.",
        signature(
            "VARCHAR url -> INTEGER",
            f"CASE WHEN {_part('HOST')} IS NOT NULL THEN"
            rf" TRY_CAST(regexp_substr(regexp_substr({_part('AUTHORITY')}, r':\d+$'), r'\d+') AS INT) END",
        ),
    ),
    scalar("URL_EXTRACT_PROTOCOL", "The protocol.", signature("VARCHAR url -> VARCHAR", _part("PROTOCOL"))),
    scalar(
        "URL_EXTRACT_QUERY",
        "What stands behind the question mark.",
        signature("VARCHAR url -> VARCHAR", _decoded(_part("QUERY"))),
    ),
)
