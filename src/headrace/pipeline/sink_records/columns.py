"""What can be done with the columns of records, whatever they are made of: Spark's expressions, which run for
millions of records, or functions of Python for single ones.

`Columns` has what transformations need. Both forms must give the same values: tests compare them on generated
records. Nothing may fail on any data; whoever makes columns in Python may leave a record out instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from headrace.lake.types import Simple, Type

C = TypeVar("C")

# What Kafka's Cast makes. Columns of the lake have no integers below INT.
CAST_TYPES: Final[dict[str, Simple]] = {
    "int8": Simple.INT,
    "int16": Simple.INT,
    "int32": Simple.INT,
    "int64": Simple.BIGINT,
    "float32": Simple.FLOAT,
    "float64": Simple.DOUBLE,
    "boolean": Simple.BOOLEAN,
    "string": Simple.STRING,
}
INTEGER_BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast(Generic[C]):
    """`fails` is None if no value fails."""

    column: C = field(repr=False)
    fails: C | None = field(default=None, repr=False)


class Columns(Protocol[C]):
    """Conditions are columns of BOOLEAN; moments are of BIGINT, milliseconds since 1970."""

    def constant(self, value: object, kind: Type) -> C: ...

    def null(self, kind: Type) -> C: ...

    def empty(self, kind: Type) -> C | None:
        """Zero, the empty text and so on; of a struct one without values. None if there is none."""
        ...

    def field(self, value: C, name: str) -> C:
        """Of a struct; null if it is null."""
        ...

    def record(self, fields: Sequence[tuple[str, C]]) -> C: ...

    def is_present(self, value: C) -> C:
        """Whether it is not null."""
        ...

    def when(self, condition: C, value: C, otherwise: C | None = None) -> C:
        """Null if the condition is false or null, and there is nothing otherwise."""
        ...

    def first(self, values: Sequence[C]) -> C:
        """The first that is not null."""
        ...

    def both(self, one: C, other: C) -> C: ...

    def opposite(self, condition: C) -> C: ...

    def has_header(self, headers: C, name: str) -> C:
        """False if there are no headers."""
        ...

    def problem(self, start: str, value: C) -> C:
        """A text with the beginning of the value."""
        ...

    def cast(self, value: C, kind: Type, target: str) -> Cast[C] | None:
        """As Kafka's Cast; `target` is one of `CAST_TYPES`. None if no value of the type can be cast."""
        ...

    # Times.

    def read_time(self, text: C, pattern: str) -> C:
        """A moment, by a pattern of SimpleDateFormat; null if there is none. Raises ValueError."""
        ...

    def written_time(self, moment: C, pattern: str) -> C:
        """The inverse."""
        ...

    def from_unix(self, number: C, units: int) -> C:
        """A moment; there are so many units in a second. Fractions are cut off; never too large."""
        ...

    def to_unix(self, moment: C, units: int) -> C:
        """The inverse."""
        ...

    def midnight(self, day: C) -> C:
        """The moment at which a DATE begins."""
        ...

    def moment(self, timestamp: C) -> C:
        """Of a TIMESTAMP or a TIMESTAMP_NTZ."""
        ...

    def between(self, moment: C, first: int, last: int) -> C:
        """The moment, or null outside of these."""
        ...

    def day(self, moment: C) -> C:
        """The DATE."""
        ...

    def time_of_day(self, moment: C) -> C:
        """INT, in milliseconds."""
        ...

    def timestamp(self, moment: C) -> C:
        """The TIMESTAMP."""
        ...
