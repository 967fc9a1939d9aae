"""Whatever is asked of whatever table, with whatever rollup, the answer is the one of the table's rows."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, event, given, note
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from headrace.core.errors import HeadraceError
from headrace.lake.rollups.definition import DAY_US
from headrace.lake.rollups.maintaining import RollupMaintainer
from headrace.query.snapshots import TableSnapshot
from headrace.query.sources import TailChunk, TailView
from tests.query.rollups.asking import Asker, same
from tests.query.rollups.lakes import SCHEMA, TABLE, Row, append, definition, row
from tests.query.rollups.questions import questions

_numbers = itertools.count()

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
moments = st.one_of(
    st.sampled_from(
        [datetime(2026, 1, 5, 7, tzinfo=UTC), datetime(2026, 1, 5, 6, 59, 59, 999_999, tzinfo=UTC),
         datetime(2026, 2, 1, tzinfo=UTC), datetime(1969, 12, 29, tzinfo=UTC),
         datetime(2026, 1, 5, tzinfo=UTC)]
    ),
    st.integers(0, 40 * 24 * 4).map(
        lambda quarters: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=15 * quarters)
    ),
    st.integers(-(10**15), 4 * 10**15).map(lambda us: _EPOCH + timedelta(microseconds=us)),
)  # fmt: skip
rows = st.builds(
    row,
    kind=st.sampled_from(["a", "b", "ä!", "", None]),
    day=st.sampled_from(["2026-01-01", "2026-01-03", "2026-01-05", None]),
    ts=st.none() | moments,
    local=st.none() | moments.map(lambda at: at.replace(tzinfo=None)),
    flag=st.sampled_from([True, False, None]),
    size=st.none() | st.integers(-3, 3) | st.sampled_from([2**31 - 1, -(2**31)]),
    x=st.none() | st.integers(-5, 5) | st.sampled_from([2**63 - 1, -(2**63)]),
    price=st.none() | st.integers(-(10**9) + 1, 10**9 - 1).map(lambda cents: Decimal(cents).scaleb(-2)),
    wide=st.none() | st.integers(-(10**27) + 1, 10**27 - 1).map(lambda parts: Decimal(parts).scaleb(-3)),
    heat=st.none() | st.sampled_from([1.5, -2.25, float("inf"), float("nan"), 1e300]),
    note=st.none() | st.sampled_from(["", "x", "y" * 40, "€"]),
)
tables = st.lists(rows, min_size=1, max_size=30)
dimensions = st.lists(
    st.sampled_from(
        ["kind", "day", "flag", "size", ("ts", "hour"), ("ts", "day"), ("ts", 900_000_000), ("ts", "week"),
         ("ts", "month"), ("ts", "quarter"), ("ts", "year"), ("local", "hour"), ("local", DAY_US), "ts"]
    ),
    min_size=1,
    max_size=3,
    unique=True,
).filter(lambda found: sum(isinstance(each, tuple) for each in found) <= 1)  # fmt: skip
partitions = st.sampled_from([(), ("kind",), ("day",), ("kind", "day"), ("size",)])


class GivenTail:
    """Rows that are in no file, as the tail of the table."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._view = TailView(chunks=(), starts={}, reached={})

    def view(self, snapshot: TableSnapshot, *, wait_seconds: float) -> TailView:
        assert snapshot.name == TABLE
        assert wait_seconds > 0
        return self._view

    def put(self, rows: list[Row]) -> None:
        path = self._folder / f"{next(_numbers)}.arrow"
        content = pa.Table.from_pylist(rows, schema=SCHEMA)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, content.schema) as writer:
            writer.write_table(content)
        chunk = TailChunk(path=str(path), partition=0, first=0, end=len(rows), rows=len(rows))
        self._view = TailView(chunks=(chunk,), starts={0: 0}, reached={0: len(rows)})


def change(lake: Path, what: str, more: list[Row], number: int) -> None:
    """What others and maintenance do to a table."""
    table = DeltaTable(lake / TABLE)
    match what:
        case "append":
            append(lake, more)
        case "compact":
            table.optimize.compact()
        case "delete some":
            table.delete("kind = 'a'" if number % 2 else "x > 0")
        case "delete a partition":
            table.delete("day = '2026-01-03'")
        case "overwrite":
            append(lake, more, mode="overwrite")
        case "restore":
            if table.version():
                table.restore(number % table.version())
        case "vacuum":
            table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


changes = st.sampled_from(
    [
        "append",
        "append",
        "append",
        "compact",
        "delete some",
        "delete a partition",
        "overwrite",
        "restore",
        "vacuum",
    ]
    + ["keep"] * 5
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lakes")


def check(folders: Path, data: st.DataObject, *, most_changes: int) -> None:
    place = folders / str(next(_numbers))
    lake, temporary, tails = place / "lake", place / "temporary", place / "tails"
    for folder in (lake, temporary, tails):
        folder.mkdir(parents=True)
    append(lake, data.draw(tables), partition_by=data.draw(partitions))
    wanted = definition(lake, dimensions=data.draw(dimensions))
    keeper = RollupMaintainer(lake, wanted)
    tail = GivenTail(tails)
    asker = Asker(lake, temporary, tail)
    keeper.step()
    if data.draw(st.booleans()):
        tail.put(data.draw(tables))
    for number, what in enumerate(data.draw(st.lists(changes, max_size=most_changes))):
        if what == "keep":
            note(f"{keeper.step()}")
        else:
            try:
                change(lake, what, data.draw(tables), number)
            except Exception as error:
                if "vacuum" in str(error).lower() or "not found" in str(error).lower():
                    # A version cannot be restored after its files were vacuumed.
                    continue
                raise
            note(what)
        compare(asker, data.draw(questions()))
    for _ in range(3):
        compare(asker, data.draw(questions()))
    keeper.close()


def compare(asker: Asker, sql: str) -> None:
    try:
        asker.ask(sql, rollups="off")
    except (duckdb.Error, HeadraceError) as error:
        # What fails on the rows fails with rollups, too.
        with pytest.raises(type(error)):
            asker.ask(sql)
        return
    answered = same(asker, sql)
    event("with a rollup" if answered.rollups else "plainly")
    note(f"{answered.rollups} {sql}")


@given(data=st.data())
@hypothesis_settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_answer_is_the_same(folders: Path, data: st.DataObject) -> None:
    check(folders, data, most_changes=5)


@pytest.mark.long
@given(data=st.data())
@hypothesis_settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_answer_is_the_same_for_long(folders: Path, data: st.DataObject) -> None:
    check(folders, data, most_changes=12)
