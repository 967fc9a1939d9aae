"""The statement service: replay gives what execution gave; the acceptance statements; inserted rows."""

from __future__ import annotations

import json
import time
import uuid
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.client.cluster import Cluster
from headrace.client.reading import TopicReader
from headrace.pipeline.catalogue.catalogue import Catalogue, Column
from headrace.pipeline.catalogue.log_state import LogState
from headrace.pipeline.catalogue.records import decode
from headrace.pipeline.catalogue.statement_log import StatementLog
from headrace.pipeline.formats import avro_types
from headrace.pipeline.serving.errors import StatementFailedError
from headrace.pipeline.serving.pull_queries import PullAnswer
from headrace.pipeline.serving.registry_schemas import RegistrySchemas
from headrace.pipeline.serving.service import StatementService
from headrace.pipeline.serving.session import Session
from headrace.pipeline.statements.types import (
    BIGINT,
    INTEGER,
    TIMESTAMP,
    VARCHAR,
    ArrayType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)
from headrace.testing import EmbeddedBroker


def run(service: StatementService, text: str, **properties: str) -> list[dict[str, Any]]:
    return service.execute(text, Session(properties=properties))


def records(broker: EmbeddedBroker, topic: str, count: int) -> list[tuple[bytes | None, bytes | None, int]]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": uuid.uuid4().hex})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[bytes | None, bytes | None, int]] = []
    try:
        while len(found) < count:
            (message,) = consumer.consume(1, timeout=120)
            assert message.error() is None
            found.append((message.key(), message.value(), message.timestamp()[1]))
    finally:
        consumer.close()
    return found


NAMES = st.sampled_from(["X", "Y", "Z"])
STATEMENTS = st.one_of(
    NAMES.map(
        lambda name: (
            f"CREATE STREAM {name} (id VARCHAR KEY, v BIGINT) "
            f"WITH (KAFKA_TOPIC='t_{name}', VALUE_FORMAT='JSON', PARTITIONS=1);"
        )
    ),
    NAMES.map(
        lambda name: (
            f"CREATE OR REPLACE STREAM {name} (id VARCHAR KEY, v BIGINT, w INT) "
            f"WITH (KAFKA_TOPIC='t_{name}', VALUE_FORMAT='JSON', PARTITIONS=1);"
        )
    ),
    st.tuples(NAMES, NAMES).map(
        lambda pair: f"CREATE STREAM {pair[0]} AS SELECT * FROM {pair[1]} WHERE v > 1;"
    ),
    st.tuples(NAMES, NAMES).map(
        lambda pair: f"CREATE OR REPLACE STREAM {pair[0]} AS SELECT * FROM {pair[1]} WHERE v > 2;"
    ),
    NAMES.map(lambda name: f"CREATE TABLE N_{name} AS SELECT id, COUNT(*) AS c FROM {name} GROUP BY id;"),
    st.tuples(NAMES, NAMES).map(lambda pair: f"INSERT INTO {pair[0]} SELECT * FROM {pair[1]};"),
    NAMES.map(lambda name: f"DROP STREAM {name};"),
    NAMES.map(lambda name: f"DROP TABLE IF EXISTS N_{name};"),
    NAMES.map(lambda name: f"ALTER STREAM {name} ADD COLUMN w INT;"),
    NAMES.map(lambda name: f"CREATE TYPE T{name} AS STRUCT<a INT>;"),
    NAMES.map(lambda name: f"DROP TYPE T{name};"),
    st.sampled_from(["PAUSE ALL;", "RESUME ALL;", "TERMINATE ALL;"]),
)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(statements=st.lists(STATEMENTS, min_size=5, max_size=20), snapshot_every=st.sampled_from([3, 500]))
def test_replay_of_any_prefix_gives_what_execution_gave(
    broker: EmbeddedBroker,
    cluster: Cluster,
    schemas: RegistrySchemas,
    statements: list[str],
    snapshot_every: int,
) -> None:
    topic = f"_statements_{uuid.uuid4().hex}"
    log = StatementLog(broker.bootstrap, topic=topic, snapshot_every=snapshot_every)
    log.start()
    service = StatementService(log=log, cluster=cluster, schemas=schemas)
    gave: dict[int, Catalogue] = {-1: Catalogue()}
    try:
        for text in statements:
            before = log.catalogue
            try:
                run(service, text)
            except StatementFailedError:
                assert log.catalogue == before
            gave[log.last] = log.catalogue
        end = cluster.end_offsets(topic)[0]
    finally:
        log.stop()
    reader = TopicReader(broker.bootstrap, topic, 1, from_beginning=True)
    state = LogState()
    try:
        while reader.read_to.get(0, 0) < end:
            for record in reader.poll(1.0):
                state.replay(record.offset() or 0, decode(record.key(), record.value()))
                assert state.catalogue == gave[state.last]
    finally:
        reader.close()
    assert state.catalogue == log.catalogue


