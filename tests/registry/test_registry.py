"""The registry on a real log of either engine: its topic, reading it again, and two registries on one log."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from headrace.client.followed import CompactedLog
from headrace.client.reading import TopicReader
from headrace.client.writing import Headers
from headrace.core.errors import HeadraceError
from headrace.engines.apache_kafka import ApacheKafka
from headrace.registry.level import Level
from headrace.registry.mode import Mode
from headrace.registry.registry import LATEST, Registry
from headrace.registry.schema import Reference
from headrace.testing import EmbeddedBroker
from tests.broker.broker_process import BrokerProcess
from tests.freezing import freeze
from tests.http.events.driving import end_offsets, read_topic
from tests.ports import free_port

TYPES = ["int", "long", "float", "double", "string", "bytes", "boolean", "null"]


@pytest.fixture(params=["broker", "kafka"])
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Both engines in turn: how registries agree must not depend on which log it is."""
    engine: EmbeddedBroker | ApacheKafka = request.getfixturevalue(request.param)
    return engine.bootstrap


@pytest.fixture
def registry(bootstrap: str, topic_name: str) -> Iterator[Registry]:
    started = Registry(bootstrap, topic=topic_name)
    started.start()
    yield started
    started.stop()


@pytest.fixture
def lenient(registry: Registry) -> Registry:
    """Takes any schema after any other."""
    registry.set_level(None, Level.NONE)
    return registry


def schema_records(bootstrap: str, topic: str) -> list[Message]:
    """What stands in the topic for every registry to read; between them are our proposals."""
    records = read_topic(bootstrap, topic, 0, end_offsets(bootstrap, topic, 1)[0])
    return [record for record in records if json.loads(record.key() or b"{}")["keytype"] == "SCHEMA"]


def own_level(registry: Registry, subject: str) -> Level | None:
    config = registry.own_config(subject)
    return None if config is None else config.level


def raised(code: str, call: object, *arguments: object) -> str:
    assert callable(call)
    with pytest.raises(HeadraceError) as caught:
        call(*arguments)
    assert caught.value.code == code
    return caught.value.message


def test_what_is_registered_is_found_and_kept_in_a_compacted_topic(
    lenient: Registry, bootstrap: str, topic_name: str
) -> None:
    registry = lenient
    assert registry.register("clicks-value", '{"type" : "string"}') == 1
    assert registry.register("clicks-value", '"string"') == 1
    assert registry.register("clicks-value", '"int"') == 2
    assert registry.register("views-value", '"int"') == 2

    assert registry.subjects() == ["clicks-value", "views-value"]
    assert registry.versions("clicks-value") == [1, 2]
    assert registry.schema_by_id(1) == '"string"'
    assert registry.version("clicks-value", 1).id == 1
    assert registry.version("clicks-value", "latest").id == 2
    assert registry.lookup("clicks-value", ' "string" ').version == 1
    assert [(record.subject, record.version) for record in registry.usages(2)] == [
        ("clicks-value", 2),
        ("views-value", 1),
    ]

    records = schema_records(bootstrap, topic_name)
    assert records[0].key() == b'{"keytype":"SCHEMA","subject":"clicks-value","version":1,"magic":1}'
    assert records[2].value() == (
        b'{"subject":"views-value","version":1,"id":2,"schema":"\\"int\\"","deleted":false}'
    )
    admin = AdminClient({"bootstrap.servers": bootstrap})
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic_name)
    assert admin.describe_configs([resource])[resource].result()["cleanup.policy"].value == "compact"
    assert len(admin.list_topics(topic_name).topics[topic_name].partitions) == 1


def test_what_is_not_there_is_said_with_its_own_code(registry: Registry) -> None:
    registry.register("a", '"int"')
    assert raised("schema_not_found", registry.schema_by_id, 99) == "Schema 99 not found."
    assert raised("subject_not_found", registry.versions, "b") == "Subject 'b' not found."
    assert raised("subject_not_found", registry.version, "b", "latest")
    assert raised("version_not_found", registry.version, "a", 2) == "Version 2 not found."
    assert raised("subject_not_found", registry.lookup, "b", '"int"')
    assert raised("schema_not_found", registry.lookup, "a", '"long"')
    assert raised("invalid_schema", registry.register, "a", '"nope"')
    assert raised("invalid_schema", registry.register, "a", "{}", "XML")
    assert registry.versions("a") == [1]


