"""A topic as a data set of Arrow that DuckDB scans: each scan reads from the log what it asks for.

DuckDB gives a scan of a `pyarrow.dataset.Dataset` the columns that it needs and the conditions on them, and
leaves both to `scanner`. So only the stretches are read in which the conditions can hold (`ranges.py`), only
the wanted columns are made of each record, and reading ends when DuckDB has enough rows, as with LIMIT.

Invariants: a scan sees the committed records of the plan's stretches, however often the question scans them;
what fails while it reads is known afterwards as our own error. Belongs to the thread of one scan at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from headrace.core.errors import HeadraceError
from headrace.query.topic_tables.plan import TopicPlan
from headrace.query.topic_tables.ranges import ranges_of
from headrace.query.topic_tables.reading import Allowance, ScanNotes, TopicReading
from headrace.query.topic_tables.rows import TopicRows

# Few rows at first: with LIMIT they are often enough.
_FIRST_ROWS: Final = 256
_MOST_ROWS: Final = 16_384


class TopicDataset(ds.Dataset):  # type: ignore[misc]
    """One topic for one question."""

    def __init__(self, plan: TopicPlan, rows: TopicRows, allowance: Allowance) -> None:
        # The base class has no constructor: it is meant for data sets of files.
        self._plan = plan
        self._rows = rows
        self._allowance = allowance
        self.notes = ScanNotes()

    @property
    def schema(self) -> pa.Schema:
        return self._rows.schema

    def scanner(
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        **_: Any,
    ) -> _Scan:
        """DuckDB calls this for each scan."""
        return _Scan(self, list(columns) if columns is not None else self.schema.names, filter)

    def batches(self, columns: Sequence[str], condition: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._batches(columns, condition)
        except HeadraceError as error:
            # DuckDB would only pass on its text.
            self._allowance.failure = error
            raise

    def _batches(self, columns: Sequence[str], condition: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        needed = set(columns) | _named_in(condition, self.schema)
        ranges = ranges_of(condition, self._plan.stretches, self.schema)
        reading = TopicReading(self._plan, self._allowance, self.notes)
        try:
            size = _FIRST_ROWS
            for number, records in reading.portions(ranges):
                at = 0
                while at < len(records):
                    part = records.only(slice(at, at + size))
                    at += size
                    size = min(size * 2, _MOST_ROWS)
                    self.notes.rows += len(part)
                    yield from _chosen(self._rows.batch(part, number, needed), columns, condition)
        finally:
            reading.close()


class _Scan:
    """What DuckDB expects of a scanner."""

    def __init__(
        self, dataset: TopicDataset, columns: Sequence[str], condition: pc.Expression | None
    ) -> None:
        self._dataset = dataset
        self._columns = columns
        self._condition = condition

    @property
    def projected_schema(self) -> pa.Schema:
        return pa.schema([self._dataset.schema.field(name) for name in self._columns])

    def to_reader(self) -> pa.RecordBatchReader:
        batches = self._dataset.batches(self._columns, self._condition)
        return pa.RecordBatchReader.from_batches(self.projected_schema, batches)


def _named_in(condition: pc.Expression | None, schema: pa.Schema) -> set[str]:
    """The columns that a condition may be about; some more do no harm."""
    if condition is None:
        return set()
    text = str(condition)
    return {name for name in schema.names if name in text}


def _chosen(
    batch: pa.RecordBatch, columns: Sequence[str], condition: pc.Expression | None
) -> Iterator[pa.RecordBatch]:
    if condition is None:
        yield batch.select(list(columns))
        return
    table = pa.Table.from_batches([batch])
    yield from table.filter(condition).select(list(columns)).to_batches()
