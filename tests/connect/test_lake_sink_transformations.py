"""Transformations and predicates of the lake sink: which there are, their settings, what they become."""

from __future__ import annotations

import pytest

from headrace.connect.connectors.lake_sink.transformations import PREDICATES, SUPPORTED
from headrace.lake.sink import Predicate, Transformation
from tests.connect.lake_sinks import S3, errors, parsed

PACKAGE = "org.apache.kafka.connect.transforms."
# One of each, as Kafka's documentation has them.
VALID = {
    "Cast": {"spec": "a:int32,b:string"},
    "ExtractField": {"field": "after"},
    "Filter": {},
    "Flatten": {"delimiter": "_"},
    "HoistField": {"field": "line"},
    "InsertField": {"timestamp.field": "ts"},
    "MaskField": {"fields": "card", "replacement": "***"},
    "RegexRouter": {"regex": "db\\.(.*)", "replacement": "$1"},
    "ReplaceField": {"exclude": "a,b", "renames": "c:d"},
    "TimestampConverter": {"field": "ts", "target.type": "string", "format": "yyyy-MM-dd"},
    "ValueToKey": {"fields": "id"},
}


def with_transform(kind: str, settings: dict[str, str], name: str = "t") -> dict[str, str]:
    given = {"type": PACKAGE + kind, **settings}
    return {**S3, "transforms": name, **{f"transforms.{name}.{key}": value for key, value in given.items()}}


def class_of(kind: str, side: str = "Value") -> str:
    return f"{kind}${side}" if SUPPORTED[kind].has_sides else kind


def test_all_that_are_supported_are_tried() -> None:
    assert VALID.keys() == SUPPORTED.keys()


@pytest.mark.parametrize("kind", SUPPORTED)
@pytest.mark.parametrize("side", ["Key", "Value"])
def test_each_is_parsed_with_the_texts_of_the_user(kind: str, side: str) -> None:
    config = with_transform(class_of(kind, side), VALID[kind])
    assert errors(config) == {}
    (found,) = parsed(config).transformations
    expected_side = side.lower() if SUPPORTED[kind].has_sides else ""
    assert found == Transformation(name="t", kind=kind, side=expected_side, settings=VALID[kind])


@pytest.mark.parametrize("kind", SUPPORTED)
def test_a_side_too_much_or_too_few_is_refused(kind: str) -> None:
    wrong = kind if SUPPORTED[kind].has_sides else f"{kind}$Value"
    assert errors(with_transform(wrong, VALID[kind])).keys() == {"transforms.t.type"}


@pytest.mark.parametrize("kind", SUPPORTED)
def test_each_refuses_what_it_requires_and_does_not_get(kind: str) -> None:
    required = [each.name for each in SUPPORTED[kind].settings if each.is_required]
    found = errors(with_transform(class_of(kind), {}))
    if required:
        assert found.keys() == {f"transforms.t.{name}" for name in required}
    elif kind == "InsertField":
        assert found.keys() == {"transforms.t.type"}
    else:
        assert found == {}


