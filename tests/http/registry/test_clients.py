"""Confluent's Python client against the registry: its three pairs of serializers, and its administration."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, struct_pb2, timestamp_pb2

ADDRESS_AVRO = json.dumps(
    {"type": "record", "name": "Address", "namespace": "shop", "fields": [{"name": "city", "type": "string"}]}
)
ORDER_AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": "id", "type": "long"}, {"name": "to", "type": ["null", "shop.Address"]}],
    }
)
ADDRESS_JSON = json.dumps(
    {"$id": "address.json", "type": "object", "properties": {"city": {"type": "string"}}}
)
ORDER_JSON = json.dumps(
    {
        "$id": "order.json",
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "to": {"$ref": "address.json"}},
        "required": ["id"],
        "additionalProperties": False,
    }
)
ORDER = {"id": 7, "to": {"city": "Größe"}}


@pytest.fixture
def registry(address: str) -> SchemaRegistryClient:
    """A client of its own for each test, since clients remember what they have seen."""
    return SchemaRegistryClient({"url": address})


def refused(call: Callable[[], Any]) -> tuple[int, int]:
    with pytest.raises(SchemaRegistryError) as caught:
        call()
    return caught.value.http_status_code, caught.value.error_code


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def test_avro_with_references(registry: SchemaRegistryClient, address: str, topic_name: str) -> None:
    registry.register_schema(f"{topic_name}-address", Schema(ADDRESS_AVRO, "AVRO"))
    reference = SchemaReference("shop.Address", f"{topic_name}-address", 1)
    serialize = AvroSerializer(registry, Schema(ORDER_AVRO, "AVRO", [reference]))
    data = serialize(ORDER, context(topic_name))
    deserialize = AvroDeserializer(SchemaRegistryClient({"url": address}))
    assert deserialize(data, context(topic_name)) == ORDER


def test_json_schema_with_references(registry: SchemaRegistryClient, address: str, topic_name: str) -> None:
    registry.register_schema(f"{topic_name}-address", Schema(ADDRESS_JSON, "JSON"))
    reference = SchemaReference("address.json", f"{topic_name}-address", 1)
    schema = Schema(ORDER_JSON, "JSON", [reference])
    serialize = JSONSerializer(schema, registry)
    data = serialize(ORDER, context(topic_name))
    other = SchemaRegistryClient({"url": address})
    deserialize = JSONDeserializer(schema, schema_registry_client=other)
    assert deserialize(data, context(topic_name)) == ORDER
    latest = other.get_latest_version(f"{topic_name}-value")
    assert (latest.schema.schema_type, latest.schema.references) == ("JSON", [reference])


def message_types(topic: str) -> tuple[Any, Any]:
    """Messages as a compiler makes them, in two files, of which one imports the other."""
    pool = descriptor_pool.DescriptorPool()
    for known in (timestamp_pb2, struct_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    field = descriptor_pb2.FieldDescriptorProto
    address = descriptor_pb2.FileDescriptorProto(
        name=f"{topic}/address.proto", package="shop", syntax="proto3"
    )
    city = address.message_type.add(name="Address").field.add(name="city", number=1)
    city.type, city.label = field.TYPE_STRING, field.LABEL_OPTIONAL
    order = descriptor_pb2.FileDescriptorProto(name=f"{topic}/order.proto", package="shop", syntax="proto3")
    order.dependency.extend([address.name, "google/protobuf/timestamp.proto"])
    order.message_type.add(name="Other")
    message = order.message_type.add(name="Order")
    types = [("id", field.TYPE_INT64, None), ("to", field.TYPE_MESSAGE, ".shop.Address")]
    types.append(("at", field.TYPE_MESSAGE, ".google.protobuf.Timestamp"))
    for number, (name, kind, type_name) in enumerate(types, start=1):
        message.field.add(
            name=name, number=number, type=kind, type_name=type_name, label=field.LABEL_OPTIONAL
        )
    for file in (address, order):
        pool.Add(file)
    return tuple(
        message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
        for name in ("shop.Order", "shop.Address")
    )


def test_protobuf_with_references(registry: SchemaRegistryClient, address: str, topic_name: str) -> None:
    order_type, address_type = message_types(topic_name)
    serialize = ProtobufSerializer(order_type, registry, {"use.deprecated.format": False})
    order = order_type(id=7, to=address_type(city="Größe"))
    order.at.seconds = 5
    data = serialize(order, context(topic_name))
    deserialize = ProtobufDeserializer(
        order_type, {"use.deprecated.format": False}, SchemaRegistryClient({"url": address})
    )
    read = deserialize(data, context(topic_name))
    assert (read.id, read.to.city, read.at.seconds) == (7, "Größe", 5)
    fresh = SchemaRegistryClient({"url": address})
    latest = fresh.get_latest_version(f"{topic_name}-value")
    assert latest.schema.schema_type == "PROTOBUF"
    # A text to read, whatever was sent.
    assert "message Order {" in latest.schema.schema_str
    assert [each.name for each in latest.schema.references] == [f"{topic_name}/address.proto"]
    # As a descriptor it is what the compiler made.
    sent = descriptor_pb2.FileDescriptorProto.FromString(order_type.DESCRIPTOR.file.serialized_pb)
    assert registry.lookup_schema(f"{topic_name}-value", latest.schema).version == 1
    serialized = SchemaRegistryClient({"url": address}).get_schema(latest.schema_id, fmt="serialized")
    got = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(serialized.schema_str))
    got.name = sent.name
    assert got == sent


def test_a_schema_id_in_a_header(registry: SchemaRegistryClient, address: str, topic_name: str) -> None:
    """There the schema is named by its GUID."""
    conf = {"schema.id.serializer": header_schema_id_serializer}
    serialize = AvroSerializer(registry, ADDRESS_AVRO, conf=conf)
    where = SerializationContext(topic_name, MessageField.VALUE, [])
    data = serialize(ORDER["to"], where)
    deserialize = AvroDeserializer(SchemaRegistryClient({"url": address}))
    assert deserialize(data, where) == ORDER["to"]


# A schema, one that may follow it, and one that may not.
SCHEMAS = {
    "AVRO": ('"int"', '"long"', '"string"'),
    "JSON": ('{"type":"integer"}', '{"type":"number"}', '{"type":"string"}'),
    "PROTOBUF": (
        'syntax = "proto3"; message M { int32 a = 1; }',
        'syntax = "proto3"; message M { int64 a = 1; string b = 2; }',
        'syntax = "proto3"; message M { string a = 1; }',
    ),
}


@pytest.mark.parametrize("schema_type", SCHEMAS)
def test_each_type_is_registered_found_and_checked(
    registry: SchemaRegistryClient, topic_name: str, schema_type: str
) -> None:
    first, compatible, incompatible = SCHEMAS[schema_type]
    subject = f"{topic_name}-value"
    first_id = registry.register_schema(subject, Schema(first, schema_type))
    assert registry.register_schema(f"{topic_name}-other", Schema(first, schema_type)) == first_id
    assert registry.test_compatibility(subject, Schema(compatible, schema_type))
    assert not registry.test_compatibility(subject, Schema(incompatible, schema_type))
    assert registry.register_schema(subject, Schema(compatible, schema_type)) != first_id
    assert refused(lambda: registry.register_schema(subject, Schema(incompatible, schema_type))) == (
        409,
        40901,
    )
    other = Schema("{}" if schema_type != "JSON" else '"int"', "JSON" if schema_type != "JSON" else "AVRO")
    assert refused(lambda: registry.register_schema(subject, other)) == (409, 40901)
    assert registry.lookup_schema(subject, Schema(first, schema_type)).version == 1
    assert registry.get_versions(subject) == [1, 2]


def test_deletion_as_the_client_does_it(
    registry: SchemaRegistryClient, address: str, topic_name: str
) -> None:
    subject = f"{topic_name}-value"
    ids = [registry.register_schema(subject, Schema(each, "AVRO")) for each in ('"int"', '"long"', '"float"')]
    assert registry.delete_version(subject, 2) == 2
    assert registry.get_versions(subject) == [1, 3]
    assert registry.get_version(subject, 2, deleted=True).schema_id == ids[1]
    fresh = SchemaRegistryClient({"url": address})
    assert refused(lambda: fresh.get_version(subject, 2)) == (404, 40402)
    assert refused(lambda: registry.delete_version(subject, 2)) == (404, 40406)
    assert registry.delete_version(subject, 2, permanent=True) == 2
    assert refused(lambda: registry.delete_subject(subject, permanent=True)) == (404, 40405)
    # The client removes both for good, one after the other.
    assert registry.delete_subject(subject) == [1, 3]
    assert subject not in registry.get_subjects()
    assert subject in registry.get_subjects(deleted=True)
    assert refused(lambda: registry.delete_subject(subject)) == (404, 40404)
    assert registry.delete_subject(subject, permanent=True) == [1, 3]
    assert refused(lambda: registry.get_versions(subject)) == (404, 40401)


def test_curl_takes_what_it_is_given(address: str) -> None:
    """And the three media types: what is asked for comes."""
    for accept in (
        "application/vnd.schemaregistry+json",
        "application/json",
        "application/vnd.schemaregistry.v1+json",
    ):
        shown = subprocess.run(
            ["curl", "-sS", "-i", "-H", f"Accept: {accept}", f"{address}/schemas/types"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert f"content-type: {accept}\n" in shown.replace("\r", "")
        assert '["JSON","PROTOBUF","AVRO"]' in shown
