"""Files of a table and the tail of its topic as one table: each row once, with the columns of the table."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from headrace.core.errors import HeadraceError
from headrace.query.snapshots import TableSnapshot
from headrace.query.sources import TailChunk, TailView
from headrace.query.sql import LakeQuery

SCHEMA = pa.schema(
    {
        "KIND": pa.string(),
        "AMOUNT": pa.decimal128(9, 2),
        "TAGS": pa.list_(pa.string()),
        "_TOPIC_PARTITION": pa.int32(),
        "_TOPIC_OFFSET": pa.int64(),
        "_POSTED_AT": pa.timestamp("us", tz="UTC"),
    }
)


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
    folder: Path, partition: int, first: int, end: int, *, content: pa.Table | None = None
) -> TailChunk:
    folder.mkdir(exist_ok=True)
    path = folder / f"{partition}-{first}-{end}.arrow"
    content = rows(partition, first, end) if content is None else content
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, content.schema) as writer:
        writer.write_table(content)
    return TailChunk(path=str(path), partition=partition, first=first, end=end, rows=content.num_rows)


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


def test_rows_of_files_and_tail_are_one_table(tmp_path: Path, query: LakeQuery, tails: GivenTails) -> None:
    write_files(tmp_path / "lake", 0, 0, 10)
    without = query.run("SELECT * FROM events")
    chunks = (write_chunk(tmp_path / "tail", 0, 5, 14), write_chunk(tmp_path / "tail", 0, 14, 20))
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
            "reached": {"0": 12}, "behind": 3, "reason": "slow",
            "scans": [{"files": 3, "files_skipped_by_partition": 2, "files_to_read": 1}],
        }
    ]  # fmt: skip
    assert "tail: 3 rows from positions 0:9, 3 records behind: slow" in str(explained["read"])


def test_only_tables_that_are_read_have_their_tail_read(
    tmp_path: Path, query: LakeQuery, tails: GivenTails
) -> None:
    write_files(tmp_path / "lake", 0, 0, 3)
    query.run("SHOW TABLES")
    query.run("SELECT 1")
    assert tails.asked == []
    query.run("SELECT count(*) FROM Events")
    assert tails.asked == [("events", 0)]


def test_a_chunk_that_is_gone_makes_the_question_run_again(
    tmp_path: Path, query: LakeQuery, tails: GivenTails
) -> None:
    write_files(tmp_path / "lake", 0, 0, 3)
    gone = TailChunk(path=str(tmp_path / "gone.arrow"), partition=0, first=3, end=4, rows=1)
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


# Where the lake is, and where the chunks of a partition begin and end.
CUTS = st.lists(st.integers(0, 30), min_size=2, max_size=5, unique=True).map(sorted)


@hypothesis_settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(partitions=st.lists(st.tuples(CUTS, st.integers(0, 30), st.booleans()), min_size=1, max_size=3))
def test_each_record_is_there_once_wherever_the_lake_is(
    tmp_path_factory: pytest.TempPathFactory, partitions: list[tuple[list[int], int, bool]]
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
            chunks.append(write_chunk(folder / "chunks", partition, first, end, content=content))
        wanted |= {(partition, offset) for offset in range(max(start, cuts[-1]))}
    write_files(folder / "lake", 99, 0, 1)
    view = TailView(chunks=tuple(chunks), starts=starts, reached={})
    with closing(LakeQuery(folder / "lake", tails=GivenTails(view))) as query:
        found = query.run(
            "SELECT _TOPIC_PARTITION, _TOPIC_OFFSET FROM events WHERE _TOPIC_PARTITION <> 99"
        ).rows
    assert len(found) == len(wanted)
    assert set(found) == wanted
