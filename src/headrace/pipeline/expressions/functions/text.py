r"""Text functions, except masks, regular expressions and encodings.

Characters are Unicode code points; in ksqlDB those beyond U+FFFF count as two. Positions start with 1.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from functools import partial
from typing import Any, Final

from headrace.pipeline.expressions.functions.function import Call, Function, signature
from headrace.pipeline.expressions.functions.making import scalar
from headrace.pipeline.expressions.functions.spark_text import string_literal
from headrace.pipeline.expressions.value_casts import trimmed

CHARACTERS: Final = r"regexp_extract_all({0}, r'(?s).', 0)"
# Longer than any record: not worth the memory.
_LONGEST: Final = 16_777_216

_CODE_POINT: Final = (
    "CASE WHEN {code} BETWEEN 55296 AND 57343 THEN '?' WHEN {code} BETWEEN 0 AND 1114111"
    " THEN decode(unhex(lpad(hex({code}), 8, '0')), 'UTF-32') END"
)
# Reads the escapes that JSON and Java have in common, as JSON.
_ESCAPES: Final = (
    r"""CASE WHEN {code} RLIKE r'^\\u[0-9a-fA-F]{{4}}"""
    r"""(\\u[0-9a-fA-F]{{4}}|\\[btnfr"\\]|[^"\\\x00-\x1f])*+$' """
    """THEN from_json(concat('{{"v":"', {code}, '"}}'), 'v STRING').v END"""
)
_PADDED: Final = f"CASE WHEN {{length}} BETWEEN 0 AND {_LONGEST} AND length({{padding}}) > 0 THEN %s END"


def _instr(position: str, occurrence: str) -> str:
    """Finds all positions of the text in search order, then takes the occurrence asked for.

    A backward search starts that many characters before the end; matches must end there or before.
    """
    found = "__hr_p -> substring({value}, __hr_p, length({sought})) = {sought}"
    last = f"(length({{value}}) + {position} - length({{sought}}) + 2)"
    forwards = f"filter(sequence({position}, length({{value}})), {found})"
    backwards = f"filter(reverse(sequence(1, {last})), {found})"
    return (
        f"CASE WHEN {position} IS NULL OR {occurrence} IS NULL THEN NULL"
        f" WHEN {{value}} IS NULL OR {{sought}} IS NULL OR {position} = 0 OR {occurrence} < 1"
        f" OR abs(CAST({position} AS BIGINT)) > length({{value}}) THEN 0"
        f" WHEN {{sought}} = '' THEN CASE WHEN {position} > 0 THEN {position} ELSE {last} END"
        f" WHEN {position} > 0 THEN coalesce(get({forwards}, {occurrence} - 1), 0)"
        f" WHEN {last} < 1 THEN 0"
        f" ELSE coalesce(get({backwards}, {occurrence} - 1), 0) END"
    )


def quoted_pattern(name: str) -> str:
    """A regular expression that matches the text literally, built when the query runs."""
    return rf"concat('\\Q', replace({{{name}}}, '\\E', '\\E\\\\E\\Q'), '\\E')"


def _substring(call: Call) -> str:
    """A position before the first character counts as the first; Spark would shorten the result."""
    constant = call.integer("position")
    position = (
        "{position}"
        if constant is not None and constant >= 0
        else "CASE WHEN {position} < 0 THEN greatest(length({value}) + {position}, 0) + 1 ELSE {position} END"
    )
    if "length" not in call.texts:
        return f"substring({{value}}, {position})"
    constant = call.integer("length")
    is_sure = constant is not None and constant >= 0
    length = "{length}" if is_sure else "CASE WHEN {length} < 0 THEN 0 ELSE {length} END"
    return f"substring({{value}}, {position}, {length})"


def _split(call: Call) -> str:
    constant = call.string("delimiter")
    if constant == "":
        return "split({value}, '')"
    by_delimiter = f"split({{value}}, {quoted_pattern('delimiter')}, -1)"
    if constant is not None:
        return by_delimiter
    return f"CASE WHEN {{delimiter}} = '' THEN split({{value}}, '') ELSE {by_delimiter} END"


