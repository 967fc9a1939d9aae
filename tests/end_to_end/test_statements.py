"""Statements through the door on the whole platform: from a POST of an event to a row of a query."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from confluent_kafka import Consumer

from tests.running_platform import Platform, event, new_prefix, wait_for

EARLIEST = {"auto.offset.reset": "earliest"}
COLUMNS = (
    "(Event_Type VARCHAR, Event_Version VARCHAR, User_ID VARCHAR, Listing_ID VARCHAR, Server_Time VARCHAR, "
    "Device_Type VARCHAR)"
)


class Door:
    """ksqlDB's API of a platform. Names get a suffix, as tests share the platform."""

    def __init__(self, platform: Platform) -> None:
        self._url = platform.statements_url
        self._http = platform.http
        self.suffix = uuid.uuid4().hex[:8].upper()

    def execute(self, text: str) -> list[dict[str, Any]]:
        answer = self._http.post(f"{self._url}/ksql", json={"ksql": text, "streamsProperties": EARLIEST})
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()
        return found

    def rows(self, text: str) -> list[list[Any]]:
        """All rows of a query that ends."""
        answer = self._http.post(f"{self._url}/query-stream", json={"sql": text, "properties": EARLIEST})
        assert answer.status_code == 200, answer.text
        lines = [json.loads(line) for line in answer.text.splitlines() if line]
        return [line for line in lines[1:] if isinstance(line, list)]

    def explained(self, sink: str) -> tuple[str, str]:
        """Our plan of the query that writes it, and Spark's."""
        (listed,) = self.execute("SHOW QUERIES;")
        (query_id,) = (query["id"] for query in listed["queries"] if query["sinks"] == [sink])
        (answer,) = self.execute(f"EXPLAIN {query_id};")
        described = answer["queryDescription"]
        return described["executionPlan"], described["topology"]


def post(platform: Platform, users: list[str]) -> None:
    answer = platform.post([event(user) for user in users])
    assert answer.status_code == 200, answer.text


def values_of(platform: Platform, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": platform.settings.bootstrap,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
        }
    )
    found: list[bytes] = []
    try:
        consumer.subscribe([topic])

        def enough() -> bool:
            for record in consumer.consume(100, 0.2):
                if record.error() is None and record.value() is not None:
                    found.append(record.value() or b"")
            return len(found) >= count

        wait_for(enough, f"{count} records are in {topic}", explain=lambda: str(len(found)))
    finally:
        consumer.close()
    return found


def test_a_stream_becomes_avro_a_table_and_rows_as_they_come(platform: Platform) -> None:
    door, prefix = Door(platform), new_prefix()
    source, target, table = (f"{name}_{door.suffix}" for name in ("SOURCE", "TARGET", "COUNTS"))
    users = [f"{prefix}-{number % 3}" for number in range(30)]
    post(platform, users)
    door.execute(f"CREATE STREAM {source} {COLUMNS} WITH (KAFKA_TOPIC='events', VALUE_FORMAT='JSON');")
    (created,) = door.execute(
        f"CREATE STREAM {target} WITH (KAFKA_TOPIC='{target}', PARTITIONS=1, VALUE_FORMAT='AVRO') AS "
        f"SELECT *, SUBSTRING(Server_Time, 0, 10) AS Server_Date FROM {source} "
        f"WHERE User_ID LIKE '{prefix}-%';"
    )
    assert created["commandStatus"]["queryId"].startswith(f"CSAS_{target}_")
    assert len(values_of(platform, target, len(users))) == len(users)
    subjects = platform.http.get(f"{platform.registry_url}/subjects").json()
    assert f"{target}-value" in subjects

    door.execute(
        f"CREATE TABLE {table} AS SELECT User_ID, COUNT(*) AS N FROM {target} GROUP BY User_ID EMIT CHANGES;"
    )
    wait_for(
        lambda: sorted(door.rows(f"SELECT * FROM {table};")) == [[f"{prefix}-{n}", 10] for n in range(3)],
        "the table has its counts",
        explain=lambda: str(door.rows(f"SELECT * FROM {table};")),
    )
    assert door.rows(f"SELECT N FROM {table} WHERE User_ID = '{prefix}-1';") == [[10]]
    flow = platform.flow()
    modes = {query["query"]: query["mode"] for query in flow["queries"]}
    for sink, expected in ((target, modes[created["commandStatus"]["queryId"]]), (table, "micro-batch")):
        plan, spark_plan = door.explained(sink)
        assert plan.startswith(f"mode: {expected}, as "), plan
        assert "Physical Plan" in spark_plan, spark_plan
    pushed = door.rows(f"SELECT UCASE(User_ID) AS U FROM {target} EMIT CHANGES LIMIT 30;")
    assert sorted(row[0] for row in pushed) == sorted(user.upper() for user in users)
    door.execute(f"DROP TABLE {table} DELETE TOPIC; DROP STREAM {target} DELETE TOPIC; DROP STREAM {source};")


@pytest.mark.long
def test_queries_go_on_where_they_were_after_the_pipeline_is_killed(platform: Platform) -> None:
    door, prefix = Door(platform), new_prefix()
    source, table = (f"{name}_{door.suffix}" for name in ("SOURCE", "COUNTS"))
    door.execute(f"CREATE STREAM {source} {COLUMNS} WITH (KAFKA_TOPIC='events', VALUE_FORMAT='JSON');")
    door.execute(
        f"CREATE TABLE {table} AS SELECT User_ID, COUNT(*) AS N FROM {source} "
        f"WHERE User_ID LIKE '{prefix}-%' GROUP BY User_ID EMIT CHANGES;"
    )
    user = f"{prefix}-1"

    def count_is(expected: int) -> None:
        wait_for(
            lambda: door.rows(f"SELECT N FROM {table} WHERE User_ID = '{user}';") == [[expected]],
            f"{user} was counted {expected} times",
            explain=lambda: str(door.rows(f"SELECT * FROM {table};")),
        )

    post(platform, [user] * 20)
    count_is(20)
    killed = platform.kill("pipeline")
    post(platform, [user] * 20)
    platform.wait_restarted("pipeline", after=killed)
    post(platform, [user] * 10)
    count_is(50)
    dropped = door.execute(f"DROP TABLE {table} DELETE TOPIC; DROP STREAM {source};")
    assert [each["commandStatus"]["status"] for each in dropped] == ["SUCCESS", "SUCCESS"]
