"""Files of a table and the tail of its topic as one table: each row once, with the columns of the table."""

from __future__ import annotations

import dataclasses
import itertools
import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from headrace.core.errors import HeadraceError
from headrace.lake.columns.folders import FolderColumn
from headrace.lake.types import Simple
from headrace.query.lake_database import LakeDatabase
from headrace.query.receipts.table_rows import offsets_in
from headrace.query.snapshots import LakeTables, TableSnapshot
from headrace.query.sources import TailChunk, TailView
from headrace.query.sql import LakeQuery
from headrace.query.tail.data_files import write_data_files
from headrace.query.workers.tail_rows import ChunkGoneError, TailRows

SCHEMA = pa.schema(
    {
        "AMOUNT": pa.decimal128(9, 2),
        "KIND": pa.string(),
        "TAGS": pa.list_(pa.string()),
        "_TOPIC_PARTITION": pa.int32(),
        "_TOPIC_OFFSET": pa.int64(),
        "_POSTED_AT": pa.timestamp("us", tz="UTC"),
    }
)


KIND = FolderColumn(name="KIND", type=Simple.STRING)


def rows(partition: int, first: int, end: int) -> pa.Table:
    """The records of a topic from one offset to another, as a table has them."""
    return pa.Table.from_pylist(
        [
            {
                "KIND": f"kind-{offset % 3}",
                "AMOUNT": offset,
                "TAGS": ["a", None],
                "_TOPIC_PARTITION": partition,
                "_TOPIC_OFFSET": offset,
                "_POSTED_AT": datetime(2026, 1, 1, tzinfo=UTC),
            }
            for offset in range(first, end)
        ],
        schema=SCHEMA,
    )


def write_files(lake: Path, partition: int, first: int, end: int) -> None:
    write_deltalake(lake / "events", rows(partition, first, end), mode="append", partition_by=["KIND"])


def write_chunk(
    folder: Path,
    partition: int,
    first: int,
    end: int,
    *,
    content: pa.Table | None = None,
    as_files: bool = False,
) -> TailChunk:
    folder.mkdir(exist_ok=True)
    content = rows(partition, first, end) if content is None else content
    if as_files:
        path = folder / f"{partition}-{first}-{end}"
        files = write_data_files(path, content, [KIND], fewest_rows=0)
        names = tuple(each.name for each in files)
        return TailChunk(
            path=str(path), partition=partition, first=first, end=end, rows=content.num_rows, files=names
        )
    path = folder / f"{partition}-{first}-{end}.arrow"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, content.schema) as writer:
        writer.write_table(content)
    return TailChunk(path=str(path), partition=partition, first=first, end=end, rows=content.num_rows)


# Chunks as Arrow, as data files, and of both kinds.
KINDS_OF_CHUNKS = pytest.mark.parametrize(
    "as_files", [(False, False), (True, True), (True, False), (False, True)]
)


class GivenTails:
    """Answers with `view`, and with the next one if asked again."""

    def __init__(self, *views: TailView) -> None:
        self.views = list(views)
        self.asked: list[tuple[str, int]] = []

    def view(self, snapshot: TableSnapshot, *, wait_seconds: float) -> TailView:
        assert wait_seconds > 0
        self.asked.append((snapshot.name, snapshot.version))
        return self.views.pop(0) if len(self.views) > 1 else self.views[0]


NOTHING = TailView(chunks=(), starts={}, reached={})


@pytest.fixture
def tails() -> GivenTails:
    return GivenTails(NOTHING)


@pytest.fixture
def query(tmp_path: Path, tails: GivenTails) -> Iterator[LakeQuery]:
    query = LakeQuery(tmp_path / "lake", tails=tails)
    yield query
    query.close()


@KINDS_OF_CHUNKS
def test_rows_of_files_and_tail_are_one_table(
    tmp_path: Path, query: LakeQuery, tails: GivenTails, as_files: tuple[bool, bool]
) -> None:
    write_files(tmp_path / "lake", 0, 0, 10)
    without = query.run("SELECT * FROM events")
    chunks = (
        write_chunk(tmp_path / "tail", 0, 5, 14, as_files=as_files[0]),
        write_chunk(tmp_path / "tail", 0, 14, 20, as_files=as_files[1]),
    )
    tails.views = [TailView(chunks=chunks, starts={0: 10}, reached={0: 20})]
    both = query.run("SELECT * FROM events")
    assert (both.columns, both.types) == (without.columns, without.types)
    offsets = query.run("SELECT _TOPIC_OFFSET FROM events ORDER BY 1").rows
    assert offsets == tuple((offset,) for offset in range(20))
    assert query.run("SELECT count(*), max(AMOUNT) FROM events WHERE KIND = 'kind-1'").rows[0][0] == 7
    assert query.run("SELECT TAGS, _POSTED_AT FROM events WHERE _TOPIC_OFFSET = 15").rows == (
        (["a", None], datetime(2026, 1, 1, tzinfo=UTC)),
    )
    # The lake has caught up, and the tail is gone.
    write_files(tmp_path / "lake", 0, 10, 20)
    tails.views = [TailView(chunks=(), starts={0: 20}, reached={0: 20})]
    assert query.run("SELECT count(*) FROM events").rows == ((20,),)


