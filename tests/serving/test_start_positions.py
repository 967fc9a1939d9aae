"""A query begins at the moment of the answer to its statement, and the statement log says where that was."""

from __future__ import annotations

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.client.cluster import Cluster
from headrace.pipeline.catalogue.catalogue import PersistentQuery, QueryKind
from headrace.pipeline.catalogue.catalogue_json import read_query, write_query
from headrace.pipeline.catalogue.statement_log import StatementLog
from headrace.pipeline.serving.service import StatementService
from headrace.pipeline.serving.session import Session
from headrace.testing import EmbeddedBroker


def _run(service: StatementService, text: str, **properties: str) -> None:
    service.execute(text, Session(properties=properties))


def _two_streams(service: StatementService, cluster: Cluster, name: str) -> None:
    """`s` with two records, `t` with one, each in one partition, and the table `u` with one."""
    _run(
        service,
        f"CREATE STREAM s (v INT) WITH (KAFKA_TOPIC='{name}_s', VALUE_FORMAT='JSON', PARTITIONS=1);"
        f"CREATE STREAM t (v INT) WITH (KAFKA_TOPIC='{name}_t', VALUE_FORMAT='JSON', PARTITIONS=1);"
        f"CREATE TABLE u (k INT PRIMARY KEY, w INT) "
        f"WITH (KAFKA_TOPIC='{name}_u', VALUE_FORMAT='JSON', PARTITIONS=1);",
    )
    for topic in (f"{name}_s", f"{name}_s", f"{name}_t", f"{name}_u"):
        cluster.produce(topic, b"1", b'{"V": 1}')


def _id(cluster: Cluster, topic: str) -> str:
    return cluster.lookup([topic])[topic].topic_id


def test_latest_is_the_end_of_the_streams_at_the_answer(
    broker: EmbeddedBroker,
    service: StatementService,
    cluster: Cluster,
    topic_name: str,
    statement_topic: str,
) -> None:
    _two_streams(service, cluster, topic_name)
    _run(
        service,
        f"CREATE STREAM o WITH (KAFKA_TOPIC='{topic_name}_o') AS SELECT s.v, u.w FROM s JOIN u ON s.v = u.k;",
        **{"auto.offset.reset": "latest"},
    )
    cluster.produce(f"{topic_name}_s", None, b'{"V": 2}')
    # As a pipeline reads it that starts later.
    log = StatementLog(broker.bootstrap, topic=statement_topic)
    log.start()
    try:
        (query,) = log.catalogue.queries.values()
    finally:
        log.stop()
    assert query.start is not None
    assert query.start.sources == {_id(cluster, f"{topic_name}_s"): {0: 2}}, "and the table is read whole"
    assert query.start.sinks == {}, "its topic was made for it"
    assert query.start.statement


def test_what_is_committed_after_the_answer_is_part_of_the_query(
    service: StatementService, cluster: Cluster, topic_name: str
) -> None:
    _two_streams(service, cluster, topic_name)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic_name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(f"{topic_name}_s", b'{"V": 3}')
    assert producer.flush(30) == 0
    _run(service, "INSERT INTO t SELECT v FROM s;")
    producer.commit_transaction(30)
    (query,) = service.log.catalogue.queries.values()
    assert query.start is not None
    assert query.start.sources == {_id(cluster, f"{topic_name}_s"): {0: 2}}


def test_earliest_is_the_beginning_of_the_streams_at_the_answer(
    service: StatementService, cluster: Cluster, topic_name: str
) -> None:
    """What expires between the answer and the start of the query is a gap, so the beginning is kept."""
    _two_streams(service, cluster, topic_name)
    place = TopicPartition(f"{topic_name}_s", 0, 1)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.delete_records([place])[place].result(30)
    _run(
        service,
        "INSERT INTO t SELECT v FROM s;",
        **{"auto.offset.reset": "earliest"},
    )
    (query,) = service.log.catalogue.queries.values()
    assert query.start is not None
    assert query.start.sources == {_id(cluster, f"{topic_name}_s"): {0: 1}}
    assert query.start.sinks == {_id(cluster, f"{topic_name}_t"): {0: 1}}, "what was there is not its own"


def test_a_replaced_query_began_where_the_former_began(
    service: StatementService, cluster: Cluster, topic_name: str
) -> None:
    _two_streams(service, cluster, topic_name)
    create = f"STREAM o WITH (KAFKA_TOPIC='{topic_name}_o') AS SELECT v FROM s"
    _run(service, f"CREATE {create};")
    cluster.produce(f"{topic_name}_s", None, b'{"V": 2}')
    _run(service, f"CREATE OR REPLACE {create} WHERE v > 0;")
    (query,) = service.log.catalogue.queries.values()
    assert query.start is not None
    assert query.start.sources == {_id(cluster, f"{topic_name}_s"): {0: 2}}


def test_a_query_of_an_older_version_has_no_start() -> None:
    query = PersistentQuery(id="Q", kind=QueryKind.INSERT, sink="O", sources=("S",), statement="…")
    content = write_query(query)
    del content["start"]
    assert read_query(content) == query
