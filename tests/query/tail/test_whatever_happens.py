"""Random histories of a table and its topic: at every moment, and for every version that is still there, the
files of the version and its tail have each record once.

What a version and its tail have together are the rows of its files, and all records of the topic as it is now
but for those that somebody has deleted from the table. The tail has just what a writer would write that went
on from this version.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.client.cluster import Cluster
from headrace.lake.delta_schema import struct_of
from headrace.lake.table_state import TableState
from headrace.lake.types import Struct
from headrace.query.tail.chunk_files import WORTHWHILE, Worthwhile
from headrace.query.tail.tails import Tails
from headrace.testing import EmbeddedBroker
from tests.query.tail.conftest import MOST_BYTES
from tests.query.tail.written_table import (
    NOTE,
    FeedsOfTests,
    WrittenTable,
    numbers_in,
    rows_in,
    twice,
)

WAIT = 60.0
STEPS = 14
# More of them take minutes: TAIL_HISTORIES=100.
HISTORIES = int(os.environ.get("TAIL_HISTORIES", "5"))


class History:
    """One table and what happens to it."""

    def __init__(self, table: WrittenTable, tails: Tails, chance: Random) -> None:
        self.table, self.tails, self.chance = table, tails, chance
        # What each version does not have because somebody deleted it.
        self.deleted: dict[int, frozenset[int]] = {table.version: frozenset()}
        self.told: list[str] = []
        self.has_note = False

    def step(self) -> None:
        steps: list[Callable[[], object]] = [
            *([self.produce] * 4),
            *([self.write] * 4),
            self.restore,
            self.optimize,
            self.delete,
            self.expire,
            self.table.add_partition,
            self.add_column,
            self.recreate,
            self.append_by_others,
        ]
        chosen = self.chance.choice(steps)
        self.told.append(chosen.__name__)
        before = self.table.version
        deleted = self.deleted[before]
        chosen()
        for version in range(before + 1, self.table.version + 1):
            self.deleted.setdefault(version, deleted)

    def produce(self) -> None:
        self.table.produce(
            self.chance.randint(1, 30),
            partition=self.chance.randrange(self.table.topic.partitions),
            kind=self.chance.choice(["a", "b", "", None]),
            schema=self.chance.choice([1, 2]),
        )

    def write(self) -> None:
        positions = self.table.positions()
        ends = self.table.cluster.end_offsets(self.table.name)
        self.table.write(
            {
                number: self.chance.randint(min(positions.get(number, 0), end), end)
                for number, end in ends.items()
            }
        )

    def restore(self) -> None:
        version = self.chance.randrange(max(self.table.version - 5, 0), self.table.version + 1)
        if version == self.table.version:
            return
        restored = self.table.restore(version, is_ours=self.chance.random() < 0.5)
        self.deleted[restored] = self.deleted[version]

    def optimize(self) -> None:
        if self.table.numbers(self.table.version):
            self.table.optimize()

    def delete(self) -> None:
        present = self.table.numbers(self.table.version)
        if not present:
            return
        gone = self.chance.sample(present, min(len(present), 3))
        before = self.deleted[self.table.version]
        self.deleted[self.table.delete(gone)] = before | set(gone)

    def expire(self) -> None:
        """Nothing that the table has yet to read."""
        number = self.chance.randrange(self.table.topic.partitions)
        before = self.table.positions().get(number, 0)
        if before:
            self.table.expire(number, self.chance.randint(1, before))

    def add_column(self) -> None:
        if NOTE not in self.table.columns.fields:
            self.table.add_column(NOTE)

    def recreate(self) -> None:
        """What is derived is produced again, as far as it was not lost; other records are lost."""
        known = {each.number: each for each in self.table.records}
        self.table.recreate(partitions=self.chance.randint(1, 3))
        if not self.table.is_derived:
            return
        for number, each in sorted(known.items()):
            if self.chance.random() < 0.8:
                partition = self.chance.randrange(self.table.topic.partitions)
                self.table.produce_numbers([number], partition=partition, kind=each.kind, schema=each.schema)

    def append_by_others(self) -> None:
        """Somebody writes rows that the table has yet to read."""
        positions = self.table.positions()
        ahead = [
            each
            for each in self.table.records
            if each.offset >= positions.get(each.partition, 0)
            and each.number not in self.table.numbers(self.table.version)
        ]
        chosen = self.chance.sample(ahead, min(len(ahead), 3))
        if chosen:
            self.table.commit("WRITE", self.table.adds(chosen), mode="Append")

    def check(self) -> None:
        """Of the newest version, and of some that are older."""
        newest = self.table.version
        for version in {newest, self.chance.randint(max(newest - 4, 0), newest)}:
            self._check(version)

    def _check(self, version: int) -> None:
        view = self.tails.view(self.table.snapshot(version), wait_seconds=WAIT)
        about = f"version {version} of {self.table.version} after {self.told}: {view}"
        assert (view.behind, view.reason) == (0, ""), about
        files = self.table.numbers(version)
        together = files + numbers_in(view)
        assert twice(together) == [], about
        in_topic = {each.number: each for each in self.table.records}
        assert set(together) >= in_topic.keys() - self.deleted[version], about
        unwritten = {each.number: each for each in self.table.unwritten(version)}
        before = {each.number: each for each in self.table.unwritten_before(version)}
        found = set(numbers_in(view))
        assert unwritten.keys() <= found <= unwritten.keys() | before.keys(), about
        by_number = {**before, **unwritten}
        rows = rows_in(view)
        expected = self.table.rows_of([by_number[row["NUMBER"]] for row in rows], self._columns(version))
        assert rows == expected, about
        assert [list(row) for row in rows] == [list(row) for row in expected], about

    def _columns(self, version: int) -> Struct:

        state = TableState(self.table.log, at=version)
        return struct_of(state.metadata["schemaString"], table=self.table.name)


@pytest.mark.parametrize("is_derived", [True, False], ids=["derived", "raw"])
@settings(max_examples=HISTORIES)
@given(seed=st.integers(0, 2**32))
def test_each_record_is_there_once(
    broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory, is_derived: bool, seed: int
) -> None:

    chance = Random(seed)
    folder: Path = tmp_path_factory.mktemp("history")
    feeds = FeedsOfTests(Cluster(broker.bootstrap))
    tails = Tails(
        broker.bootstrap,
        feeds,
        folder / "tails",
        most_bytes=MOST_BYTES,
        keep_seconds=1.0,
        # All chunks as data files, or none.
        worthwhile=chance.choice([WORTHWHILE, Worthwhile(bytes=1, rows_of_file=1)]),
    )
    try:
        name = f"history_{uuid.uuid4().hex}"
        table = WrittenTable(broker, name, folder / "lake", feeds, is_derived=is_derived)
        history = History(table, tails, chance)
        for _ in range(STEPS):
            history.step()
            history.check()
    finally:
        tails.close()
        feeds.cluster.close()