def test_a_registry_that_starts_again_knows_everything(bootstrap: str, topic_name: str) -> None:
    first = Registry(bootstrap, topic=topic_name)
    first.start()
    ids = {name: first.register(f"{name}-value", f'"{name}"') for name in TYPES}
    first.stop()
    # What a real registry leaves between its schemas, and what nobody can read.
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic_name, key=b'{"keytype":"NOOP","magic":0}')
    producer.produce(topic_name, key=b"no json", value=b"no json")
    assert producer.flush(120) == 0

    second = Registry(bootstrap, topic=topic_name)
    second.start()
    try:
        assert second.subjects() == sorted(f"{name}-value" for name in TYPES)
        for name, schema_id in ids.items():
            assert second.schema_by_id(schema_id) == f'"{name}"'
            assert second.register(f"{name}-value", f'"{name}"') == schema_id
        assert second.register("new-value", '{"type":"array","items":"int"}') == len(TYPES) + 1
    finally:
        second.stop()


def test_two_registries_on_one_log_give_one_id_to_one_schema_and_never_one_to_two(
    bootstrap: str, topic_name: str
) -> None:
    registries = [Registry(bootstrap, topic=topic_name, timeout=60) for _ in range(2)]
    for each in registries:
        each.start()
    registries[0].set_level(None, Level.NONE)
    together = threading.Barrier(2)

    def register_all(registry: Registry, order: list[str]) -> dict[str, int]:
        ids = {}
        for name in order:
            together.wait(60)
            ids[name] = registry.register("shared", f'"{name}"')
        return ids

    try:
        with ThreadPoolExecutor(2) as pool:
            futures = [
                pool.submit(register_all, registry, order)
                for registry, order in zip(registries, (TYPES[:5], TYPES[4::-1]), strict=True)
            ]
            one, other = (future.result() for future in futures)
        assert one == other
        assert sorted(one.values()) == [1, 2, 3, 4, 5]
        # An id that the other one has just given is found, even if its record was not read yet.
        fresh = registries[0].register("fresh", '"null"')
        assert registries[1].schema_by_id(fresh) == '"null"'
    finally:
        for each in registries:
            each.stop()
    reader = Registry(bootstrap, topic=topic_name)
    reader.start()
    try:
        assert reader.versions("shared") == [1, 2, 3, 4, 5]
        assert {reader.schema_by_id(schema_id) for schema_id in one.values()} == {
            f'"{name}"' for name in TYPES[:5]
        }
    finally:
        reader.stop()


class _LaggingLog(CompactedLog):
    """Reads nothing more, once told to lag, until somebody asks where the log ends."""

    may_read: threading.Event

    def start(self) -> None:
        self.may_read = threading.Event()
        self.may_read.set()
        super().start()

    def read_on(self, reader: TopicReader, timeout: float) -> None:
        if self.may_read.wait(timeout):
            super().read_on(reader, timeout)

    def read_to_end(self) -> None:
        self.may_read.set()
        super().read_to_end()


def test_a_registry_that_lags_behind_decides_on_what_is_in_the_log_not_on_what_it_knows(
    bootstrap: str, topic_name: str
) -> None:
    ahead = Registry(bootstrap, topic=topic_name)
    behind = Registry(bootstrap, topic=topic_name, log_type=_LaggingLog)
    ahead.start()
    behind.start()
    ahead.set_level(None, Level.NONE)
    try:
        log = behind._log
        assert isinstance(log, _LaggingLog)
        for number, name in enumerate(TYPES[:4], start=1):
            log.may_read.clear()
            assert ahead.register("shared", f'"{name}"') == 2 * number - 1
            assert behind.register("shared", f'{{"type":"array","items":"{name}"}}') == 2 * number
        assert ahead.register("other", '{"type":"array","items":"int"}') == 2
        assert behind.versions("shared") == list(range(1, 9))
    finally:
        ahead.stop()
        behind.stop()


