"""Bytes as texts and numbers: TO_BYTES, FROM_BYTES, ENCODE, and numbers from big- and little-endian bytes.

The encodings are `hex`, `utf8`, `ascii` and `base64`, in any case; others give null. In `ascii`, other
characters become `?`, and other bytes become U+FFFD.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.pipeline.expressions.functions.function import Function, Signature, signature
from headrace.pipeline.expressions.functions.making import scalar

_ASCII_BYTES: Final = r"encode(regexp_replace({value}, r'[^\x00-\x7F]', '?'), 'UTF-8')"
_HEX: Final = r"r'^([0-9A-Fa-f]{{2}})*\z'"
_BASE64: Final = r"r'^([A-Za-z0-9+/]{{4}})*([A-Za-z0-9+/]{{2}}(==)?|[A-Za-z0-9+/]{{3}}=?)?\z'"

_DECODED: Final = {
    "hex": f"CASE WHEN {{value}} RLIKE {_HEX} THEN unhex({{value}}) END",
    "utf8": "encode({value}, 'UTF-8')",
    "ascii": _ASCII_BYTES,
    "base64": f"CASE WHEN {{value}} RLIKE {_BASE64} THEN unbase64({{value}}) END",
}
# ENCODE also reads `0xAB` and `X'AB'`, and skips characters that base64 does not have.
_STRIPPED_HEX: Final = (
    "CASE WHEN {value} LIKE '0x%' THEN concat(CASE WHEN length({value}) % 2 = 1 THEN '0' ELSE '' END,"
    " substring({value}, 3)) WHEN {value} RLIKE r\"^[xX]'.*'$\""
    " THEN substring({value}, 3, length({value}) - 3)"
    " ELSE {value} END"
)
_CLEAN_BASE64: Final = (
    r"regexp_replace(regexp_replace(translate({value}, '-_', '+/'), r'(?s)=.*', ''), r'[^A-Za-z0-9+/]', '')"
)
_READ_BY_ENCODE: Final = {
    **_DECODED,
    "hex": f"CASE WHEN {_STRIPPED_HEX} RLIKE {_HEX} THEN unhex({_STRIPPED_HEX}) END",
    "base64": (
        f"unbase64(CASE WHEN length({_CLEAN_BASE64}) % 4 = 1"
        f" THEN substring({_CLEAN_BASE64}, 1, length({_CLEAN_BASE64}) - 1) ELSE {_CLEAN_BASE64} END)"
    ),
}


def _encoded(value: str) -> dict[str, str]:
    return {
        "hex": f"hex({value})",
        "utf8": f"make_valid_utf8(CAST({value} AS STRING))",
        "ascii": rf"regexp_replace(decode({value}, 'ISO-8859-1'), r'[^\x00-\x7F]', '\uFFFD')",
        "base64": f"base64({value})",
    }


def _chosen(encoding: str, branches: dict[str, str]) -> str:
    cases = " ".join(f"WHEN '{name}' THEN {spark}" for name, spark in branches.items())
    return f"CASE lower({encoding}) {cases} END"


def _encode() -> str:
    read = _chosen("{source}", _READ_BY_ENCODE)
    written = {**_encoded("__hr_b"), "hex": "lower(hex(__hr_b))"}
    return (
        "CASE WHEN lower({source}) <> lower({target}) THEN"
        f" element_at(transform(array({read}), __hr_b -> {_chosen('{target}', written)}), 1) END"
    )


_REVERSED: Final = "array_join(reverse(regexp_extract_all(hex({value}), '..', 0)), '')"


def _from_ascii(value: str) -> bytes:
    return value.encode("ascii", "replace")


def _to_ascii(value: bytes) -> str:
    return value.decode("ascii", "replace")


def _from_base64(value: str) -> bytes:
    if _BASE64_TEXT.fullmatch(value) is None:
        raise ValueError(value)
    return base64.b64decode(value + "=" * (-len(value) % 4))


def _from_hex(value: str) -> bytes:
    if _HEX_TEXT.fullmatch(value) is None:
        raise ValueError(value)
    return bytes.fromhex(value)


def _from_prefixed_hex(value: str) -> bytes:
    if value.startswith("0x"):
        return _from_hex("0" * (len(value) % 2) + value[2:])
    return _from_hex(value[2:-1] if _QUOTED_HEX.fullmatch(value) else value)


def _from_any_base64(value: str) -> bytes:
    clean = re.sub(r"[^A-Za-z0-9+/]", "", value.translate(_URL_SAFE).split("=")[0])
    return _from_base64(clean[:-1] if len(clean) % 4 == 1 else clean)


_HEX_TEXT: Final = re.compile(r"(?:[0-9A-Fa-f]{2})*")
_QUOTED_HEX: Final = re.compile(r"[xX]'.*'")
_BASE64_TEXT: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?")
_URL_SAFE: Final = str.maketrans("-_", "+/")
_READERS: Final[Mapping[str, Callable[[str], bytes]]] = {
    "hex": _from_hex,
    "utf8": str.encode,
    "ascii": _from_ascii,
    "base64": _from_base64,
}
_READERS_OF_ENCODE: Final = {**_READERS, "hex": _from_prefixed_hex, "base64": _from_any_base64}
_WRITERS: Final[Mapping[str, Callable[[bytes], str]]] = {
    "hex": lambda value: value.hex().upper(),
    "utf8": lambda value: value.decode("utf-8", "replace"),
    "ascii": _to_ascii,
    "base64": lambda value: base64.b64encode(value).decode(),
}
_WRITERS_OF_ENCODE: Final[Mapping[str, Callable[[bytes], str]]] = {**_WRITERS, "hex": bytes.hex}


def _value_encoded(value: str, source: str, target: str) -> str | None:
    read, write = source.lower(), target.lower()
    return None if read == write else _WRITERS_OF_ENCODE[write](_READERS_OF_ENCODE[read](value))


_FORMATS: Final = {"BIGINT": "q", "INTEGER": "i", "DOUBLE": "d"}
_ORDERS: Final = {"BIG_ENDIAN": ">", "LITTLE_ENDIAN": "<"}


def _unpacked(kind: str) -> Callable[..., Any]:
    def python(value: bytes, order: str = "BIG_ENDIAN") -> Any:
        kind_in_order = _ORDERS[order.upper()] + _FORMATS[kind]
        if len(value) != struct.calcsize(kind_in_order):
            return None
        return struct.unpack(kind_in_order, value)[0]

    return python


def _number(kind: str, size: int, of_bits: str) -> tuple[Signature, ...]:
    """`BITS` in `of_bits` stands for the unsigned number in hexadecimal digits."""
    big = of_bits.replace("BITS", "hex({value})")
    little = of_bits.replace("BITS", _REVERSED)
    return (
        signature(
            f"BYTES value -> {kind}",
            f"CASE WHEN length({{value}}) = {size} THEN {big} END",
            _unpacked(kind),
        ),
        signature(
            f"BYTES value, VARCHAR order -> {kind}",
            f"CASE WHEN length({{value}}) <> {size} THEN NULL WHEN upper({{order}}) = 'BIG_ENDIAN' THEN {big}"
            f" WHEN upper({{order}}) = 'LITTLE_ENDIAN' THEN {little} END",
            _unpacked(kind),
        ),
    )


_SIGNED: Final = "CAST(conv(BITS, 16, -10) AS BIGINT)"
# Shifting left and back extends the sign of 32 bits to 64.
_SIGNED_32: Final = f"CAST(shiftright(shiftleft({_SIGNED}, 32), 32) AS INT)"
# Sign, exponent and fraction of an IEEE 754 double. Products of powers of two are exact.
_DOUBLE: Final = (
    "element_at(transform(array(struct("
    f"CASE WHEN {_SIGNED} < 0 THEN -1D ELSE 1D END AS s,"
    f" shiftright({_SIGNED}, 52) & 2047 AS e,"
    f" {_SIGNED} & 4503599627370495L AS f)), __hr_d -> CASE"
    " WHEN __hr_d.e = 2047 AND __hr_d.f <> 0 THEN double('NaN')"
    " WHEN __hr_d.e = 2047 THEN __hr_d.s * double('Infinity')"
    " WHEN __hr_d.e = 0 THEN __hr_d.s * __hr_d.f * pow(2D, -1074)"
    " ELSE __hr_d.s * (4503599627370496L + __hr_d.f) * pow(2D, __hr_d.e - 1075) END), 1)"
)

FUNCTIONS: Final[tuple[Function, ...]] = (
    scalar(
        "BIGINT_FROM_BYTES",
        "The BIGINT that 8 bytes hold, BIG_ENDIAN or LITTLE_ENDIAN.",
        *_number("BIGINT", 8, _SIGNED),
    ),
    scalar(
        "DOUBLE_FROM_BYTES",
        "The DOUBLE that 8 bytes hold, BIG_ENDIAN or LITTLE_ENDIAN.",
        *_number("DOUBLE", 8, _DOUBLE),
    ),
    scalar(
        "ENCODE",
        "A text in one encoding as the text in another.",
        signature("VARCHAR value, VARCHAR source, VARCHAR target -> VARCHAR", _encode(), _value_encoded),
    ),
    scalar(
        "FROM_BYTES",
        "Bytes as a text in that encoding.",
        signature(
            "BYTES value, VARCHAR encoding -> VARCHAR",
            _chosen("{encoding}", _encoded("{value}")),
            lambda value, encoding: _WRITERS[encoding.lower()](value),
        ),
    ),
    scalar(
        "INT_FROM_BYTES",
        "The INTEGER that 4 bytes hold, BIG_ENDIAN or LITTLE_ENDIAN.",
        *_number("INTEGER", 4, _SIGNED_32),
    ),
    scalar(
        "TO_BYTES",
        "The bytes of a text in that encoding.",
        signature(
            "VARCHAR value, VARCHAR encoding -> BYTES",
            _chosen("{encoding}", _DECODED),
            lambda value, encoding: _READERS[encoding.lower()](value),
        ),
    ),
)
