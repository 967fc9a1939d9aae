"""Protobuf: which texts and descriptors are valid, which are the same, and which may follow which."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from google.protobuf import any_pb2, api_pb2, descriptor_pool, struct_pb2, timestamp_pb2, type_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import HeadraceError
from headrace.registry.protobuf.compiling import compiled
from headrace.registry.protobuf.differences import differences
from headrace.registry.protobuf.known_files import KNOWN_FILES
from headrace.registry.protobuf.messages import why_unreadable
from headrace.registry.protobuf.reading import ProtobufContent, read_protobuf
from headrace.registry.schema import Reference, Referenced, Schema

HEAD = 'syntax = "proto3"; package p; '
EVERYTHING = """
// A comment.
syntax = "proto3"; package a.b; /* another */
import "google/protobuf/timestamp.proto"; import public 'google/protobuf/any.proto';
option java_package = "x." 'y'; option (custom).part = { a: -1, b: "q" [c.d/e]: { } };
message M {
  optional string s = 1; map<string, E> m = 2;
  oneof o { int32 i = 3; string j = 4 [json_name = "JJ", deprecated = true]; }
  repeated double d = 5 [packed=true]; google.protobuf.Timestamp at = 6; M.N n = 0x7; .a.b.E e = 8;
  message N { bytes b = 1; message message = 2; message message {} }
  reserved 100 to max, 50; reserved "x", "y";
}
enum E { option allow_alias = true; A = 0; B = -5; C = 0; reserved 9; };
service S { rpc Go (stream M) returns (M.N) { option idempotency_level = IDEMPOTENT; }
  rpc Ho (M) returns (stream M); }
