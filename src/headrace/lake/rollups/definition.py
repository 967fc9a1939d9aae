"""What a rollup is: which table it is made of, its dimensions, and its measures. Values, and the SQL of them.

A dimension is a column, or the beginning of the time bucket that a column lies in. A measure keeps for each
group what further rows can be added to: a number of values, a sum, a minimum or a maximum. An average is a
sum and a number. The number of rows is always kept.

Which types can be had is decided so that a question gets the very answer that the table gives:

- Sums of whole numbers and decimals are exact in any order. They are kept as decimals of 38 digits, which no
  number of rows fills. Decimals of more than 27 digits are refused: their sums might not fit.
- Sums of floating-point numbers depend on the order of the rows, so there are none.
- Floating-point numbers are no dimensions: 0.0 and -0.0 are one group with two faces.
- Buckets are in UTC. Those of a fixed width divide the day, so that hours, days, weeks, months and years
  consist of whole buckets.

The SQL is DuckDB's, since it answers questions: the same rounding, order and collation on both ways.
Pure: no file, no DuckDB.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from headrace.core.errors import HeadraceError
from headrace.lake.types import Decimal, Field, Simple, Struct, Type

_FORMAT: Final = 1
DAY_US: Final = 86_400_000_000
# Units that a bucket may have, and their widths; None for those of the calendar.
UNITS: Final[Mapping[str, int | None]] = {
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": DAY_US,
    "week": None,
    "month": None,
    "quarter": None,
    "year": None,
}
ROWS: Final = "N"

Kind = Literal["count", "sum", "min", "max"]

_TIMES: Final = frozenset({Simple.TIMESTAMP, Simple.TIMESTAMP_NTZ})
_WHOLE: Final = frozenset({Simple.INT, Simple.BIGINT})
_GROUPABLE: Final = frozenset({Simple.BOOLEAN, Simple.STRING, Simple.DATE}) | _TIMES | _WHOLE
_ORDERED: Final = _GROUPABLE | {Simple.FLOAT, Simple.DOUBLE}
_MOST_DIGITS: Final = 27
_SUM_DIGITS: Final = 38
_MOST_BUCKETS: Final = 1

_DUCKDB: Final = {
    Simple.BOOLEAN: "BOOLEAN",
    Simple.INT: "INTEGER",
    Simple.BIGINT: "BIGINT",
    Simple.FLOAT: "FLOAT",
    Simple.DOUBLE: "DOUBLE",
    Simple.STRING: "VARCHAR",
    Simple.DATE: "DATE",
    Simple.TIMESTAMP: "TIMESTAMP WITH TIME ZONE",
    Simple.TIMESTAMP_NTZ: "TIMESTAMP",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Of the calendar (`unit`: week, month, quarter, year), or `width_us` wide, which divides a day."""

    unit: str = ""
    width_us: int = 0

    def sql(self, time: str) -> str:
        if self.unit:
            return f"date_trunc('{self.unit}', {time})"
        return f"time_bucket(to_microseconds({self.width_us}), {time})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    column: str
    bucket: Bucket | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    kind: Kind
    column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A column of the rollup's table. `row` is its value for a single row of the table, `part` for a group of
    rows, `whole` for a group of rows of the rollup; without `part`, rows are grouped by it.
    """

    name: str
    type: Type
    row: str
    part: str = ""
    whole: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupDefinition:
    """`id` is another one whenever a rollup is created. `types` are those of the columns that it uses, and
    `partition_columns` those of the table: a rollup is made anew if they change.
    """

    id: str
    name: str
    table: str
    dimensions: tuple[Dimension, ...]
    measures: tuple[Measure, ...]
    types: tuple[Field, ...]
    partition_columns: tuple[str, ...]

    @property
    def columns(self) -> tuple[Stored, ...]:
        """Dimensions, the partition that the rows come from, the number of rows, measures."""
        return (
            *self.dimension_columns,
            *self.partition_stored,
            Stored(
                name=ROWS, type=Simple.BIGINT, row="CAST(1 AS BIGINT)", part="count(*)", whole=f"sum({ROWS})"
            ),
            *self.measure_columns,
        )

    @property
    def dimension_columns(self) -> tuple[Stored, ...]:
        return tuple(
            Stored(
                name=f"D{number}",
                type=self.type_of(each.column),
                row=each.bucket.sql(quoted(each.column)) if each.bucket else quoted(each.column),
            )
            for number, each in enumerate(self.dimensions)
        )

    @property
    def partition_stored(self) -> tuple[Stored, ...]:
        return tuple(
            Stored(name=f"P{number}", type=self.type_of(name), row=quoted(name))
            for number, name in enumerate(self.partition_columns)
        )

    @property
    def measure_columns(self) -> tuple[Stored, ...]:
        return tuple(self._stored(number, each) for number, each in enumerate(self.measures))

    def measure(self, kind: Kind, column: str) -> str | None:
        """The name of the column that keeps it; None if none does."""
        wanted = Measure(kind=kind, column=column)
        return f"M{self.measures.index(wanted)}" if wanted in self.measures else None

    def type_of(self, column: str) -> Type:
        return next(each.type for each in self.types if each.name == column)

    def fits(self, columns: Struct, partition_columns: Sequence[str]) -> bool:
        """Whether a table with these columns is still the one that it was defined for."""
        return tuple(partition_columns) == self.partition_columns and all(
            each in columns.fields for each in self.types
        )

    def as_json(self) -> str:
        content = {
            "headrace_rollup": _FORMAT,
            "id": self.id,
            "name": self.name,
            "table": self.table,
            "dimensions": [{"column": each.column, **_bucket_json(each.bucket)} for each in self.dimensions],
            "measures": [{"kind": each.kind, "column": each.column} for each in self.measures],
            "types": [{"name": each.name, **_type_json(each.type)} for each in self.types],
            "partition_columns": list(self.partition_columns),
        }
        return json.dumps(content, separators=(",", ":"))

    def _stored(self, number: int, measure: Measure) -> Stored:
        name, column = f"M{number}", quoted(measure.column)
        kind = self.type_of(measure.column)
        match measure.kind:
            case "count":
                row = f"CASE WHEN {column} IS NULL THEN CAST(0 AS BIGINT) ELSE CAST(1 AS BIGINT) END"
                return Stored(
                    name=name, type=Simple.BIGINT, row=row, part=f"count({column})", whole=f"sum({name})"
                )
            case "sum":
                scale = kind.scale if isinstance(kind, Decimal) else 0
                wide = Decimal(precision=_SUM_DIGITS, scale=scale)
                row = f"CAST({column} AS {duckdb_type(wide)})"
                return Stored(name=name, type=wide, row=row, part=f"sum({column})", whole=f"sum({name})")
            case "min" | "max":
                called = measure.kind
                return Stored(
                    name=name, type=kind, row=column, part=f"{called}({column})", whole=f"{called}({name})"
                )


def defined(
    *,
    rollup_id: str,
    name: str,
    table: str,
    dimensions: Sequence[Dimension],
    measures: Sequence[tuple[str, str]],
    columns: Struct,
    partition_columns: Sequence[str],
) -> RollupDefinition:
    """A definition whose columns are those of the table. `measures` are functions, also `avg`, and columns.

    Raises bad_statement for what cannot be kept exactly.
    """
    if not dimensions:
        raise _refused("A rollup needs a dimension.", "Name in GROUP BY what it is grouped by.")
    found: dict[str, Field] = {}

    def field(column: str) -> Field:
        known = columns.find(column)
        if known is None:
            raise _refused(
                f"Table {table} has no column {column}.",
                f"It has {', '.join(each.name for each in columns.fields)}.",
            )
        found[known.name] = known
        return known

    of_table = tuple(_checked_dimension(each, field(each.column)) for each in dimensions)
    if len(set(of_table)) < len(of_table):
        raise _refused("A dimension is there twice.", "Leave one out.")
    if sum(each.bucket is not None for each in of_table) > _MOST_BUCKETS:
        raise _refused("A rollup has one time bucket at most.", "Leave the others out.")
    kept: dict[Measure, None] = {}
    for function, column in measures:
        kept |= dict.fromkeys(_kept(function, field(column)))
    for column in partition_columns:
        if field(column).type not in _GROUPABLE and not isinstance(field(column).type, Decimal):
            raise _refused(
                f"Table {table} is partitioned by {column}, whose type a rollup cannot have.",
                "Use another table.",
            )
    return RollupDefinition(
        id=rollup_id,
        name=name,
        table=table,
        dimensions=of_table,
        measures=tuple(kept),
        types=tuple(found.values()),
        partition_columns=tuple(partition_columns),
    )


def rollup_from_json(text: str) -> RollupDefinition:
    """The inverse of `as_json`. Raises ValueError if it is not ours."""
    try:
        content: Any = json.loads(text)
        if content.get("headrace_rollup") != _FORMAT:
            raise ValueError("another format")
        return RollupDefinition(
            id=content["id"],
            name=content["name"],
            table=content["table"],
            dimensions=tuple(
                Dimension(column=each["column"], bucket=_bucket_of(each)) for each in content["dimensions"]
            ),
            measures=tuple(Measure(kind=each["kind"], column=each["column"]) for each in content["measures"]),
            types=tuple(Field(name=each["name"], type=_type_of(each)) for each in content["types"]),
            partition_columns=tuple(content["partition_columns"]),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"not the definition of a rollup: {error}") from error


def duckdb_type(kind: Type) -> str:
    if isinstance(kind, Decimal):
        return f"DECIMAL({kind.precision},{kind.scale})"
    assert isinstance(kind, Simple)
    return _DUCKDB[kind]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def width_of(text: str) -> int | None:
    """The microseconds of a width such as `15 minutes`; None if it is none."""
    number, _, unit = text.strip().partition(" ")
    width = UNITS.get(unit.strip().lower().removesuffix("s"))
    return int(number) * width if width and number.isascii() and number.isdigit() else None


def bucket_of_unit(unit: str) -> Bucket | None:
    """None if there is no bucket of that unit."""
    unit = unit.lower()
    if unit not in UNITS:
        return None
    width = UNITS[unit]
    return Bucket(unit=unit) if width is None else Bucket(width_us=width)


def _checked_dimension(dimension: Dimension, field: Field) -> Dimension:
    kind, bucket = field.type, dimension.bucket
    if bucket is None:
        if kind not in _GROUPABLE and not isinstance(kind, Decimal):
            raise _refused(
                f"Column {field.name} cannot be a dimension: groups of its type are not exact, or not small.",
                "Dimensions are texts, whole numbers, decimals, truth values, dates and times.",
            )
        return Dimension(column=field.name)
    if kind not in _TIMES:
        raise _refused(f"Column {field.name} is no time, so it has no buckets.", "Name a column of a time.")
    if not bucket.unit and (bucket.width_us <= 0 or DAY_US % bucket.width_us):
        raise _refused(
            "The width of the bucket does not divide a day.",
            "Use for example '15 minutes', '1 hour' or '1 day'.",
        )
    return Dimension(column=field.name, bucket=bucket)


def _kept(function: str, field: Field) -> Iterator[Measure]:
    kind = field.type
    match function:
        case "count":
            yield Measure(kind="count", column=field.name)
        case "sum" | "avg":
            is_exact = kind in _WHOLE or (isinstance(kind, Decimal) and kind.precision <= _MOST_DIGITS)
            if not is_exact:
                raise _refused(
                    f"{function}({field.name}) cannot be kept: sums are exact only of whole numbers and of "
                    f"decimals up to {_MOST_DIGITS} digits. Those of floating-point numbers depend on the "
                    "order of the rows.",
                    "Leave it out, or let the connector cast the column to a decimal.",
                )
            yield Measure(kind="sum", column=field.name)
            if function == "avg":
                yield Measure(kind="count", column=field.name)
        case "min" | "max":
            if kind not in _ORDERED and not isinstance(kind, Decimal):
                raise _refused(
                    f"{function}({field.name}) cannot be kept: its type has no order.", "Leave it out."
                )
            yield Measure(kind="min" if function == "min" else "max", column=field.name)
        case _:
            raise _refused(
                f"A rollup cannot keep {function}.",
                "It keeps count(*), count, sum, avg, min and max of columns: what more rows can be added to.",
            )


def _bucket_json(bucket: Bucket | None) -> dict[str, Any]:
    return {} if bucket is None else {"unit": bucket.unit, "width_us": bucket.width_us}


def _bucket_of(content: Mapping[str, Any]) -> Bucket | None:
    return Bucket(unit=content["unit"], width_us=content["width_us"]) if "unit" in content else None


def _type_json(kind: Type) -> dict[str, Any]:
    if isinstance(kind, Decimal):
        return {"precision": kind.precision, "scale": kind.scale}
    return {"type": kind.value if isinstance(kind, Simple) else "OTHER"}


def _type_of(content: Mapping[str, Any]) -> Type:
    if "precision" in content:
        return Decimal(precision=content["precision"], scale=content["scale"])
    return Simple(content["type"])


def _refused(message: str, remedy: str) -> HeadraceError:
    return HeadraceError("bad_statement", message, remedy=remedy)
