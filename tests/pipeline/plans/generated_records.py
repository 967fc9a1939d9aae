"""Records of a source from a seed: good ones, damaged ones, and such as only an attacker would write."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from headrace.pipeline.catalogue.catalogue import Column, Format, Source
from headrace.pipeline.expressions.values import ValueProblemError
from headrace.pipeline.formats import Serializer
from tests.pipeline.functions.generated_values import generated
from tests.pipeline.functions.odd_values import TEXTS
from tests.pipeline.plans.given_records import Given
from tests.pipeline.plans.harness import MemoryRegistry

# As texts of JSON, where a column or a whole record should be.
_JSON = (
    *("null", "true", "0", "-0", "-1", "1e400", "-1e400", "1e5", "0.5", "1.9999999999", "123456789.12345678"),
    *("2147483647", "2147483648", "-2147483649", "9223372036854775807", "9223372036854775808", "9" * 60),
    *("9223372036854775", "9223372036854776", "-9223372036854776", "253402300800000", "-62135596800001"),
    *('""', '" "', '"NaN"', '"Infinity"', '"-Infinity"', '"1e5"', '" 12 "', '"0x1F"', '"1_000"', '"12L"'),
    *('"true"', '"TRUE"', '"yes"', '"\\u0000"', '"\\ud800"', '"\U0001f600"', '"===="', '"AA=="', '"A"'),
    *("[]", "[null]", "[[]]", '[1,"x",null,{}]', "{}", '{"":1}', '{"a":{"b":[1]}}', '{"a":1,"A":2,"a":3}'),
    *('{"key":null,"value":null}', '{"CITY":1,"city":[2]}', "[" * 1200 + "]" * 1200, '{"a":' * 1100 + "1"),
    *("nul", "tru", "01", "1.", ".5", "+1", "'x'", "NaN", "{,}", "[1,]", '{"a" 1}', "[1 2]", '"', "\\"),
)
_BYTES = (
    *(b"", b"\0", b" ", b"\n", b",", b'"', b'""', b'"""', b'"a', b'a"b', b"a\nb", b"a\r\nb", b"a,b\n"),
    *(b"," * 30_000, b",," * 5, b"\xef\xbb\xbf{}", b"\xc3\x28", b"\0" * 5, b"\0\0\0\0\x01"),
    *(b"\x7f" * 8, b"\xff" * 8, b"\x80" + b"\0" * 7, b"\xff" * 4, b"\xff", b"\0\xff\xff\xff\xff\x02"),
    *(b"\0\0\0\0\x63\0", b"x" * 200_000),
)
_NUMBERS = (
    *(b"", b"0", b"-1", b"x", b"\xff", b"1.5", b"9" * 30),
    *(b"9223372036854775807", b"-9223372036854775808"),
)
_HEADERS = (
    "headrace-rowtime",
    "headrace-posted-at",
    "headrace-attempts",
    "headrace-source",
    "headrace-read-from",
    "headrace-error",
    "other",
)
_TIMES = (0, -1, 1, 1_000, -(10**13), 253_402_300_799_999, 253_402_300_800_000, 9_223_372_036_854_775)


def generated_records(source: Source, registry: MemoryRegistry, seed: int, count: int) -> Iterator[Given]:
    chance = random.Random(f"{source.name} {seed}")
    serializer = Serializer(source, registry)
    for _ in range(count):
        yield Given(
            key=_side(source, serializer, "key", chance),
            value=_side(source, serializer, "value", chance),
            timestamp_ms=chance.choice(_TIMES) if chance.random() < 0.2 else chance.randrange(2 * 10**12),
            headers=_headers(chance) if chance.random() < 0.2 else (),
        )


def _headers(chance: random.Random) -> tuple[tuple[str, bytes | None], ...]:
    names = chance.choices(_HEADERS, k=chance.randint(1, 4))
    return tuple((name, None if chance.random() < 0.1 else chance.choice(_NUMBERS)) for name in names)


def _side(source: Source, serializer: Serializer, side: str, chance: random.Random) -> bytes | None:
    columns = source.key if side == "key" else source.value
    encoding = source.key_encoding if side == "key" else source.value_encoding
    kind = chance.random()
    if kind < 0.05:
        return None
    if kind < 0.12:
        return chance.choice(_BYTES)
    if kind < 0.3 and encoding.format is Format.JSON:
        return _odd_json(columns, chance)
    if kind < 0.3 and encoding.format is Format.DELIMITED:
        fields = [chance.choice((*TEXTS, "", "", "1", "-1.5", "9" * 40)) for _ in columns]
        return encoding.delimiter.join(fields).encode("utf-8", "surrogatepass")
    row = {column.name: generated(column.type, chance) for column in columns}
    try:
        made = serializer.key(row) if side == "key" else serializer.value(row)
    except (ValueProblemError, UnicodeEncodeError):
        return chance.choice(_BYTES)
    return _damaged(made, chance) if made and kind < 0.45 else made


def _odd_json(columns: tuple[Column, ...], chance: random.Random) -> bytes:
    if chance.random() < 0.3 or len(columns) < 2:
        return chance.choice(_JSON).encode("utf-8", "surrogatepass")
    fields = (
        f"{json.dumps(_cased(column.name, chance))}:{chance.choice(_JSON)}"
        for column in columns
        if chance.random() < 0.4
    )
    return ("{" + ",".join(fields) + "}").encode("utf-8", "surrogatepass")


def _cased(name: str, chance: random.Random) -> str:
    return chance.choice((name, name.lower(), name.capitalize()))


def _damaged(data: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(data))
    found: Any = chance.choice(
        (
            data[:place],
            data[place:],
            data + b"\0",
            data[:place] + bytes([chance.randrange(256)]) + data[place + 1 :],
            data[:place] + chance.randbytes(3) + data[place:],
            data[:place] + b"\xff\xff\xff\xff\x0f" + data[place:],
        )
    )
    return bytes(found)
