"""The pure part: what records mean, and which record a registration asks for."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headrace.registry.avro.reading import read_avro
from headrace.registry.changes import Register
from headrace.registry.decisions import decide
from headrace.registry.level import Level
from headrace.registry.mode import Mode
from headrace.registry.records import (
    ConfigRecord,
    DeletedSubjectRecord,
    OtherRecord,
    Record,
    RemovedVersionRecord,
    SchemaRecord,
    decode_record,
    encode_key,
    encode_value,
)
from headrace.registry.schema import Reference
from headrace.registry.state import RegistryState


def version(subject: str, number: int, schema_id: int, schema: str, **more: Any) -> SchemaRecord:
    return SchemaRecord(subject=subject, version=number, id=schema_id, schema=schema, **more)


def test_records_have_confluents_format() -> None:
    record = version("events_avro-value", 3, 7, '"string"')
    assert encode_key(record) == b'{"keytype":"SCHEMA","subject":"events_avro-value","version":3,"magic":1}'
    assert encode_value(record) == (
        b'{"subject":"events_avro-value","version":3,"id":7,"schema":"\\"string\\"","deleted":false}'
    )


@given(
    st.builds(
        SchemaRecord,
        subject=st.text(min_size=1),
        version=st.integers(1, 2**31 - 1),
        id=st.integers(1, 2**31 - 1),
        schema=st.text(),
        schema_type=st.sampled_from(["AVRO", "JSON", "PROTOBUF"]),
        references=st.sampled_from([(), (Reference(name="a", subject="b", version=1),)]),
        more=st.sampled_from(["{}", '{"metadata": {"properties": {"a": "b"}}, "ts": 1}']),
        deleted=st.booleans(),
    )
)
def test_what_is_written_is_read_back(record: SchemaRecord) -> None:
    assert decode_record(encode_key(record), encode_value(record)) == record


def test_records_of_a_real_registry_are_understood() -> None:
    key = b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'
    value = b'{"subject":"s","version":1,"id":4,"md5":"x","schema":"\\"int\\"","deleted":true,"guid":"g"}'
    assert decode_record(key, value) == version("s", 1, 4, '"int"', deleted=True)
    assert decode_record(key, None) == RemovedVersionRecord(subject="s", version=1)
    delete = b'{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}'
    assert decode_record(delete, b'{"subject":"s","version":2}') == DeletedSubjectRecord(
        subject="s", version=2
    )
    assert decode_record(b'{"keytype":"NOOP","magic":0}', None) == OtherRecord()
    for everybody in (b'{"keytype":"CONFIG","subject":null,"magic":0}', b'{"keytype":"CONFIG","magic":0}'):
        full = ConfigRecord(subject=None, level=Level.FULL)
        assert decode_record(everybody, b'{"compatibilityLevel":"FULL"}') == full
        assert decode_record(everybody, None) == ConfigRecord(subject=None, level=None)
    of_one = b'{"keytype":"CONFIG","subject":"s","magic":0}'
    assert decode_record(of_one, b'{"subject":"s","normalize":true}') == ConfigRecord(
        subject="s", normalize=True
    )
    assert isinstance(decode_record(of_one, b'{"compatibilityLevel":"ODD"}'), OtherRecord)


@given(
    st.builds(
        ConfigRecord,
        subject=st.none() | st.text(min_size=1),
        level=st.none() | st.sampled_from(list(Level)),
        normalize=st.none() | st.booleans(),
        more=st.sampled_from(["{}", '{"alias": "b"}']),
    )
)
def test_levels_are_written_and_read_back(record: ConfigRecord) -> None:
    assert decode_record(encode_key(record), encode_value(record)) == record


def own_level(state: RegistryState) -> Level | None:
    config = state.config("a")
    return None if config is None else config.level


def test_a_subject_without_a_level_has_that_of_all() -> None:
    state = RegistryState()
    assert (own_level(state), state.level("a")) == (None, Level.BACKWARD)
    state.replay(ConfigRecord(subject=None, level=Level.FORWARD))
    state.replay(ConfigRecord(subject="a", level=Level.NONE))
    assert (own_level(state), state.level("a"), state.level("b")) == (
        Level.NONE,
        Level.NONE,
        Level.FORWARD,
    )
    state.replay(ConfigRecord(subject="a", level=None))
    state.replay(ConfigRecord(subject=None, level=None))
    assert (own_level(state), state.level("a")) == (None, Level.BACKWARD)


@given(
    st.none() | st.binary() | st.sampled_from([b'{"keytype":"SCHEMA"}', b"[]", b"1"]), st.none() | st.binary()
)
def test_whatever_stands_in_the_topic_can_be_read(key: bytes | None, value: bytes | None) -> None:
    decoded = decode_record(key, value)
    assert isinstance(decoded, OtherRecord)


def register(state: RegistryState, subject: str, schema: str) -> int:
    decision = decide(state, Register(subject=subject, schema_type="AVRO", schema=read_avro(schema).text))
    assert decision.refusal is None
    for effect in decision.effects:
        state.replay(effect)
    found = state.find(subject, read_avro(schema))
    assert found is not None
    assert (found.id, found.version) == decision.reply
    return found.id


def test_ids_and_versions_count_up_and_a_schema_has_one_id() -> None:
    state = RegistryState()
    assert register(state, "a", '"int"') == 1
    assert register(state, "a", '"long"') == 2
    assert register(state, "a", '{"type":"int"}') == 1
    assert register(state, "b", '"long"') == 2
    assert [record.version for record in state.versions("a")] == [1, 2]
    assert [(record.subject, record.version) for record in state.usages(2)] == [("a", 2), ("b", 1)]
    assert state.subjects() == ["a", "b"]


def test_one_id_has_one_text_whatever_spelling_came_first() -> None:
    """Earlier releases did not store the canonical form, and other registries may not."""
    state = RegistryState()
    state.replay(version("a", 1, 1, '{"type": "string"}'))
    register(state, "b", '"string"')
    assert {record.schema for record in state.usages(1)} == {'{"type": "string"}'}


def test_a_deleted_version_is_not_listed_but_its_id_stays_readable() -> None:
    state = RegistryState()
    register(state, "a", '"int"')
    register(state, "a", '"long"')
    state.replay(version("a", 1, 1, '"int"', deleted=True))
    assert [record.version for record in state.versions("a")] == [2]
    assert state.schema(1) is not None
    assert state.usages(1) == []
    assert [record.version for record in state.usages(1, deleted=True)] == [1]
    # Registered again it keeps its id and gets a version of its own, in place of the deleted one.
    state.replay(ConfigRecord(subject="a", level=Level.NONE))
    assert register(state, "a", '"int"') == 1
    assert [record.version for record in state.versions("a", deleted=True)] == [2, 3]


def test_a_deleted_subject_is_not_listed_and_its_versions_are_not_used_again() -> None:
    state = RegistryState()
    register(state, "a", '"int"')
    register(state, "a", '"long"')
    state.replay(DeletedSubjectRecord(subject="a", version=2))
    assert state.subjects() == []
    assert register(state, "a", '"float"') == 3
    assert [record.version for record in state.versions("a")] == [3]


def test_a_version_removed_for_good_takes_its_schema_along_unless_another_has_it() -> None:
    state = RegistryState()
    register(state, "a", '"int"')
    register(state, "b", '"int"')
    state.replay(RemovedVersionRecord(subject="a", version=1))
    assert state.schema(1) is not None
    state.replay(RemovedVersionRecord(subject="b", version=1))
    assert state.schema(1) is None
    assert state.subjects() == []
    # Its id is not given again.
    assert register(state, "a", '"int"') == 2


records = st.one_of(
    st.builds(
        version,
        st.sampled_from(["a", "b"]),
        st.integers(1, 3),
        st.integers(1, 4),
        st.sampled_from(['"int"', '"long"', '{"type":"int"}', "no avro"]),
        deleted=st.booleans(),
    ),
    st.builds(RemovedVersionRecord, subject=st.sampled_from(["a", "b"]), version=st.integers(1, 3)),
)


def observed(state: RegistryState) -> Any:
    subjects = {subject: state.versions(subject) for subject in state.subjects()}
    return subjects, {schema_id: state.usages(schema_id) for schema_id in range(1, 5)}


@given(st.lists(records, max_size=20))
def test_a_compacted_log_gives_the_same_state(history: list[Record]) -> None:
    full = RegistryState()
    last: dict[tuple[str, int], Record] = {}
    for record in history:
        full.replay(record)
        assert isinstance(record, SchemaRecord | RemovedVersionRecord)
        key = (record.subject, record.version)
        last.pop(key, None)
        last[key] = record
    compacted = RegistryState()
    for record in last.values():
        compacted.replay(record)
    assert observed(full) == observed(compacted)
    for schema_id in range(1, 5):
        assert (full.schema(schema_id) is None) == (compacted.schema(schema_id) is None)


def test_what_another_registry_has_accepted_is_kept_and_handed_on() -> None:
    state = RegistryState()
    references = (Reference(name="x", subject="y", version=1),)
    state.replay(
        version("p", 1, 1, "neither proto nor base64 !", schema_type="PROTOBUF", references=references)
    )
    held = state.schema(1)
    assert held is not None
    assert (held.schema_type, held.references) == ("PROTOBUF", references)
    assert [each.subject for each in state.referrers("y", 1)] == ["p"]
    assert register(state, "a", '"int"') == 2


MODE_OF_ALL = b'{"keytype":"MODE","subject":null,"magic":0}'


def test_the_topic_of_a_real_registry_gives_its_state() -> None:
    """Records as Confluent's and Karapace's registries write them, in the order of their topic."""
    state = RegistryState()
    for offset, (key, value) in enumerate(
        [
            (b'{"keytype":"NOOP","magic":0}', None),
            (
                b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":0}',
                b'{"subject":"a","version":1,"id":1,"schema":"\\"int\\"","deleted":false}',
            ),
            (
                b'{"keytype":"SCHEMA","subject":"a","version":2,"magic":1}',
                b'{"subject":"a","version":2,"id":2,"md5":"x","schemaType":"JSON","references":[],"metadata":'
                b'{"properties":{"owner":"me"}},"ruleSet":null,"schema":"{}","deleted":false,"ts":17}',
            ),
            (
                b'{"keytype":"SCHEMA","subject":"b","version":1,"magic":1}',
                b'{"subject":"b","version":1,"id":3,"schema":"\\"int\\""}',
            ),
            (b'{"keytype":"DELETE_SUBJECT","subject":"a","magic":0}', b'{"subject":"a","version":1}'),
            (
                b'{"keytype":"SCHEMA","subject":"c","version":1,"magic":1}',
                b'{"subject":"c","version":1,"id":9,"schema":"\\"int\\"","deleted":true}',
            ),
            (b'{"keytype":"SCHEMA","subject":"c","version":1,"magic":1}', None),
            (
                b'{"keytype":"CONFIG","subject":"b","magic":0}',
                b'{"subject":"b","normalize":true,"alias":"z","compatibilityLevel":"FULL"}',
            ),
            (b'{"keytype":"MODE","subject":"a","magic":0}', b'{"subject":"a","mode":"IMPORT"}'),
            (MODE_OF_ALL, b'{"mode":"READONLY"}'),
            (
                b'{"keytype":"CONTEXT","tenant":"default","context":".x","magic":0}',
                b'{"tenant":"default","context":".x"}',
            ),
        ]
    ):
        state.replay(decode_record(key, value), offset=offset)
    assert [(each.version, each.deleted) for each in state.versions("a", deleted=True)] == [
        (1, True),
        (2, False),
    ]
    assert (state.subjects(), state.subjects(deleted=True)) == (["a", "b"], ["a", "b"])
    assert (state.level("b"), state.normalizes("b"), state.level("a")) == (Level.FULL, True, Level.BACKWARD)
    assert (state.mode("a"), state.mode("b")) == (Mode.IMPORT, Mode.READONLY)
    held = state.version("a", 2)
    assert held is not None
    # What we do not know is written again.
    assert json.loads(encode_value(held) or b"") == {
        "subject": "a",
        "version": 2,
        "id": 2,
        "schemaType": "JSON",
        "metadata": {"properties": {"owner": "me"}},
        "ts": 17,
        "schema": "{}",
        "deleted": False,
    }
    config = state.config("b")
    assert config is not None
    assert json.loads(encode_value(config) or b"")["alias"] == "z"
    # Both ids of one schema are known; new ones come after all.
    assert (state.id_of(read_avro('"int"')), state.next_id()) == (1, 10)
    state.replay(decode_record(b'{"keytype":"CLEAR_SUBJECT","subject":"a","magic":0}', b'{"subject":"a"}'))
    assert [each.version for each in state.versions("a", deleted=True)] == [2]
    state.replay(decode_record(MODE_OF_ALL, b'{"mode":"READONLY_OVERRIDE"}'))
    assert state.mode("a") is Mode.READONLY_OVERRIDE
    state.replay(decode_record(MODE_OF_ALL, None))
    assert state.mode("b") is Mode.READWRITE


def test_proposals_of_earlier_releases_are_passed_over() -> None:
    key = b'{"keytype":"NOOP","magic":0,"proposal":"p"}'
    value = b'{"subject":"a","version":1,"id":1,"schema":"\\"int\\""}'
    assert decode_record(key, value) == OtherRecord()


def test_a_record_that_comes_too_late_does_not_replace_a_later_one() -> None:
    state = RegistryState()
    first, second = version("a", 1, 1, '"int"'), version("a", 1, 1, '"int"', deleted=True)
    assert state.replay(first, offset=5, turn=4) is None
    assert state.replay(second, offset=8, turn=7) is None
    assert state.replay(first, offset=9, turn=4) == second
    assert state.versions("a") == []
    assert state.replay(RemovedVersionRecord(subject="a", version=1), offset=11, turn=10) is None
    assert state.replay(second, offset=12, turn=7) == RemovedVersionRecord(subject="a", version=1)
    assert state.subjects(deleted=True) == []
    # Of other registries, the last record counts.
    assert state.replay(first, offset=13) is None
    assert state.subjects() == ["a"]
