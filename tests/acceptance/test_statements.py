"""The statements of `commands.md`, as they stand, on the default ports, after `headrace up`."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator

import httpx
import pytest
from confluent_kafka import DeserializingConsumer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer

from tests.acceptance.platform_up import PROGRAMS, SHELL, STATEMENTS, headrace_up
from tests.running_platform import event, wait_for


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with headrace_up(tmp_path_factory.mktemp("acceptance")):
        yield


def values(topic: str, count: int) -> list[dict[str, str]]:
    """Read with Confluent's own Avro deserializer."""
    registry = SchemaRegistryClient({"url": "http://localhost:8081"})
    consumer = DeserializingConsumer(
        {
            "bootstrap.servers": "localhost:9092",
            "group.id": f"acceptance-{time.monotonic_ns()}",
            "auto.offset.reset": "earliest",
            "value.deserializer": AvroDeserializer(registry),
        }
    )
    found: list[dict[str, str]] = []
    try:
        consumer.subscribe([topic])

        def enough() -> bool:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                found.append(message.value())
            return len(found) >= count

        wait_for(enough, f"{count} records are in {topic}", explain=lambda: str(found))
    finally:
        consumer.close()
    return found


@pytest.mark.usefixtures("platform")
def test_the_two_statements_run_in_the_shell_and_the_avro_topic_fills() -> None:
    assert SHELL is not None
    assert len(STATEMENTS) == 2
    name, url = SHELL.group(1).split()
    shell = subprocess.run(
        [PROGRAMS / name, url],
        input="\n".join(STATEMENTS),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert shell.returncode == 0, shell.stdout + shell.stderr
    assert "Created query with ID CSAS_TARGET_JSON_" in shell.stdout
    events = [event(f"u{number}") for number in range(5)]

    # A query begins with what comes after it has begun, as in ksqlDB: so events are sent until one is there.
    def query_runs() -> bool:
        answer = httpx.post("http://localhost:8080/events", json=events, timeout=60, trust_env=False)
        assert answer.status_code == 200
        flow = httpx.get("http://localhost:9000/flow", timeout=60, trust_env=False).json()
        return bool(flow["avro"])

    wait_for(query_runs, "the query passes events on")
    found = values("events_avro", len(events))
    assert {value["USER_ID"] for value in found} <= {each["User_ID"] for each in events}
    assert {value["SERVER_DATE"] for value in found} == {events[0]["Server_Time"][:10]}


@pytest.mark.usefixtures("platform")
def test_the_same_statements_run_over_rest() -> None:
    answer = httpx.post(
        "http://localhost:8088/ksql", json={"ksql": STATEMENTS[0]}, timeout=60, trust_env=False
    )
    assert answer.status_code == 400
    assert "already exists" in answer.json()["message"]
    dropped = httpx.post(
        "http://localhost:8088/ksql",
        json={"ksql": "DROP STREAM target_json; DROP STREAM source_json;"},
        timeout=60,
        trust_env=False,
    )
    assert dropped.status_code == 200, dropped.text
    for statement in STATEMENTS:
        again = httpx.post(
            "http://localhost:8088/ksql", json={"ksql": statement}, timeout=60, trust_env=False
        )
        assert again.status_code == 200, again.text
        assert again.json()[0]["commandStatus"]["status"] == "SUCCESS"
