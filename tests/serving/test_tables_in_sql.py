"""Tables of the statement language in SQL: the rows that a pull query gives, in tables of DuckDB's types."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from headrace.client.cluster import Cluster
from headrace.core.errors import HeadraceError
from headrace.pipeline.serving.pull_queries import PullAnswer
from headrace.pipeline.serving.service import StatementService
from headrace.pipeline.serving.session import Session
from headrace.query.log_sources import LogSources
from headrace.query.sql import LakeQuery
from headrace.query.statement_tables.planning import StatementTables
from headrace.query.topic_tables.planning import TopicPlanner
from headrace.testing import EmbeddedBroker
from tests.query.delta_tables import write_events
from tests.serving.test_pull_tables import grow, produce


class NoSchemas:
    """A registry without subjects."""

    def versions(self, subject: str) -> Sequence[int]:  # noqa: ARG002
        return ()

    def version(self, subject: str, version: int) -> tuple[int, str] | None:
        raise AssertionError((subject, version))


@pytest.fixture
def query(cluster: Cluster, statement_topic: str, tmp_path: Path) -> Iterator[LakeQuery]:
    tables = StatementTables(cluster, timeout_seconds=15, topic=statement_topic)
    sources = LogSources(TopicPlanner(cluster, NoSchemas(), ""), tables)
    made = LakeQuery(tmp_path / "lake", sources=sources, threads=2, topic_megabytes=16)
    yield made
    made.close()
    tables.close()


def pulled(service: StatementService, text: str) -> set[tuple[Any, ...]]:
    answer = service.begin(text, Session())
    assert isinstance(answer, PullAnswer)
    return set(answer.rows)


def test_a_table_has_the_newest_row_of_each_key(
    service: StatementService, query: LakeQuery, broker: EmbeddedBroker, topic_name: str
) -> None:
    service.execute(
        "CREATE TABLE views (page VARCHAR PRIMARY KEY, number BIGINT) "
        f"WITH (KAFKA_TOPIC='{topic_name}', VALUE_FORMAT='JSON', PARTITIONS=1);",
        Session(),
    )
    produce(broker, topic_name, (0, "a", b'{"NUMBER": 1}', 1000), (0, "b", b'{"NUMBER": 2}', 2000))
    produce(broker, topic_name, (0, "a", b'{"NUMBER": 3}', 3000), (0, "c", b"not JSON", 3000))
    asked = "SELECT PAGE, NUMBER FROM {} ORDER BY 1"
    for name in ('"table".VIEWS', '"table"."views"', "views", "VIEWS"):
        assert query.run(asked.format(name)).rows == (("a", 3), ("b", 2))
    assert pulled(service, "SELECT page, number FROM views;") == {("a", 3), ("b", 2)}
    times = query.run("SELECT ROWTIME FROM views WHERE PAGE = 'a'").rows
    assert times == ((datetime.fromtimestamp(3, tz=UTC),),)
    noted = json.loads(str(query.run("EXPLAIN SELECT * FROM views").rows[-1][1]))[-1]
    assert (noted["statement_table"], noted["rows"], noted["unreadable"]) == ("VIEWS", 2, 1)
    assert noted["offsets"] == {"0": [0, 4]}
    # What is deleted or written is seen by the next question.
    produce(broker, topic_name, (0, "b", None, 4000), (0, "d", b'{"NUMBER": 4}', 4000))
    assert query.run(asked.format("views")).rows == (("a", 3), ("d", 4))
    grow(broker, topic_name, 2)
    produce(broker, topic_name, (1, "a", None, 5000), (1, "e", b'{"NUMBER": 5}', 5000))
    assert query.run(asked.format("views")).rows == (("d", 4), ("e", 5))


def test_all_types(service: StatementService, query: LakeQuery, topic_name: str) -> None:
    service.execute(
        "CREATE TABLE t (k BIGINT PRIMARY KEY, a BOOLEAN, b INTEGER, c DOUBLE, d DECIMAL(9, 2), e BYTES, "
        "f DATE, g TIME, h TIMESTAMP, i ARRAY<INTEGER>, j MAP<VARCHAR, DOUBLE>, "
        "l STRUCT<x INTEGER, y ARRAY<VARCHAR>>) "
        f"WITH (KAFKA_TOPIC='{topic_name}', VALUE_FORMAT='JSON', KEY_FORMAT='KAFKA', PARTITIONS=1);",
        Session(),
    )
    service.execute(
        "INSERT INTO t (k, a, b, c, d, e, f, g, h, i, j, l) VALUES (7, true, 1, 1.5, 2.25, "
        "TO_BYTES('ff', 'hex'), '2026-03-14', '10:00:00', '2026-03-14T10:00:00', ARRAY[1, NULL], "
        "MAP('x' := 1.0), STRUCT(x := 1, y := ARRAY['z']));",
        Session(),
    )
    service.execute("INSERT INTO t (k) VALUES (8);", Session())
    result = query.run("SELECT * EXCLUDE (ROWTIME) FROM t ORDER BY K")
    assert result.types == (
        "BIGINT", "BOOLEAN", "INTEGER", "DOUBLE", "DECIMAL(9,2)", "BLOB", "DATE", "TIME",
        "TIMESTAMP WITH TIME ZONE", "INTEGER[]", "MAP(VARCHAR, DOUBLE)", 'STRUCT(X INTEGER, Y VARCHAR[])',
    )  # fmt: skip
    assert result.rows[0] == (
        7, True, 1, 1.5, Decimal("2.25"), b"\xff", date(2026, 3, 14), time(10),
        datetime(2026, 3, 14, 10, tzinfo=UTC), [1, None], {"x": 1.0}, {"X": 1, "Y": ["z"]},
    )  # fmt: skip
    assert result.rows[1] == (8, *[None] * 11)


def test_windows_are_times(
    service: StatementService, query: LakeQuery, broker: EmbeddedBroker, topic_name: str
) -> None:
    Cluster(broker.bootstrap).create_topic(topic_name, partitions=1)
    service.execute(
        "CREATE SOURCE TABLE per_minute (k VARCHAR PRIMARY KEY, n BIGINT) WITH ("
        f"KAFKA_TOPIC='{topic_name}', VALUE_FORMAT='JSON', "
        "WINDOW_TYPE='TUMBLING', WINDOW_SIZE='1 MINUTES');",
        Session(),
    )
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for start, number in ((60_000, 1), (120_000, 2), (60_000, 3)):
        producer.produce(topic_name, b'{"N": %d}' % number, b"a" + struct.pack(">q", start), 0)
    assert producer.flush(60) == 0
    rows = query.run("SELECT K, N, WINDOWSTART, WINDOWEND FROM per_minute ORDER BY WINDOWSTART").rows
    moments = [datetime.fromtimestamp(seconds, tz=UTC) for seconds in (60, 120, 180)]
    assert rows == (("a", 3, moments[0], moments[1]), ("a", 2, moments[1], moments[2]))


def test_a_table_of_the_lake_comes_first(
    service: StatementService, query: LakeQuery, broker: EmbeddedBroker, topic_name: str, tmp_path: Path
) -> None:
    write_events(tmp_path / "lake", [("Search", "2026-01-01", "7")])
    service.execute(
        "CREATE TABLE events (user_id VARCHAR PRIMARY KEY, n BIGINT) "
        f"WITH (KAFKA_TOPIC='{topic_name}', VALUE_FORMAT='JSON', PARTITIONS=1);",
        Session(),
    )
    produce(broker, topic_name, (0, "7", b'{"N": 42}', 1000))
    joined = 'SELECT e.EVENT_TYPE, t.N FROM events e JOIN "table".events t USING (USER_ID)'
    assert query.run(joined).rows == (("Search", 42),)
    assert query.run("SELECT count(*) FROM events").rows == ((1,),)
    assert query.run("SHOW TABLES").rows == (("events",),)


def test_tables_that_are_not_there(
    service: StatementService, query: LakeQuery, topic_name: str, broker: EmbeddedBroker
) -> None:
    with pytest.raises(HeadraceError) as caught:
        query.run('SELECT * FROM "table".nothing')
    assert caught.value.code == "no_such_table"
    service.execute(
        "CREATE STREAM s (k VARCHAR KEY, v BIGINT) "
        f"WITH (KAFKA_TOPIC='{topic_name}', VALUE_FORMAT='JSON', PARTITIONS=1);",
        Session(),
    )
    with pytest.raises(HeadraceError) as caught:
        query.run('SELECT * FROM "table".s')
    assert caught.value.code == "no_such_table"
    # Its topic can be asked.
    produce(broker, topic_name, (0, "a", b'{"V": 1}', 1000))
    assert query.run(f"SELECT _key, _value->>'V' FROM topic.\"{topic_name}\"").rows == (("a", "1"),)


def test_a_table_that_is_too_large_says_so(
    service: StatementService, query: LakeQuery, broker: EmbeddedBroker, topic_name: str
) -> None:
    service.execute(
        "CREATE TABLE big (k VARCHAR PRIMARY KEY, v VARCHAR) "
        f"WITH (KAFKA_TOPIC='{topic_name}', VALUE_FORMAT='JSON', PARTITIONS=1);",
        Session(),
    )
    value = json.dumps({"V": "x" * 900_000}).encode()
    for number in range(24):
        produce(broker, topic_name, (0, str(number), value, 1000))
    with pytest.raises(HeadraceError) as caught:
        query.run("SELECT count(*) FROM big")
    assert "more than the 16 MB of topics" in caught.value.message
    assert query.run("SELECT 1").rows == ((1,),)
