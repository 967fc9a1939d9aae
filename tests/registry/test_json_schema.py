"""JSON Schema: which texts are valid, which are the same, and which may follow which."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from headrace.core.errors import HeadraceError
from headrace.registry.json_schema.differences import differences
from headrace.registry.json_schema.messages import why_unreadable
from headrace.registry.json_schema.reading import read_json_schema
from headrace.registry.schema import Reference, Referenced

MODERN = "https://json-schema.org/draft/2020-12/schema"


def kinds(original: Any, update: Any) -> list[str]:
    old, new = (read_json_schema(json.dumps(each)).content for each in (original, update))
    return [each.kind for each in differences(old, new)]


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def closed(**properties: Any) -> dict[str, Any]:
    return {**obj(**properties), "additionalProperties": False}


INT, TEXT = {"type": "integer"}, {"type": "string"}
TREE = closed(value=INT, next={"$ref": "#"})
# What may follow what under BACKWARD, or the first difference that forbids it.
CHANGES: list[tuple[Any, Any, str]] = [
    (INT, {"type": "number"}, ""),
    ({"type": "number"}, INT, "TYPE_NARROWED"),
    (INT, TEXT, "TYPE_CHANGED"),
    (TEXT, {}, ""),
    ({}, TEXT, "TYPE_CHANGED"),
    (TEXT, True, ""),
    (TEXT, False, "TYPE_CHANGED"),
    (False, TEXT, ""),
    ({"type": "string", "maxLength": 5}, {"type": "string", "maxLength": 6}, ""),
    ({"type": "string", "maxLength": 5}, {"type": "string", "maxLength": 4}, "MAX_LENGTH_DECREASED"),
    (TEXT, {"type": "string", "minLength": 1}, "MIN_LENGTH_ADDED"),
    ({"type": "string", "pattern": "a"}, {"type": "string", "pattern": "b"}, "PATTERN_CHANGED"),
    ({"type": "integer", "minimum": 1}, {"type": "integer", "minimum": 2}, "MINIMUM_INCREASED"),
    (
        {"type": "integer", "exclusiveMaximum": 9},
        {"type": "integer", "exclusiveMaximum": 8},
        "EXCLUSIVE_MAXIMUM_DECREASED",
    ),
    ({"type": "number", "multipleOf": 0.3}, {"type": "number", "multipleOf": 0.1}, ""),
    ({"type": "number", "multipleOf": 2}, {"type": "number", "multipleOf": 4}, "MULTIPLE_OF_EXPANDED"),
    ({"type": "number", "multipleOf": 2}, {"type": "number", "multipleOf": 3}, "MULTIPLE_OF_CHANGED"),
    ({"enum": [1, "a"]}, {"enum": ["a", 1.0, 2]}, ""),
    ({"enum": [1, 2]}, {"enum": [1]}, "ENUM_ARRAY_NARROWED"),
    ({"const": 1}, {"const": 2}, "ENUM_ARRAY_CHANGED"),
    (obj(), obj(a=INT), "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"),
    (obj(), obj(a={}), ""),
    (obj(a=INT), obj(), ""),
    (closed(), closed(a=INT), ""),
    (closed(a=INT), closed(), "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"),
    (closed(), {**closed(a=INT), "required": ["a"]}, "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"),
    (closed(), {**closed(a={**INT, "default": 1}), "required": ["a"]}, ""),
    (obj(a=INT), {**obj(a=INT), "required": ["a"]}, "REQUIRED_ATTRIBUTE_ADDED"),
    ({**obj(a=INT), "required": ["a"]}, obj(a=INT), ""),
    (obj(a=obj(b=INT)), obj(a=obj(b=TEXT)), "TYPE_CHANGED"),
    (obj(), closed(), "ADDITIONAL_PROPERTIES_REMOVED"),
    (closed(), obj(), ""),
    ({**obj(), "additionalProperties": INT}, {**obj(a=INT), "additionalProperties": INT}, ""),
    (
        {**obj(), "additionalProperties": INT},
        {**obj(a=TEXT), "additionalProperties": INT},
        "TYPE_CHANGED",
    ),
    (
        {**closed(a_1=INT), "patternProperties": {"^a": INT}},
        {**closed(), "patternProperties": {"^a": INT}},
        "",
    ),
    (
        {**obj(), "dependencies": {"a": ["b"]}},
        {**obj(), "dependencies": {"a": ["b", "c"]}},
        "DEPENDENCY_ARRAY_EXTENDED",
    ),
    ({**obj(), "maxProperties": 3}, {**obj(), "maxProperties": 2}, "MAX_PROPERTIES_DECREASED"),
    ({"type": "array", "items": INT}, {"type": "array", "items": TEXT}, "TYPE_CHANGED"),
    ({"type": "array"}, {"type": "array", "uniqueItems": True}, "UNIQUE_ITEMS_ADDED"),
    (
        {"type": "array", "items": [INT]},
        {"type": "array", "items": [INT, TEXT]},
        "ITEM_ADDED_TO_OPEN_CONTENT_MODEL",
    ),
    (
        {"$schema": MODERN, "type": "array", "prefixItems": [INT], "items": False},
        {"$schema": MODERN, "type": "array", "prefixItems": [INT, TEXT], "items": False},
        "",
    ),
    ({"oneOf": [INT, TEXT]}, {"oneOf": [TEXT, {"type": "null"}, INT]}, ""),
    ({"oneOf": [INT, TEXT]}, {"oneOf": [INT]}, "SUM_TYPE_NARROWED"),
    ({"oneOf": [INT, TEXT]}, {"oneOf": [INT, {"type": "null"}]}, "COMBINED_TYPE_SUBSCHEMAS_CHANGED"),
    ({"allOf": [TEXT]}, {"allOf": [TEXT, {"maxLength": 3}]}, "PRODUCT_TYPE_EXTENDED"),
    ({"anyOf": [INT, TEXT]}, {"allOf": [INT, TEXT]}, "COMBINED_TYPE_CHANGED"),
    (INT, {"anyOf": [TEXT, INT]}, ""),
    ({"type": ["integer", "null"]}, {"type": ["null", "integer", "string"]}, ""),
    ({"type": ["integer", "null"]}, INT, "TYPE_CHANGED"),
    ({"not": INT}, {"not": {"type": "number"}}, "NOT_TYPE_EXTENDED"),
    ({"not": {"type": "number"}}, {"not": INT}, ""),
    (TREE, {**TREE, "title": "again"}, ""),
    (TREE, closed(value=TEXT, next={"$ref": "#"}), "TYPE_CHANGED"),
    (obj(a=INT), {"definitions": {"i": INT}, **obj(a={"$ref": "#/definitions/i"})}, ""),
]


@pytest.mark.parametrize(("original", "update", "first"), CHANGES)
def test_what_may_follow_what(original: Any, update: Any, first: str) -> None:
    found = kinds(original, update)
    assert found[:1] == ([first] if first else []), found


SIMPLE = [
    *(INT, TEXT, {"type": "number", "minimum": 2}, {"type": "string", "maxLength": 2}, {"type": "null"}),
    *({"enum": [1, "a"]}, {"const": 1}, {}, True),
]


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3, *, plain: bool = False) -> Any:
    """`plain`: without what combines schemas, and without required properties."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(SIMPLE))
    inner = schemas(depth - 1, plain=plain)
    kinds = ["object", "array", "tuple", *([] if plain else ["oneOf", "anyOf", "allOf", "not"])]
    kind = draw(st.sampled_from(kinds))
    if kind == "object":
        properties = draw(st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3))
        found: dict[str, Any] = {"type": "object", "properties": properties}
        if draw(st.booleans()):
            found["additionalProperties"] = draw(st.just(False) | inner)
        required = [] if plain else draw(st.lists(st.sampled_from(["a", "b", "c"]), unique=True))
        return {**found, "required": required} if required else found
    if kind == "array":
        return {"type": "array", "items": draw(inner)}
    if kind == "tuple":
        found = {"type": "array", "items": draw(st.lists(inner, min_size=1, max_size=2))}
        return {**found, "additionalItems": draw(st.just(False) | inner)} if draw(st.booleans()) else found
    return {"not": draw(inner)} if kind == "not" else {kind: draw(st.lists(inner, min_size=1, max_size=3))}