def test_racing_registries_end_with_the_same_answers_and_one_content_for_each_key(
    bootstrap: str, topic_name: str
) -> None:
    registries = [Registry(bootstrap, topic=topic_name, timeout=60) for _ in range(3)]
    for each in registries:
        each.start()
    registries[0].set_level(None, Level.NONE)
    wishes = [(f"subject-{number}", f'"{name}"') for number in range(2) for name in TYPES[:5]]

    def register_all(registry: Registry, seed: int) -> dict[tuple[str, str], int]:
        order = random.Random(seed).sample(wishes, len(wishes))
        return {(subject, schema): registry.register(subject, schema) for subject, schema in order}

    try:
        with ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(register_all, registries * 2, range(6)))
        assert all(each == answers[0] for each in answers)
        assert sorted(set(answers[0].values())) == [1, 2, 3, 4, 5]
        for each in registries:
            for subject in ("subject-0", "subject-1"):
                assert each.versions(subject) == [1, 2, 3, 4, 5]
            for (subject, schema), schema_id in answers[0].items():
                assert each.schema_by_id(schema_id) == schema
                assert each.lookup(subject, schema).id == schema_id
    finally:
        for each in registries:
            each.stop()
    contents: dict[bytes | None, set[bytes | None]] = {}
    for record in schema_records(bootstrap, topic_name):
        contents.setdefault(record.key(), set()).add(record.value())
    assert len(contents) == len(wishes)
    assert all(len(each) == 1 for each in contents.values())


class _DeathError(Exception):
    """Stands for the end of the process."""


class _DyingLog(CompactedLog):
    """Dies once the log has so many more records, before anybody reads it back."""

    records_left = 0

    def write(self, key: bytes, value: bytes | None, headers: Headers = ()) -> int:
        offset = super().write(key, value, headers)
        self.records_left -= 1
        if self.records_left == 0:
            raise _DeathError
        return offset


@pytest.mark.parametrize("records", [1, 2], ids=["proposal", "schema"])
def test_a_registry_that_dies_before_it_reads_back_what_it_wrote_leaves_nothing_half_done(
    bootstrap: str, topic_name: str, records: int
) -> None:
    dying = Registry(bootstrap, topic=topic_name, log_type=_DyingLog)
    dying.start()
    assert dying.register("a", '"int"') == 1
    assert isinstance(dying._log, _DyingLog)
    dying._log.records_left = records
    with pytest.raises(_DeathError):
        dying.register("a", '"long"')
    dying.stop()

    successor = Registry(bootstrap, topic=topic_name)
    successor.start()
    try:
        # Its proposal keeps its turn: it becomes what it was to become.
        assert successor.register("a", '"float"') == 3
        assert successor.register("a", '"long"') == 2
        assert successor.versions("a") == [1, 2, 3]
        assert successor.version("a", 2).schema == '"long"'
    finally:
        successor.stop()
    keys = [record.key() for record in schema_records(bootstrap, topic_name)]
    assert len(keys) == len(set(keys)) == 3


def test_what_is_left_of_a_proposal_after_compaction_is_nothing(
    registry: Registry, bootstrap: str, topic_name: str
) -> None:
    registry.register("a", '"int"')
    registry.register("b", '"long"')
    registry.stop()
    last = {
        record.key(): record.value()
        for record in read_topic(bootstrap, topic_name, 0, end_offsets(bootstrap, topic_name, 1)[0])
    }
    left = {key for key, value in last.items() if value is not None}
    assert left == {record.key() for record in schema_records(bootstrap, topic_name)}


def test_many_threads_register_at_once(lenient: Registry) -> None:
    names = TYPES * 4
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda name: lenient.register("busy", f'"{name}"'), names))
    assert dict(zip(names, ids, strict=True)).keys() == set(TYPES)
    assert len({*zip(names, ids, strict=True)}) == len(TYPES)
    assert sorted(set(ids)) == list(range(1, len(TYPES) + 1))