def _elt(call: Call) -> str:
    texts = call.all_of("texts")
    if not texts:
        return "CAST(NULL AS STRING)"
    return f"CASE WHEN {{n}} BETWEEN 1 AND {len(texts)} THEN get(array({', '.join(texts)}), {{n}} - 1) END"


def _field(call: Call) -> str:
    texts = call.all_of("texts")
    if not texts:
        return "0"
    return f"coalesce(CAST(array_position(array({', '.join(texts)}), {{sought}}) AS INT), 0)"


def _joined_bytes(call: Call) -> str:
    parts = ", ".join(["{first}", *call.all_of("values")])
    joined = (
        f"aggregate(filter(array({parts}), __hr_e -> __hr_e IS NOT NULL), CAST(NULL AS BINARY),"
        " (__hr_a, __hr_e) -> CASE WHEN __hr_a IS NULL THEN __hr_e"
        " ELSE concat(__hr_a, {separator}, __hr_e) END)"
    )
    return f"CASE WHEN {{separator}} IS NOT NULL THEN coalesce({joined}, X'') END"


def _concatenated_bytes(call: Call) -> str:
    parts = [f"coalesce({each}, X'')" for each in ("{first}", *call.all_of("values"))]
    return f"concat({', '.join(parts)})"


_SPACES: Final = string_literal(r"^[\x00-\x20]+|[\x00-\x20]+\z")
_BYTES_AS_TEXT: Final = "decode({value}, 'ISO-8859-1')"
_SPLIT_BYTES: Final = (
    "transform(CASE WHEN length({delimiter}) = 0 THEN split(" + _BYTES_AS_TEXT + ", '')"
    r" ELSE split(" + _BYTES_AS_TEXT + r", concat('\\Q', replace(decode({delimiter}, 'ISO-8859-1'), '\\E',"
    r" '\\E\\\\E\\Q'), '\\E'), -1) END, __hr_e -> encode(__hr_e, 'ISO-8859-1'))"
)

_ESCAPED: Final = re.compile(r"""\\u[0-9a-fA-F]{4}(?:\\u[0-9a-fA-F]{4}|\\[btnfr"\\]|[^"\\\x00-\x1f])*""")
_SURROGATES: Final = range(0xD800, 0xE000)
_WORD: Final = re.compile(r"[^ \t\n\x0b\f\r]+[ \t\n\x0b\f\r]*")


def _character(code: int) -> str:
    return "?" if code in _SURROGATES else chr(code)


def _unescaped(code: str) -> str | None:
    if _ESCAPED.fullmatch(code) is None:
        return None
    return str(json.loads(f'"{code}"')).encode("utf-8", "replace").decode()


def _joined(separator: str | None, *values: str | None) -> str | None:
    return None if separator is None else separator.join(value for value in values if value is not None)


def _joined_of_bytes(separator: bytes | None, *values: bytes | None) -> bytes | None:
    return None if separator is None else separator.join(value for value in values if value is not None)


def _nth(number: int | None, *texts: str | None) -> str | None:
    return texts[number - 1] if number is not None and 1 <= number <= len(texts) else None


def _place(sought: str | None, *texts: str | None) -> int:
    return texts.index(sought) + 1 if sought is not None and sought in texts else 0


def _capitalized(value: str) -> str:
    return "".join(each[0].upper() + each[1:] for each in _WORD.findall(value.lower()))


def _found(value: str | None, sought: str | None) -> int:
    return value.find(sought) + 1 if value and sought is not None else 0


def _found_from(
    value: str | None, sought: str | None, position: int | None, occurrence: int | None = 1
) -> int | None:
    if position is None or occurrence is None:
        return None
    if value is None or sought is None or position == 0 or occurrence < 1 or abs(position) > len(value):
        return 0
    last = len(value) + position - len(sought) + 2
    if not sought:
        return position if position > 0 else last
    places = range(position, len(value) + 1) if position > 0 else range(last, 0, -1)
    found = [place for place in places if value.startswith(sought, place - 1)]
    return found[occurrence - 1] if occurrence <= len(found) else 0