VALUES = st.recursive(
    st.sampled_from([None, 1, 2, 3.5, "", "a", "abc", True]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(schemas())
def test_every_schema_may_follow_itself(schema: Any) -> None:
    assert kinds(schema, schema) == []


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Any, Any]:
    """A schema and a change of it: one simple schema in it for another, or a property more or less."""
    one = draw(schemas(plain=True))

    def changed(schema: Any) -> Any:
        choice = draw(st.integers(0, 3))
        if not isinstance(schema, dict) or schema.get("type") not in {"object", "array"}:
            return draw(st.sampled_from(SIMPLE)) if choice == 0 else schema
        if isinstance(schema.get("items"), dict | bool):
            return {**schema, "items": changed(schema["items"])}
        if "items" in schema:
            return {**schema, "items": [changed(each) for each in schema["items"]][: choice + 1]}
        properties = {name: changed(each) for name, each in schema["properties"].items()}
        if choice == 0:
            properties["d"] = draw(st.sampled_from(SIMPLE))
        elif choice == 1 and properties:
            properties.popitem()
        return {**schema, "properties": properties}

    return one, changed(one)


@given(pairs(), st.lists(VALUES, min_size=5, max_size=5))
def test_what_the_old_schema_accepts_the_new_one_accepts_if_it_may_follow(
    pair: tuple[Any, Any], values: list[Any]
) -> None:
    """Held against another library, which validates values."""
    old, new = pair
    may_follow = kinds(old, new) == []
    event(f"may follow: {may_follow}, the same: {old == new}")
    validator = jsonschema.Draft7Validator
    for value in values if may_follow else ():
        if validator(old).is_valid(value):
            assert validator(new).is_valid(value)


@given(schemas(), st.randoms(use_true_random=False))
def test_the_normalised_form_does_not_depend_on_the_order_of_attributes(schema: Any, random: Any) -> None:
    def shuffled(content: Any) -> Any:
        if isinstance(content, dict):
            names = list(content)
            random.shuffle(names)
            return {name: shuffled(content[name]) for name in names}
        return [shuffled(each) for each in content] if isinstance(content, list) else content

    one, other = json.dumps(schema), json.dumps(shuffled(schema), indent=2)
    normalized = read_json_schema(one, normalized=True)
    assert normalized == read_json_schema(other, normalized=True)
    assert normalized == read_json_schema(normalized.text, normalized=True)
    assert read_json_schema(one).text == json.dumps(schema, separators=(",", ":"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not JSON"),
        ("[]", "an object, true or false"),
        ("1", "an object, true or false"),
        ('{"type":"text"}', "type must be one of"),
        ('{"type":[]}', "type must be one of"),
        ('{"properties":[]}', "properties must be an object of schemas"),
        ('{"items":[1]}', "items must be a schema"),
        ('{"allOf":[]}', "allOf must be an array of schemas"),
        ('{"properties":{"a":{"minLength":-1}}}', "#/properties/a, minLength must be a whole number"),
        ('{"multipleOf":0}', "multipleOf must be a number above zero"),
        ('{"required":"a"}', "required must be an array of strings"),
        ('{"$ref":"#/definitions/a"}', 'the $ref "#/definitions/a" leads nowhere'),
        ('{"$ref":"http://example.com/other.json"}', "leads nowhere"),
        ('{"$ref":"#/a","a":{"$ref":"#/b"},"b":{"$ref":"#/a"}}', "leads back to itself"),
        ('{"definitions":{"a":{"type":"x"}}}', "#/definitions/a, type must be"),
        ('{"maximum":1e999}', "too large"),
        ('{"title":"\\ud800"}', "surrogates"),
        ('{"not":' * 2_000 + "{}" + "}" * 2_000, "too deeply"),
        ('{"not":' * 200 + "{}" + "}" * 200, "too deeply"),
    ],
)
def test_what_is_no_schema_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(HeadraceError) as caught:
        read_json_schema(text)
    assert caught.value.code == "invalid_schema"
    assert reason in caught.value.message


@pytest.mark.parametrize(
    ("own", "name"),
    [
        ({"properties": {"a": {"$ref": "other.json"}}}, "other.json"),
        ({"properties": {"a": {"$ref": "other.json#/definitions/deep"}}}, "other.json"),
        ({"$id": "http://example.com/own.json", "properties": {"a": {"$ref": "other.json"}}}, "other.json"),
        (
            {"$id": "http://example.com/own.json", "properties": {"a": {"$ref": "other.json"}}},
            "http://example.com/other.json",
        ),
        ({"properties": {"a": {"$ref": "http://example.com/named"}}}, "whatever"),
        ({"properties": {"a": {"$ref": "http://example.com/named#mark"}}}, "whatever"),
    ],
)
def test_a_ref_leads_to_a_reference_by_its_name_or_by_its_id(own: Any, name: str) -> None:
    def follows(kind: str) -> bool:
        other = {
            "$id": "http://example.com/named",
            "type": kind,
            "definitions": {"deep": {"type": kind}, "marked": {"$id": "#mark", "type": kind}},
        }
        references = [Reference(name=name, subject="s", version=1)]
        schema = read_json_schema(
            json.dumps(own), references, [Referenced(name=name, text=json.dumps(other))]
        )
        plain = read_json_schema(json.dumps({**own, "properties": {"a": INT}}))
        return differences(plain.content, schema.content) == ()

    assert follows("integer")
    assert not follows("string")


def test_work_is_bounded_whatever_the_schemas_are() -> None:
    doubling = {
        "definitions": {
            f"d{number}": {"properties": {name: {"$ref": f"#/definitions/d{number + 1}"} for name in "ab"}}
            for number in range(60)
        }
    }
    doubling["definitions"]["d60"] = INT
    other = json.loads(json.dumps(doubling).replace("integer", "string"))
    doubling["properties"] = other["properties"] = {"a": {"$ref": "#/definitions/d0"}}
    old, new = (read_json_schema(json.dumps(each)).content for each in (doubling, other))
    assert why_unreadable(new, old, reader_name="new", writer_name="old")
    wide = {"oneOf": [closed(**{f"p{number}": TEXT}) for number in range(400)]}
    old, new = (read_json_schema(json.dumps({**wide, "title": title})).content for title in "ab")
    assert "too large" in why_unreadable(new, old, reader_name="new", writer_name="old")[0]
    chain: dict[str, Any] = {
        f"a{number}": {"$ref": f"#/definitions/a{number + 1}"} for number in range(20_000)
    }
    chain["a20000"] = INT
    read_json_schema(json.dumps({"definitions": chain, "$ref": "#/definitions/a0"}))
    # A pattern that takes others exponential time.
    evil = {**closed(), "patternProperties": {"^(a+)+$": INT}}
    assert kinds({**evil, "properties": {"a" * 50 + "!": INT}}, evil)
