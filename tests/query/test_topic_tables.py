"""Topics as tables in SQL, on a real log: every record is a row, and only what is asked for is read."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from deltalake import write_deltalake

from headrace.client.cluster import Cluster
from headrace.core.errors import HeadraceError
from headrace.lake.delta_log import DeltaLog
from headrace.lake.delta_schema import struct_of
from headrace.lake.rollups.definition import Dimension, defined
from headrace.lake.rollups.maintaining import RollupMaintainer
from headrace.lake.table_state import TableState
from headrace.query.log_sources import LogSources
from headrace.query.sql import LakeQuery
from headrace.query.statement_tables.planning import StatementTables
from headrace.query.topic_tables.planning import TopicPlanner
from headrace.testing import EmbeddedBroker
from tests.query.delta_tables import write_events
from tests.query.records import create_topic, produce, wait_until

OLDER = {"type": "record", "name": "E", "fields": [{"name": "KIND", "type": ["null", "string"]}]}
NEWER = {
    "type": "record",
    "name": "E",
    "fields": [
        {"name": "KIND", "type": ["null", "string"]},
        {"name": "COUNT", "type": "int", "default": 0},
        {"name": "_offset", "type": "string", "default": ""},
    ],
}


class SchemasOfTests:
    """A registry with some versions of each subject."""

    def __init__(self) -> None:
        self.subjects: dict[str, list[tuple[int, dict[str, Any]]]] = {}

    def versions(self, subject: str) -> Sequence[int]:
        return range(1, len(self.subjects.get(subject, [])) + 1)

    def version(self, subject: str, version: int) -> tuple[int, str] | None:
        schema_id, schema = self.subjects[subject][version - 1]
        return schema_id, json.dumps(schema)


def avro(schema_id: int, schema: dict[str, Any], value: object) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), value)
    return struct.pack(">bI", 0, schema_id) + body.getvalue()


@pytest.fixture
def schemas() -> SchemasOfTests:
    return SchemasOfTests()


@pytest.fixture
def query(broker: EmbeddedBroker, schemas: SchemasOfTests, tmp_path: Path) -> Iterator[LakeQuery]:
    cluster = Cluster(broker.bootstrap)
    made = LakeQuery(
        tmp_path / "lake",
        sources=LogSources(TopicPlanner(cluster, schemas, ""), StatementTables(cluster, timeout_seconds=15)),
        threads=2,
        topic_megabytes=16,
    )
    yield made
    made.close()
    cluster.close()


def failure(query: LakeQuery, sql: str) -> HeadraceError:
    with pytest.raises(HeadraceError) as caught:
        query.run(sql)
    return caught.value


def all_three(stretch: list[int]) -> dict[str, list[int]]:
    return {"0": stretch, "1": stretch, "2": stretch}


def what_was_read(query: LakeQuery, sql: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(query.run(f"EXPLAIN ANALYZE {sql}").rows[-1][1])[-1]  # type: ignore[arg-type]
    return found


def test_whatever_is_in_a_topic_is_a_row(broker: EmbeddedBroker, query: LakeQuery, topic_name: str) -> None:
    create_topic(broker.bootstrap, topic_name, partitions=1)
    values = [
        b'{"a": {"b": [1, 2]}}', b"[1", b"plain", b"", b"\xff\xfe", None, b"NaN", b'"\\ud800"',
        b"\x00\x00\x00\x00\x09\x02x", b"\x00\x00", b"7", "Größe".encode(), b"\x01\x02", b"{" * 5000, b"null",
        b'{"a": 1, "a": 2}',
    ]  # fmt: skip
    produce(
        broker.bootstrap, topic_name, [{"value": value, "key": f"k{at}"} for at, value in enumerate(values)]
    )
    rows = query.run(
        f'SELECT _offset, _format, _value, _problem, _bytes, _key FROM topic."{topic_name}"'
    ).rows
    assert [row[0] for row in rows] == list(range(len(values)))
    assert [row[4] for row in rows] == values
    assert [row[5] for row in rows] == [f"k{at}" for at in range(len(values))]
    found = dict(zip(values, [(row[1], row[2]) for row in rows], strict=True))
    assert found[b'{"a": {"b": [1, 2]}}'] == ("json", '{"a": {"b": [1, 2]}}')
    assert found[b"[1"] == ("text", '"[1"')
    assert found[b"plain"] == ("text", '"plain"')
    assert found[b""] == ("text", '""')
    assert found[b"\xff\xfe"] == ("binary", None)
    assert found[None] == ("null", None)
    assert found[b"7"] == ("json", "7")
    assert found[b"\x01\x02"] == ("binary", None)
    assert found["Größe".encode()] == ("text", '"Größe"')
    assert "no schema 9" in str(rows[8][3])
    # Typed access to every row, whatever it has.
    typed = query.run(
        f"SELECT TRY_CAST(_value->'$.a.b[1]' AS INTEGER), _value->>'$.a' FROM topic.\"{topic_name}\""
    ).rows
    assert typed[0][0] == 2
    assert [row[0] for row in typed[1:]] == [None] * (len(values) - 1)


def test_fields_of_avro_are_columns_with_the_types_of_the_newest_schema(
    broker: EmbeddedBroker, query: LakeQuery, schemas: SchemasOfTests, topic_name: str
) -> None:
    create_topic(broker.bootstrap, topic_name, partitions=1)
    schemas.subjects[f"{topic_name}-value"] = [(3, OLDER), (8, NEWER)]
    values = [
        avro(3, OLDER, {"KIND": "old"}),
        avro(8, NEWER, {"KIND": "new", "COUNT": 7, "_offset": "mine"}),
        b'{"KIND": "json"}',
        avro(8, NEWER, {"KIND": None, "COUNT": 1, "_offset": ""})[:-1] + b"\xff",
        avro(77, NEWER, {"KIND": "x", "COUNT": 1, "_offset": ""}),
    ]
    produce(broker.bootstrap, topic_name, [{"value": value} for value in values])
    result = query.run(f'SELECT * FROM topic."{topic_name}" ORDER BY _offset')
    assert result.columns[:2] == ("KIND", "COUNT")
    assert result.types[:2] == ("VARCHAR", "INTEGER")
    rows = query.run(
        f"SELECT KIND, COUNT, _format, _value->>'_offset', _offset, _problem FROM topic.\"{topic_name}\""
    ).rows
    assert rows[0] == ("old", None, "avro", None, 0, None)
    assert rows[1] == ("new", 7, "avro", "mine", 1, None)
    assert rows[2][:3] == (None, None, "json")
    assert (rows[3][0], rows[3][2]) == (None, "avro")
    assert "cannot be read" in str(rows[3][5])
    assert "no schema 77" in str(rows[4][5])
    # A condition on a field goes the same way.
    assert query.run(f'SELECT _offset FROM topic."{topic_name}" WHERE COUNT > 3').rows == ((1,),)


@pytest.fixture
def numbered(broker: EmbeddedBroker, topic_name: str) -> str:
    """A topic of three partitions with 4,000 records each, a second apart, in batches of 100."""
    create_topic(broker.bootstrap, topic_name, partitions=3)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "batch.num.messages": 100, "linger.ms": 5})
    for offset in range(4_000):
        for partition in range(3):
            value = json.dumps({"n": offset, "padding": "x" * 100})
            producer.produce(
                topic_name, value, f"{offset}", partition, timestamp=1_700_000_000_000 + offset * 1_000
            )
        producer.poll(0)
        if offset % 100 == 99:
            producer.flush()
    producer.flush()
    return topic_name


def test_conditions_say_which_offsets_are_read(query: LakeQuery, numbered: str) -> None:
    def read(condition: str, parameters: Sequence[object] = ()) -> tuple[int, dict[str, list[int]], int]:
        sql = f'FROM topic."{numbered}" WHERE {condition}'
        number = query.run(f"SELECT count(*) {sql}", parameters).rows[0][0]
        assert isinstance(number, int)
        explained = query.run(f"EXPLAIN ANALYZE SELECT count(*) {sql}", parameters).rows[-1]
        noted = json.loads(str(explained[1]))[-1]
        assert noted["offsets"] == {"0": [0, 4000], "1": [0, 4000], "2": [0, 4000]}
        return number, noted["read"], noted["records"]

    assert read("_partition = 1")[:2] == (4000, {"1": [0, 4000]})
    assert read("_offset BETWEEN 100 AND 199 AND _partition IN (0, 2)") == (
        200, {"0": [100, 200], "2": [100, 200]}, 200,
    )  # fmt: skip
    assert read("_offset >= $1", [3990]) == (30, all_three([3990, 4000]), 30)
    assert read("(_partition = 0 AND _offset < 5) OR (_partition = 2 AND _offset = 7)") == (
        6, {"0": [0, 5], "2": [7, 8]}, 6,
    )  # fmt: skip
    assert read("_offset < 3 AND _value->>'n' = '2'")[:2] == (3, all_three([0, 3]))
    start = datetime.fromtimestamp(1_700_000_000 + 3_500, tz=UTC)
    assert read(f"_timestamp >= '{start:%Y-%m-%d %H:%M:%S}'") == (
        1500,
        all_three([3500, 4000]),
        1500,
    )
    # Other records may be older than those before them: so reading goes on to the end.
    assert read(f"_timestamp < '{start:%Y-%m-%d %H:%M:%S}'")[:2] == (10_500, all_three([0, 4000]))
    assert read("_timestamp > now() + INTERVAL 1 DAY")[1:] == ({}, 0)
    assert read("_offset > 10 AND _offset < 5")[0] == 0


def test_a_limit_ends_reading(query: LakeQuery, numbered: str) -> None:
    read = what_was_read(query, f'SELECT * FROM topic."{numbered}" LIMIT 10')
    assert read["records"] < 2_000
    assert len(query.run(f'SELECT * FROM topic."{numbered}" LIMIT 10').rows) == 10


def test_conditions_behind_names_and_in_joins(query: LakeQuery, numbered: str) -> None:
    with_name = f'WITH t AS (SELECT * FROM topic."{numbered}") SELECT count(*) FROM t WHERE _offset < 10'
    assert query.run(with_name).rows == ((30,),)
    assert what_was_read(query, with_name)["records"] == 30
    joined = (
        f'SELECT count(*) FROM topic."{numbered}" a JOIN topic."{numbered}" b USING (_partition, _offset) '
        "WHERE a._offset < 10"
    )
    assert query.run(joined).rows == ((30,),)
    assert what_was_read(query, joined)["records"] == 60


def test_a_topic_and_a_table_in_one_question(query: LakeQuery, numbered: str, tmp_path: Path) -> None:
    write_events(tmp_path / "lake", [("Search", "2026-01-01", "7"), ("Search", "2026-01-01", "x")])
    sql = (
        f'SELECT e.USER_ID, t._offset FROM events e JOIN topic."{numbered}" t ON t._key = e.USER_ID '
        "WHERE t._partition = 1"
    )
    assert query.run(sql).rows == (("7", 7),)
    assert query.run("SHOW TABLES").rows == (("events",),)


def test_a_rollup_never_stands_for_a_topic_with_the_name_of_its_table(
    query: LakeQuery, numbered: str, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    write_deltalake(lake / numbered, pa.table({"KIND": ["a", "a", "b"]}))
    state = TableState(DeltaLog(lake / numbered))
    rollup = defined(
        rollup_id="r",
        name="R",
        table=numbered,
        dimensions=[Dimension(column="KIND")],
        measures=[],
        columns=struct_of(state.metadata["schemaString"], table=numbered),
        partition_columns=(),
    )
    RollupMaintainer(lake, rollup).step()
    plain = query.run(f'SELECT count(*) FROM topic."{numbered}"').rows[0][0]
    both = query.run(
        f'SELECT (SELECT count(*) FROM "{numbered}"), (SELECT count(*) FROM topic."{numbered}")'
    ).rows
    assert both == ((3, plain),)
    assert "rollups" in str(query.run(f'EXPLAIN SELECT count(*) FROM "{numbered}"').rows[-1])


def test_a_question_over_too_much_says_so(broker: EmbeddedBroker, query: LakeQuery, topic_name: str) -> None:
    create_topic(broker.bootstrap, topic_name, partitions=1)
    produce(broker.bootstrap, topic_name, [{"value": bytes(900_000)} for _ in range(24)])
    error = failure(query, f'SELECT count(*) FROM topic."{topic_name}"')
    assert error.code == "query_failed"
    assert "more than the 16 MB of topics" in error.message
    assert "of about 24 were read" in error.message
    assert query.run(f'SELECT count(*) FROM topic."{topic_name}" WHERE _offset >= 20').rows == ((4,),)


def test_only_committed_records_are_seen(broker: EmbeddedBroker, query: LakeQuery, topic_name: str) -> None:
    create_topic(broker.bootstrap, topic_name, partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": f"of {topic_name}"})
    producer.init_transactions()
    for value, commits in ((b"1", True), (b"2", False), (b"3", True)):
        producer.begin_transaction()
        producer.produce(topic_name, value)
        producer.flush()
        producer.commit_transaction() if commits else producer.abort_transaction()
    producer.begin_transaction()
    producer.produce(topic_name, b"4")
    producer.flush()
    assert query.run(f'SELECT _value FROM topic."{topic_name}"').rows == (("1",), ("3",))
    producer.commit_transaction()
    assert query.run(f'SELECT _value FROM topic."{topic_name}"').rows == (("1",), ("3",), ("4",))


def test_headers_and_keys(broker: EmbeddedBroker, query: LakeQuery, topic_name: str) -> None:
    create_topic(broker.bootstrap, topic_name, partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    headers = [("trace", b"1"), ("trace", b"2"), ("none", None), ("raw", b"\xff")]
    producer.produce(topic_name, b"x", b"\x00\x01", 0, headers=headers)
    producer.produce(topic_name, b"y", None, 0)
    producer.produce(topic_name, b"z", "schlüssel".encode(), 0, headers=[("trace", b"3")])
    producer.flush()
    rows = query.run(f"SELECT _key, _headers['trace'], _headers['raw'][1] FROM topic.\"{topic_name}\"").rows
    assert rows == (("0001", ["1", "2"], "ff"), (None, None, None), ("schlüssel", ["3"], None))


def test_a_topic_that_is_not_there(query: LakeQuery, broker: EmbeddedBroker) -> None:
    error = failure(query, 'SELECT * FROM topic."nothing here"')
    assert (error.code, error.http_status) == ("no_such_topic", 404)
    assert Cluster(broker.bootstrap).topic("nothing here") is None


def test_a_topic_in_another_case(broker: EmbeddedBroker, query: LakeQuery, topic_name: str) -> None:
    create_topic(broker.bootstrap, topic_name, partitions=1)
    produce(broker.bootstrap, topic_name, [{"value": b"1"}])
    assert query.run(f'SELECT _value FROM TOPIC."{topic_name.upper()}"').rows == (("1",),)


def test_an_empty_topic_and_one_whose_beginning_is_gone(
    broker: EmbeddedBroker, query: LakeQuery, topic_name: str
) -> None:
    create_topic(broker.bootstrap, topic_name, partitions=2)
    assert query.run(f'SELECT * FROM topic."{topic_name}"').rows == ()
    assert query.run(f'SELECT count(*), max(_offset) FROM topic."{topic_name}"').rows == ((0, None),)


def test_a_topic_that_was_recreated_is_read_anew(
    broker: EmbeddedBroker, query: LakeQuery, topic_name: str
) -> None:
    cluster = Cluster(broker.bootstrap)
    for value in (b"1", b"2"):
        create_topic(broker.bootstrap, topic_name, partitions=1)
        produce(broker.bootstrap, topic_name, [{"value": value}])
        assert query.run(f'SELECT _offset, _value FROM topic."{topic_name}"').rows == ((0, value.decode()),)
        cluster.delete_topic(topic_name)
        wait_until(lambda: cluster.topic(topic_name) is None, "the topic is gone")
    assert failure(query, f'SELECT * FROM topic."{topic_name}"').code == "no_such_topic"


def test_records_that_were_deleted_are_not_read(
    broker: EmbeddedBroker, query: LakeQuery, topic_name: str
) -> None:
    create_topic(broker.bootstrap, topic_name, partitions=1)
    produce(broker.bootstrap, topic_name, [{"value": b"%d" % number} for number in range(10)])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    place = TopicPartition(topic_name, 0, 6)
    admin.delete_records([place])[place].result(30)
    sql = f'SELECT min(_offset), count(*) FROM topic."{topic_name}"'
    assert query.run(sql).rows == ((6, 4),)
    assert query.run(f"{sql} WHERE _offset < 8").rows == ((6, 2),)


def test_a_topic_is_read_by_nobody_who_has_only_the_lake(tmp_path: Path) -> None:
    query = LakeQuery(tmp_path / "lake")
    try:
        assert "Topics cannot be asked here" in failure(query, "SELECT * FROM topic.events").message
    finally:
        query.close()


def test_a_question_that_failed_leaves_nothing(query: LakeQuery, numbered: str) -> None:
    assert failure(query, f'SELECT nothing FROM topic."{numbered}"').code == "query_failed"
    assert query.run(f'SELECT count(*) FROM topic."{numbered}"').rows == ((12_000,),)
    assert failure(query, "SELECT 1 FROM topic_records").code in ("query_failed", "no_such_table")
