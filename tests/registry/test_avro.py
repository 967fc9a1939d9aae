"""Which texts are Avro schemas, and which of them are the same."""

from __future__ import annotations

import json

import pytest

from headrace.core.errors import HeadraceError
from headrace.registry.avro import read_avro

RECORD = {
    "type": "record",
    "name": "Event",
    "namespace": "com.example",
    "fields": [
        {"name": "A", "type": ["null", "string"], "default": None},
        {"name": "B", "type": {"type": "array", "items": {"type": "string"}}},
        {"name": "C", "type": {"type": "map", "values": "long"}},
        {"name": "D", "type": {"type": "enum", "name": "Kind", "symbols": ["X", "Y"]}},
        {"name": "E", "type": {"type": "fixed", "name": "Hash", "size": 16}},
        {"name": "next", "type": ["null", "com.example.Event"]},
        {"name": "kinds", "type": ["null", "Kind", {"type": "array", "items": "Hash"}]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


@pytest.mark.parametrize(
    "text",
    [
        '"string"',
        ' {"type": "int"} ',
        "[]",
        '["null", "long"]',
        '{"type":"record","name":"a.b.C","fields":[]}',
        json.dumps(RECORD),
        json.dumps({**RECORD, "doc": "ä😀"}),
    ],
)
def test_schemas_are_taken_and_compacted(text: str) -> None:
    schema = read_avro(text)
    assert json.loads(schema.text) == json.loads(text)
    assert " :" not in schema.text
    assert read_avro(schema.text) == schema


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("string", "not JSON"),
        ("1", "a schema is"),
        ("null", "a schema is"),
        ("true", "a schema is"),
        ("{}", "'type' is missing"),
        ('"Unknown"', "Unknown is not known"),
        ('{"type":"map","values":"zz"}', "zz is not known"),
        ('{"type":"array"}', "'items' is missing"),
        ('{"type":"record"}', "'name' is missing"),
        ('{"type":"record","name":"a"}', "'fields' is missing"),
        ('{"type":"record","name":"a b","fields":[]}', '"a b" is not a name'),
        ('{"type":"record","name":"a","fields":1}', "must be an array"),
        ('{"type":"record","name":"a","fields":[1]}', "a field is an object"),
        ('{"type":"record","name":"a","fields":[{"name":"x"}]}', "'type' is missing"),
        ('{"type":"record","name":"a","fields":[{"name":"1x","type":"int"}]}', '"1x" is not a name'),
        (
            '{"type":"record","name":"a","fields":[{"name":"x","type":"int"},{"name":"x","type":"int"}]}',
            'field "x" twice',
        ),
        ('{"type":"record","name":"a","fields":[{"name":"x","type":"int","default":"no"}]}', "Default value"),
        ('{"type":"record","name":"a","fields":[{"name":"x","type":"double","default":NaN}]}', "NaN"),
        ('["null","null"]', 'branch "null" twice'),
        ('["null",["int"]]', "a union contains another union directly"),
        ('[{"type":"array","items":"int"},{"type":"array","items":"long"}]', 'branch "array" twice'),
        ('{"type":"fixed","name":"f","size":"x"}', "size"),
        ('{"type":"fixed","name":"f","size":true}', "size"),
        ('{"type":"enum","name":"e","symbols":["a","a"]}', "unique"),
        ('{"type":"record","name":"a","fields":[],"doc":"\\ud800"}', "surrogates"),
        ('{"type":"array","items":' * 2_000 + '"int"' + "}" * 2_000, "too deeply"),
        ('{"__fastavro_parsed__":true,"type":"record"}', "'name' is missing"),
    ],
)
def test_what_is_no_avro_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(HeadraceError) as caught:
        read_avro(text)
    assert caught.value.code == "invalid_schema"
    assert reason in caught.value.message


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('"string"', '{"type":"string"}'),
        ('["null","int"]', '[ "null", {"type": "int"} ]'),
        ('{"type":"array","items":"int"}', '{"items":{"type":"int"},"type":"array"}'),
        (json.dumps(RECORD), json.dumps(RECORD, indent=3)),
        (json.dumps(RECORD), json.dumps(dict(reversed(RECORD.items())))),
    ],
)
def test_the_same_schema_in_other_words_has_the_same_identity(one: str, other: str) -> None:
    assert read_avro(one).identity == read_avro(other).identity


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('"string"', '"bytes"'),
        ('["null","int"]', '["int","null"]'),
        (json.dumps(RECORD), json.dumps({**RECORD, "fields": RECORD["fields"][1:] + RECORD["fields"][:1]})),
        (json.dumps(RECORD), json.dumps({**RECORD, "doc": "said"})),
        ('"long"', '{"type":"long","logicalType":"timestamp-millis"}'),
    ],
)
def test_another_schema_has_another_identity(one: str, other: str) -> None:
    assert read_avro(one).identity != read_avro(other).identity
