"""The formats of answers: rows as JSON, CSV, one JSON object per line, or pickled for another process.

An encoder turns the parts of one answer into bytes as they come: `begin`, then `rows` any number of times,
then `end`. Invariants: the bytes do not depend on how the rows are cut into parts; an answer without its end
is not complete JSON. Arrow is not here: `workers/answering.py` passes DuckDB's own batches on.
"""

from __future__ import annotations

import csv
import io
import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from headrace.query.questions import AnswerSummary
from headrace.query.result_values import encoded, encoded_plain

JSON: Final = "application/json"
CSV: Final = "text/csv"
NDJSON: Final = "application/x-ndjson"
ARROW: Final = "application/vnd.apache.arrow.stream"
# Python values, for whoever runs a worker of its own; never sent to a client.
ROWS: Final = "rows"
# Not an answer: the statement as Spark understands it; never sent to a client.
SPARK_STATEMENT: Final = "spark statement"

# Types whose Python values are JSON as they are. Floating-point numbers may be NaN.
_PLAIN_TYPES: Final = frozenset(
    {
        "BIGINT", "BOOLEAN", "DATE", "HUGEINT", "INTEGER", "SMALLINT", "TIME", "TIMESTAMP", "TINYINT",
        "UBIGINT", "UHUGEINT", "UINTEGER", "USMALLINT", "UTINYINT", "UUID", "VARCHAR",
    }
)  # fmt: skip

_VALUE_TYPES: Final = frozenset(
    {
        ("datetime", "date"), ("datetime", "datetime"), ("datetime", "time"), ("datetime", "timedelta"),
        ("datetime", "timezone"), ("decimal", "Decimal"), ("uuid", "SafeUUID"), ("uuid", "UUID"),
    }
)  # fmt: skip

Row = Sequence[object]


class Encoder(Protocol):
    """Encodes one answer."""

    def begin(self) -> bytes: ...

    def rows(self, rows: Sequence[Row]) -> bytes: ...

    def end(self, summary: AnswerSummary) -> bytes: ...


class JsonEncoder:
    """`{"columns": […], "types": […], "rows": [[…], …], "tables": […]}`."""

    def __init__(self, columns: Sequence[str], types: Sequence[str]) -> None:
        self._columns = columns
        self._types = types
        self._encode = encoded_plain if _PLAIN_TYPES.issuperset(types) else encoded
        self._has_rows = False

    def begin(self) -> bytes:
        return b'{"columns":%b,"types":%b,"rows":[' % (encoded(self._columns), encoded(self._types))

    def rows(self, rows: Sequence[Row]) -> bytes:
        listed = self._encode(rows)[1:-1]
        separator = b"," if self._has_rows and listed else b""
        self._has_rows = self._has_rows or bool(listed)
        return separator + listed

    def end(self, summary: AnswerSummary) -> bytes:
        return b'],"tables":%b}' % encoded(summary.tables)


class NdjsonEncoder:
    """One object per row. Repeated column names get a number."""

    def __init__(self, columns: Sequence[str], types: Sequence[str]) -> None:
        self._names = _distinct(columns)
        self._encode = encoded_plain if _PLAIN_TYPES.issuperset(types) else encoded

    def begin(self) -> bytes:
        return b""

    def rows(self, rows: Sequence[Row]) -> bytes:
        return b"".join(self._encode(dict(zip(self._names, row, strict=True))) + b"\n" for row in rows)

    def end(self, summary: AnswerSummary) -> bytes:  # noqa: ARG002  the format has no place for it
        return b""


class CsvEncoder:
    """A header line, then the rows. NULL is an empty field; lists and structures are JSON in a field."""

    def __init__(self, columns: Sequence[str], types: Sequence[str]) -> None:  # noqa: ARG002
        self._columns = columns

    def begin(self) -> bytes:
        return _csv_lines([self._columns])

    def rows(self, rows: Sequence[Row]) -> bytes:
        return _csv_lines([_field(value) for value in row] for row in rows)

    def end(self, summary: AnswerSummary) -> bytes:  # noqa: ARG002  the format has no place for it
        return b""


class PickleEncoder:
    """Lists of tuples, one after the other; `unpickled` reads them."""

    def __init__(self, columns: Sequence[str], types: Sequence[str]) -> None:
        pass

    def begin(self) -> bytes:
        return b""

    def rows(self, rows: Sequence[Row]) -> bytes:
        return pickle.dumps(rows, protocol=pickle.HIGHEST_PROTOCOL)

    def end(self, summary: AnswerSummary) -> bytes:  # noqa: ARG002  comes in a frame of its own
        return b""


ENCODERS: Final[dict[str, Callable[[Sequence[str], Sequence[str]], Encoder]]] = {
    JSON: JsonEncoder,
    CSV: CsvEncoder,
    NDJSON: NdjsonEncoder,
    ROWS: PickleEncoder,
}
# What clients can ask for, the default first.
MEDIA_TYPES: Final = (JSON, CSV, NDJSON, ARROW)


def unpickled(content: bytes) -> list[tuple[Any, ...]]:
    """The rows that `PickleEncoder` encoded. Raises UnpicklingError for anything but values of answers."""
    stream = io.BytesIO(content)
    rows: list[tuple[Any, ...]] = []
    while stream.tell() < len(content):
        rows.extend(_Unpickler(stream).load())
    return rows


class _Unpickler(pickle.Unpickler):
    """Creates values only: a worker that a question has taken over gets nowhere with this."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _VALUE_TYPES:
            raise pickle.UnpicklingError(f"{module}.{name} is no value of an answer")
        return super().find_class(module, name)


def _csv_lines(rows: Iterable[Iterable[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode("utf-8", "replace")


def _field(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    text = encoded(value).decode()
    return text[1:-1] if text.startswith('"') else text


def _distinct(columns: Iterable[str]) -> list[str]:
    names: list[str] = []
    taken: set[str] = set()
    for column in columns:
        name, number = column, 1
        while name in taken:
            number += 1
            name = f"{column}_{number}"
        taken.add(name)
        names.append(name)
    return names