def test_levels_are_kept_in_the_log_and_known_after_a_restart(bootstrap: str, topic_name: str) -> None:
    first, other = Registry(bootstrap, topic=topic_name), Registry(bootstrap, topic=topic_name)
    first.start()
    other.start()
    try:
        assert (first.global_level(), own_level(first, "a"), first.level("a")) == (
            Level.BACKWARD,
            None,
            Level.BACKWARD,
        )
        first.set_level(None, Level.FULL)
        first.set_level("a", Level.NONE)
        first.set_level("b", Level.FORWARD)
        first.set_level("b", None)
        assert (first.level("a"), first.level("b")) == (Level.NONE, Level.FULL)
        # Another registry on the same log holds to them from its next registration on.
        other.register("a", '"int"')
        other.register("a", '"string"')
        other.register("b", '"int"')
        assert "compatibility: 'FULL'" in raised("incompatible_schema", other.register, "b", '"long"')
    finally:
        first.stop()
        other.stop()
    configs = {
        record.key(): record.value()
        for record in read_topic(bootstrap, topic_name, 0, end_offsets(bootstrap, topic_name, 1)[0])
        if b"CONFIG" in (record.key() or b"")
    }
    assert configs == {
        b'{"keytype":"CONFIG","magic":0}': b'{"compatibilityLevel":"FULL"}',
        b'{"keytype":"CONFIG","subject":"a","magic":0}': b'{"subject":"a","compatibilityLevel":"NONE"}',
        b'{"keytype":"CONFIG","subject":"b","magic":0}': None,
    }
    again = Registry(bootstrap, topic=topic_name)
    again.start()
    try:
        assert (again.global_level(), own_level(again, "a"), own_level(again, "b")) == (
            Level.FULL,
            Level.NONE,
            None,
        )
    finally:
        again.stop()


def test_a_record_that_comes_too_late_is_written_over(
    registry: Registry, bootstrap: str, topic_name: str
) -> None:
    """A registry was held up, and writes what it had decided on before others went on."""
    registry.register("a", '"int"')
    (late,) = schema_records(bootstrap, topic_name)
    registry.delete_subject("a")
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic_name, key=late.key(), value=late.value(), headers=late.headers())
    assert producer.flush(120) == 0
    # The next change comes after the repair, which the same writer has sent before it.
    registry.register("b", '"long"')
    assert registry.subjects() == ["b"]
    last = [record for record in schema_records(bootstrap, topic_name) if record.key() == late.key()][-1]
    assert json.loads(last.value() or b"")["deleted"] is True
    # Who sees it later sees that it was repaired.
    registry.stop()
    end = end_offsets(bootstrap, topic_name, 1)
    again = Registry(bootstrap, topic=topic_name)
    again.start()
    assert again.subjects() == ["b"]
    again.stop()
    assert end_offsets(bootstrap, topic_name, 1) == end
    # If nobody has repaired it yet, the next one to start does.
    producer.produce(topic_name, key=late.key(), value=late.value(), headers=late.headers())
    assert producer.flush(120) == 0
    again = Registry(bootstrap, topic=topic_name)
    again.start()
    again.register("c", '"float"')
    again.stop()
    last = [record for record in schema_records(bootstrap, topic_name) if record.key() == late.key()][-1]
    assert json.loads(last.value() or b"")["deleted"] is True


def test_deletions_and_modes_are_known_to_others_and_after_a_restart(bootstrap: str, topic_name: str) -> None:
    one, other = Registry(bootstrap, topic=topic_name), Registry(bootstrap, topic=topic_name)
    one.start()
    other.start()
    reference = Reference(name="R", subject="base", version=1)
    try:
        one.register("base", '{"type":"record","name":"R","fields":[]}')
        assert other.register("user", '["null","R"]', "AVRO", [reference]) == 2
        assert "subject=base,version=1" in raised("reference_exists", one.delete_version, "base", 1)
        assert one.register("a", '"int"') == 3
        assert other.delete_subject("a") == [1]
        assert one.delete_version("user", LATEST) == 1
        # What one has deleted, the other cannot delete again.
        raised("subject_deleted", one.delete_subject, "a")
        raised("version_deleted", other.delete_version, "user", 1)
        assert one.delete_subject("a", permanent=True) == [1]
        raised("subject_not_found", other.delete_subject, "a")
        one.set_mode("user", Mode.READONLY)
        raised("change_not_permitted", other.register, "user", '"int"')
    finally:
        one.stop()
        other.stop()
    again = Registry(bootstrap, topic=topic_name)
    again.start()
    try:
        assert (again.subjects(), again.subjects(deleted=True)) == (["base"], ["base", "user"])
        assert again.mode("user") is Mode.READONLY
        # The removed schema's id is not given again, and a deleted one's can still be read.
        assert again.schema_by_id(2) == '["null","R"]'
        raised("schema_not_found", again.schema_by_id, 3)
        assert again.register("b", '"long"') == 4
    finally:
        again.stop()


