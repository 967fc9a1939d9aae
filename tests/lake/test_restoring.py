"""A table goes back to an older version, and its rows are those of the topic again: plan and commit."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.errors import HeadraceError
from headrace.lake.positions import Position, Progress, Reached, Source
from headrace.lake.restoring import Deletion, Restore, commit_restore, plan_restore, restored_by, returning
from headrace.lake.restoring_words import as_content, restored_text
from headrace.lake.resuming import resume
from headrace.lake.table_state import TableState
from tests.lake.made_tables import TOPIC_ID, MadeTable


@dataclass
class Topic:
    """Of one partition, which begins at `start`."""

    start: int = 0
    topic_id: str = TOPIC_ID
    ends: dict[int, int] = field(default_factory=dict)

    @property
    def starts(self) -> dict[int, int]:
        return {0: self.start}

    def lacking(self, _offsets: Mapping[int, int]) -> set[int]:
        return set()


@pytest.fixture
def table(tmp_path: Path) -> MadeTable:
    return MadeTable(tmp_path / "t")


def restored(table: MadeTable, version: int, order: str = "order") -> int:
    plan = plan_restore(table.log, version, name="t")
    made = commit_restore(table.log, plan, progress=plan.progress, order=order)
    assert made is not None
    return made


def position(table: MadeTable) -> tuple[int, bool]:
    found = resume(table.log, topic=Topic(), dead_letters=Topic(topic_id="letters"))
    return found.progress.positions.offsets.get(0, 0), found.is_doubtful


def test_files_and_positions_are_those_of_the_version(table: MadeTable) -> None:
    table.write([0, 1])
    table.write([2, 3])
    table.replace("OPTIMIZE", [0, 1, 2, 3], changes_data=False)
    table.write([4])
    assert restored(table, 2) == 5
    assert table.rows() == [0, 1, 2, 3]
    assert len(TableState(table.log).files) == 2
    assert position(table) == (4, False)
    commit = table.log.commit(5)
    assert commit is not None
    assert (commit.operation, commit.parameters["version"]) == ("RESTORE", 2)
    # It says so itself: the log may forget the commit of that version.
    Path(table.log.commit_file(2)).rename(table.folder / "aside")
    assert position(table) == (4, False)
    (table.folder / "aside").rename(Path(table.log.commit_file(2)))
    # It can be undone.
    restored(table, 4)
    assert table.rows() == [0, 1, 2, 3, 4]
    assert position(table) == (5, False)
    assert table.log.damage() is None


def test_what_comes_back_and_what_has_expired_is_said(table: MadeTable) -> None:
    table.write([0, 1])
    table.write([2, 3, 4, 5])
    plan = plan_restore(table.log, 1, name="t")
    back = returning(plan, topic_id=TOPIC_ID, starts={0: 0})
    assert (back.again, back.expired) == (((0, 2, 6),), ())
    back = returning(plan, topic_id=TOPIC_ID, starts={0: 4})
    assert (back.again, back.expired) == (((0, 4, 6),), ((0, 2, 4),))
    text = restored_text(plan, back, table="t", topic="events")
    assert "Later rows come back from topic events: offsets 4 to 5 of partition 0." in text
    assert "Expired in the topic, so not read again: offsets 2 to 3 of partition 0." in text
    assert "a restore of version 2" in text
    back = returning(plan, topic_id=TOPIC_ID, starts={0: 9})
    assert (back.again, back.expired) == ((), ((0, 2, 6),))
    assert "Nothing is read again" in restored_text(plan, back, table="t", topic="events")
    # A topic that was made again since.
    table.commit("WRITE", [], Progress(positions=Reached(topic_id="new", offsets={0: 3, 1: 2})))
    plan = plan_restore(table.log, 1, name="t")
    back = returning(plan, topic_id="new", starts={0: 1, 1: 0})
    assert (back.again, back.expired, back.is_another_topic) == (((0, 1, 3), (1, 0, 2)), (), True)
    assert "was recreated" in restored_text(plan, back, table="t", topic="events")
    assert as_content(plan, back)["positions"] == {"0": 2}


def test_deletions_that_are_undone_are_named(table: MadeTable) -> None:
    table.write([0, 1, 2])
    table.replace("DELETE", [1, 2])
    table.write([3])
    table.replace("OPTIMIZE", [1, 2, 3], changes_data=False)
    before = plan_restore(table.log, 1, name="t")
    assert before.deletions == (Deletion(version=2, operation="DELETE"),)
    text = restored_text(before, returning(before, topic_id=TOPIC_ID, starts={}), table="t", topic="e")
    assert "in version 2 (DELETE), are as before" in text
    after = plan_restore(table.log, 3, name="t")
    assert after.deletions == ()
    assert "removed or changed" not in restored_text(
        after, returning(after, topic_id=TOPIC_ID, starts={}), table="t", topic="e"
    )


def test_a_version_whose_files_were_vacuumed_is_refused(table: MadeTable) -> None:
    table.write([0, 1])
    table.replace("OPTIMIZE", [0, 1], changes_data=False)
    (table.folder / "1.parquet").unlink()
    with pytest.raises(HeadraceError, match=r"were vacuumed.*1\.parquet: no such file") as error:
        plan_restore(table.log, 1, name="t")
    assert "lake_vacuum_hours" in error.value.remedy
    assert table.log.newest_version() == 2


@pytest.mark.parametrize("version", [-1, 2, 99])
def test_versions_that_are_not_older_are_refused(table: MadeTable, version: int) -> None:
    table.write([0])
    table.write([1])
    with pytest.raises(HeadraceError, match=f"no older version {version}: its newest one is 2") as error:
        plan_restore(table.log, version, name="t")
    assert error.value.code == "version_not_found"
    assert "headrace lake history t" in error.value.remedy


def test_a_version_that_the_log_has_forgotten_is_refused(table: MadeTable) -> None:
    table.write([0])
    table.write([1])
    Path(table.log.commit_file(0)).unlink()
    # Whoever reads the newest needs one then.
    _with_checkpoint(table, 2)
    with pytest.raises(HeadraceError, match="no longer has version 1"):
        plan_restore(table.log, 1, name="t")


def test_a_version_without_positions_is_refused(table: MadeTable) -> None:
    table.commit("CREATE OR REPLACE TABLE AS SELECT", [table.add([7])])
    table.write([8])
    with pytest.raises(HeadraceError, match="does not say how far it had read"):
        plan_restore(table.log, 1, name="t")


def test_rows_of_others_stay_doubtful_after_a_restore(table: MadeTable) -> None:
    table.write([0])
    theirs = table.commit("WRITE", [table.add([5])], operationParameters={"mode": "Append"})
    table.write([1])
    plan = plan_restore(table.log, theirs, name="t")
    assert plan.is_doubtful
    bounds = {Source(query="q", topic_id="s", partition=0): Position(offset=5, ordinal=0)}
    commit_restore(table.log, plan, progress=plan.progress.bounded(bounds), order="o")
    found = resume(table.log, topic=Topic(), dead_letters=Topic(topic_id="letters"))
    assert found.progress.bounds == bounds


def test_columns_are_those_of_the_version(table: MadeTable) -> None:
    table.write([0])
    table.commit("ADD COLUMNS", [table.definition("A", "B")])
    table.write([1])
    restored(table, 1)
    state = TableState(table.log)
    assert [each["name"] for each in json.loads(state.metadata["schemaString"])["fields"]] == ["A"]
    assert state.definition == 4


def test_a_table_that_changed_since_the_plan_is_left_alone(table: MadeTable) -> None:
    table.write([0])
    table.write([1])
    plan = plan_restore(table.log, 1, name="t")
    table.write([2])
    assert commit_restore(table.log, plan, progress=plan.progress, order="o") is None
    assert table.rows() == [0, 1, 2]


def test_features_that_are_not_written_are_refused(table: MadeTable) -> None:
    table.write([0])
    features = {"minReaderVersion": 3, "minWriterVersion": 7, "writerFeatures": ["rowTracking"]}
    table.commit("SET TBLPROPERTIES", [table.definition("A", protocol=features)])
    with pytest.raises(HeadraceError, match="rowTracking"):
        plan_restore(table.log, 1, name="t")


def test_an_order_finds_its_own_commit(table: MadeTable) -> None:
    table.write([0])
    table.write([1])
    restored(table, 1, order="mine")
    table.write([1])
    found = restored_by(table.log, "mine")
    assert found is not None
    assert found.version == 3
    assert restored_by(table.log, "another") is None


def test_the_same_version_again_changes_nothing(table: MadeTable) -> None:
    table.write([0])
    table.commit("VACUUM END", [])
    plan = plan_restore(table.log, 1, name="t")
    assert plan.changes_nothing
    assert "already" in restored_text(plan, returning(plan, topic_id="", starts={}), table="t", topic="e")


def _with_checkpoint(table: MadeTable, version: int) -> None:
    """Of the newest version, as far as the tests need it."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    state = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"add": {"path": "1", "size": 1}}]
    pq.write_table(
        pa.Table.from_pylist([{"protocol": None, "add": None} | each for each in state]),
        f"{table.log.folder}/{version:020d}.checkpoint.parquet",
    )