def test_the_statements_of_the_acceptance_run_as_they_stand(service: StatementService) -> None:
    first = (
        "CREATE STREAM source_json (Event_Type VARCHAR, Event_Version VARCHAR, User_ID VARCHAR, Listing_ID "
        "VARCHAR, Server_Time VARCHAR, Device_Type VARCHAR) WITH (KAFKA_TOPIC='events', VALUE_FORMAT='JSON');"
    )
    second = (
        "CREATE STREAM target_json WITH (KAFKA_TOPIC='events_avro',REPLICAS=1,PARTITIONS=1,"
        "VALUE_FORMAT='AVRO') AS SELECT *, SUBSTRING(Server_Time, 0, 10) as Server_Date FROM source_json;"
    )
    made, query = run(service, first) + run(service, second)
    assert made["commandStatus"]["message"] == "Stream created"
    assert query["commandStatus"]["queryId"] == f"CSAS_TARGET_JSON_{query['commandSequenceNumber']}"
    topic = service.cluster.topic("events_avro")
    assert topic is not None
    assert topic.partitions == 1
    sink = service.log.catalogue.sources["TARGET_JSON"]
    assert [column.name for column in sink.value][-1] == "SERVER_DATE"


def test_rows_are_written_in_the_formats_of_the_source(
    service: StatementService, broker: EmbeddedBroker, topic_name: str
) -> None:
    run(
        service,
        f"""CREATE STREAM s (k BIGINT KEY, d DECIMAL(4, 2), t TIMESTAMP, a ARRAY<INT>, m MAP<VARCHAR, INT>,
            r STRUCT<x INT, y VARCHAR>, b BOOLEAN)
            WITH (KAFKA_TOPIC='{topic_name}', KEY_FORMAT='KAFKA', VALUE_FORMAT='JSON', PARTITIONS=1);
        INSERT INTO s VALUES (1, 1.5, '2024-05-01T00:00:00', ARRAY[1, 2], MAP('a' := 1),
            STRUCT(x := 1, y := 'z'), true);
        INSERT INTO s (b, ROWTIME, k) VALUES (false, 1234, 2 + 3);
        INSERT INTO s (d) VALUES (-CAST('2' AS INT));""",
    )
    first, second, third = records(broker, topic_name, 3)
    assert first[0] == (1).to_bytes(8, "big")
    assert json.loads(first[1] or b"") == {
        "D": 1.50,
        "T": 1714521600000,
        "A": [1, 2],
        "M": {"a": 1},
        "R": {"X": 1, "Y": "z"},
        "B": True,
    }
    assert abs(first[2] - time.time() * 1000) < 60_000
    assert second[0] == (5).to_bytes(8, "big")
    assert second[2] == 1234
    assert json.loads(second[1] or b"")["B"] is False
    assert (third[0], json.loads(third[1] or b"")["D"]) == (None, -2.00)