@pytest.mark.parametrize("as_files", [False, True])
def test_receipts_find_records_in_chunks_of_both_kinds(tmp_path: Path, *, as_files: bool) -> None:
    chunks = [
        write_chunk(tmp_path / "tail", 0, 5, 14, as_files=as_files),
        write_chunk(tmp_path / "tail", 1, 5, 14, as_files=not as_files),
    ]
    assert offsets_in(chunks, 0, [4, 5, 13, 14]) == {5, 13}
    shutil.rmtree(tmp_path / "tail")
    with pytest.raises(FileNotFoundError):
        offsets_in(chunks, 0, [5])


def test_a_tail_does_not_open_files_that_a_condition_leaves_out(
    tmp_path: Path, query: LakeQuery, tails: GivenTails
) -> None:
    write_files(tmp_path / "lake", 0, 0, 9)
    chunk = write_chunk(tmp_path / "tail", 0, 9, 12)
    tails.views = [TailView(chunks=(chunk,), starts={0: 9}, reached={0: 12}, behind=3, reason="slow")]
    explained = dict(query.run("EXPLAIN SELECT * FROM events WHERE KIND = 'kind-1'").rows)
    assert "Scanning Files: 1/4" in str(explained["physical_plan"])
    assert json.loads(str(explained["tables"])) == [
        {
            "table": "events", "version": 0, "files": 3, "tail_rows": 3, "positions": {"0": 9},
            "reached": {"0": 12}, "behind": 3, "reason": "slow", "upstream": [],
            "scans": [{"files": 3, "files_skipped_by_partition": 2, "files_to_read": 1}],
        }
    ]  # fmt: skip
    assert "tail: 3 rows from positions 0:9, 3 records behind: slow" in str(explained["read"])


def test_a_condition_leaves_out_data_files_of_the_tail(
    tmp_path: Path, query: LakeQuery, tails: GivenTails
) -> None:
    write_files(tmp_path / "lake", 0, 0, 9)
    chunk = write_chunk(tmp_path / "tail", 0, 9, 30, as_files=True)
    tails.views = [TailView(chunks=(chunk,), starts={0: 9}, reached={0: 30})]
    plan = str(dict(query.run("EXPLAIN SELECT * FROM events WHERE KIND = 'kind-1'").rows)["physical_plan"])
    # One of the three of the table, one of the three of the tail, in one scan.
    assert "Scanning Files: 2/7" in plan
    assert "UNION" not in plan


def test_a_question_for_the_newest_rows_begins_with_the_tail(
    tmp_path: Path, query: LakeQuery, tails: GivenTails
) -> None:
    write_files(tmp_path / "lake", 0, 0, 9)
    chunks = [write_chunk(tmp_path / "tail", 0, at, at + 9, as_files=True) for at in (9, 18)]
    tails.views = [TailView(chunks=tuple(chunks), starts={0: 9}, reached={0: 27})]
    found = query.run("SELECT _TOPIC_OFFSET // 9 FROM events WHERE KIND = 'kind-1' LIMIT 9").rows
    assert [chunk for (chunk,) in found] == [2, 2, 2, 1, 1, 1, 0, 0, 0]


def test_types_are_told_without_looking_at_files(tmp_path: Path, query: LakeQuery, tails: GivenTails) -> None:
    """Before a question runs, it is bound while the table has no rows: also in the answer that comes then."""
    write_files(tmp_path / "lake", 0, 0, 9)
    chunk = write_chunk(tmp_path / "tail", 0, 7, 12, as_files=True)
    tails.views = [TailView(chunks=(chunk,), starts={0: 9}, reached={0: 12})]
    sql = "SELECT count(*), max(_POSTED_AT), sum(AMOUNT) FROM events WHERE _TOPIC_OFFSET > ?"
    answer = query.run(sql, parameters=(1,))
    assert answer.types == ("BIGINT", "TIMESTAMP WITH TIME ZONE", "DECIMAL(38,2)")
    assert answer.rows == ((10, datetime(2026, 1, 1, tzinfo=UTC), sum(range(2, 12))),)
    with pytest.raises(HeadraceError, match="LINE 1"):
        query.run("SELECT missing FROM events")
    assert query.run("SELECT count(*) FROM events").rows == ((12,),)


