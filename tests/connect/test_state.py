"""What is wanted, what became of it, and how far sources are: folds of records, whatever their order."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from headrace.connect.state.configs import ConfigLog, ConnectorWish
from headrace.connect.state.logs import FileLog, Fold, MemoryLog
from headrace.connect.state.source_offsets import OffsetLog
from headrace.connect.state.statuses import Status, StatusLog
from headrace.core.errors import HeadraceError


class Recording(MemoryLog):
    """A log whose records can be read again, compacted or not."""

    def __init__(self, holds: str, fold: Fold) -> None:
        super().__init__(holds, fold)
        self.records: list[tuple[bytes, bytes | None]] = []

    def append(self, key: bytes, value: bytes | None) -> bool:
        self.records.append((key, value))
        return super().append(key, value)

    def compacted(self) -> list[tuple[bytes, bytes | None]]:
        newest = {key: place for place, (key, _) in enumerate(self.records)}
        return [
            record for place, record in enumerate(self.records) if newest[record[0]] == place and record[1]
        ]


def recorded() -> tuple[ConfigLog, Recording]:
    made: list[Recording] = []

    def make(holds: str, fold: Fold) -> Recording:
        made.append(Recording(holds, fold))
        return made[0]

    return ConfigLog(make), made[0]


def replayed(records: list[tuple[bytes, bytes | None]]) -> dict[str, ConnectorWish]:
    log, memory = recorded()
    for key, value in records:
        memory.append(key, value)
    return log.wishes()


def known(wishes: dict[str, ConnectorWish]) -> dict[str, tuple[object, ...]]:
    return {name: (dict(wish.config), wish.target, wish.tasks) for name, wish in wishes.items()}


def test_a_compacted_log_says_the_same_as_the_whole_one() -> None:
    chance = random.Random(5)
    for _ in range(30):
        log, memory = recorded()
        for step in range(40):
            name = chance.choice(["a", "b", "a-1"])
            exists = log.wish(name) is not None
            action = chance.choice(["put", "put", "target", "tasks", "delete", "restart"])
            if action == "put":
                log.put(name, {"step": str(step)}, None if exists else chance.choice(["STARTED", "PAUSED"]))
            elif exists and action == "target":
                log.set_target(name, chance.choice(["STARTED", "PAUSED", "STOPPED"]))
            elif exists and action == "tasks":
                log.set_tasks(name, [{"task": str(step)}] * chance.randrange(4))
            elif exists and action == "restart":
                log.request_restart(name, include_tasks=True, only_failed=False)
            elif exists and action == "delete":
                log.delete(name)
        assert known(replayed(memory.records)) == known(log.wishes())
        assert known(replayed(memory.compacted())) == known(log.wishes())


def test_tasks_count_only_with_their_commit() -> None:
    log, memory = recorded()
    log.put("a", {"x": "1"}, "STARTED")
    log.set_tasks("a", [{"n": "0"}])
    memory.append(b"task-a-0", json.dumps({"properties": {"n": "new"}}).encode())
    memory.append(b"task-a-1", json.dumps({"properties": {"n": "new"}}).encode())
    assert log.wishes()["a"].tasks == ({"n": "0"},)
    memory.append(b"commit-a", b'{"tasks": 2}')
    assert [task["n"] for task in log.wishes()["a"].tasks] == ["new", "new"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\xff\xfe", b"{}"),
        (b"connector-a", b"no json"),
        (b"connector-a", b"[]"),
        (b"connector-a", b'{"properties": 3}'),
        (b"target-state-a", b'{"state": "FLYING"}'),
        (b"task-a-x", b'{"properties": {}}'),
        (b"commit-a", b"{}"),
        (b"session-key", b'{"key": "of Kafka\'s own worker"}'),
        (b"", None),
    ],
)
def test_records_that_nobody_understands_change_nothing(key: bytes, value: bytes | None) -> None:
    log, memory = recorded()
    log.put("a", {"x": "1"}, "PAUSED")
    before = known(log.wishes())
    memory.append(key, value)
    assert known(log.wishes()) == before


def test_kafka_s_own_records_are_understood() -> None:
    log, memory = recorded()
    memory.append(b"target-state-k", b'{"state":"PAUSED","state.v2":"STOPPED"}')
    memory.append(b"connector-k", b'{"properties":{"connector.class":"FileStreamSource","name":"k"}}')
    found = log.wishes()["k"]
    assert (found.target, found.config["connector.class"]) == ("STOPPED", "FileStreamSource")


def test_a_configuration_that_no_message_holds_is_refused() -> None:
    log, _ = recorded()
    with pytest.raises(HeadraceError, match="larger than"):
        log.put("a", {"x": "y" * 600_000}, "STARTED")
    assert log.wishes() == {}


def test_statuses_and_topics_come_and_go() -> None:
    statuses = StatusLog(MemoryLog)
    statuses.put_connector("a-1", Status(state="RUNNING", worker_id="w"))
    statuses.put_task("a-1", 0, Status(state="FAILED", worker_id="w", trace="x" * 100_000))
    statuses.put_topic("a-1", 0, "t:connector-x")
    statuses.put_topic("a-1", 0, "t")
    assert statuses.tasks("a-1")[0].state == "FAILED"
    assert len(statuses.tasks("a-1")[0].trace or "") == 50_000
    assert "t" in statuses.topics("a-1")
    statuses.remove("a-1")
    assert (statuses.connector("a-1"), statuses.tasks("a-1"), statuses.topics("a-1")) == (None, {}, [])


def test_offsets_in_a_file_survive_and_a_foreign_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    offsets = OffsetLog(FileLog.at(path))
    offsets.start()
    offsets.put("ä", {"filename": "f", "a": 1}, {"position": 3})
    offsets.put("ä", {"filename": "g"}, {"position": 4})
    offsets.put("ä", {"filename": "g"}, None)
    again = OffsetLog(FileLog.at(path))
    again.start()
    assert again.offsets("ä") == [({"filename": "f", "a": 1}, {"position": 3})]
    assert again.offset("ä", {"a": 1, "filename": "f"}) == {"position": 3}
    path.write_bytes(b"\xac\xed\x00\x05sr\x00\x11java.util.HashMap")
    with pytest.raises(HeadraceError, match="another program"):
        OffsetLog(FileLog.at(path)).start()
