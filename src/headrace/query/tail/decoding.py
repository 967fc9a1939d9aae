"""Records of a topic as rows of a table at one version: in columns where that is possible, else one by one.

Columns come from the same code as in the pipeline (`lake/columns/`). A fetch with anything unusual is read
again record by record (`record_rows.py`). What is no row, or not certainly one:

- dropped: a sink that ignores null values says so. It is nowhere, and so not missing.
- refused: it becomes a dead letter. If the sink does not tolerate errors, the lake stops at it, and so does
  the tail of this partition.
- left to the lake: it may become a row, but only the lake knows (`withheld`). It counts as missing until
  then.

What this holds for: unreadable values, values out of range or of another type than their column, texts that
are no dates, names of folders that are too long, null values, and the limit of new partitions as far as
`folder_policy.py` says. One kind of record is not recognised: one that was refused by an earlier run of the
connector for a reason that is gone, whose dead letter is in the log and whose commit was lost in a crash.

Belongs to one thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.client.batches import RecordSet
from headrace.lake.columns.arrow_types import arrow_type
from headrace.lake.columns.folders import Folder, FolderColumn, folders_of
from headrace.lake.columns.rows import rows_of
from headrace.lake.columns.unusual import UnusualRecordsError
from headrace.lake.layout import TOPIC_OFFSET
from headrace.lake.new_partitions import Partition
from headrace.lake.sink import ConverterKind, NullValues
from headrace.lake.types import Simple
from headrace.query.tail.derived_columns import DerivedColumns
from headrace.query.tail.outcomes import Refused, Row, Unsure
from headrace.query.tail.record_rows import RecordRows
from headrace.query.tail.row_shape import RowShape
from headrace.wire.errors import CorruptBatchError
from headrace.wire.record_batch import check
from headrace.wire.record_columns import record_columns
from headrace.wire.records import read_records

# Decoded at once: few enough to stay in the processor's cache.
_DECODED_BYTES: Final = 8 * 1024 * 1024
_MOST_HEADERS: Final = 64
_TOO_MANY_FOLDERS: Final = "their folders are new, and the table gets only so many of these in an hour"

# The rows that the table does not have yet, of some of which only its files can tell.
WithoutKnown = Callable[[pa.Table], pa.Table]
# The partitions whose rows are not certain to be taken.
RefusedFolders = Callable[[Sequence[Partition]], set[Partition]]


@dataclass(slots=True)
class Decoded:
    """`rows` have the columns of the table in its order. `withheld` records, for `reason`, are left to the
    lake.

    `stopped_at` is the offset of the first record at which the lake stops, for `reason`; None if there is
    none. Nothing from there on is decoded.
    """

    rows: pa.Table
    withheld: int = 0
    withheld_end: int = 0
    reason: str = ""
    stopped_at: int | None = None


@dataclass(slots=True)
class _Singles:
    """Rows that were read one by one."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    withheld: int = 0
    withheld_end: int = 0
    reason: str = ""
    stopped_at: int | None = None


