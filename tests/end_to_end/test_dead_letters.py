"""A broken event becomes a dead letter, is repaired with `headrace dlq`, and arrives as a good one does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from headrace.core.settings import to_environment
from tests.dead_letters.letters import all_records
from tests.running_platform import Platform, event, new_prefix, wait_for

pytestmark = pytest.mark.long

QUERY = "CSAS_EVENTS_AVRO_1"


def dlq(platform: Platform, *arguments: str) -> str:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("headrace")), "dlq", *arguments],
        env=os.environ | to_environment(platform.settings),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def entries(platform: Platform, key: str, attempts: int) -> list[dict[str, Any]]:
    """The dead letters of the query that makes Avro; other tests may have more queries on events."""
    listed: list[dict[str, Any]] = json.loads(
        dlq(platform, "list", "events_dlq", "--limit", "10000", "--json")
    )
    wanted = (key, attempts, QUERY)
    return [entry for entry in listed if (entry["key"], entry["attempts"], entry["query"]) == wanted]


def in_avro(platform: Platform, prefix: str) -> dict[str, tuple[bytes, dict[str, Any], list[str]]]:
    """Key, content and names of headers of the Avro records of these users."""
    deserialize = AvroDeserializer(SchemaRegistryClient({"url": platform.registry_url}))
    context = SerializationContext("events_avro", MessageField.VALUE)
    found = {}
    for record in all_records(platform.settings.bootstrap, "events_avro"):
        content = deserialize(record.value(), context)
        if content["USER_ID"].startswith(prefix):
            assert content["USER_ID"] not in found, "once"
            found[content["USER_ID"]] = (record.key(), content, [name for name, _ in record.headers()])
    return found


def test_a_broken_event_is_repaired_and_arrives_as_a_good_one(platform: Platform) -> None:
    prefix = new_prefix()
    good, broken = event(f"{prefix}-0"), event(f"{prefix}-1")
    sent_at = 1_773_480_413_000
    producer = Producer({"bootstrap.servers": platform.settings.bootstrap})
    for content, cut in ((good, 0), (broken, 1)):
        text = json.dumps(content, sort_keys=True)
        producer.produce(
            "events",
            text[: len(text) - cut],
            key=content["User_ID"],
            timestamp=sent_at,
            headers=[("trace", b"t")],
        )
    assert producer.flush(120) == 0

    (entry,) = wait_for(lambda: entries(platform, f"{prefix}-1", 1), "the dead letter is there")
    assert entry["reason"] == "The value is not a JSON object."
    assert entry["position"].startswith("line ")
    assert entry["source"]["topic"] == "events"
    at = f"{entry['partition']}:{entry['offset']}"

    # A wrong repair fails again, and says that it is the second time.
    dlq(platform, "repair", "events_dlq", "--at", at, "--replace", "Device_Type", "Again")
    (second,) = wait_for(lambda: entries(platform, f"{prefix}-1", 2), "it has failed again")
    at = f"{second['partition']}:{second['offset']}"

    mend = "sed 's/Again/Device_Type/; s/$/}/' | tr -d '\\n'"
    said = dlq(platform, "repair", "events_dlq", "--at", at, "--command", mend)
    assert said.endswith("1 sent\n")
    wait_for(lambda: len(in_avro(platform, prefix)) == 2, "both are in Avro")
    found = in_avro(platform, prefix)
    key, content, headers = found[f"{prefix}-1"]
    good_key, good_content, good_headers = found[f"{prefix}-0"]
    assert content == good_content | {"USER_ID": f"{prefix}-1"}
    assert (key, headers) == (f"{prefix}-1".encode(), good_headers)
    assert good_key == f"{prefix}-0".encode()
    times = {
        dict(record.headers())["headrace-rowtime"]
        for record in all_records(platform.settings.bootstrap, "events_avro")
        if record.key().decode().startswith(prefix)
    }
    assert times == {str(sent_at).encode()}, "its time is that of the event, not of the repair"
    platform.wait_in_lake(prefix, 2)

    assert "repaired before" in dlq(platform, "repair", "events_dlq", "--at", at)
    assert platform.rows(prefix) == {f"{prefix}-0": 1, f"{prefix}-1": 1}
