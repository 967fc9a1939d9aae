"""The worker between tasks and the log: every record at least once, offsets only behind what is done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headrace.client.cluster import Cluster
from headrace.connect.converters import JSON_CONVERTER
from headrace.connect.data import RetriableError
from headrace.testing import EmbeddedBroker
from tests.connect.worker_harness import (
    SECONDS,
    Scripted,
    consume,
    harness,
    produce,
    scripted_sink,
    scripted_source,
    text_record,
)
from tests.gateway_process import eventually

SOURCE = "test.ScriptedSourceConnector"
SINK = "ScriptedSink"


def raising(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


class TestSources:
    def test_offsets_are_committed_and_found_again(
        self, broker: EmbeddedBroker, tmp_path: Path, topic_name: str
    ) -> None:
        script = Scripted()
        script.to_give = [[text_record(topic_name, str(number), number) for number in range(10)]]
        with harness(broker.bootstrap, tmp_path, scripted_source(script), topics=topic_name) as it:
            it.create("s", connector_class=SOURCE)
            eventually(lambda: it.offsets.shown("s") != [], "offsets are committed", SECONDS)
        values = [each.value() for each in consume(broker.bootstrap, topic_name, 10)]
        assert values == [str(number).encode() for number in range(10)]
        with harness(broker.bootstrap, tmp_path, scripted_source(Scripted()), topics=topic_name) as it:
            assert it.parts.offsets.offset("s", {"p": 1}) == {"o": 9}
            it.wait_states("s", "RUNNING", "RUNNING")
            assert it.service.topics("s") == [topic_name]

    def test_new_topics_are_as_the_connector_says(
        self, broker: EmbeddedBroker, tmp_path: Path, topic_name: str
    ) -> None:
        script = Scripted()
        script.to_give = [[text_record(topic_name, "x", partition=2)]]
        new = "topic.creation.default."
        config = {f"{new}partitions": "3", f"{new}replication.factor": "1", f"{new}cleanup.policy": "compact"}
        with harness(broker.bootstrap, tmp_path, scripted_source(script)) as it:
            it.service.create(
                "s", {"connector.class": SOURCE, "key.converter": "String", **config}, "STARTED"
            )
            script.to_give.append([text_record(topic_name, "y", key="k", partition=2)])
            it.wait_states("s", "RUNNING", "FAILED")
        # A compacted topic takes no record without a key.
        assert "the log refuses a record" in it.trace("s")
        cluster = Cluster(broker.bootstrap)
        found = cluster.topic(topic_name)
        assert found is not None
        assert found.partitions == 3
        assert cluster.topic_config(topic_name)["cleanup.policy"] == "compact"

    def test_a_paused_source_is_not_polled(
        self, broker: EmbeddedBroker, tmp_path: Path, topic_name: str
    ) -> None:
        script = Scripted()
        with harness(broker.bootstrap, tmp_path, scripted_source(script)) as it:
            it.create("s", connector_class=SOURCE)
            it.wait_states("s", "RUNNING", "RUNNING")
            it.service.set_target("s", "PAUSED")
            it.wait_states("s", "PAUSED", "PAUSED")
            script.to_give = [[text_record(topic_name, "x", 1)]]
            it.service.restart("s", include_tasks=True, only_failed=False)
            it.wait_states("s", "PAUSED", "PAUSED")
            assert script.to_give
            it.service.set_target("s", "STARTED")
            it.wait_states("s", "RUNNING", "RUNNING")
            assert consume(broker.bootstrap, topic_name, 1)[0].value() == b"x"

    def test_records_that_cannot_be_converted_or_written(
        self, broker: EmbeddedBroker, tmp_path: Path, topic_name: str
    ) -> None:
        script, strict = Scripted(), Scripted()
        too_large = "x" * 3_000_000
        records = [text_record(topic_name, value) for value in ("good", object(), too_large, "end")]
        script.to_give = [records, list(records)]
        strict.to_give = [list(records)]
        # A text converter would take anything.
        json_alone = {"key.converter": JSON_CONVERTER, "value.converter": JSON_CONVERTER}
        plugins = (scripted_source(script), scripted_source(strict, class_name="test.StrictSource"))
        with harness(broker.bootstrap, tmp_path, *plugins, converters=json_alone) as it:
            it.create("tolerant", connector_class=SOURCE, errors_tolerance="all")
            assert len(consume(broker.bootstrap, topic_name, 4)) == 4
            it.create("strict", connector_class="StrictSource")
            it.wait_states("strict", "RUNNING", "FAILED")
            assert "Tolerance exceeded" in it.trace("strict")
            assert it.states("tolerant") == ["RUNNING", "RUNNING"]

    def test_a_source_waits_while_the_log_is_away(self, tmp_path: Path) -> None:
        script = Scripted()
        with (
            EmbeddedBroker(tmp_path / "broker") as own,
            harness(own.bootstrap, tmp_path, scripted_source(script)) as it,
        ):
            it.create("s", connector_class=SOURCE)
            it.wait_states("s", "RUNNING", "RUNNING")
            own.kill()
            script.to_give = [[text_record("t", "after all", 1)]]
            eventually(lambda: not script.to_give, "the record was polled", SECONDS)
            own.start()
            assert consume(own.bootstrap, "t", 1)[0].value() == b"after all"
            assert it.states("s") == ["RUNNING", "RUNNING"]


class TestSinks:
    def test_a_sink_gets_records_and_commits_what_it_flushed(
        self, broker: EmbeddedBroker, tmp_path: Path, topic_name: str
    ) -> None:
        script = Scripted()
        produce(broker.bootstrap, topic_name, b"a", None, b"c", headers={"h": b"1"})
        with harness(broker.bootstrap, tmp_path, scripted_sink(script)) as it:
            it.create(topic_name, connector_class=SINK, topics=topic_name)
            eventually(lambda: len(script.taken) == 3, "three records", SECONDS)
            assert [(each.offset, each.key, each.value) for each in script.taken] == [
                (0, "k", "a"),
                (1, "k", None),
                (2, "k", "c"),
            ]
            assert script.taken[0].headers == (("h", 1, None),)
            assert script.taken[0].timestamp_ms
            eventually(lambda: it.offsets.shown(topic_name) != [], "committed", SECONDS)
            shown = it.offsets.shown(topic_name)
        assert shown[0]["offset"] == {"kafka_offset": 3}
        assert "flush" in script.events

    def test_a_sink_that_fails_commits_nothing_of_what_failed(
        self, broker: EmbeddedBroker, tmp_path: Path, topic_name: str
    ) -> None:
        script = Scripted()
        script.on["put"] = raising(OSError("disk full"))
        produce(broker.bootstrap, topic_name, b"a", b"b")
        with harness(broker.bootstrap, tmp_path, scripted_sink(script)) as it:
            it.create(topic_name, connector_class=SINK, topics=topic_name)
            it.wait_states(topic_name, "RUNNING", "FAILED")
            assert "disk full" in it.trace(topic_name)
            assert it.offsets.shown(topic_name) == []
            script.on.clear()
            it.service.restart(topic_name, include_tasks=True, only_failed=True)
            eventually(lambda: [each.value for each in script.taken] == ["a", "b"], "both", SECONDS)

    def test_a_sink_that_asks_to_be_asked_again(
        self, broker: EmbeddedBroker, tmp_path: Path, topic_name: str
    ) -> None:
        script = Scripted()
        attempts: list[int] = []

        def twice() -> None:
            attempts.append(1)
            if len(attempts) < 3:
                raise RetriableError("busy")

        script.on["put"] = twice
        produce(broker.bootstrap, topic_name, b"a")
        with harness(broker.bootstrap, tmp_path, scripted_sink(script)) as it:
            it.create(topic_name, connector_class=SINK, topics=topic_name)
            eventually(lambda: [each.value for each in script.taken] == ["a"], "taken at last", SECONDS)
            produce(broker.bootstrap, topic_name, b"b")
            eventually(lambda: [each.value for each in script.taken] == ["a", "b"], "goes on", SECONDS)
            assert it.states(topic_name) == ["RUNNING", "RUNNING"]

    def test_dead_letters_keep_the_record_and_say_what_was_wrong(
        self, broker: EmbeddedBroker, tmp_path: Path, topic_name: str
    ) -> None:
        script = Scripted()
        produce(broker.bootstrap, topic_name, b"{}", b"no json", headers={"own": b"x"})
        dead = f"{topic_name}_dlq"
        with harness(broker.bootstrap, tmp_path, scripted_sink(script)) as it:
            config = {
                "connector.class": SINK,
                "topics": topic_name,
                "value.converter": JSON_CONVERTER,
                "value.converter.schemas.enable": "false",
                "errors.tolerance": "all",
                "errors.deadletterqueue.topic.name": dead,
                "errors.deadletterqueue.context.headers.enable": "true",
            }
            it.service.create(topic_name, config, "STARTED")
            (letter,) = consume(broker.bootstrap, dead, 1)
            eventually(lambda: it.offsets.shown(topic_name) != [], "committed", SECONDS)
            assert it.offsets.shown(topic_name)[0]["offset"] == {"kafka_offset": 2}
        assert [each.value for each in script.taken] == [{}]
        headers = {name: value.decode() for name, value in letter.headers()}
        assert (letter.key(), letter.value(), headers.pop("own")) == (b"k", b"no json", "x")
        assert headers.pop("__connect.errors.exception.stacktrace").startswith("Traceback")
        assert "serialization error" in headers.pop("__connect.errors.exception.message")
        assert headers.pop("__connect.errors.exception.class.name").endswith("DataError")
        assert headers == {
            "__connect.errors.topic": topic_name,
            "__connect.errors.partition": "0",
            "__connect.errors.offset": "1",
            "__connect.errors.connector.name": topic_name,
            "__connect.errors.task.id": "0",
            "__connect.errors.stage": "VALUE_CONVERTER",
            "__connect.errors.class.name": JSON_CONVERTER,
        }

    def test_topics_by_an_expression_also_later_ones(
        self, broker: EmbeddedBroker, tmp_path: Path, topic_name: str
    ) -> None:
        script = Scripted()
        produce(broker.bootstrap, f"{topic_name}_1", b"a")
        produce(broker.bootstrap, f"other_{topic_name}_1", b"not this")
        with harness(broker.bootstrap, tmp_path, scripted_sink(script)) as it:
            it.create(topic_name, connector_class=SINK, topics_regex=f"{topic_name}_\\d")
            eventually(lambda: [each.value for each in script.taken] == ["a"], "the first", SECONDS)
            produce(broker.bootstrap, f"{topic_name}_2", b"b")
            eventually(lambda: [each.value for each in script.taken] == ["a", "b"], "the second", SECONDS)

    def test_a_paused_sink_takes_nothing_and_loses_nothing(
        self, broker: EmbeddedBroker, tmp_path: Path, topic_name: str
    ) -> None:
        script = Scripted()
        produce(broker.bootstrap, topic_name, b"1")
        with harness(broker.bootstrap, tmp_path, scripted_sink(script)) as it:
            it.create(topic_name, connector_class=SINK, topics=topic_name)
            eventually(lambda: len(script.taken) == 1, "the first", SECONDS)
            it.service.set_target(topic_name, "PAUSED")
            it.wait_states(topic_name, "PAUSED", "PAUSED")
            produce(broker.bootstrap, topic_name, b"2", b"3")
            it.service.set_target(topic_name, "STARTED")
            eventually(lambda: [each.value for each in script.taken] == ["1", "2", "3"], "all", SECONDS)

    def test_a_sink_outlives_an_absence_of_the_log(self, tmp_path: Path) -> None:
        script = Scripted()
        with (
            EmbeddedBroker(tmp_path / "broker") as own,
            harness(own.bootstrap, tmp_path, scripted_sink(script)) as it,
        ):
            produce(own.bootstrap, "t", b"1")
            it.create("s", connector_class=SINK, topics="t")
            eventually(lambda: len(script.taken) == 1, "the first", SECONDS)
            own.kill()
            flushes = script.events.count("flush")
            own.start()
            produce(own.bootstrap, "t", b"2")
            eventually(lambda: "2" in {each.value for each in script.taken}, "the second", SECONDS)
            eventually(lambda: script.events.count("flush") > flushes, "a flush", SECONDS)
            eventually(
                lambda: it.offsets.shown("s")[0]["offset"] == {"kafka_offset": 2}, "committed", SECONDS
            )
            assert it.states("s") == ["RUNNING", "RUNNING"]
