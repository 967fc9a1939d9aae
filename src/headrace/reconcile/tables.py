"""The lake's side: the rows of one version of a table, by their place in the topic and by their source.

DuckDB reads only the columns in question of that version's files, and adds up fingerprints; identities are
fetched only for the ranges that are looked at one by one. Never reads a column of an event, never writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from headrace.core.errors import HeadraceError
from headrace.lake import layout
from headrace.lake.coordinates import SourceCoordinates
from headrace.query.lake_database import LakeDatabase
from headrace.query.snapshots import LakeTables, TableSnapshot, quoted
from headrace.reconcile.fingerprints import RANGE, Fingerprint, RangeKey
from headrace.reconcile.topics import Stretches

# Enough for a table of a hundred million rows; the files are on this machine.
_TIME_LIMIT_SECONDS: Final = 600.0
_MEMORY_LIMIT: Final = "1GB"
_THREADS: Final = 2

_SOURCE: Final = (layout.QUERY, layout.SOURCE_TOPIC_ID, layout.SOURCE_PARTITION)


class TableRows:
    """The rows of a table at its newest version, as long as it is open."""

    def __init__(self, lake_dir: Path, snapshot: TableSnapshot) -> None:
        """Raises HeadraceError if its files alone do not give its rows."""
        if snapshot.unreadable:
            raise HeadraceError(
                "query_failed", f"The table {snapshot.name} cannot be read: {snapshot.unreadable}."
            )
        self.snapshot = snapshot
        self._database = LakeDatabase(
            lake_dir,
            time_limit_seconds=_TIME_LIMIT_SECONDS,
            memory_limit=_MEMORY_LIMIT,
            threads=_THREADS,
        )
        self._connection = self._database.connect([snapshot], widened=())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._connection.close()
        self._database.close()

    def by_place(self, within: Stretches) -> dict[RangeKey, Fingerprint]:
        """Fingerprints of the rows' places in the topic."""
        return self._fingerprints(layout.TOPIC_PARTITION, layout.TOPIC_OFFSET, within, "true", [])

    def by_source(self, query: str, topic_id: str, within: Stretches) -> dict[RangeKey, Fingerprint]:
        """Fingerprints of the source offsets of a query's rows; of several rows of one record the first."""
        condition = (
            f"{quoted(layout.QUERY)} = ? AND {quoted(layout.SOURCE_TOPIC_ID)} = ? "
            f"AND {quoted(layout.SOURCE_ORDINAL)} = 0"
        )
        return self._fingerprints(
            layout.SOURCE_PARTITION, layout.SOURCE_OFFSET, within, condition, [query, topic_id]
        )

    def times(self, wanted: Iterable[SourceCoordinates]) -> Counter[SourceCoordinates]:
        """How many rows each of these has."""
        asked = set(wanted)
        groups: dict[tuple[str, str, int], list[int]] = {}
        for each in asked:
            groups.setdefault((each.query, each.topic_id, each.partition), []).append(each.offset)
        found: Counter[SourceCoordinates] = Counter()
        for group, offsets in groups.items():
            for row in self._rows(
                f"SELECT {quoted(layout.SOURCE_OFFSET)}, {quoted(layout.SOURCE_ORDINAL)}, count(*) "
                f"FROM {self._table} WHERE {_equal(_SOURCE)} "
                f"AND {quoted(layout.SOURCE_OFFSET)} BETWEEN ? AND ? GROUP BY ALL",
                [*group, min(offsets), max(offsets)],
            ):
                query, topic_id, partition = group
                id_ = SourceCoordinates(
                    query=query, topic_id=topic_id, partition=partition, offset=row[0], ordinal=row[1]
                )
                if id_ in asked:
                    found[id_] = row[2]
        return found

    def doubles(self) -> Counter[SourceCoordinates]:
        """All rows that are there more than once. Reads the coordinates of the whole table."""
        columns = (*_SOURCE, layout.SOURCE_OFFSET, layout.SOURCE_ORDINAL)
        listed = ", ".join(quoted(name) for name in columns)
        rows = self._rows(
            f"SELECT {listed}, count(*) FROM {self._table} GROUP BY {listed} HAVING count(*) > 1", []
        )
        return Counter(
            {
                SourceCoordinates(
                    query=row[0], topic_id=row[1], partition=row[2], offset=row[3], ordinal=row[4]
                ): row[5]
                for row in rows
            }
        )

    @property
    def _table(self) -> str:
        return quoted(self.snapshot.name)

    def _fingerprints(
        self, partition: str, offset: str, within: Stretches, condition: str, parameters: list[Any]
    ) -> dict[RangeKey, Fingerprint]:
        if not within:
            return {}
        number = f"CAST({quoted(offset)} AS HUGEINT)"
        limits = " OR ".join(
            f"({quoted(partition)} = {each} AND {quoted(offset)} >= {first} AND {quoted(offset)} < {end})"
            for each, (first, end) in within.items()
        )
        rows = self._rows(
            f"SELECT {quoted(partition)}, {quoted(offset)} // {RANGE}, count(*), sum({number}), "
            f"sum({number} * {number}) FROM {self._table} WHERE ({limits}) AND {condition} GROUP BY ALL",
            parameters,
        )
        return {
            (row[0], row[1]): Fingerprint(records=row[2], total=int(row[3]), squares=int(row[4]))
            for row in rows
        }

    def _rows(self, statement: str, parameters: list[Any]) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, parameters).fetchall()


def snapshot_of(folder: Path) -> TableSnapshot | None:
    """The newest version of the table in this folder; None if there is none."""
    return LakeTables(folder.parent).current().get(folder.name)


def _equal(columns: Iterable[str]) -> str:
    return " AND ".join(f"{quoted(name)} = ?" for name in columns)