def test_pull_queries_of_a_stream_go_by_its_timestamp_column(
    service: StatementService, topic_name: str
) -> None:
    run(
        service,
        f"""CREATE STREAM s (k VARCHAR KEY, day VARCHAR)
            WITH (KAFKA_TOPIC='{topic_name}', VALUE_FORMAT='JSON', PARTITIONS=1);
        CREATE STREAM dated (k VARCHAR KEY, day VARCHAR) WITH (KAFKA_TOPIC='{topic_name}',
            VALUE_FORMAT='JSON', TIMESTAMP='day', TIMESTAMP_FORMAT='yyyy-MM-dd');
        INSERT INTO s (k, day, ROWTIME) VALUES ('a', '1970-01-03', 5);
        INSERT INTO s (k, day, ROWTIME) VALUES ('b', 'tomorrow', 6);
        INSERT INTO s (k, day, ROWTIME) VALUES ('c', '1969-12-31', 7);""",
    )
    plain = service.begin("SELECT k, ROWTIME AS t FROM s;", Session())
    dated = service.begin("SELECT k, ROWTIME AS t FROM dated;", Session())
    assert isinstance(plain, PullAnswer)
    assert isinstance(dated, PullAnswer)
    assert plain.rows == (("a", 5), ("b", 6), ("c", 7))
    # As for persistent queries: a record without a time is no row.
    assert dated.rows == (("a", 2 * 86_400_000),)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ("('a', 'x')", "Column `V`: expected type BIGINT but got STRING (x)"),
        ("('a', 9223372036854775808)", ""),
        ("('a')", "Expected 2 values (K, V) but got 1."),
        ("('a', 1, 2)", "Expected 2 values (K, V) but got 3."),
        ("(NULL, 1)", "is required for tables"),
    ],
)
def test_rows_that_do_not_fit_are_refused(
    service: StatementService, topic_name: str, values: str, reason: str
) -> None:
    run(
        service,
        f"CREATE TABLE t (k VARCHAR PRIMARY KEY, v BIGINT) "
        f"WITH (KAFKA_TOPIC='{topic_name}', VALUE_FORMAT='JSON', PARTITIONS=1);",
    )
    with pytest.raises(StatementFailedError) as caught:
        run(service, f"INSERT INTO t VALUES {values};")
    assert reason in caught.value.message
    assert service.cluster.end_offsets(topic_name) == {0: 0}
    for columns in ("(k, v, k)", "(k, no)", "(k, ROWOFFSET)"):
        with pytest.raises(StatementFailedError):
            run(service, f"INSERT INTO t {columns} VALUES {values};")
    assert service.cluster.end_offsets(topic_name) == {0: 0}


def test_avro_rows_and_columns_from_the_registry(service: StatementService, topic_name: str) -> None:
    run(
        service,
        f"""CREATE TABLE a (k VARCHAR PRIMARY KEY, v BIGINT, d DECIMAL(4, 2), t TIMESTAMP, l ARRAY<INT>,
            m MAP<VARCHAR, INT>, r STRUCT<x INT>)
            WITH (KAFKA_TOPIC='{topic_name}', KEY_FORMAT='AVRO', VALUE_FORMAT='AVRO', PARTITIONS=1);
        INSERT INTO a VALUES ('k', 5, 1.25, '2024-05-01T00:00:00', ARRAY[1], MAP('a' := 2), STRUCT(x := 3));
        CREATE TABLE b (k VARCHAR PRIMARY KEY)
            WITH (KAFKA_TOPIC='{topic_name}', KEY_FORMAT='AVRO', VALUE_FORMAT='AVRO');""",
    )
    inferred = service.log.catalogue.sources["B"]
    assert inferred.value == (
        Column(name="V", type=BIGINT),
        Column(name="D", type=DecimalType(4, 2)),
        Column(name="T", type=TIMESTAMP),
        Column(name="L", type=ArrayType(INTEGER)),
        Column(name="M", type=MapType(VARCHAR, INTEGER)),
        Column(name="R", type=StructType((StructField("X", INTEGER),))),
    )
    answer = service.begin("SELECT v, r->x AS x, m['a'] AS m, l[1] AS l FROM b WHERE k = 'k';", Session())
    assert getattr(answer, "rows", None) == ((5, 3, 2, 1),)
    with pytest.raises(StatementFailedError) as caught:
        run(service, "CREATE STREAM c WITH (KAFKA_TOPIC='no_schema', VALUE_FORMAT='AVRO', PARTITIONS=1);")
    assert "does not exist in the Schema Registry" in caught.value.message


