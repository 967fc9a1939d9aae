"""Generated Avro schemas, and values with what their columns must contain.

A generated type knows its schema, its column as DDL, and pairs of a value as fastavro writes it and the value
of the column, or `UNFIT` if it cannot be one. The pairs are made here, not by the code under test.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext
from typing import Any, Final


class Unfit:
    """No column can hold the value."""


UNFIT: Final = Unfit()
EPOCH: Final = datetime(1970, 1, 1)
DAY: Final = 86_400
# Two days inside of the years 1 to 9999, so that this machine's zone has no meaning.
FIRST: Final = -62_135_596_800 + 2 * DAY
LAST: Final = 253_402_300_799 - 2 * DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    schema: Any
    column: str
    pair: Callable[[random.Random], tuple[Any, Any]]


def whole(bits: int) -> Callable[[random.Random], int]:
    edges = [0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))]
    return lambda chance: chance.choice([*edges, chance.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1))])


def same(make: Callable[[random.Random], Any]) -> Callable[[random.Random], tuple[Any, Any]]:
    def pair(chance: random.Random) -> tuple[Any, Any]:
        value = make(chance)
        return value, value

    return pair


def text(chance: random.Random) -> str:
    return "".join(chance.choice('aZ0 "\\\n\0üß漢🎈') for _ in range(chance.randrange(6)))


def octets(chance: random.Random) -> bytes:
    return chance.randbytes(chance.randrange(6))


def day(chance: random.Random) -> tuple[Any, Any]:
    number = chance.choice([chance.randrange(FIRST // DAY, LAST // DAY), whole(32)(chance)])
    fits = FIRST // DAY <= number <= LAST // DAY
    if not fits and -719_162 <= number <= 2_932_896:
        return 0, date(1970, 1, 1)
    return number, date(1970, 1, 1) + timedelta(days=number) if fits else UNFIT


def moment(per_second: int, *, local: bool) -> Callable[[random.Random], tuple[Any, Any]]:
    def pair(chance: random.Random) -> tuple[Any, Any]:
        low, high = FIRST * per_second, LAST * per_second
        low, high = max(low, -(2**63)), min(high, 2**63 - 1)
        number = chance.choice([chance.randrange(low, high), chance.randrange(-(2**63), 2**63), 5, -5])
        if not low <= number <= high:
            near = -62_135_596_800 - DAY < number // per_second < 253_402_300_799 + DAY
            return (0, EPOCH if local else EPOCH.replace(tzinfo=UTC)) if near else (number, UNFIT)
        micros = number * 1_000_000 // per_second
        found = EPOCH + timedelta(microseconds=micros)
        return number, found if local else found.replace(tzinfo=UTC)

    return pair


def decimal(precision: int, scale: int, size: int | None) -> Callable[[random.Random], tuple[Any, Any]]:
    def pair(chance: random.Random) -> tuple[Any, Any]:
        bits = chance.choice([8, 16, 40, 64, 80, 160])
        number = chance.choice(
            [
                chance.randrange(-(10**precision) + 1, 10**precision),
                whole(min(bits, 8 * (size or 20)))(chance),
            ]
        )
        length = size or max(1, (number.bit_length() + 8) // 8)
        written = number.to_bytes(length, "big", signed=True)
        with localcontext(prec=60):
            found = Decimal(number).scaleb(-scale)
        return written, found if abs(number) < 10 ** min(38, precision) else UNFIT

    return pair


def double(chance: random.Random) -> float:
    return chance.choice([0.0, -1.5, 1e308, 5e-324, float("inf"), chance.random()])


def single(chance: random.Random, name: Callable[[], str]) -> Generated:
    def logical(kind: str, logical_type: str, **more: Any) -> Any:
        return {"type": kind, "logicalType": logical_type, **more}

    precision = chance.randrange(1, 39)
    scale = chance.randrange(precision + 1)
    size = chance.choice([4, 9, 17])
    digits = {4: 9, 9: 21, 17: 38}[size]
    of_fixed = chance.randrange(1, digits + 1)
    symbols = ["A", "b_", "C3"]
    made: list[tuple[Any, str, Any]] = [
        ("boolean", "BOOLEAN", same(lambda c: c.random() < 0.5)),
        ("int", "INT", same(whole(32))),
        ("long", "BIGINT", same(whole(64))),
        ("float", "FLOAT", same(lambda c: c.choice([0.0, 0.5, -1.25, 2.0**100]))),
        ("double", "DOUBLE", same(double)),
        ("string", "STRING", same(text)),
        ("bytes", "BINARY", same(octets)),
        ({"type": "enum", "name": name(), "symbols": symbols}, "STRING", same(lambda c: c.choice(symbols))),
        ({"type": "fixed", "name": name(), "size": 3}, "BINARY", same(lambda c: c.randbytes(3))),
        (logical("int", "date"), "DATE", day),
        (logical("int", "time-millis"), "INT", same(whole(32))),
        (logical("long", "time-micros"), "BIGINT", same(whole(64))),
        (logical("long", "timestamp-millis"), "TIMESTAMP", moment(10**3, local=False)),
        (logical("long", "timestamp-micros"), "TIMESTAMP", moment(10**6, local=False)),
        (logical("long", "timestamp-nanos"), "TIMESTAMP", moment(10**9, local=False)),
        (logical("long", "local-timestamp-millis"), "TIMESTAMP_NTZ", moment(10**3, local=True)),
        (logical("long", "local-timestamp-micros"), "TIMESTAMP_NTZ", moment(10**6, local=True)),
        (
            logical("bytes", "decimal", precision=precision, scale=scale),
            f"DECIMAL({precision},{scale})",
            decimal(precision, scale, None),
        ),
        (
            logical("fixed", "decimal", name=name(), size=size, precision=of_fixed, scale=0),
            f"DECIMAL({of_fixed},0)",
            decimal(of_fixed, 0, size),
        ),
    ]
    schema, column, pair = chance.choice(made)
    return Generated(schema=schema, column=column, pair=pair)


def generated(chance: random.Random, name: Callable[[], str], depth: int = 3) -> Generated:
    """A type of any depth up to that."""
    if depth == 0 or chance.random() < 0.4:
        return single(chance, name)
    return chance.choice([_array, _map, _entries, _record, _nullable, _union])(chance, name, depth - 1)


def _array(chance: random.Random, name: Callable[[], str], depth: int) -> Generated:
    inner = generated(chance, name, depth)

    def pair(c: random.Random) -> tuple[Any, Any]:
        pairs = [inner.pair(c) for _ in range(c.randrange(3))]
        return [written for written, _ in pairs], unless_unfit([found for _, found in pairs])

    return Generated(
        schema={"type": "array", "items": inner.schema}, column=f"ARRAY<{inner.column}>", pair=pair
    )


def _map(chance: random.Random, name: Callable[[], str], depth: int) -> Generated:
    inner = generated(chance, name, depth)

    def pair(c: random.Random) -> tuple[Any, Any]:
        pairs = {text(c): inner.pair(c) for _ in range(c.randrange(3))}
        found = unless_unfit([found for _, found in pairs.values()])
        made = found if found is UNFIT else dict(zip(pairs, found, strict=True))
        return {key: written for key, (written, _) in pairs.items()}, made

    return Generated(
        schema={"type": "map", "values": inner.schema}, column=f"MAP<STRING,{inner.column}>", pair=pair
    )


def _entries(chance: random.Random, name: Callable[[], str], depth: int) -> Generated:
    of_map = _map(chance, name, depth)
    fields = [{"name": "key", "type": ["null", "string"]}, {"name": "value", "type": of_map.schema["values"]}]
    entry = {"type": "record", "name": name(), "fields": fields, "connect.internal.type": "MapEntry"}

    def pair(c: random.Random) -> tuple[Any, Any]:
        written, found = of_map.pair(c)
        entries: list[dict[str, Any]] = [{"key": key, "value": value} for key, value in written.items()]
        if entries and c.random() < 0.1:
            return [{**entries[0], "key": None}], UNFIT
        return entries, found

    schema = {"type": "array", "items": entry, "connect.internal.type": "MapEntry"}
    return Generated(schema=schema, column=of_map.column, pair=pair)


def _record(chance: random.Random, name: Callable[[], str], depth: int) -> Generated:
    return record([generated(chance, name, depth) for _ in range(chance.randrange(1, 4))], name())


def record(fields: list[Generated], name: str) -> Generated:
    def pair(c: random.Random) -> tuple[Any, Any]:
        pairs = [field.pair(c) for field in fields]
        found = unless_unfit([each for _, each in pairs])
        made = found if found is UNFIT else {f"c{at}": each for at, each in enumerate(found)}
        return {f"c{at}": written for at, (written, _) in enumerate(pairs)}, made

    given = [{"name": f"c{at}", "type": field.schema} for at, field in enumerate(fields)]
    columns = ",".join(f"`c{at}`:{field.column}" for at, field in enumerate(fields))
    return Generated(
        schema={"type": "record", "name": name, "fields": given}, column=f"STRUCT<{columns}>", pair=pair
    )


def _nullable(chance: random.Random, name: Callable[[], str], depth: int) -> Generated:
    inner = generated(chance, name, depth)
    if isinstance(inner.schema, list):
        return inner

    kind = inner.schema if isinstance(inner.schema, dict) else {"type": inner.schema}
    label = kind.get("name", kind["type"])

    def pair(c: random.Random) -> tuple[Any, Any]:
        written, found = inner.pair(c)
        return (None, None) if c.random() < 0.3 else ((label, written), found)

    schema = chance.choice([["null", inner.schema], [inner.schema, "null"]])
    return Generated(schema=schema, column=inner.column, pair=pair)


def _union(chance: random.Random, name: Callable[[], str], depth: int) -> Generated:
    """Of a date, a long, a text and a record, which Spark would partly mix."""
    of_record = _record(chance, name, depth)
    branches: list[tuple[str, Any]] = [
        ("int", Generated(schema={"type": "int", "logicalType": "date"}, column="DATE", pair=day)),
        ("long", Generated(schema="long", column="BIGINT", pair=same(whole(64)))),
        ("string", Generated(schema="string", column="STRING", pair=same(text))),
        (of_record.schema["name"], of_record),
    ]
    chance.shuffle(branches)

    def pair(c: random.Random) -> tuple[Any, Any]:
        if c.random() < 0.2:
            return None, None
        at = c.randrange(len(branches))
        label, branch = branches[at]
        written, found = branch.pair(c)
        made = found if found is UNFIT else dict.fromkeys(other for other, _ in branches) | {label: found}
        return (label, written), made

    columns = ",".join(f"`{label}`:{branch.column}" for label, branch in branches)
    schema = [*(branch.schema for _, branch in branches), "null"]
    return Generated(schema=schema, column=f"STRUCT<{columns}>", pair=pair)


def unless_unfit(values: list[Any]) -> Any:
    return UNFIT if any(each is UNFIT for each in values) else values