def test_only_tables_that_are_read_have_their_tail_read(
    tmp_path: Path, query: LakeQuery, tails: GivenTails
) -> None:
    write_files(tmp_path / "lake", 0, 0, 3)
    query.run("SHOW TABLES")
    query.run("SELECT 1")
    assert tails.asked == []
    query.run("SELECT count(*) FROM Events")
    assert tails.asked == [("events", 0)]


@pytest.mark.parametrize("is_files", [False, True])
def test_a_chunk_that_is_gone_makes_the_question_run_again(
    tmp_path: Path, query: LakeQuery, tails: GivenTails, is_files: bool
) -> None:
    write_files(tmp_path / "lake", 0, 0, 3)
    files = ("KIND=kind-0/rows.parquet",) if is_files else ()
    gone = TailChunk(path=str(tmp_path / "gone.arrow"), partition=0, first=3, end=4, rows=1, files=files)
    chunk = write_chunk(tmp_path / "tail", 0, 3, 5)
    old = TailView(chunks=(gone,), starts={0: 3}, reached={0: 4})
    tails.views = [old, TailView(chunks=(chunk,), starts={0: 3}, reached={0: 5})]
    assert query.run("SELECT count(*) FROM events").rows == ((5,),)
    tails.views = [old]
    with pytest.raises(HeadraceError, match="has changed"):
        query.run("SELECT count(*) FROM events")


def test_a_mapped_chunk_may_be_deleted(tmp_path: Path, query: LakeQuery, tails: GivenTails) -> None:
    write_files(tmp_path / "lake", 0, 0, 3)
    chunk = write_chunk(tmp_path / "tail", 0, 3, 5)
    tails.views = [TailView(chunks=(chunk,), starts={0: 3}, reached={0: 5})]
    assert query.run("SELECT count(*) FROM events").rows == ((5,),)
    Path(chunk.path).unlink()
    assert query.run("SELECT count(*) FROM events").rows == ((5,),)


def test_data_files_of_the_tail_may_be_deleted_once_they_are_seen(
    tmp_path: Path,
) -> None:
    write_files(tmp_path / "lake", 0, 0, 3)
    chunk = write_chunk(tmp_path / "tail", 0, 3, 9, as_files=True)
    table = LakeTables(tmp_path / "lake").current()["events"]
    view = TailView(chunks=(chunk,), starts={0: 3}, reached={0: 9})
    tails = TailRows(tmp_path / "links")
    seen = tails.tail(table, view)
    assert seen is not None
    shutil.rmtree(chunk.path)
    assert tails.tail(table, view) is seen
    # The next version has some of the rows, and then all.
    begun = tails.tail(table, dataclasses.replace(view, starts={0: 5}))
    assert begun is not None
    assert (begun.files, begun.begun, begun.starts) == ((), seen.files, (5,))
    assert sum(len(pq.read_table(file, partitioning=None)) for file in begun.begun) == 6
    assert tails.tail(table, dataclasses.replace(view, starts={0: 9})) is None
    assert list((tmp_path / "links").iterdir()) == []
    with pytest.raises(ChunkGoneError):
        tails.tail(table, view)
    assert list((tmp_path / "links").iterdir()) == []


USES_KIND = (
    "SELECT * FROM events",
    "SELECT count(*) FROM events WHERE kind = 'kind-1'",
    "SELECT count(DISTINCT KIND) FROM events",
    "SELECT _TOPIC_OFFSET FROM events ORDER BY KIND",
    "SELECT events FROM events",
    "FROM events SELECT COLUMNS('K.*')",
    "SUMMARIZE events",
    "SELECT count(*) FROM events one JOIN events other USING (KIND)",
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM events WHERE KIND IS NULL)",
    "WITH e AS (SELECT * FROM events) SELECT KIND FROM e",
)
USES_NO_KIND = (
    "SELECT count(*) FROM events",
    "SELECT sum(_TOPIC_OFFSET) AS KIND FROM events -- KIND",
    "WITH e AS (SELECT * FROM events) SELECT count(_TOPIC_OFFSET) FROM e;",
    "SELECT max(AMOUNT) FROM events WHERE _TOPIC_OFFSET > 1",
)


