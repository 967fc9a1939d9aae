"""Levels of compatibility over HTTP: by Confluent's own client, and in Confluent's words."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, ServerConfig
from confluent_kafka.schema_registry.common.schema_registry_client import ConfigCompatibilityLevel
from confluent_kafka.schema_registry.error import SchemaRegistryError

from headrace.core.errors import HeadraceError
from headrace.pipeline.spark.registry_client import RegistryClient

BOTH, NEW_READS_OLD, OLD_READS_NEW, NEITHER = "both", "new reads old", "old reads new", "neither"


def record(*fields: Any) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": list(fields)})


ID = {"name": "id", "type": "long"}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
PRICE = {"name": "price", "type": "double"}
# Two versions before, and the candidates: who reads whom of the newest version, and of the first.
FIRST, SECOND = record(ID, NOTE), record(ID)
CANDIDATES = {
    record(ID, {"name": "more", "type": "int", "default": 0}): (BOTH, BOTH),
    record(ID, PRICE): (OLD_READS_NEW, OLD_READS_NEW),
    record(): (NEW_READS_OLD, NEW_READS_OLD),
    record(ID, {"name": "note", "type": ["null", "int"], "default": None}): (BOTH, NEITHER),
    record(ID, {"name": "note", "type": ["null", "string", "int"], "default": None}): (BOTH, NEW_READS_OLD),
    record(ID, {"name": "note", "type": "string", "default": ""}): (BOTH, OLD_READS_NEW),
    record({"name": "id", "type": "string"}): (NEITHER, NEITHER),
}
WANTED = {
    "NONE": set(),
    "BACKWARD": {NEW_READS_OLD},
    "FORWARD": {OLD_READS_NEW},
    "FULL": {NEW_READS_OLD, OLD_READS_NEW},
}


def is_enough(who: str, wanted: set[str]) -> bool:
    there = {NEW_READS_OLD, OLD_READS_NEW} if who == BOTH else {who}
    return wanted <= there


@pytest.mark.parametrize(
    "level",
    ["NONE", *(f"{name}{more}" for name in ("BACKWARD", "FORWARD", "FULL") for more in ("", "_TRANSITIVE"))],
)
def test_confluents_client_sees_the_seven_levels(address: str, topic_name: str, level: str) -> None:
    name, _, transitive = level.partition("_")
    client = SchemaRegistryClient({"url": address})
    subject = f"{topic_name}-value"
    assert client.set_compatibility(subject, level) == {"compatibility": level}
    assert client.get_compatibility(subject) == level
    assert client.get_config(subject).compatibility_level == level
    for number, (candidate, (newest, first)) in enumerate(CANDIDATES.items()):
        trial = f"{topic_name}-{number}"
        for each in (FIRST, SECOND):
            client.register_schema(trial, Schema(each, "AVRO"))
        client.set_compatibility(trial, level)
        schema = Schema(candidate, "AVRO")
        against_newest, against_first = is_enough(newest, WANTED[name]), is_enough(first, WANTED[name])
        expected = against_newest and (against_first or not transitive)
        assert client.test_compatibility(trial, schema) == against_newest, candidate
        assert client.test_compatibility(trial, schema, 2) == against_newest, candidate
        assert client.test_compatibility(trial, schema, 1) == against_first, candidate
        assert client.test_compatibility_all_versions(trial, schema, verbose=True) == expected, candidate
        if expected:
            client.register_schema(trial, schema)
            assert client.get_versions(trial) == [1, 2, 3]
            continue
        with pytest.raises(SchemaRegistryError) as caught:
            client.register_schema(trial, schema)
        assert (caught.value.http_status_code, caught.value.error_code) == (409, 40901)
        assert f"compatibility: '{level}'" in caught.value.error_message
        assert client.get_versions(trial) == [1, 2]


def test_confluents_client_sets_and_removes_levels(address: str, topic_name: str) -> None:
    client = SchemaRegistryClient({"url": address})
    assert client.get_compatibility() == "BACKWARD"
    try:
        client.set_config(config=ServerConfig(compatibility=ConfigCompatibilityLevel.FULL))
        assert client.get_compatibility() == "FULL"
        with pytest.raises(SchemaRegistryError) as caught:
            client.get_compatibility(topic_name)
        assert (caught.value.http_status_code, caught.value.error_code) == (404, 40408)
        client.set_compatibility(topic_name, "none")
        assert client.get_compatibility(topic_name) == "NONE"
        assert client.delete_config(topic_name).compatibility_level == "NONE"
        with pytest.raises(SchemaRegistryError):
            client.get_compatibility(topic_name)
    finally:
        client.delete_config()
    assert client.get_compatibility() == "BACKWARD"
    with pytest.raises(SchemaRegistryError) as caught:
        client.set_compatibility(topic_name, "SOME")
    assert (caught.value.http_status_code, caught.value.error_code) == (422, 42203)


def test_answers_have_confluents_shapes(client: httpx.Client, topic_name: str) -> None:
    path = f"/config/{topic_name}"
    missing = {
        "error_code": 40408,
        "message": f"Subject '{topic_name}' does not have subject-level compatibility configured",
    }
    assert client.get(path).json() == missing
    assert client.get(path, params={"defaultToGlobal": "true"}).json() == {"compatibilityLevel": "BACKWARD"}
    assert client.put(path, json={"compatibility": "FULL_TRANSITIVE"}).json() == {
        "compatibility": "FULL_TRANSITIVE"
    }
    for asked in ("true", "false"):
        assert client.get(path, params={"defaultToGlobal": asked}).json() == {
            "compatibilityLevel": "FULL_TRANSITIVE"
        }
    assert client.delete(path).json() == {"compatibilityLevel": "FULL_TRANSITIVE"}
    assert client.get(path).json() == missing


def test_a_check_says_why_when_it_is_asked_to(client: httpx.Client, topic_name: str) -> None:
    check = f"/compatibility/subjects/{topic_name}/versions"
    candidate = {"schema": record(ID, PRICE)}
    for path in (check, f"{check}/latest"):
        assert client.post(path, json=candidate).json() == {"is_compatible": True}
    client.post(f"/subjects/{topic_name}/versions", json={"schema": SECOND})
    expected = [
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'price' at path '/fields/1' "
        "in the new schema has no default value and is missing in the old schema', additionalInfo:'price'}",
        "{oldSchemaVersion: 1}",
        "{oldSchema: '" + json.dumps(json.loads(SECOND), separators=(",", ":")) + "'}",
        "{validateFields: 'false', compatibility: 'BACKWARD'}",
    ]
    for path in (check, f"{check}/latest", f"{check}/1"):
        assert client.post(path, json=candidate).json() == {"is_compatible": False}
        answer = client.post(path, params={"verbose": "true"}, json=candidate).json()
        assert answer == {"is_compatible": False, "messages": expected}
    fine = client.post(check, params={"verbose": "true"}, json={"schema": SECOND}).json()
    assert fine == {"is_compatible": True, "messages": []}
    refused = client.post(f"/subjects/{topic_name}/versions", json=candidate)
    assert refused.status_code == 409
    assert refused.json()["error_code"] == 40901
    assert refused.json()["message"].startswith(
        f'Schema being registered is incompatible with an earlier schema for subject "{topic_name}", '
        f"details: [{', '.join(expected)}]"
    )


def test_a_full_level_tells_both_ways_and_the_field(client: httpx.Client, topic_name: str) -> None:
    client.put(f"/config/{topic_name}", json={"compatibility": "FULL"})
    client.post(f"/subjects/{topic_name}/versions", json={"schema": record(NOTE)})
    other = record({"name": "note", "type": ["null", "int"], "default": None})
    answer = client.post(
        f"/compatibility/subjects/{topic_name}/versions", params={"verbose": "True"}, json={"schema": other}
    ).json()
    assert answer["messages"][:2] == [
        "{errorType:'MISSING_UNION_BRANCH', description:'The old schema is missing a type inside a union "
        "field at path '/fields/0/type/1' in the new schema', "
        "additionalInfo:'reader union lacking writer type: INT (field 'note')'}",
        "{errorType:'MISSING_UNION_BRANCH', description:'The new schema is missing a type inside a union "
        "field at path '/fields/0/type/1' in the old schema', "
        "additionalInfo:'reader union lacking writer type: STRING (field 'note')'}",
    ]


def test_the_pipeline_is_told_which_subject_and_level_refuse_its_schema(
    address: str, topic_name: str
) -> None:
    client = RegistryClient(address)
    try:
        first = client.register(topic_name, SECOND)
        assert client.register(topic_name, SECOND) == first
        with pytest.raises(HeadraceError) as caught:
            client.register(topic_name, record(ID, PRICE))
        assert client.schemas_of(topic_name).keys() == {first}
    finally:
        client.close()
    assert caught.value.code == "incompatible_schema"
    for part in (f'subject "{topic_name}"', "The field 'price'", "compatibility: 'BACKWARD'"):
        assert part in caught.value.message
