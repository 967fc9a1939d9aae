"""The worker when something is wrong: nothing is lost, nothing is committed that is not done, nothing dies
without a word.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.client import group_reading
from headrace.client.cluster import Cluster
from headrace.client.group_offsets import GroupOffsets
from headrace.client.group_reading import GroupReader
from headrace.connect.data import RetriableError
from headrace.connect.worker.source_runner import SourceRunner
from headrace.core.errors import HeadraceError
from headrace.testing import EmbeddedBroker
from tests.connect.worker_harness import (
    SECONDS,
    Harness,
    Scripted,
    harness,
    produce,
    scripted_sink,
    scripted_source,
    text_record,
)
from tests.gateway_process import eventually

SOURCE = "test.ScriptedSourceConnector"
SINK = "ScriptedSink"


def once(error: BaseException) -> Callable[[], None]:
    """Fails the first time."""
    left = [error]

    def fail() -> None:
        if left:
            raise left.pop()

    return fail


def kafka_offset(topic: str, partition: int, offset: int | None) -> tuple[Any, Any]:
    place = {"kafka_topic": topic, "kafka_partition": partition}
    return place, None if offset is None else {"kafka_offset": offset}


def offsets_of(it: Harness, name: str) -> dict[int, int]:
    return {
        each["partition"]["kafka_partition"]: each["offset"]["kafka_offset"]
        for each in it.offsets.shown(name)
    }


class TestSinks:
    @pytest.mark.parametrize("where", ["flush", "put"])
    def test_after_a_failure_nothing_is_committed(
        self, broker: EmbeddedBroker, tmp_path: Path, topic_name: str, where: str
    ) -> None:
        script = Scripted()
        produce(broker.bootstrap, topic_name, b"1", b"2")
        seconds = 0.2 if where == "flush" else 60.0
        if where == "flush":
            # Errors of fsync are reported once: the next one succeeds.
            script.on["flush"] = once(OSError(5, "EIO"))
        with harness(broker.bootstrap, tmp_path, scripted_sink(script), offset_flush_seconds=seconds) as it:
            it.create(topic_name, connector_class=SINK, topics=topic_name)
            eventually(lambda: len(script.taken) == 2, "taken", SECONDS)
            if where == "put":
                script.on["put"] = once(OSError(5, "EIO"))
                produce(broker.bootstrap, topic_name, b"3")
            it.wait_states(topic_name, "RUNNING", "FAILED")
            eventually(lambda: "stop" in script.events, "the task has ended", SECONDS)
            assert script.events.count("flush") == (1 if where == "flush" else 0)
            assert it.offsets.shown(topic_name) == []

    def test_an_error_in_a_callback_fails_the_task(
        self, broker: EmbeddedBroker, tmp_path: Path, topic_name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The worker's own settings are not validated: such a consumer refuses the whole assignment."""
        produce(broker.bootstrap, topic_name, b"1")
        real = group_reading.open_member
        strategy = {"partition.assignment.strategy": "cooperative-sticky"}
        monkeypatch.setattr(group_reading, "open_member", lambda *given, **_: real(*given, more=strategy))
        with harness(broker.bootstrap, tmp_path, scripted_sink(Scripted())) as it:
            it.create(topic_name, connector_class=SINK, topics=topic_name)
            it.wait_states(topic_name, "RUNNING", "FAILED")
            assert "Erroneous state" in it.trace(topic_name)

    def test_records_of_partitions_lost_within_a_poll_are_dropped(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Message:
            def __init__(self, partition: int) -> None:
                self.place = ("t", partition)

            def error(self) -> None:
                return None

            def topic(self) -> str:
                return "t"

            def partition(self) -> int:
                return self.place[1]

        class Consumer:
            held = (0, 1)

            def poll(self, _timeout: float) -> Message:
                return Message(0)

            def consume(self, _most: int, _timeout: float) -> list[Message]:
                reader._revoked(self, [Place(0), Place(1)])  # type: ignore[arg-type]
                self.held = (1,)
                return [Message(0), Message(1)]

            def assignment(self) -> list[Any]:
                return [Place(each) for each in self.held]

            def unassign(self) -> None: ...

        class Place:
            def __init__(self, partition: int) -> None:
                self.topic, self.partition = "t", partition

        monkeypatch.setattr(group_reading, "open_member", lambda *_, **__: Consumer())
        lost: list[Any] = []
        reader = GroupReader("", "g", on_lost=lost.extend)
        found = [each.partition() for each in reader.poll(10, 0)]
        assert (found, lost) == ([1], [("t", 0), ("t", 1)])

    def test_what_came_early_from_a_partition_goes_with_it(
        self, broker: EmbeddedBroker, tmp_path: Path, topic_name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """While a task asks for its records again, its partitions go: nothing of them is put or committed."""
        script = Scripted()
        produce(broker.bootstrap, topic_name, b"1")
        script.on["put"] = once(RetriableError("later"))
        commits: list[dict[Any, int]] = []
        real_poll, real_commit = GroupReader.poll, GroupReader.commit
        asked: list[int] = []

        def poll(self: GroupReader, most: int, timeout: float) -> Any:
            if most == 1:
                asked.append(most)
                self._on_lost([(topic_name, 0)])
                self._consumer.unassign()
                return []
            return real_poll(self, most, timeout) if not asked else []

        def commit(self: GroupReader, positions: Any) -> bool:
            commits.append(dict(positions))
            return real_commit(self, positions)

        monkeypatch.setattr(GroupReader, "poll", poll)
        monkeypatch.setattr(GroupReader, "commit", commit)
        with harness(broker.bootstrap, tmp_path, scripted_sink(script)) as it:
            it.create(topic_name, connector_class=SINK, topics=topic_name)
            eventually(lambda: bool(asked), "the task is asked again", SECONDS)
            it.service.set_target(topic_name, "STOPPED")
            it.wait_states(topic_name, "STOPPED")
        assert (script.taken, commits) == ([], [])


class TestTasks:
    def test_a_task_whose_trace_cannot_be_shown_is_failed(
        self, broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def unprintable(*_: object) -> str:
            raise AttributeError("__suppress_context__")

        monkeypatch.setattr("headrace.connect.worker.task_runner.traceback.format_exc", unprintable)
        script = Scripted()
        script.on["poll"] = once(ValueError("odd"))
        with harness(broker.bootstrap, tmp_path, scripted_source(script)) as it:
            it.create("odd", connector_class=SOURCE)
            it.wait_states("odd", "RUNNING", "FAILED")
            assert "ValueError('odd')" in it.trace("odd")

    def test_a_failed_source_keeps_what_the_log_has_and_is_not_told(
        self, broker: EmbeddedBroker, tmp_path: Path, topic_name: str
    ) -> None:
        script = Scripted()
        script.to_give = [[text_record(topic_name, "1", 1)]]
        script.on["poll"] = lambda: None if script.to_give else once(ValueError("no more"))()
        with harness(broker.bootstrap, tmp_path, scripted_source(script), offset_flush_seconds=60.0) as it:
            it.create("s", connector_class=SOURCE)
            it.wait_states("s", "RUNNING", "FAILED")
            assert it.parts.offsets.offset("s", {"p": 1}) == {"o": 1}
        assert "commit" not in script.events

    def test_a_source_is_not_told_of_a_commit_if_not_all_was_delivered(
        self, broker: EmbeddedBroker, tmp_path: Path, topic_name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        script = Scripted()
        script.to_give = [[text_record(topic_name, "1", 1)], [text_record(topic_name, "2", 2)]]
        with harness(broker.bootstrap, tmp_path, scripted_source(script), offset_flush_seconds=60.0) as it:
            writes: list[int] = []
            write = SourceRunner._write

            def second_fails(self: SourceRunner, pending: Any) -> bool:
                writes.append(1)
                return write(self, pending) if len(writes) == 1 else False

            monkeypatch.setattr(SourceRunner, "_write", second_fails)
            it.create("s", connector_class=SOURCE)
            eventually(lambda: len(writes) == 2, "both polls", SECONDS)
            it.service.set_target("s", "STOPPED")
            it.wait_states("s", "STOPPED")
            assert it.parts.offsets.offset("s", {"p": 1}) == {"o": 1}
        assert "commit" not in script.events

    def test_an_abandoned_task_commits_nothing_more(
        self, broker: EmbeddedBroker, tmp_path: Path, topic_name: str
    ) -> None:
        """Not even within a commit that it has begun."""
        script, begun, release = Scripted(), threading.Event(), threading.Event()
        script.to_give = [
            [
                text_record(topic_name, "1", None, source_partition={"p": number}, source_offset={"o": 1})
                for number in range(3)
            ]
        ]
        with harness(broker.bootstrap, tmp_path, scripted_source(script), graceful_seconds=0.2) as it:
            real = it.parts.offsets.put

            def put(*given: Any) -> None:
                begun.set()
                release.wait(SECONDS)
                real(*given)

            it.parts.offsets.put = put  # type: ignore[method-assign]
            it.create("s", connector_class=SOURCE)
            assert begun.wait(SECONDS)
            it.service.delete("s")
            release.set()
            eventually(lambda: "stop" in script.events, "the task came back", SECONDS)
            assert len(it.parts.offsets.offsets("s")) == 1

    def test_topics_come_back_after_a_reset(
        self, broker: EmbeddedBroker, tmp_path: Path, topic_name: str
    ) -> None:
        with harness(broker.bootstrap, tmp_path) as it:
            it.create("g", connector_class="Generator", topic=topic_name, rate="50")
            eventually(lambda: it.service.topics("g") == [topic_name], "the topic", SECONDS)
            it.service.forget_topics("g")
            eventually(lambda: it.service.topics("g") == [topic_name], "the topic again", SECONDS)

    def test_more_tasks_than_a_worker_can_have_are_never_made(
        self, broker: EmbeddedBroker, tmp_path: Path
    ) -> None:
        asked: list[int] = []

        def plan(config: Any, most: int) -> list[Any]:
            asked.append(most)
            return [config]

        with harness(broker.bootstrap, tmp_path, scripted_source(Scripted(), task_configs=plan)) as it:
            with pytest.raises(HeadraceError, match="no more than 1000"):
                it.create("many", connector_class=SOURCE, tasks_max="100000000")
            # By another worker, or before there was a limit.
            it.parts.configs.put("many", {"connector.class": SOURCE, "tasks.max": "100000000"}, "STARTED")
            it.wait_states("many", "RUNNING", "RUNNING")
        assert set(asked) == {1000}


class TestOffsets:
    @pytest.fixture
    def places(self, broker: EmbeddedBroker, topic_name: str) -> str:
        """A topic whose two partitions a group has read."""
        Cluster(broker.bootstrap).create_topic(topic_name, partitions=2, replicas=1)
        GroupOffsets(broker.bootstrap).set(
            f"connect-{topic_name}", {(topic_name, 0): 10, (topic_name, 1): 20}
        )
        return topic_name

    @pytest.mark.parametrize(
        ("topic", "partition"), [(None, 99_999_999_999), (None, 2), ("nosuch", 0), ("x y/z", 0)]
    )
    def test_a_change_that_cannot_be_made_changes_nothing(
        self, broker: EmbeddedBroker, tmp_path: Path, places: str, topic: str | None, partition: int
    ) -> None:
        with harness(broker.bootstrap, tmp_path, scripted_sink(Scripted())) as it:
            it.service.create(places, {"connector.class": SINK, "topics": places}, "STOPPED")
            wanted = [kafka_offset(places, 0, None), kafka_offset(topic or places, partition, 5)]
            with pytest.raises(HeadraceError, match="partition"):
                it.offsets.alter(places, wanted)
            assert offsets_of(it, places) == {0: 10, 1: 20}

    def test_offsets_are_put_back_if_the_log_refuses_the_new_ones(
        self, broker: EmbeddedBroker, tmp_path: Path, places: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = GroupOffsets.set
        refusal = once(HeadraceError("log_unavailable", "not now"))

        def refuse(self: GroupOffsets, group: str, positions: Any) -> None:
            refusal()
            real(self, group, positions)

        with harness(broker.bootstrap, tmp_path, scripted_sink(Scripted())) as it:
            it.service.create(places, {"connector.class": SINK, "topics": places}, "STOPPED")
            monkeypatch.setattr(GroupOffsets, "set", refuse)
            with pytest.raises(HeadraceError, match="not now"):
                it.offsets.alter(places, [kafka_offset(places, 0, None)])
            assert offsets_of(it, places) == {0: 10, 1: 20}
            it.offsets.alter(places, [kafka_offset(places, 0, None), kafka_offset(places, 1, 3)])
            assert offsets_of(it, places) == {1: 3}

    def test_a_connector_that_is_resumed_meanwhile_keeps_its_offsets(
        self, broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with harness(broker.bootstrap, tmp_path, scripted_source(Scripted())) as it:
            it.service.create("s", {"connector.class": SOURCE}, "STOPPED")
            it.wait_states("s", "STOPPED")
            real = it.service.wait_stopped

            def resumed(wish: Any) -> bool:
                found = real(wish)
                it.service.set_target("s", "STARTED")
                return found

            monkeypatch.setattr(it.service, "wait_stopped", resumed)
            with pytest.raises(HeadraceError, match="meanwhile") as refused:
                it.offsets.alter("s", [({"p": 1}, {"o": 1})])
            assert refused.value.code == "connector_busy"
            assert it.offsets.shown("s") == []


def test_a_record_that_nobody_can_read_does_not_end_the_following(
    broker: EmbeddedBroker, tmp_path: Path, topic_name: str
) -> None:
    with harness(broker.bootstrap, tmp_path, scripted_source(Scripted()), topics=topic_name) as it:
        for log in ("configs", "status", "offsets"):
            produce(broker.bootstrap, f"{topic_name}_connect_{log}", b"[" * 100_000)
        time.sleep(0.5)
        it.create("after", connector_class=SOURCE)
        it.wait_states("after", "RUNNING", "RUNNING")
        it.parts.offsets.put("after", {"p": 1}, {"o": 1})
        assert it.service.trouble() == ""