class Model:
    """A table that reads its topic, whose rows are deleted and whose versions are restored.

    `deleted` is what was deleted in each version, which only a restore of an older one brings back.
    """

    def __init__(self, folder: Path) -> None:
        self.table = MadeTable(folder)
        self.produced = 0
        self.deleted: list[frozenset[int]] = [frozenset()]

    def produce(self, count: int) -> None:
        self.produced += count

    def batch(self, size: int) -> None:
        """A run starts, reads a batch, and ends."""
        first, is_doubtful = position(self.table)
        assert not is_doubtful
        end = min(first + size, self.produced)
        if first < end:
            self.table.write(range(first, end))
            self.deleted.append(self.deleted[-1])

    def delete(self, number: int) -> None:
        rows = self.table.rows()
        if rows:
            gone = rows[number % len(rows)]
            self.table.replace("DELETE", [row for row in rows if row != gone])
            self.deleted.append(self.deleted[-1] | {gone})

    def merge(self) -> None:
        if rows := self.table.rows():
            self.table.replace("OPTIMIZE", rows, changes_data=False)
            self.deleted.append(self.deleted[-1])

    def restore(self, number: int) -> None:
        newest = self.table.log.newest_version()
        if newest == 0:
            return
        version = number % newest
        plan: Restore = plan_restore(self.table.log, version, name="t")
        if plan.changes_nothing:
            return
        rows = self.table.rows(version)
        commit_restore(self.table.log, plan, progress=plan.progress, order="o")
        self.deleted.append(self.deleted[version])
        assert self.table.rows() == rows

    def check(self) -> None:
        self.batch(10**6)
        assert self.table.rows() == [row for row in range(self.produced) if row not in self.deleted[-1]]


_ACTIONS = st.one_of(
    st.tuples(st.just("produce"), st.integers(1, 9)),
    st.tuples(st.just("batch"), st.integers(1, 5)),
    st.tuples(st.just("batch"), st.integers(1, 5)),
    st.tuples(st.just("delete"), st.integers(0, 9)),
    st.tuples(st.just("merge")),
    st.tuples(st.just("restore"), st.integers(0, 30)),
    st.tuples(st.just("restore"), st.integers(0, 30)),
)


@settings(max_examples=60, deadline=None)
@given(actions=st.lists(_ACTIONS, min_size=5, max_size=20))
def test_a_restored_table_has_the_rows_of_the_log_and_deleted_ones_stay_away(
    actions: list[tuple[Any, ...]],
) -> None:
    """What was deleted before the restored version never comes back; each other row is there once."""
    folder = Path(tempfile.mkdtemp())
    try:
        model = Model(folder / "t")
        model.produce(5)
        for name, *arguments in actions:
            getattr(model, name)(*arguments)
        model.check()
    finally:
        shutil.rmtree(folder)