"""


def content(text: str, **others: str) -> ProtobufContent:
    return read(text, **others).content


def read(text: str, **others: str) -> Schema[ProtobufContent]:
    names = {f"{name}.proto": other for name, other in others.items()}
    references = [Reference(name=name, subject=name, version=1) for name in names]
    return read_protobuf(
        text, references, [Referenced(name=name, text=other) for name, other in names.items()]
    )


def descriptor(schema: Schema[ProtobufContent], name: str = "own.proto") -> FileDescriptorProto:
    return FileDescriptorProto.FromString(
        base64.b64decode(compiled(schema.content.file, schema.content.names, name=name))
    )


def test_a_text_has_a_canonical_form_and_a_descriptor_that_googles_library_takes() -> None:
    schema = read(EVERYTHING)
    assert read(schema.text) == schema
    pool = descriptor_pool.DescriptorPool()
    for known in (timestamp_pb2, any_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    pool.Add(descriptor(schema))
    message = pool.FindMessageTypeByName("a.b.M")
    assert sorted(field.name for field in message.fields) == ["at", "d", "e", "i", "j", "m", "n", "s"]
    assert message.fields_by_name["s"].has_presence
    assert message.fields_by_name["m"].message_type.GetOptions().map_entry
    assert [field.name for field in message.oneofs_by_name["o"].fields] == ["i", "j"]
    assert pool.FindServiceByName("a.b.S").methods_by_name["Go"].client_streaming
    # And back: what the descriptor says is what the text said, with complete names.
    again = read_protobuf(base64.b64encode(descriptor(schema).SerializeToString()).decode())
    assert read(again.text) == again
    assert differences(schema.content, again.content) == differences(again.content, schema.content) == []


@pytest.mark.parametrize("module", [timestamp_pb2, any_pb2, struct_pb2, type_pb2, api_pb2])
def test_what_a_compiler_has_made_is_read_and_made_again(module: Any) -> None:
    """Also the types of the files that need no reference: they are those of the real ones."""
    original = FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    schema = read_protobuf(base64.b64encode(module.DESCRIPTOR.serialized_pb).decode())
    again = descriptor(schema, original.name)
    for file in (original, again):
        file.message_type.sort(key=lambda each: each.name)
        for message in file.message_type:
            message.field.sort(key=lambda each: each.number)
            message.nested_type.sort(key=lambda each: each.name)
            for each in [message, *message.nested_type]:
                for field in each.field:
                    field.ClearField("json_name")
    assert again == original
    known = {name.removeprefix("google.protobuf."): kind for name, kind in KNOWN_FILES[original.name].items()}
    top = {each.name: False for each in original.message_type} | {
        each.name: True for each in original.enum_type
    }
    assert {name: kind for name, kind in known.items() if "." not in name} == top


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "expected a name"),
        ('"string"', "expected a name"),
        ("message", "neither a .proto text nor a descriptor"),
        ("AAAA", "descriptor"),
        ("message M { string a = 0; }", "cannot have the number 0"),
        ("message M { string a = 19000; }", "cannot have the number 19000"),
        ("message M { string a = 99999999999999999999999; }", "a whole number"),
        ("message M { string a = 1; string b = 1; }", "number 1 twice"),
        ("message M { string a = 1; string a = 2; }", "field a twice"),
        ("message M { Foo a = 1; }", '"Foo" is not known'),
        ("message M { map<float, string> a = 1; }", "cannot have keys of type float"),
        ("message M {} message M {}", "defined twice"),
        ('import "x.proto"; message M {}', 'import "x.proto" leads nowhere'),
        ("enum E {}", "no values"),
        ('syntax = "proto3"; enum E { A = 1; }', "must be 0"),
        ('syntax = "proto3"; message M { required int32 a = 1; }', "cannot be required"),
        ('syntax = "proto9"; message M {}', "no syntax"),
        ("message M { repeated group G = 1 { } }", "groups are not supported"),
        ('edition = "x"; message M {}', "edition"),
        ("service S { rpc A (E) returns (E); } enum E { A = 0; }", "takes and gives messages"),
        ("message M { string a = 1 }", "line 1: expected `;`"),
        ("\n\n/* x", "line 3"),
        ("message M { message " + "M { message " * 100, "nested more than"),
        ('message M { string a = 1 [default = "\ud800"]; }', "not text"),
    ],
)
def test_what_is_no_protobuf_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(HeadraceError) as caught:
        read_protobuf(text)
    assert caught.value.code == "invalid_schema"
    assert reason in caught.value.message


@given(
    st.binary(max_size=200)
    | st.binary(max_size=40).map(lambda more: timestamp_pb2.DESCRIPTOR.serialized_pb + more)
)
def test_any_bytes_are_a_descriptor_or_an_error(data: bytes) -> None:
    try:
        schema = read_protobuf(base64.b64encode(data).decode())
    except HeadraceError:
        return
    assert read_protobuf(schema.text).text == schema.text


@given(st.lists(st.sampled_from([*EVERYTHING.split(), "{", "}", ";", '"', "1"]), max_size=30))
def test_any_text_is_a_file_or_an_error(words: list[str]) -> None:
    try:
        schema = read_protobuf(" ".join(words))
    except HeadraceError:
        return
    assert read_protobuf(schema.text).text == schema.text


def body(fields: str, more: str = "") -> str:
    return f"{HEAD} message M {{ {fields} }} {more}"


# What may follow what under BACKWARD, or the first difference that forbids it.
CHANGES: list[tuple[str, str, str]] = [
    (body("int32 a = 1;"), body("int64 b = 1; string c = 2;"), ""),
    (body("int32 a = 1; string b = 2;"), body("string b = 2;"), ""),
    (body("int32 a = 1;"), body("string a = 1;"), "FIELD_SCALAR_KIND_CHANGED"),
    (body("int32 a = 1;"), body("sint32 a = 1;"), "FIELD_SCALAR_KIND_CHANGED"),
    (body("string a = 1;"), body("repeated bytes a = 1;"), ""),
    (body("int32 a = 1;"), body("repeated int32 a = 1;"), "FIELD_NUMERIC_LABEL_CHANGED"),
    (body("int32 a = 1;"), body("E a = 1;", "enum E { A = 0; }"), ""),
    (body("int32 a = 1;"), body("N a = 1;", "message N {}"), "FIELD_KIND_CHANGED"),
    (
        body("N a = 1;", "message N {} message O {}"),
        body("O a = 1;", "message N {} message O {}"),
        "FIELD_NAMED_TYPE_CHANGED",
    ),
    (body("N a = 1;", "message N {}"), body(".p.N a = 1;", "message N {}"), ""),
    (
        body("", "message N { int32 a = 1; }"),
        body("", "message N { string a = 1; }"),
        "FIELD_SCALAR_KIND_CHANGED",
    ),
    (body("", "message N {}"), body(""), "MESSAGE_REMOVED"),
    (body("", "enum E { A = 0; B = 1; }"), body("", "enum E { C = 0; }"), ""),
    (body(""), body("").replace("package p", "package q"), "PACKAGE_CHANGED"),
    (body("map<string, int32> a = 1;"), body("map<string, int64> a = 1;"), ""),
    (body("map<string, int32> a = 1;"), body("map<int32, int32> a = 1;"), "FIELD_SCALAR_KIND_CHANGED"),
    (body("map<string, int32> a = 1;"), body("repeated string a = 1;"), "FIELD_KIND_CHANGED"),
    (body("int32 a = 1;"), body("oneof o { int32 a = 1; string b = 2; }"), ""),
    (
        body("int32 a = 1; int32 b = 2;"),
        body("oneof o { int32 a = 1; int32 b = 2; }"),
        "MULTIPLE_FIELDS_MOVED_TO_ONEOF",
    ),
    (
        body("oneof o { int32 a = 1; } int32 b = 2;"),
        body("oneof o { int32 a = 1; int32 b = 2; }"),
        "FIELD_MOVED_TO_EXISTING_ONEOF",
    ),
    (body("oneof o { int32 a = 1; int32 b = 2; }"), body("oneof o { int32 a = 1; }"), "ONEOF_FIELD_REMOVED"),
    (body("oneof o { int32 a = 1; int32 b = 2; }"), body("int32 c = 3;"), ""),
    ("message M {}", "message M { required int32 a = 1; }", "REQUIRED_FIELD_ADDED"),
    ("message M { required int32 a = 1; }", "message M {}", "REQUIRED_FIELD_REMOVED"),
    (body("M m = 1; int32 a = 2;"), body("M m = 1; int32 a = 2; int32 b = 3;"), ""),
]


@pytest.mark.parametrize(("original", "update", "first"), CHANGES)
def test_what_may_follow_what(original: str, update: str, first: str) -> None:
    found = [each.kind for each in differences(content(original), content(update))]
    assert found[:1] == ([first] if first else []), found
    messages = why_unreadable(content(update), content(original), reader_name="new", writer_name="old")
    assert len(messages) == len(found)
    for text in (original, update):
        assert differences(content(text), content(text)) == []


def test_types_come_from_imports() -> None:
    other = 'syntax = "proto3"; package q; message O { int32 a = 1; }'
    own = HEAD + 'import "other.proto"; message M { q.O o = 1; }'
    schema = read(own, other=other)
    assert ".q.O" in descriptor(schema).message_type[0].field[0].type_name
    assert differences(schema.content, content(own, other=other.replace("int32", "int64"))) == []
    found = differences(schema.content, content(own, other=other.replace("int32", "string")))
    assert [each.kind for each in found] == ["FIELD_SCALAR_KIND_CHANGED", "FIELD_NAMED_TYPE_CHANGED"]


def test_normalising_completes_names_and_sorts_what_has_no_order() -> None:
    one = HEAD + 'import "google/protobuf/any.proto"; message M { N n = 2; int32 a = 1; message N {} }'
    other = HEAD + 'import "google/protobuf/any.proto"; message M { int32 a = 1; .p.M.N n = 2; message N {} }'
    assert read(one).text != read(other).text
    normalized = [read_protobuf(each, normalized=True) for each in (one, other)]
    assert normalized[0] == normalized[1] == read_protobuf(normalized[0].text, normalized=True)


def test_work_is_bounded_whatever_the_schemas_are() -> None:
    links = "".join(
        f"message D{number} {{ D{number + 1} a = 1; D{number + 1} b = 2; }} " for number in range(50)
    )
    text = HEAD + links + "message D50 { int32 a = 1; }"
    assert differences(content(text), content(text.replace("int32", "string")))
    deep = (
        HEAD
        + "".join(f"message D{number} {{ D{number + 1} a = 1; }} " for number in range(500))
        + "message D500 {}"
    )
    reasons = why_unreadable(content(deep), content(deep), reader_name="new", writer_name="old")
    assert "too large" in reasons[0]


def test_defaults_survive_the_way_to_a_descriptor_and_back() -> None:
    text = (
        'message M { optional int32 a = 1 [default = -3]; optional bytes b = 2 [default = "a\\001\\"\\377"]; '
        'optional string s = 3 [default = "ü\\n"]; optional double d = 4 [default = inf]; '
        "extensions 100 to 200; }"
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(descriptor(read(text)))
    defaults = [field.default_value for field in pool.FindMessageTypeByName("M").fields]
    assert defaults == [-3, b'a\x01"\xff', "ü\n", float("inf")]
    again = read_protobuf(base64.b64encode(descriptor(read(text)).SerializeToString()).decode())
    assert descriptor(again) == descriptor(read(text))