def test_what_a_level_refuses_leaves_nothing(registry: Registry, bootstrap: str, topic_name: str) -> None:
    assert registry.register("a", '"long"') == 1
    before = end_offsets(bootstrap, topic_name, 1)
    for schema in ('"int"', '{"type":"array","items":"long"}'):
        message = raised("incompatible_schema", registry.register, "a", schema)
        assert 'earlier schema for subject "a"' in message
        assert "{oldSchemaVersion: 1}" in message
        assert "compatibility: 'BACKWARD'" in message
    assert registry.register("a", ' "long" ') == 1
    assert registry.register("b", '"int"') == 2
    assert registry.versions("a") == [1]
    assert end_offsets(bootstrap, topic_name, 1)[0] > before[0]
    assert [json.loads(record.value() or b"")["id"] for record in schema_records(bootstrap, topic_name)] == [
        1,
        2,
    ]


def test_registries_that_race_hold_every_version_to_the_level(bootstrap: str, topic_name: str) -> None:
    """None of the schemas may follow another: of those that race, one gets through."""
    registries = [Registry(bootstrap, topic=topic_name, timeout=60) for _ in range(3)]
    for each in registries:
        each.start()
    schemas = [f'{{"type":"array","items":"{name}"}}' for name in ("string", "int", "boolean")]
    subjects = [f"subject-{number}" for number in range(4)]
    together = threading.Barrier(3)

    def register(registry: Registry, schema: str) -> list[bool]:
        taken = []
        for subject in subjects:
            together.wait(60)
            try:
                registry.register(subject, schema)
            except HeadraceError as error:
                if error.code != "incompatible_schema":
                    raise
                taken.append(False)
            else:
                taken.append(True)
        return taken

    try:
        with ThreadPoolExecutor(3) as pool:
            taken = list(pool.map(register, registries, schemas))
        assert [sum(each) for each in zip(*taken, strict=True)] == [1] * len(subjects)
        for each in registries:
            assert [each.versions(subject) for subject in subjects] == [[1]] * len(subjects)
    finally:
        for each in registries:
            each.stop()


def test_a_topic_that_forgets_schemas_is_refused(bootstrap: str, topic_name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic_name, 1, 1)])[topic_name].result()
    assert "cleanup.policy=delete" in raised("invalid_setting", Registry(bootstrap, topic=topic_name).start)


def test_without_a_log_a_start_fails_in_bounded_time() -> None:
    address = f"127.0.0.1:{free_port()}"
    registry = Registry(address, timeout=0.5)
    assert address in raised("log_unavailable", registry.start)
    registry.stop()


def test_a_log_that_stops_answering_fails_a_registration_in_bounded_time_and_leaves_no_second_one(
    broker_process: BrokerProcess, topic_name: str
) -> None:
    # A topic that was just made takes its time to answer; that must not count against the bound.
    maker = Registry(broker_process.bootstrap, topic=topic_name)
    maker.start()
    assert maker.register("a", '"int"') == 1
    maker.stop()
    registry = Registry(broker_process.bootstrap, topic=topic_name, timeout=5)
    registry.start()
    try:
        assert registry.register("a", '"int"') == 1
        freeze(broker_process.pid)
        try:
            raised("log_unavailable", registry.register, "a", '"long"')
            # What is known can still be asked for.
            assert registry.register("a", '"int"') == 1
            assert registry.schema_by_id(1) == '"int"'
        finally:
            os.kill(broker_process.pid, signal.SIGCONT)
        assert _register_when_it_answers(registry, "a", '"long"') == 2
        assert registry.versions("a") == [1, 2]
    finally:
        registry.stop()


def _register_when_it_answers(registry: Registry, subject: str, schema: str) -> int:
    for _ in range(30):
        try:
            return registry.register(subject, schema)
        except HeadraceError as error:
            last = error
    raise last
