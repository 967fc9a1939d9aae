"""Topics, settings, ids and the upkeep of a data folder."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from headrace.core.errors import HeadraceError
from headrace.log.config import LogConfig
from headrace.log.errors import OffsetOutOfRangeError, StorageError, TopicExistsError, UnknownTopicError
from headrace.log.folder.data_folder import DataFolder
from headrace.testing.faulty_filesystem import FaultyFileSystem
from tests.log.batches import NOW, batch, contents, open_folder, open_log

SIZE = len(batch(b"x" * 10))
CONFIG = LogConfig(segment_bytes=SIZE, file_delete_delay_ms=1000)


def names(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir()}


# Topics


def test_topics_come_back(tmp_path: Path) -> None:
    chosen = uuid.uuid4()
    with open_folder(tmp_path) as folder:
        made = folder.create_topic("a", 2, {"retention.ms": "7"}, LogConfig(retention_ms=7), topic_id=chosen)
        other = folder.create_topic("b.c-d", 1, {}, LogConfig())
        assert (made.id, len(made.partitions)) == (chosen, 2)
        assert other.id.version == 4
        cluster_id = folder.cluster_id
    assert len(cluster_id) == 22
    with open_folder(tmp_path) as folder:
        assert folder.cluster_id == cluster_id
        assert {name: topic.id for name, topic in folder.topics.items()} == {"a": chosen, "b.c-d": other.id}
        assert folder.topics_by_id[chosen] is folder.topics["a"]
        assert folder.topics["a"].overrides == {"retention.ms": "7"}
        assert [log.name for log in folder.topics["a"].partitions] == ["a-0", "a-1"]


def test_the_settings_of_a_topic_come_from_its_overrides(tmp_path: Path) -> None:
    with open_folder(tmp_path) as folder:
        folder.create_topic("a", 1, {"segment.bytes": "500"}, LogConfig(segment_bytes=500))
        folder.set_overrides("a", {"segment.bytes": "600"}, LogConfig(segment_bytes=600))
        assert folder.topics["a"].partitions[0].config.segment_bytes == 600
    config_of = lambda overrides: LogConfig(segment_bytes=int(overrides["segment.bytes"]))  # noqa: E731
    with DataFolder.open(tmp_path, config_of=config_of) as folder:
        assert folder.topics["a"].partitions[0].config.segment_bytes == 600


def test_a_folder_as_kafka_has_it(tmp_path: Path) -> None:
    with open_folder(tmp_path) as folder:
        topic = folder.create_topic("a", 1, {}, LogConfig(), topic_id=uuid.UUID(int=1))
        topic.partitions[0].append(batch(b"x"), now_ms=NOW)
    assert names(tmp_path / "a-0") == {
        "00000000000000000000.log",
        "00000000000000000000.index",
        "00000000000000000000.timeindex",
        "00000000000000000001.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    }
    metadata = (tmp_path / "a-0" / "partition.metadata").read_text()
    assert metadata == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"
    points = (tmp_path / "recovery-point-offset-checkpoint").read_text()
    assert points == "0\n1\na 0 1\n"


def test_more_partitions(tmp_path: Path) -> None:
    with open_folder(tmp_path) as folder:
        folder.create_topic("a", 1, {}, CONFIG)
        folder.topics["a"].partitions[0].append(batch(b"x"), now_ms=NOW)
        folder.add_partitions("a", 3)
        assert [log.end_offset for log in folder.topics["a"].partitions] == [1, 0, 0]
        assert folder.topics["a"].partitions[2].config == CONFIG
    with open_folder(tmp_path) as folder:
        assert [log.end_offset for log in folder.topics["a"].partitions] == [1, 0, 0]


def test_names_that_are_there_or_not(tmp_path: Path) -> None:
    with open_folder(tmp_path) as folder:
        folder.create_topic("a", 1, {}, LogConfig())
        with pytest.raises(TopicExistsError):
            folder.create_topic("a", 1, {}, LogConfig())
        with pytest.raises(UnknownTopicError):
            folder.delete_topic("b")
        with pytest.raises(UnknownTopicError):
            folder.add_partitions("b", 2)
        with pytest.raises(UnknownTopicError):
            folder.set_overrides("b", {}, LogConfig())


def test_deleting_a_topic(tmp_path: Path) -> None:
    with open_folder(tmp_path) as folder:
        folder.create_topic("a", 2, {}, CONFIG)
        log = folder.topics["a"].partitions[0]
        log.append(batch(b"old"), now_ms=NOW)
        folder.topics["a"].partitions[1].append(batch(b"old"), now_ms=NOW)
        folder.checkpoint(NOW)
        folder.delete_topic("a")
        assert folder.topics == {}
        assert folder.topics_by_id == {}
        assert len([name for name in names(tmp_path) if name.endswith("-delete")]) == 2
        with pytest.raises(StorageError):
            log.append(batch(b"late"), now_ms=NOW)
        again = folder.create_topic("a", 1, {}, CONFIG)
        assert contents(again.partitions[0]) == []
        again.partitions[0].append(batch(b"new"), now_ms=NOW)
        folder.checkpoint(NOW + 999)
        assert len([name for name in names(tmp_path) if name.endswith("-delete")]) == 2
        folder.checkpoint(NOW + 1000)
        assert {name for name in names(tmp_path) if name.startswith("a-")} == {"a-0"}


def test_the_removal_of_a_deleted_topic_spares_the_next_one_of_its_name(tmp_path: Path) -> None:
    with open_folder(tmp_path) as folder:
        folder.create_topic("a", 1, {}, CONFIG)
        folder.delete_topic("a")
        log = folder.create_topic("a", 1, {}, CONFIG).partitions[0]
        log.append(batch(b"new"), now_ms=NOW)
        folder.housekeep(NOW + 1000)
        assert [value for _, _, value in contents(log)] == [b"new"]
    with open_folder(tmp_path) as folder:
        assert len(contents(folder.topics["a"].partitions[0])) == 1


def test_a_long_name_can_be_deleted(tmp_path: Path) -> None:
    with open_folder(tmp_path) as folder:
        topic = folder.create_topic("n" * 249, 1, {}, CONFIG)
        topic.partitions[0].append(batch(b"x"), now_ms=NOW)
        folder.delete_topic("n" * 249)
        folder.housekeep(NOW + 1000)
        assert not [name for name in names(tmp_path) if name.startswith("n")]


def test_a_deletion_that_was_broken_off_is_completed(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path, CONFIG, filesystem=disk)
    log.append(batch(b"old"), now_ms=NOW)
    before = dict.fromkeys(names(log.folder))
    content = {name: (log.folder / name).read_bytes() for name in before}
    folder.delete_topic("events")
    disk.kill()
    # As if a power loss came after the catalogue was written and before the folder was renamed.
    log.folder.mkdir()
    for name, data in content.items():
        (log.folder / name).write_bytes(data)
    with open_folder(tmp_path) as folder:
        assert folder.topics == {}
        assert not log.folder.exists()
        assert not [name for name in names(tmp_path) if name.endswith("-delete")]


def test_folders_that_are_not_ours_are_not_touched(tmp_path: Path) -> None:
    with open_folder(tmp_path):
        pass
    for name in ("stray-0", "notes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "00000000000000000000.log").write_bytes(b"precious")
    with open_folder(tmp_path) as folder:
        with pytest.raises(StorageError):
            folder.create_topic("stray", 1, {}, LogConfig())
        assert "stray" not in folder.topics
    with open_folder(tmp_path) as folder:
        assert folder.topics == {}
    for name in ("stray-0", "notes"):
        assert (tmp_path / name / "00000000000000000000.log").read_bytes() == b"precious"


def test_without_its_catalogue_a_folder_with_logs_is_not_opened(tmp_path: Path) -> None:
    with open_folder(tmp_path) as folder:
        folder.create_topic("a", 1, {}, LogConfig()).partitions[0].append(batch(b"x"), now_ms=NOW)
    content = (tmp_path / "catalogue.json").read_bytes()
    for damaged in (b"", b"{}", content[:-5], json.dumps({"version": 2}).encode()):
        (tmp_path / "catalogue.json").write_bytes(damaged)
        with pytest.raises(HeadraceError) as raised:
            open_folder(tmp_path)
        assert raised.value.code == "data_dir_damaged"
    (tmp_path / "catalogue.json").unlink()
    with pytest.raises(HeadraceError) as raised:
        open_folder(tmp_path)
    assert raised.value.code == "data_dir_damaged"
    (tmp_path / "catalogue.json").write_bytes(content)
    with open_folder(tmp_path) as folder:
        assert set(folder.topics) == {"a"}


# Broker-wide data


def test_settings_of_the_broker_and_producer_ids(tmp_path: Path) -> None:
    with open_folder(tmp_path) as folder:
        assert folder.broker_overrides == {}
        folder.set_broker_overrides({"log.retention.ms": "5"})
        assert folder.reserve_producer_ids(1000) == range(1000)
    with open_folder(tmp_path) as folder:
        assert folder.broker_overrides == {"log.retention.ms": "5"}
        assert folder.reserve_producer_ids(5) == range(1000, 1005)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with open_folder(tmp_path):
        with pytest.raises(HeadraceError) as raised:
            open_folder(tmp_path)
        assert raised.value.code == "data_dir_in_use"
    with open_folder(tmp_path):
        pass


def test_the_lock_of_a_process_that_was_killed_is_free(tmp_path: Path) -> None:
    program = (
        "import sys, time; from headrace.log.folder.data_folder import DataFolder;"
        "folder = DataFolder.open(sys.argv[1]); print('open', flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        with pytest.raises(HeadraceError):
            open_folder(tmp_path)
        process.kill()
    with open_folder(tmp_path):
        pass


# Retention and deleted records


def test_retention_deletes_files_after_the_delay(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=SIZE, retention_ms=100, file_delete_delay_ms=1000)
    folder, log = open_log(tmp_path, config)
    for ago in (300, 200, 0):
        log.append(batch(b"x" * 10, timestamps=[NOW - ago]), now_ms=NOW)
    folder.housekeep(NOW)
    assert (log.start_offset, log.segments.bases) == (2, [2])
    assert len(list(log.folder.glob("*.deleted"))) == 6
    assert not list(log.folder.glob("00000000000000000001.snapshot"))
    folder.checkpoint(NOW + 999)
    assert len(list(log.folder.glob("*.deleted"))) == 6
    folder.checkpoint(NOW + 1000)
    assert not list(log.folder.glob("*.deleted"))
    # Everything is too old now: a new segment begins, and the end stays the same.
    folder.housekeep(NOW + 101)
    assert (log.start_offset, log.end_offset, log.segments.bases) == (3, 3, [3])
    folder.close()
    folder, log = open_log(tmp_path, config)
    assert (log.start_offset, log.end_offset) == (3, 3)
    assert log.append(batch(b"y"), now_ms=NOW).base_offset == 3
    folder.close()


def test_records_without_a_time_are_as_old_as_their_file(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path, LogConfig(segment_bytes=SIZE, retention_ms=1000))
    for _ in range(2):
        log.append(batch(b"x" * 10, timestamps=[-1]), now_ms=NOW)
    written_ms = int((log.folder / "00000000000000000000.log").stat().st_mtime * 1000)
    assert log.apply_retention(written_ms + 900) == 0
    assert log.apply_retention(written_ms + 3000) == 2
    folder.close()


@pytest.mark.parametrize("policy", [{"compact"}, {"compact", "delete"}])
def test_retention_follows_the_cleanup_policy(tmp_path: Path, policy: set[str]) -> None:
    folder, log = open_log(tmp_path, LogConfig(segment_bytes=SIZE))
    for _ in range(3):
        log.append(batch(b"x" * 10), now_ms=NOW)
    log.configure(LogConfig(retention_ms=0, cleanup_policy=frozenset(policy)))
    assert log.apply_retention(NOW + 1000) == (3 if "delete" in policy else 0)
    folder.close()


def test_what_is_not_synced_is_not_deleted(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path, LogConfig(segment_bytes=SIZE, retention_ms=0), durable=True)
    for _ in range(3):
        log.append(batch(b"x" * 10), now_ms=NOW)
    assert log.apply_retention(NOW + 1000) == 0
    log.flush()
    assert log.apply_retention(NOW + 1000) == 3
    folder.close()


def test_deleted_records_stay_deleted(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path, LogConfig(segment_bytes=2 * SIZE + 20), filesystem=disk)
    for _ in range(3):
        log.append(batch(b"x" * 5, b"y" * 5), now_ms=NOW)
    assert log.delete_records_before(3) == 3
    assert log.delete_records_before(1) == 3
    for offset in (-1, 7):
        with pytest.raises(OffsetOutOfRangeError):
            log.delete_records_before(offset)
    folder, log = open_log(tmp_path, filesystem=disk.kill())
    assert (log.start_offset, log.end_offset) == (3, 6)
    assert [offset for offset, _, _ in contents(log)] == [3, 4, 5]
    with pytest.raises(OffsetOutOfRangeError):
        log.read(2, 100, at_least_one=True)
    # The batch is returned as a whole, as in Kafka.
    result = log.read(3, 1000, at_least_one=True)
    assert result.ranges is not None
    assert result.ranges.position > 0
    assert log.delete_records_before(6) == 6
    folder.close()
    folder, log = open_log(tmp_path)
    assert (log.start_offset, log.end_offset) == (6, 6)
    folder.close()


# Upkeep


def test_closed_segments_are_synced_in_the_background(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path, LogConfig(segment_bytes=SIZE))
    for _ in range(4):
        log.append(batch(b"x" * 10), now_ms=NOW)
    assert log.flushed_offset == 0
    deadline = time.monotonic() + 120
    while log.flushed_offset < 3 and time.monotonic() < deadline:
        folder.checkpoint(NOW)
        time.sleep(0.001)
    assert log.flushed_offset == 3
    folder.close()


def test_a_checkpoint_writes_only_if_something_happened(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    folder, log = open_log(tmp_path, filesystem=disk)
    folder.checkpoint(NOW)
    before = disk.writes
    folder.checkpoint(NOW)
    folder.housekeep(NOW)
    assert disk.writes == before
    log.append(batch(b"x"), now_ms=NOW)
    folder.checkpoint(NOW)
    assert disk.writes > before
    folder.close()


def test_producers_are_forgotten_after_a_day(tmp_path: Path) -> None:
    folder, log = open_log(tmp_path)
    log.append(batch(b"x", producer_id=1, producer_epoch=0, sequence=0), now_ms=NOW)
    folder.housekeep(NOW + 86_400_000 - 1)
    assert len(log.parts.producers) == 1
    folder.housekeep(NOW + 86_400_000)
    assert len(log.parts.producers) == 0
    folder.close()


def test_a_failure_of_one_log_does_not_keep_others_from_upkeep(tmp_path: Path) -> None:
    disk = FaultyFileSystem()
    with open_folder(tmp_path, filesystem=disk) as folder:
        config = LogConfig(segment_bytes=SIZE, retention_ms=0, file_delete_delay_ms=0)
        logs = folder.create_topic("a", 3, {}, config).partitions
        for log in logs:
            log.append(batch(b"x" * 10), now_ms=NOW)
            log.append(batch(b"x" * 10), now_ms=NOW)
        for path in logs[0].folder.glob("*.log"):
            path.rename(path.with_suffix(".hidden"))
        with pytest.raises(StorageError):
            folder.housekeep(NOW + 10)
        assert [log.start_offset for log in logs[1:]] == [2, 2]
        for path in logs[0].folder.glob("*.hidden"):
            path.rename(path.with_suffix(".log"))
        folder.housekeep(NOW + 10)
        assert logs[0].start_offset == 2
