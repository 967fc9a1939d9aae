"""The whole way: an event posted over HTTP, in the log, in Avro, in the lake, in an answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from deltalake import DeltaTable

from headrace.core.settings import to_environment
from tests.running_platform import Platform, event, new_prefix, wait_for


def test_the_receipt_tells_where_the_event_is(platform: Platform) -> None:
    user = f"{new_prefix()}-0"
    sent = event(user)
    (receipt,) = platform.post(sent).json()["accepted"]
    message = _read(platform, receipt["topic"], receipt["partition"], receipt["offset"])
    assert json.loads(message.value()) == sent
    assert message.key() == user.encode()


def test_confluents_own_deserializer_reads_the_avro_topic(platform: Platform) -> None:
    prefix = new_prefix()
    platform.post([event(f"{prefix}-{number}", Device_Type="ios") for number in range(20)])
    platform.wait_in_lake(prefix, 20)
    registry = SchemaRegistryClient({"url": platform.registry_url})
    deserialize = AvroDeserializer(registry)
    context = SerializationContext("events_avro", MessageField.VALUE)
    found = {}
    for message in _all(platform, "events_avro"):
        content = deserialize(message.value(), context)
        if content["USER_ID"].startswith(prefix):
            found[content["USER_ID"]] = content
            assert message.key().decode() == content["USER_ID"]
    assert len(found) == 20
    assert found[f"{prefix}-3"] == {
        "EVENT_TYPE": "ListingView",
        "EVENT_VERSION": "1",
        "USER_ID": f"{prefix}-3",
        "LISTING_ID": "l1",
        "SERVER_TIME": "2026-03-14T09:26:53Z",
        "DEVICE_TYPE": "ios",
        "SERVER_DATE": "2026-03-14",
    }
    assert registry.get_latest_version("events_avro-value").version == 1


def test_deltalake_and_plain_duckdb_read_the_lake(platform: Platform) -> None:
    prefix = new_prefix()
    platform.post([event(f"{prefix}-{number}", Event_Type="Search & Find/2") for number in range(5)])
    platform.wait_in_lake(prefix, 5)
    table = DeltaTable(str(platform.settings.lake_dir / "events"))
    assert table.metadata().partition_columns == ["EVENT_TYPE", "SERVER_DATE"]
    assert {"EVENT_TYPE": "Search & Find/2", "SERVER_DATE": "2026-03-14"} in table.partitions()
    # Not the checkpoints of the Delta log, which a slow run comes to.
    files = f"{platform.settings.lake_dir}/events/EVENT_TYPE=*/**/*.parquet"
    rows = duckdb.sql(
        f"SELECT count(*), min(EVENT_TYPE) FROM read_parquet('{files}', hive_partitioning = true) "
        f"WHERE USER_ID LIKE '{prefix}-%'"
    ).fetchall()
    assert rows == [(5, "Search & Find/2")]


def test_sql_answers_on_the_command_line_and_over_http(platform: Platform) -> None:
    prefix = new_prefix()
    platform.post([event(f"{prefix}-{number}", Event_Type=f"T{number % 2}") for number in range(6)])
    platform.wait_in_lake(prefix, 6)
    question = (
        f"SELECT EVENT_TYPE, count(*) AS n FROM events WHERE USER_ID LIKE '{prefix}-%' GROUP BY 1 ORDER BY 1"
    )
    answer = platform.http.post(f"{platform.console_url}/sql", json={"query": question}).json()
    assert answer["columns"] == ["EVENT_TYPE", "n"]
    assert answer["rows"] == [["T0", 3], ["T1", 3]]
    command = [str(Path(sys.executable).with_name("headrace")), "sql", question, "--format", "json"]
    printed = subprocess.run(
        command,
        env=os.environ | to_environment(platform.settings),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "T0" in printed.stdout


def test_a_bad_record_in_the_log_becomes_a_dead_letter_and_harms_no_other(platform: Platform) -> None:
    prefix = new_prefix()
    producer = Producer({"bootstrap.servers": platform.settings.bootstrap})
    producer.produce("events", value=f"not json {prefix}", key=prefix)
    producer.flush()
    platform.post(event(f"{prefix}-0"))
    platform.wait_in_lake(prefix, 1)

    # Every query that cannot read a record says so; other tests may have some on the same topic.
    def letters() -> list[dict[str, bytes]]:
        found = [m for m in _all(platform, "events_dlq") if m.value() == f"not json {prefix}".encode()]
        headers = [dict(letter.headers()) for letter in found]
        return [each for each in headers if each["headrace-source"].startswith(b"CSAS_EVENTS_AVRO_1/")]

    (headers,) = wait_for(letters, "the dead letter is there")
    assert headers["headrace-error"] == b"The value is not a JSON object."


def test_an_event_of_the_largest_size_goes_all_the_way(platform: Platform) -> None:
    prefix = new_prefix()
    large = event(f"{prefix}-0", Listing_ID="")
    room = platform.settings.max_event_bytes - len(json.dumps(large, separators=(",", ":")))
    large["Listing_ID"] = "l" * room
    assert platform.post(large).status_code == 200
    platform.wait_in_lake(prefix, 1)
    assert platform.sql(f"SELECT length(LISTING_ID) FROM events WHERE USER_ID = '{prefix}-0'") == [(room,)]


def test_flow_and_latency_are_reported(platform: Platform) -> None:
    prefix = new_prefix()
    before = platform.settled_flow()
    platform.post([event(f"{prefix}-{number}") for number in range(10)])
    platform.wait_in_lake(prefix, 10)
    wait_for(lambda: platform.flow()["lake"] == before["lake"] + 10, "ten more are counted")
    after = platform.settled_flow()
    assert {name: after[name] - before[name] for name in ("accepted", "avro", "dead_letters", "lake")} == {
        "accepted": 10,
        "avro": 10,
        "dead_letters": 0,
        "lake": 10,
    }
    latency = platform.http.get(f"{platform.console_url}/latency").json()
    for name in ("latency_ms", "avro_latency_ms"):
        assert 0 < latency[name]["p50"] <= latency[name]["p90"] <= latency[name]["p99"]


def test_everything_is_there_once(platform: Platform) -> None:
    prefix = new_prefix()
    platform.post([event(f"{prefix}-{number}") for number in range(20)])
    platform.wait_in_lake(prefix, 20)
    platform.settled_flow()
    code, findings = platform.reconcile()
    assert code == 0, findings
    for query, source in (("CSAS_EVENTS_AVRO_1", "events"), ("events-lake.events_avro", "events_avro")):
        finding = findings[query]
        assert (finding["source"], finding["missing"], finding["doubles"]) == (source, [], [])
        assert (finding["waiting"], finding["unchecked"]) == (0, "")
        assert finding["accepted"] >= 20
    # Not for the lake: rows that it read before a test recreated the topic count for none of its records.
    # That nothing is missing is said above, record by record; the counts of a topic that tests recreated and
    # whose log they killed were seen one apart.
    finding = findings["CSAS_EVENTS_AVRO_1"]
    assert 0 <= finding["accepted"] - finding["written"] - finding["dead_letters"] <= 1, finding


def _consumer(platform: Platform) -> Consumer:
    return Consumer(
        {"bootstrap.servers": platform.settings.bootstrap, "group.id": "test", "enable.auto.commit": False}
    )


def _read(platform: Platform, topic: str, partition: int, offset: int):  # type: ignore[no-untyped-def]
    consumer = _consumer(platform)
    consumer.assign([TopicPartition(topic, partition, offset)])
    message = consumer.poll(120)
    consumer.close()
    assert message is not None
    assert (message.error(), message.offset()) == (None, offset)
    return message


def _all(platform: Platform, topic: str) -> list:  # type: ignore[type-arg]
    """All messages of a topic, from its beginning to its present end."""
    consumer = _consumer(platform)
    messages = []
    for partition in consumer.list_topics(topic).topics[topic].partitions:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition))
        consumer.assign([TopicPartition(topic, partition, 0)])
        wanted = end
        while wanted > 0:
            batch = consumer.consume(min(wanted, 1000), timeout=120)
            assert batch
            messages += batch
            wanted -= len(batch)
    consumer.close()
    return messages
