"""A disk that is full under a table, under Spark's checkpoints, or where files for a bucket are made: FAILED
with the cause, nobody else is affected, and nothing is lost when there is room again.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.end_to_end.test_lake_faults import in_bucket, told
from tests.lake_checking import Comparison, compared
from tests.lake_connectors import PLAIN_JSON, Connectors, s3_options
from tests.running_platform import Platform, event, new_prefix, wait_for
from tests.s3_server import S3Server

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk"),
]

# More than a megabyte, even after compression.
LINES = 400


class SmallDisk:
    """A file system of its own on a folder, with next to no room."""

    def __init__(self, folder: Path, kilobytes: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        size = f"size={kilobytes}k,mode=0755"
        subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", folder], check=True)

    def fill(self, megabytes: int) -> None:
        (self._folder / "filler").write_bytes(bytes(megabytes << 20))

    def make_room(self) -> None:
        subprocess.run(["mount", "-o", "remount,size=256m", self._folder], check=True)

    def remove(self) -> None:
        # Lazily: Spark may have files of it open.
        subprocess.run(["umount", "-l", self._folder], check=True)


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[SmallDisk]:
    disk = SmallDisk(folder, kilobytes)
    try:
        yield disk
    finally:
        disk.remove()


def send(connectors: Connectors, topic: str, first: int, count: int) -> None:
    """Each with 10 KB that cannot be compressed."""
    chance = random.Random(first)
    values = ({"n": number, "text": chance.randbytes(5_000).hex()} for number in range(first, first + count))
    connectors.send(topic, values)


def expect_all(
    platform: Platform, topic: str, table: Path | str, options: dict[str, str] | None
) -> Comparison:
    def is_right() -> Comparison | None:
        found = compared(platform.settings.bootstrap, topic, table, options)
        assert not found.is_hopeless, found
        return found if found.is_right else None

    found: Comparison = wait_for(is_right, "every record is there", seconds=90, pause_seconds=0.5)
    return found


def expect_that_others_work(platform: Platform, connectors: Connectors) -> None:
    """The events API, the log, the statements, and other tables."""
    prefix = new_prefix()
    assert platform.post(event(f"{prefix}-0")).status_code == 200
    platform.wait_in_lake(prefix, 1)
    topic = connectors.topic("elsewhere")
    connectors.send(topic, [{"n": 1}])
    connectors.sink(topic, PLAIN_JSON)
    connectors.wait_rows(connectors.table(topic), 1, seconds=60)


@pytest.mark.parametrize("what", ["a table", "a new table", "the checkpoint", "the buffer of a bucket"])
def test_it_is_told_and_goes_on_when_there_is_room(
    platform: Platform, connectors: Connectors, s3_server: S3Server, what: str
) -> None:
    settings = platform.settings
    topic = connectors.topic("full")
    table: Path | str = settings.lake_dir / "small" / topic
    options: dict[str, str] | None = None
    pipeline = settings.data_dir / "pipeline"
    folder, kilobytes = {
        "a table": (settings.lake_dir / "small", 1024),
        # Not even for its first commit.
        "a new table": (settings.lake_dir / "small", 4),
        "the checkpoint": (pipeline / "checkpoints" / f"{topic}-sink.{topic}", 8),
        "the buffer of a bucket": (pipeline / "scratch" / "s3", 100 * 1024),
    }[what]
    with small_disk(folder, kilobytes) as disk:
        send(connectors, topic, 0, 1)
        if what == "the buffer of a bucket":
            bucket = s3_server.new_bucket().bucket
            table, options = f"s3://{bucket}/topics/{topic}", s3_options(s3_server.endpoint)
            name = in_bucket(connectors, s3_server.endpoint, bucket, topic)
        else:
            name = connectors.sink(topic, {"topics.dir": "small", **PLAIN_JSON})
        if what in ("a table", "the buffer of a bucket"):
            expect_all(platform, topic, table, options)
        if what == "the buffer of a bucket":
            disk.fill(60)
        send(connectors, topic, 1, LINES)
        # Hadoop looks for a folder with room before it begins a file for a bucket.
        cause = "No space left" if options is None else "Could not find any valid local directory"
        trace = connectors.wait_state(name, "FAILED", seconds=60)["trace"]
        assert cause in trace, trace
        (problem,) = wait_for(lambda: told(platform, topic), "/health tells it", seconds=60)
        assert cause in problem
        expect_that_others_work(platform, connectors)
        found = compared(settings.bootstrap, topic, table, options)
        assert not found.is_hopeless, found
        disk.make_room()
        send(connectors, topic, LINES + 1, 1)
        assert expect_all(platform, topic, table, options).records == LINES + 2
        connectors.delete(name)
        wait_for(lambda: not told(platform, topic), "nobody is at the disk any more", seconds=60)