def _padded(value: Any, length: int, padding: Any, *, left: bool) -> Any:
    if not 0 <= length <= _LONGEST or not padding:
        return None
    missing = max(length - len(value), 0)
    filling = (padding * (missing // len(padding) + 1))[:missing]
    return filling + value if left and missing else value[:length] + filling


def _parts(value: str, delimiter: str) -> list[str]:
    return value.split(delimiter) if delimiter else list(value) or [""]


def _parts_of_bytes(value: bytes, delimiter: bytes) -> list[bytes]:
    return [each.encode("latin-1") for each in _parts(value.decode("latin-1"), delimiter.decode("latin-1"))]


def _entries(value: str, entries: str, pairs: str) -> dict[str, str] | None:
    if not entries or not pairs or entries == pairs:
        return None
    parted = (each.split(pairs) for each in value.split(entries) if pairs in each)
    return {key: entry for key, entry, *_ in parted}


def _part(value: Any, position: int, length: int | None = None) -> Any:
    start = max(len(value) + position, 0) if position < 0 else max(position - 1, 0)
    return value[start:] if length is None else value[start : start + max(length, 0)]


FUNCTIONS: Final[tuple[Function, ...]] = (
    scalar(
        "CHR",
        "The character of a code point, or of its escaped form `\\u004b`.",
        signature("INTEGER code -> VARCHAR", _CODE_POINT, _character),
        signature("VARCHAR code -> VARCHAR", _ESCAPES, _unescaped),
    ),
    scalar(
        "CONCAT",
        "The values one after another; nulls are left out.",
        signature(
            "VARCHAR first, VARCHAR... values -> VARCHAR",
            lambda call: f"concat_ws('', {', '.join(['{first}', *call.all_of('values')])})",
            lambda *values: _joined("", *values),
            nulls=True,
        ),
        signature(
            "BYTES first, BYTES... values -> BYTES",
            _concatenated_bytes,
            lambda *values: _joined_of_bytes(b"", *values),
            nulls=True,
        ),
    ),
    scalar(
        "CONCAT_WS",
        "The values one after another with the separator between them; nulls are left out.",
        signature(
            "VARCHAR separator, VARCHAR first, VARCHAR... values -> VARCHAR",
            lambda call: f"concat_ws({', '.join(['{separator}', '{first}', *call.all_of('values')])})",
            _joined,
            nulls=True,
        ),
        signature(
            "BYTES separator, BYTES first, BYTES... values -> BYTES",
            _joined_bytes,
            _joined_of_bytes,
            nulls=True,
        ),
    ),
    scalar(
        "ELT",
        "The n-th of the texts, from 1; null where there is none.",
        signature("INTEGER n, VARCHAR... texts -> VARCHAR", _elt, _nth, nulls=True),
    ),
    scalar(
        "FIELD",
        "The position of the text among the others, from 1; 0 where it is not there.",
        signature("VARCHAR sought, VARCHAR... texts -> INTEGER", _field, _place, nulls=True),
    ),
    scalar(
        "INITCAP",
        "Each word with a capital first letter and small others.",
        signature(
            "VARCHAR value -> VARCHAR",
            r"array_join(transform(regexp_extract_all(lower({value}), r'[^\s]+\s*', 0),"
            " __hr_w -> concat(upper(substring(__hr_w, 1, 1)), substring(__hr_w, 2))), '')",
            _capitalized,
        ),
    ),
    scalar(
        "INSTR",
        "The position of a text in another; 0 where it is not. A negative start searches from the end.",
        signature(
            "VARCHAR value, VARCHAR sought -> INTEGER",
            "CASE WHEN {value} = '' THEN 0 ELSE coalesce(instr({value}, {sought}), 0) END",
            _found,
            nulls=True,
        ),
        signature(
            "VARCHAR value, VARCHAR sought, INTEGER position -> INTEGER",
            _instr("{position}", "1"),
            _found_from,
            nulls=True,
        ),
        signature(
            "VARCHAR value, VARCHAR sought, INTEGER position, INTEGER occurrence -> INTEGER",
            _instr("{position}", "{occurrence}"),
            _found_from,
            nulls=True,
        ),
    ),
    scalar("LCASE", "In small letters.", signature("VARCHAR value -> VARCHAR", "lower({value})", str.lower)),
    scalar(
        "LEN",
        "The number of characters, or of bytes.",
        signature("VARCHAR value -> INTEGER", "length({value})", len),
        signature("BYTES value -> INTEGER", "length({value})", len),
    ),
    scalar(
        "LPAD",
        "Filled from the left up to that length, or cut to it.",
        *(
            signature(
                f"{kind} value, INTEGER length, {kind} padding -> {kind}",
                _PADDED % "lpad({value}, {length}, {padding})",
                partial(_padded, left=True),
            )
            for kind in ("VARCHAR", "BYTES")
        ),
    ),
    scalar(
        "MD5",
        "The MD5 hash, as hexadecimal digits.",
        signature(
            "VARCHAR value -> VARCHAR",
            "md5({value})",
            lambda value: hashlib.md5(value.encode(), usedforsecurity=False).hexdigest(),
        ),
    ),
    scalar(
        "REPLACE",
        "With every occurrence of a text replaced by another.",
        signature(
            "VARCHAR value, VARCHAR old, VARCHAR new -> VARCHAR",
            "CASE WHEN {old} = '' THEN concat({new}, array_join(transform("
            + CHARACTERS.format("{value}")
            + ", __hr_c -> concat(__hr_c, {new})), '')) ELSE replace({value}, {old}, {new}) END",
            str.replace,
        ),
    ),
    scalar(
        "RPAD",
        "Filled from the right up to that length, or cut to it.",
        *(
            signature(
                f"{kind} value, INTEGER length, {kind} padding -> {kind}",
                _PADDED % "rpad({value}, {length}, {padding})",
                partial(_padded, left=False),
            )
            for kind in ("VARCHAR", "BYTES")
        ),
    ),
    scalar(
        "SPLIT",
        "The parts between the delimiters; every character where the delimiter is empty.",
        signature("VARCHAR value, VARCHAR delimiter -> ARRAY<VARCHAR>", _split, _parts),
        signature("BYTES value, BYTES delimiter -> ARRAY<BYTES>", _SPLIT_BYTES, _parts_of_bytes),
    ),
    scalar(
        "SPLIT_TO_MAP",
        "A map of the entries between the first delimiters, keys and values parted by the second.",
        signature(
            "VARCHAR value, VARCHAR entries, VARCHAR pairs -> MAP<VARCHAR, VARCHAR>",
            "CASE WHEN {entries} <> '' AND {pairs} <> '' AND {entries} <> {pairs} THEN"
            " map_from_entries(transform(filter("
            f"split({{value}}, {quoted_pattern('entries')}, -1), __hr_e -> contains(__hr_e, {{pairs}})),"
            " __hr_e -> struct(split_part(__hr_e, {pairs}, 1), split_part(__hr_e, {pairs}, 2)))) END",
            _entries,
        ),
    ),
    scalar(
        "SUBSTRING",
        "The part from that position, from the end with a negative one; to the end, or of that length.",
        *(
            signature(f"{kind} value, INTEGER position{length} -> {kind}", _substring, _part)
            for kind in ("VARCHAR", "BYTES")
            for length in ("", ", INTEGER length")
        ),
    ),
    scalar(
        "TRIM",
        "Without white space at both ends.",
        signature("VARCHAR value -> VARCHAR", f"regexp_replace({{value}}, {_SPACES}, '')", trimmed),
    ),
    scalar(
        "UCASE", "In capital letters.", signature("VARCHAR value -> VARCHAR", "upper({value})", str.upper)
    ),
    scalar(
        "UUID",
        "A random UUID, or that of 16 bytes.",
        signature("-> VARCHAR", "uuid()", lambda: str(uuid.uuid4())),
        signature(
            "BYTES bytes -> VARCHAR",
            "CASE WHEN length({bytes}) = 16 THEN regexp_replace(lower(hex({bytes})),"
            " r'^(.{{8}})(.{{4}})(.{{4}})(.{{4}})(.{{12}})$', r'$1-$2-$3-$4-$5') END",
            lambda value: str(uuid.UUID(bytes=value)),
        ),
    ),
)
