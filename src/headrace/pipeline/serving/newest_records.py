"""The newest record of each key of a table's topic. Pure: whoever reads the topic hands the records over.

Rows are kept as bytes and decoded on request; those of one key are together, whatever their windows.

Except for KAFKA, different bytes may be the same key, such as JSON with other spaces, or Avro with another
schema. Then the newest record counts, as in queries that are kept.

After a topic has gained partitions, Kafka's hash may send a key to another partition than before. Then the
record with the later timestamp counts. So records may come in any order of partitions, but must come in the
order of offsets within each.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from headrace.pipeline.catalogue.catalogue import Format, Source
from headrace.pipeline.expressions.values import ValueProblemError
from headrace.pipeline.formats import Schemas, Serializer
from headrace.pipeline.serving.row_times import row_time

_log = logging.getLogger(__name__)

Row = dict[str, Any]
KeptRecord = tuple[bytes, bytes | None, Row]

# In a row: the record's headers, and its own timestamp, under names that no column has.
HEADERS: Final = "=> headers"
WRITTEN: Final = "=> written"


class NewestRecords:
    """Of one topic; keys end with `window_bytes` that say their window. Its owner locks."""

    def __init__(self, *, window_bytes: int, keeps_deleted: bool) -> None:
        self._window_bytes = window_bytes
        self._keeps_deleted = keeps_deleted
        # By key without window, then by window: value and position. A deleted row has no value.
        self._rows: dict[bytes, dict[bytes, tuple[bytes | None, Row]]] = {}

    def take(self, key: bytes | None, value: bytes | None, position: Row) -> None:
        if key is None:
            return
        cut = len(key) - self._window_bytes
        bare, window = key[:cut], key[cut:]
        windows = self._rows.get(bare, {})
        former = windows.get(window)
        if former is not None and not _follows(position, former[1]):
            return
        if value is not None or self._keeps_deleted:
            self._rows.setdefault(bare, windows)[window] = (value, position)
            return
        windows.pop(window, None)
        if not windows:
            self._rows.pop(bare, None)

    def records(self, key: bytes | None = None) -> list[KeptRecord]:
        """Key with window, value and position of all rows, or of those with that key; deleted rows that are
        remembered have no value.
        """
        groups = self._rows.items() if key is None else [(key, self._rows.get(key, {}))]
        return [
            (bare + window, value, position)
            for bare, windows in groups
            for window, (value, position) in windows.items()
        ]


def window_bytes_of(source: Source) -> int:
    """How many bytes at the end of a key say its window."""
    return 0 if source.window is None else 16 if source.window.size_ms is None else 8


def must_keep_deleted(source: Source, partitions: int) -> bool:
    """Whether an older record of another partition, or of another form of the key, may come after a
    deletion.
    """
    return partitions > 1 or has_forms(source)


def has_forms(source: Source) -> bool:
    """Whether different bytes may be the same key."""
    return source.key_encoding.format is not Format.KAFKA


def rows_of(
    records: list[KeptRecord],
    source: Source,
    schemas: Schemas,
    *,
    on_unreadable: Callable[[ValueProblemError], None] = lambda _: None,
) -> Iterator[Row]:
    """The rows of a table, with their positions; those that cannot be read are left out."""
    serializer = Serializer(source, schemas)
    for record_key, value, position in _newest(records, source, serializer):
        if value is None:
            continue
        try:
            row = {**serializer.read_key(record_key), **serializer.read_value(value)}
            time_of_row = row_time(source, row, position[WRITTEN], position[HEADERS])
        except ValueProblemError as error:
            _log.info("a row of %s cannot be read: %s", source.name, error)
            on_unreadable(error)
            continue
        yield {**row, **position, "ROWTIME": time_of_row}


def _newest(records: list[KeptRecord], source: Source, serializer: Serializer) -> Iterable[KeptRecord]:
    """One record for each key; an unreadable key is no key."""
    if not has_forms(source):
        return records
    found: dict[str, KeptRecord] = {}
    for record in records:
        try:
            # A key may be a STRUCT, which is a dict.
            key = repr(serializer.read_key(record[0]))
        except ValueProblemError as error:
            _log.info("a key of %s cannot be read: %s", source.name, error)
            continue
        former = found.get(key)
        if former is None or _is_newer(record[2], former[2]):
            found[key] = record
    return found.values()


def _follows(position: Row, former: Row) -> bool:
    """Whether a record that is read later also counts more: always within a partition."""
    if position["ROWPARTITION"] == former["ROWPARTITION"]:
        return True
    return _age(position) > _age(former)


def _age(position: Row) -> tuple[int, int]:
    # Of two records with the same time, the one in the newer partition is more likely the later one.
    return position[WRITTEN], position["ROWPARTITION"]


def _is_newer(position: Row, other: Row) -> bool:
    if position["ROWPARTITION"] == other["ROWPARTITION"]:
        return bool(position["ROWOFFSET"] > other["ROWOFFSET"])
    return _age(position) > _age(other)