def test_a_column_that_only_the_lake_will_know_leaves_the_tail_out_of_questions_that_use_it(
    tmp_path: Path, query: LakeQuery, tails: GivenTails
) -> None:
    write_files(tmp_path / "lake", 0, 0, 9)
    content = rows(0, 9, 12)
    content = content.set_column(1, "KIND", pa.nulls(3, pa.string()))
    chunk = write_chunk(tmp_path / "tail", 0, 9, 12, content=content)
    view = TailView(
        chunks=(chunk,), starts={0: 9}, reached={0: 12}, behind=2, reason="slow", unknown=("KIND",)
    )
    tails.views = [view]
    for _ in range(2):
        for sql in USES_NO_KIND:
            (table,) = json.loads(str(dict(query.run(f"EXPLAIN {sql}").rows)["tables"]))
            assert (table["tail_rows"], table["behind"], table["reason"]) == (3, 2, "slow"), sql
        for sql in USES_KIND:
            (table,) = json.loads(str(dict(query.run(f"EXPLAIN {sql}").rows)["tables"]))
            assert (table["tail_rows"], table["behind"]) == (0, 5), sql
            assert table["reason"] == (
                "slow; the lake decides KIND when it writes, and the question uses such a column"
            )
    assert query.run("SELECT count(*) FROM events").rows == ((12,),)
    assert query.run("SELECT count(*) FROM events WHERE KIND = 'kind-1'").rows == ((3,),)
    # Another configuration, or another version of the table.
    tails.views = [
        TailView(chunks=(write_chunk(tmp_path / "tail", 0, 9, 13),), starts={0: 9}, reached={0: 13})
    ]
    assert query.run("SELECT count(*) FROM events WHERE KIND = 'kind-1'").rows == ((4,),)
    tails.views = [view]
    with pytest.raises(HeadraceError, match="NOTHING"):
        query.run("SELECT NOTHING FROM events")


def test_nobody_sees_what_a_view_is_made_of(tmp_path: Path, query: LakeQuery, tails: GivenTails) -> None:
    write_files(tmp_path / "lake", 0, 0, 9)
    tails.views = [
        TailView(chunks=(write_chunk(tmp_path / "tail", 0, 5, 12),), starts={0: 9}, reached={0: 12})
    ]
    assert query.run("SELECT count(*) FROM events").rows == ((12,),)
    for name in (f"{kind}{number}" for kind in ("tail of table ", "tail/") for number in range(4)):
        with pytest.raises(HeadraceError, match=r"is not a table of the lake|does not exist"):
            query.run(f'SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM "{name}")')


def test_rows_are_shown_again_if_describing_them_did_not_end(tmp_path: Path) -> None:
    """What ends it can be interrupted, too, and the worker answers the next question."""
    write_files(tmp_path / "lake", 0, 0, 9)
    database = LakeDatabase(tmp_path / "lake", memory_limit="1GB", threads=1)
    table = LakeTables(tmp_path / "lake").current()["events"]
    connection = database.connect([table], widened=())
    with pytest.raises(duckdb.InterruptException), database.described(InterruptedAtTheEnd(connection)):  # type: ignore[arg-type]
        pass
    database.show_rows(connection)
    assert connection.execute("SELECT count(*) FROM events").fetchall() == [(9,)]
    database.close()


@dataclasses.dataclass
class InterruptedAtTheEnd:
    connection: duckdb.DuckDBPyConnection

    def execute(self, sql: str) -> object:
        if sql.endswith("= false"):
            raise duckdb.InterruptException
        return self.connection.execute(sql)


# Where the lake is, and where the chunks of a partition begin and end.
CUTS = st.lists(st.integers(0, 30), min_size=2, max_size=5, unique=True).map(sorted)


@hypothesis_settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    partitions=st.lists(st.tuples(CUTS, st.integers(0, 30), st.booleans()), min_size=1, max_size=3),
    are_files=st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_each_record_is_there_once_wherever_the_lake_is(
    tmp_path_factory: pytest.TempPathFactory,
    partitions: list[tuple[list[int], int, bool]],
    are_files: list[bool],
) -> None:
    folder = tmp_path_factory.mktemp("tail")
    chunks: list[TailChunk] = []
    starts: dict[int, int] = {}
    wanted = set()
    for partition, (cuts, position, shuffled) in enumerate(partitions):
        # The lake has all before its position; the tail has a stretch that reaches at least so far back.
        start = max(position, cuts[0])
        starts[partition] = start
        write_files(folder / "lake", partition, 0, start)
        for first, end in itertools.pairwise(cuts):
            content = rows(partition, first, end)
            if shuffled:
                content = content.take(list(reversed(range(content.num_rows))))
            as_files = are_files[len(chunks)]
            chunks.append(
                write_chunk(folder / "chunks", partition, first, end, content=content, as_files=as_files)
            )
        wanted |= {(partition, offset) for offset in range(max(start, cuts[-1]))}
    write_files(folder / "lake", 99, 0, 1)
    view = TailView(chunks=tuple(chunks), starts=starts, reached={})
    with closing(LakeQuery(folder / "lake", tails=GivenTails(view))) as query:
        found = query.run(
            "SELECT _TOPIC_PARTITION, _TOPIC_OFFSET FROM events WHERE _TOPIC_PARTITION <> 99"
        ).rows
    assert len(found) == len(wanted)
    assert set(found) == wanted
