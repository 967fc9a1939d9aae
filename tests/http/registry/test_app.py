"""The registry over HTTP: Confluent's own client, and the shapes of answers and errors."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

from headrace.http.registry.answers import MEDIA_TYPE, REGISTRY_RULES
from headrace.http.registry.app import create_registry_app
from headrace.registry.registry import Registry
from headrace.testing import EmbeddedBroker
from tests.http.registry.serving import served
from tests.ports import free_port

EVENT_SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Event",
        "fields": [
            {"name": "EVENT_TYPE", "type": ["null", "string"], "default": None},
            {"name": "COUNT", "type": "long"},
        ],
    }
)


def register(client: httpx.Client, subject: str, schema: str) -> int:
    answer = client.post(f"/subjects/{subject}/versions", json={"schema": schema})
    assert answer.status_code == 200, answer.text
    return int(answer.json()["id"])


def test_confluents_serializer_and_deserializer_work_against_it(
    address: str, broker: EmbeddedBroker, topic_name: str
) -> None:
    registry = SchemaRegistryClient({"url": address})
    serialize = AvroSerializer(registry, EVENT_SCHEMA)
    context = SerializationContext(topic_name, MessageField.VALUE)
    events: list[dict[str, Any]] = [
        {"EVENT_TYPE": "ListingView", "COUNT": 1},
        {"EVENT_TYPE": None, "COUNT": 2},
    ]
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for event in events:
        producer.produce(topic_name, serialize(event, context))
    assert producer.flush(120) == 0

    # A client of its own, so that the schema comes from the registry and not from a cache.
    deserialize = AvroDeserializer(SchemaRegistryClient({"url": address}))
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic_name})
    consumer.assign([TopicPartition(topic_name, 0, 0)])
    read: list[Any] = []
    try:
        while len(read) < len(events):
            (message,) = consumer.consume(1, timeout=120)
            assert message.error() is None
            read.append(deserialize(message.value(), context))
    finally:
        consumer.close()
    assert read == events


def test_confluents_client_sees_subjects_versions_and_schemas(address: str, topic_name: str) -> None:
    client = SchemaRegistryClient({"url": address})
    subject = f"{topic_name}-value"
    first = client.register_schema(subject, Schema(EVENT_SCHEMA, "AVRO"))
    assert client.register_schema(subject, Schema(EVENT_SCHEMA, "AVRO")) == first
    client.set_compatibility(subject, "NONE")
    second = client.register_schema(subject, Schema('"string"', "AVRO"))
    assert subject in client.get_subjects()
    assert client.get_versions(subject) == [1, 2]
    latest = client.get_latest_version(subject)
    assert (latest.version, latest.schema_id, latest.schema.schema_str) == (2, second, '"string"')
    assert client.get_version(subject, 1).schema_id == first
    assert client.lookup_schema(subject, Schema(EVENT_SCHEMA, "AVRO")).version == 1
    by_id = client.get_schema(first)
    assert json.loads(by_id.schema_str or "") == json.loads(EVENT_SCHEMA)
    assert client.get_compatibility() == "BACKWARD"
    with pytest.raises(SchemaRegistryError) as caught:
        client.get_latest_version("missing-value")
    assert (caught.value.http_status_code, caught.value.error_code) == (404, 40401)


def test_answers_have_confluents_shapes(client: httpx.Client, topic_name: str) -> None:
    text = '{"type":"fixed","name":"F_' + topic_name + '","size":4}'
    schema_id = register(client, topic_name, json.dumps(json.loads(text), indent=1))
    other = f"{topic_name}_other"
    assert register(client, other, text) == schema_id
    guid = str(uuid.UUID(bytes=hashlib.md5(text.encode()).digest()))
    version = {"subject": topic_name, "version": 1, "id": schema_id, "guid": guid, "schema": text}
    assert client.get("/").json() == {}
    assert client.get("/schemas/types").json() == ["JSON", "PROTOBUF", "AVRO"]
    assert client.get("/config").json() == {"compatibilityLevel": "BACKWARD"}
    assert client.get("/mode").json() == {"mode": "READWRITE"}
    assert client.get("/subjects", params={"subjectPrefix": topic_name}).json() == [topic_name, other]
    assert client.get(f"/subjects/{topic_name}/versions").json() == [1]
    for number in ("1", "latest", "-1"):
        assert client.get(f"/subjects/{topic_name}/versions/{number}").json() == version
    assert client.get(f"/subjects/{topic_name}/versions/1/schema").text == text
    assert client.post(f"/subjects/{topic_name}", json={"schema": text}).json() == version
    assert client.get(f"/schemas/ids/{schema_id}").json() == {"guid": guid, "schema": text}
    assert client.get(f"/schemas/ids/{schema_id}/schema").text == text
    assert client.get(f"/schemas/ids/{schema_id}/subjects").json() == [topic_name, other]
    assert client.get(f"/schemas/ids/{schema_id}/versions").json() == [
        {"subject": topic_name, "version": 1},
        {"subject": other, "version": 1},
    ]
    assert client.get("/subjects").headers["content-type"] == MEDIA_TYPE


@pytest.mark.parametrize(
    "content_type", [MEDIA_TYPE, "application/json", "application/vnd.schemaregistry+json", ""]
)
def test_requests_of_every_json_type_are_taken(
    client: httpx.Client, topic_name: str, content_type: str
) -> None:
    answer = client.post(
        f"/subjects/{topic_name}/versions",
        content=b'{"schema": "\\"string\\"", "schemaType": "AVRO", "references": []}',
        headers={"content-type": content_type},
    )
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("GET", "/subjects/missing/versions", None, 40401),
        ("GET", "/subjects/missing/versions/1", None, 40401),
        ("GET", "/subjects/present/versions/2", None, 40402),
        ("GET", "/subjects/present/versions/0", None, 42202),
        ("GET", "/subjects/present/versions/first", None, 42202),
        ("GET", "/subjects/present/versions/99999999999", None, 42202),
        ("GET", "/schemas/ids/999999", None, 40403),
        ("GET", "/schemas/ids/999999/versions", None, 40403),
        ("GET", "/schemas/ids/first", None, 404),
        ("POST", "/subjects/missing", '{"schema": "\\"int\\""}', 40401),
        ("POST", "/subjects/present", '{"schema": "\\"bytes\\""}', 40403),
        ("POST", "/subjects/present/versions", '{"schema": "\\"nope\\""}', 42201),
        ("POST", "/subjects/present/versions", '{"schema": {"type": "int"}}', 42201),
        ("POST", "/subjects/present/versions", "{}", 42201),
        ("POST", "/subjects/present/versions", '{"schema": "{}", "schemaType": "XML"}', 42201),
        ("POST", "/subjects/present/versions", '{"schema": "{}", "schemaType": ["JSON"]}', 42201),
        ("POST", "/subjects/present/versions", '{"schema": "\\"int\\"", "metadata": {"owner": "x"}}', 42201),
        ("POST", "/subjects/present/versions", '{"schema": "\\"int\\"", "references": [1]}', 42201),
        ("POST", "/subjects/present/versions", '{"schema": "\\"int\\"", "references": 1}', 42201),
        ("POST", "/subjects/present/versions", '{"schema": "\\"long\\"", "version": 7}', 42201),
        ("POST", "/subjects/present/versions", '{"schema": "\\"long\\"", "id": 7}', 42205),
        ("POST", "/subjects/present/versions", '{"schema": "\\"long\\"", "id": "a"}', 42201),
        ("POST", "/subjects/present/versions", '{"schema": "\\"long\\"", "version": [[1]]}', 42201),
        ("POST", "/subjects/:.other:a/versions", '{"schema": "\\"int\\""}', 42208),
        ("POST", "/subjects/a%00b/versions", '{"schema": "\\"int\\""}', 42208),
        ("POST", "/subjects/__EMPTY/versions", '{"schema": "\\"int\\""}', 42208),
        ("GET", "/subjects?offset=x", None, 400),
        ("DELETE", "/subjects/missing", None, 40401),
        ("DELETE", "/subjects/present?permanent=true", None, 40405),
        ("DELETE", "/subjects/present/versions/9", None, 40402),
        ("DELETE", "/subjects/present/versions/x", None, 42202),
        ("DELETE", "/subjects/present/versions/1?permanent=true", None, 40407),
        ("GET", "/subjects/present/versions/9/referencedby", None, 40402),
        ("GET", "/schemas/guids/nothing", None, 40403),
        ("GET", "/mode/present", None, 40409),
        ("DELETE", "/mode/present", None, 40401),
        ("PUT", "/mode/present", '{"mode": "FORWARD"}', 42204),
        ("PUT", "/mode", '{"mode": 1}', 42204),
        ("PUT", "/mode/present", '{"mode": "IMPORT"}', 42205),
        (
            "POST",
            "/subjects/present/versions",
            '{"schema": "\\"int\\"", "references": [{"name": "a", "subject": "b", "version": 1}]}',
            42201,
        ),
        ("POST", "/subjects/present/versions", "no json", 400),
        ("POST", "/subjects/present/versions", "[]", 400),
        ("POST", "/subjects/present/versions", "[" * 100_000, 400),
        ("GET", "/nothing/here", None, 404),
        ("PATCH", "/subjects/present", None, 405),
        ("POST", "/subjects/present/versions", '{"schema": "\\"string\\""}', 40901),
        ("PUT", "/config", '{"compatibility": "SOME"}', 42203),
        ("PUT", "/config", "{}", 42203),
        ("PUT", "/config/present", '{"compatibility": "FULL", "compatibilityGroup": "a"}', 42203),
        ("PUT", "/config/present", '{"alias": "other"}', 42203),
        ("PUT", "/config/present", '{"normalize": "yes"}', 42203),
        ("PUT", "/config", "no json", 400),
        ("GET", "/config/present", None, 40408),
        ("DELETE", "/config/present", None, 40401),
        ("POST", "/compatibility/subjects/present/versions/7", '{"schema": "\\"int\\""}', 40402),
        ("POST", "/compatibility/subjects/missing/versions/1", '{"schema": "\\"int\\""}', 40402),
        ("POST", "/compatibility/subjects/present/versions/first", '{"schema": "\\"int\\""}', 42202),
        ("POST", "/compatibility/subjects/present/versions/latest", '{"schema": "\\"nope\\""}', 42201),
        ("POST", "/compatibility/subjects/present/versions", "{}", 42201),
        ("POST", "/config", '{"compatibility": "FULL"}', 405),
    ],
)
def test_errors_have_confluents_shape(
    client: httpx.Client, method: str, path: str, body: str | None, code: int
) -> None:
    register(client, "present", '"int"')
    answer = client.request(method, path, content=body)
    assert answer.json()["error_code"] == code
    assert answer.json()["message"]
    assert set(answer.json()) == {"error_code", "message"}
    assert answer.status_code == (code if code < 1000 else code // 100)
    assert answer.headers["content-type"] == MEDIA_TYPE
    assert ("allow" in answer.headers) == (code == 405)
    assert client.get("/subjects/present/versions").json() == [1]


def test_a_registry_without_its_log_says_so() -> None:
    application = create_registry_app(Registry(f"127.0.0.1:{free_port()}", timeout=0.3))
    with served(application, REGISTRY_RULES) as url:
        answer = httpx.get(f"{url}/schemas/ids/1", timeout=120)
    assert (answer.status_code, answer.json()["error_code"]) == (500, 50001)


def test_subjects_may_have_unusual_names(client: httpx.Client) -> None:
    subject = "com.example:Größe 1%"
    path = "com.example%3AGr%C3%B6%C3%9Fe%201%25"
    register(client, path, '"double"')
    assert subject in client.get("/subjects").json()
    assert client.get(f"/subjects/{path}/versions/1").json()["subject"] == subject