class BatchDecoder:
    """Of one table, for one incarnation of its topic."""

    def __init__(
        self,
        shape: RowShape,
        *,
        topic_id: str,
        schema_by_id: Callable[[int], str | None],
        without_known: WithoutKnown,
        refused_folders: RefusedFolders,
    ) -> None:
        self._shape = shape
        self._topic_id = topic_id
        self._schema_by_id = schema_by_id
        self._without_known = without_known
        self._refused_folders = refused_folders
        self._derived = DerivedColumns(shape.derived, shape.values)
        self._single = RecordRows(shape, topic_id=topic_id, schema_by_id=schema_by_id)
        # Records whose rows are more than the fields of Avro are read one by one.
        self._has_columns = shape.sink.value.kind is ConverterKind.AVRO and not (
            shape.sink.stores_keys or shape.sink.stores_headers or shape.sink.changes_records
        )
        self._schema = pa.schema(
            [pa.field(each.name, arrow_type(each.type)) for each in shape.columns.fields]
        )

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def folders(self) -> Sequence[FolderColumn] | None:
        """The partition columns of the table; None if only the lake will know the values of some."""
        return None if self._shape.derived.unknown else self._shape.folders

    def decode(self, records: RecordSet, *, partition: int, first: int) -> Decoded:
        """The records from offset `first` on.

        Raises HeadraceError if schemas cannot be had or the table cannot be read, OSError if its storage
        fails, CorruptBatchError if a batch is damaged.
        """
        try:
            rows = self._in_columns(records, partition, first)
            decoded = Decoded(rows=rows)
            # Also raises if a value cannot name a folder, or if there are very many of them.
            self._leave_folders(decoded, folders_of(rows, self._shape.folders))
        except (UnusualRecordsError, CorruptBatchError):
            decoded = self._one_by_one(records, partition, first)
        if len(decoded.rows):
            decoded.rows = self._without_known(decoded.rows)
        decoded.rows = self._as_in_table(decoded.rows)
        return decoded

    def _in_columns(self, records: RecordSet, partition: int, first: int) -> pa.Table:
        shape = self._shape
        if not self._has_columns:
            raise UnusualRecordsError("its rows are more than the fields of Avro")
        tables: list[pa.Table] = [self._schema.empty_table()]
        for found in record_columns(
            records.content, records.batches, most_headers=_MOST_HEADERS, about_bytes=_DECODED_BYTES
        ):
            wanted = found.only(found.offset >= first)
            is_null = wanted.value.is_null
            if is_null.any():
                if shape.sink.null_values is not NullValues.IGNORE:
                    raise UnusualRecordsError("a record has no value")
                wanted = wanted.only(~is_null)
            if not len(wanted):
                continue
            rows = rows_of(
                wanted,
                partition=partition,
                topic_id=self._topic_id,
                columns=shape.values,
                schema_by_id=self._schema_by_id,
            )
            if shape.derived.names:
                derived = self._derived.arrays(rows, wanted.timestamp, partition=partition)
                for name, column in derived.items():
                    rows = rows.append_column(name, column)
            tables.append(rows.select(self._schema.names).cast(self._schema))
        rows = pa.concat_tables(tables)
        # Raises if a value cannot name a folder, or if there are very many of them.
        folders_of(rows, shape.folders)
        return rows

    def _one_by_one(self, records: RecordSet, partition: int, first: int) -> Decoded:
        found = _Singles()
        for header in records.batches:
            check(memoryview(records.content), header)
            for record in read_records(records.content, header):
                offset = header.base_offset + record.offset_delta
                if offset < first or found.stopped_at is not None:
                    continue
                appended = header.log_append_time
                timestamp = (
                    header.max_timestamp if appended else header.base_timestamp + record.timestamp_delta
                )
                outcome = self._single.outcome(
                    record, partition=partition, offset=offset, timestamp=timestamp
                )
                match outcome:
                    case Row():
                        found.rows.append(dict(outcome.values))
                    case Unsure():
                        found.withheld += 1
                        found.withheld_end = offset + 1
                        found.reason = outcome.reason
                    case Refused() if not self._shape.sink.errors.tolerates_all:
                        found.stopped_at, found.reason = offset, outcome.reason
        columns = [pa.array([row.get(each.name) for row in found.rows], each.type) for each in self._schema]
        decoded = Decoded(
            rows=pa.table(columns, schema=self._schema),
            withheld=found.withheld,
            withheld_end=found.withheld_end,
            reason=found.reason,
            stopped_at=found.stopped_at,
        )
        try:
            self._leave_folders(decoded, folders_of(decoded.rows, self._shape.folders))
        except UnusualRecordsError as error:
            _withhold(decoded, decoded.rows, str(error))
            decoded.rows = decoded.rows.slice(0, 0)
        return decoded

    def _leave_folders(self, decoded: Decoded, folders: Sequence[Folder]) -> None:
        """Leave rows to the lake whose folders it may refuse."""
        if not self._shape.folders or not len(decoded.rows):
            return
        refused = self._refused_folders([each.partition for each in folders])
        if not refused:
            return
        left = _numbers(each.rows for each in folders if each.partition in refused)
        kept = _numbers(each.rows for each in folders if each.partition not in refused)
        _withhold(decoded, decoded.rows.take(left), _TOO_MANY_FOLDERS)
        decoded.rows = decoded.rows.take(kept)

    def _as_in_table(self, rows: pa.Table) -> pa.Table:
        """As readers of the table see its folders: the empty text and null are one value."""
        for each in self._shape.folders:
            if each.type is not Simple.STRING:
                continue
            values = rows.column(each.name)
            is_empty = pc.equal(values, "")
            if pc.any(is_empty).as_py():
                number = rows.schema.get_field_index(each.name)
                nulls = pc.if_else(is_empty, pa.scalar(None, pa.string()), values)
                rows = rows.set_column(number, self._schema.field(number), nulls)
        return rows


def _numbers(rows: Iterable[pa.Array]) -> pa.Array:
    """In order."""
    found = [np.asarray(each, np.int64) for each in rows]
    return pa.array(np.sort(np.concatenate(found)) if found else np.array([], np.int64))


def _withhold(decoded: Decoded, rows: pa.Table, reason: str) -> None:
    decoded.withheld += len(rows)
    decoded.withheld_end = max(decoded.withheld_end, pc.max(rows.column(TOPIC_OFFSET)).as_py() + 1)
    decoded.reason = reason