@pytest.mark.parametrize(
    ("kind", "settings", "setting", "reason"),
    [
        ("TimestampRouter", {}, "type", "It is not supported. These are: Cast$Key and $Value, "),
        ("SetSchemaMetadata$Value", {}, "type", "not supported"),
        ("Cast$Value", {"spec": "a:date"}, "spec", "Valid types are int8"),
        ("Cast$Value", {"spec": "a:b:int8"}, "spec", "Invalid cast"),
        ("Cast$Value", {"spec": "int8,string"}, "spec", "may only specify one"),
        ("Cast$Value", {"spec": "a:int8", "other": "x"}, "other", "Cast has no such setting"),
        (
            "ExtractField$Value",
            {"field": "a", "field.syntax.version": "V3"},
            "field.syntax.version",
            "V1, V2",
        ),
        ("InsertField$Value", {"static.field": "a"}, "static.value", "static field: a"),
        ("MaskField$Value", {"fields": ""}, "fields", "must not be empty"),
        ("MaskField$Value", {"fields": "a", "replacement": ""}, "replacement", "must not be empty"),
        ("RegexRouter", {"regex": "(", "replacement": "x"}, "regex", "not a regular expression"),
        ("ReplaceField$Value", {"renames": "a"}, "renames", "Invalid rename mapping: a"),
        (
            "TimestampConverter$Value",
            {"target.type": "date"},
            "target.type",
            "string, unix, Date, Time, Timestamp",
        ),
        ("TimestampConverter$Value", {"target.type": "string"}, "format", "requires format"),
        (
            "TimestampConverter$Value",
            {"target.type": "unix", "unix.precision": "days"},
            "unix.precision",
            "must be one of",
        ),
        ("Filter", {"predicate": "missing"}, "predicate", "does not list missing"),
        ("Filter", {"negate": "true"}, "negate", "no predicate"),
        ("Filter", {"negate": "perhaps"}, "negate", "true or false"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_refused_by_its_name(
    kind: str, settings: dict[str, str], setting: str, reason: str
) -> None:
    found = errors(with_transform(kind, settings))
    assert found.keys() == {f"transforms.t.{setting}"}, found
    assert reason in found[f"transforms.t.{setting}"][0]


def test_java_s_expressions_with_looking_ahead_are_accepted() -> None:
    assert errors(with_transform("RegexRouter", {"regex": "(?!x).*", "replacement": "y"})) == {}


def test_former_names_of_settings_become_the_present_ones() -> None:
    config = with_transform("ReplaceField$Value", {"blacklist": "a", "whitelist": "b"})
    assert errors(config) == {}
    assert parsed(config).transformations[0].settings == {"exclude": "a", "include": "b"}


def test_transformations_keep_their_order_and_their_predicates() -> None:
    config = {
        **S3,
        "transforms": "drop, route",
        "transforms.drop.type": f"{PACKAGE}Filter",
        "transforms.drop.predicate": "isEmpty",
        "transforms.drop.negate": "TRUE",
        "transforms.route.type": f"{PACKAGE}RegexRouter",
        "transforms.route.regex": ".*",
        "transforms.route.replacement": "all",
        "transforms.route.predicate": "byName",
        "predicates": "isEmpty,byName,unused",
        "predicates.isEmpty.type": f"{PACKAGE}predicates.RecordIsTombstone",
        "predicates.byName.type": f"{PACKAGE}predicates.TopicNameMatches",
        "predicates.byName.pattern": "a.*",
        "predicates.unused.type": f"{PACKAGE}predicates.HasHeaderKey",
        "predicates.unused.name": "h",
    }
    assert errors(config) == {}
    drop, route = parsed(config).transformations
    assert (drop.name, drop.negate, drop.predicate) == ("drop", True, Predicate(kind="RecordIsTombstone"))
    assert route.predicate == Predicate(kind="TopicNameMatches", settings={"pattern": "a.*"})
    assert not route.negate


@pytest.mark.parametrize(
    ("changes", "setting", "reason"),
    [
        ({"predicates": "p"}, "predicates.p.type", "A class is required"),
        ({"predicates": "p", "predicates.p.type": "com.example.P"}, "predicates.p.type", "not supported"),
        (
            {"predicates": "p", "predicates.p.type": f"{PACKAGE}predicates.TopicNameMatches"},
            "predicates.p.pattern",
            "Missing required",
        ),
        (
            {
                "predicates": "p",
                "predicates.p.type": f"{PACKAGE}predicates.RecordIsTombstone",
                "predicates.p.x": "1",
            },
            "predicates.p.x",
            "no such setting",
        ),
        ({"predicates.p.type": "x"}, "predicates.p.type", "predicates does not list it"),
        ({"transforms.t.type": "x"}, "transforms.t.type", "transforms does not list it"),
        ({"transforms": "t"}, "transforms.t.type", "A class is required"),
        (
            {"transforms": "t,t", "transforms.t.type": f"{PACKAGE}Filter"},
            "transforms",
            "Duplicate alias",
        ),
    ],
)
def test_predicates_and_names_are_checked(changes: dict[str, str], setting: str, reason: str) -> None:
    found = errors({**S3, **changes})
    assert found.keys() == {setting}, found
    assert reason in found[setting][0]


def test_a_name_that_begins_with_another_has_its_own_settings() -> None:
    config = {
        **S3,
        "transforms": "a,a.b",
        "transforms.a.type": f"{PACKAGE}Filter",
        "transforms.a.b.type": f"{PACKAGE}HoistField$Value",
        "transforms.a.b.field": "x",
    }
    assert errors(config) == {}
    assert [(each.kind, dict(each.settings)) for each in parsed(config).transformations] == [
        ("Filter", {}),
        ("HoistField", {"field": "x"}),
    ]


def test_every_predicate_is_kafka_s() -> None:
    assert set(PREDICATES) == {"HasHeaderKey", "RecordIsTombstone", "TopicNameMatches"}
