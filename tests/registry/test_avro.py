"""Which texts are Avro schemas, and which of them are the same."""

from __future__ import annotations

import json
from typing import Any

import fastavro
import pytest
from hypothesis import assume, given

from headrace.core.errors import HeadraceError
from headrace.registry.avro.reading import read_avro
from headrace.registry.avro.resolution import faults
from headrace.registry.schema import Reference, Referenced
from tests.registry.schema_pairs import schemas

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
    ("text", "canonical"),
    [
        ('"string"', '"string"'),
        (' {"type": "int"} ', '"int"'),
        ("[]", "[]"),
        ('["null", "long"]', '["null","long"]'),
        ('{"type": "int", "doc": "lost", "more": [1.50, null]}', '{"type":"int","more":[1.5,null]}'),
        (
            '{"fields":[],"name":"a.b.C","type":"record"}',
            '{"type":"record","name":"C","namespace":"a.b","fields":[]}',
        ),
        (
            '{"type":"record","name":"C","namespace":"a","aliases":["a.D","D","b.E"],"doc":"ä😀","fields":['
            '{"order":"ascending","type":["null","a.C"],"default":null,"name":"n"},'
            '{"name":"o","order":"descending","type":{"type":"fixed","name":"b.F","size":2},"aliases":["p"]},'
            '{"name":"q","type":{"type":"enum","name":"G","symbols":["X"],"namespace":"","default":"X"}},'
            '{"name":"r","type":"b.F"},{"name":"s","type":"b.F"}]}',
            '{"type":"record","name":"C","namespace":"a","doc":"ä😀","fields":['
            '{"name":"n","type":["null","C"],"default":null},'
            '{"name":"o","type":{"type":"fixed","name":"F","namespace":"b","size":2},"order":"descending","aliases":["p"]},'
            '{"name":"q","type":{"type":"enum","name":"G","namespace":"","symbols":["X"],"default":"X"}},'
            '{"name":"r","type":"b.F"},{"name":"s","type":"b.F"}],"aliases":["D","b.E"]}',
        ),
    ],
)
def test_the_canonical_form_is_what_avros_java_library_prints(text: str, canonical: str) -> None:
    assert read_avro(text).text == canonical
    assert read_avro(canonical) == read_avro(text)


@given(schemas())
def test_the_canonical_form_of_a_canonical_form_is_itself_and_means_the_same(schema: Any) -> None:
    try:
        once = read_avro(json.dumps(schema))
    except HeadraceError:
        assume(False)
    assert read_avro(once.text) == once
    normalized = read_avro(json.dumps(schema), normalized=True)
    assert read_avro(normalized.text, normalized=True) == normalized
    for other in (once, normalized):
        parsed = fastavro.schema.to_parsing_canonical_form(json.loads(other.text))
        assert parsed == fastavro.schema.to_parsing_canonical_form(schema)
        assert faults(once.content, other.content) == faults(other.content, once.content) == []


def test_normalising_sorts_what_has_no_order() -> None:
    one = '{"type":"record","name":"a.R","z":1,"b":2,"aliases":["Y","X"],"doc":"","fields":[]}'
    other = '{"type":"record","name":"R","namespace":"a","fields":[],"b":2,"z":1,"aliases":["X","Y"]}'
    assert read_avro(one).text != read_avro(other).text
    assert read_avro(one, normalized=True) == read_avro(other, normalized=True)


def test_types_come_from_references_and_can_be_written_out() -> None:
    other = '{"type":"record","name":"a.Other","fields":[{"name":"next","type":["null","Other"]}]}'
    fields = '[{"name":"x","type":"Other"},{"name":"y","type":"a.Other"}]'
    own = f'{{"type":"record","name":"a.Own","fields":{fields}}}'
    references = [Reference(name="a.Other", subject="other", version=1)]
    schema = read_avro(own, references, [Referenced(name="a.Other", text=other)])
    whole = json.loads(own)
    whole["fields"][0]["type"] = json.loads(other)
    assert schema.inlined_identity == read_avro(json.dumps(whole)).identity
    assert schema.identity != schema.inlined_identity
    with pytest.raises(HeadraceError, match="Other is not known"):
        read_avro(own)
    # What one schema defines is not known to the next.
    with pytest.raises(HeadraceError, match="Other is not known"):
        read_avro('"a.Other"')


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