def test_a_query_whose_schema_may_not_follow_that_of_its_topic_is_refused(
    service: StatementService, schemas: RegistrySchemas, topic_name: str
) -> None:
    source, sink = f"{topic_name}_in", f"{topic_name}_out"
    theirs = {
        "type": "record",
        "name": "KsqlDataSourceSchema",
        "fields": [{"name": "V", "type": ["null", "string"], "default": None}],
    }
    schemas.register(f"{sink}-value", json.dumps(theirs))
    run(
        service,
        f"CREATE STREAM s (k VARCHAR KEY, v BIGINT, w BIGINT) "
        f"WITH (KAFKA_TOPIC='{source}', VALUE_FORMAT='JSON', PARTITIONS=1);",
    )
    create = f"CREATE STREAM o WITH (KAFKA_TOPIC='{sink}', VALUE_FORMAT='AVRO') AS SELECT"
    with pytest.raises(StatementFailedError) as caught:
        run(service, f"{create} k, v FROM s;")
    for part in (f"'{sink}-value'", "version 1", "level BACKWARD", "writer type: STRING", "field 'V'"):
        assert part in caught.value.message
    assert "O" not in service.log.catalogue.sources
    assert service.log.catalogue.queries == {}
    assert service.cluster.topic(sink) is None
    # A column that the topic has not is null in its older records.
    run(service, f"{create} k, w FROM s;")
    assert "O" in service.log.catalogue.sources
    # Rows go the same way: what is inserted is held to the level as well.
    run(
        service,
        f"CREATE STREAM p (k VARCHAR KEY, v BIGINT) WITH (KAFKA_TOPIC='{sink}', VALUE_FORMAT='AVRO');",
    )
    for statement in ("INSERT INTO p VALUES ('a', 1);", "INSERT INTO p SELECT k, v FROM s;"):
        with pytest.raises(StatementFailedError) as caught:
            run(service, statement)
        assert f"{sink}-value" in caught.value.message
        assert "BACKWARD" in caught.value.message


def test_a_query_whose_schema_is_registered_already_is_taken_whatever_the_level(
    service: StatementService, schemas: RegistrySchemas, topic_name: str
) -> None:
    subject = f"{topic_name}_out-value"
    columns = (Column(name="V", type=BIGINT),)
    schemas.register(subject, avro_types.record_schema(columns))
    schemas.register(subject, avro_types.record_schema((Column(name="X", type=VARCHAR),)))
    schemas.register(subject, avro_types.record_schema((Column(name="V", type=VARCHAR),)))
    made = run(
        service,
        f"""CREATE STREAM s (v BIGINT) WITH (KAFKA_TOPIC='{topic_name}', VALUE_FORMAT='JSON', PARTITIONS=1);
        CREATE STREAM o WITH (KAFKA_TOPIC='{topic_name}_out', VALUE_FORMAT='AVRO') AS SELECT v FROM s;""",
    )
    assert made[1]["commandStatus"]["queryId"] in service.log.catalogue.queries


def test_a_query_keeps_its_statement_with_the_values_of_variables(
    service: StatementService, topic_name: str
) -> None:
    made = run(
        service,
        f"""DEFINE place = '{topic_name}'; DEFINE least = '3';
        CREATE STREAM s (v BIGINT) WITH (KAFKA_TOPIC='${{place}}', VALUE_FORMAT='JSON', PARTITIONS=1);
        CREATE STREAM o AS SELECT * FROM s WHERE v > ${{least}};""",
    )
    query = service.log.catalogue.queries[made[1]["commandStatus"]["queryId"]]
    assert "${" not in query.statement
    assert "> 3" in query.statement
    assert service.log.catalogue.sources["S"].topic == topic_name
    (explained,) = run(service, f"EXPLAIN {query.id};")
    assert explained["queryDescription"]["executionPlan"]
    assert "could not be planned" not in explained["queryDescription"]["executionPlan"]
