"""How far each log of a data folder is known to be good, so that a start need not check everything.

Three files in the data folder, each with one entry per partition:

`recovery-point-offset-checkpoint`, text as written by Kafka (version 0, number of entries, then topic,
partition and offset on each line): everything before this offset was synced and survives a power loss.

`cleaner-offset-checkpoint`, in the same format: the log of a compacted topic is clean before this offset.

`written-points.json`, our own: `{"version": 1, "boot": …, "clean": …, "points": {"topic-0": [...]}}`, each
point with the fields of `Point`. Everything before a point had been written when the file was written. As
long as the machine has not rebooted since (`boot` is the kernel's boot id with the inode of `.lock`, which
a copy of the folder does not share), this data is in the page cache,
however the process ended, and need not be checked. If `clean` is true, everything was synced too and nothing
was written later, so the points are also good after a reboot.

Crash behaviour: each file is replaced as a whole. The first is synced. The last is synced only if it is
clean, as it means nothing after a power loss otherwise. A file that cannot be read counts as missing, which
costs a longer scan. Who may call: the data folder. Never opens a log.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.log.filesystem import FileSystem, read_file, write_atomically
from headrace.log.partition.written_point import Point

_log = logging.getLogger(__name__)

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
CLEANED_OFFSETS: Final = "cleaner-offset-checkpoint"
WRITTEN_POINTS: Final = "written-points.json"
_VERSION: Final = 1
_KAFKA_VERSION: Final = 0


@dataclass(slots=True)
class WrittenPoints:
    """The content of `written-points.json`."""

    boot: str = ""
    clean: bool = False
    points: dict[str, Point] = field(default_factory=dict)


def read_written_points(filesystem: FileSystem, folder: str) -> WrittenPoints:
    """Read the file; the result is empty if the file is missing or damaged."""
    try:
        content = json.loads(read_file(filesystem, f"{folder}/{WRITTEN_POINTS}"))
        if content["version"] != _VERSION:
            raise ValueError(f"version {content['version']}")
        points = {name: Point(*fields) for name, fields in content["points"].items()}
        return WrittenPoints(str(content["boot"]), content["clean"] is True, points)
    except FileNotFoundError:
        return WrittenPoints()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        _log.warning("ignoring the damaged file %s: %r", WRITTEN_POINTS, error)
        return WrittenPoints()


def write_written_points(
    filesystem: FileSystem, folder: str, written: WrittenPoints, *, sync: bool = False
) -> None:
    """Raises OSError."""
    sync = sync or written.clean
    content: dict[str, Any] = {
        "version": _VERSION,
        "boot": written.boot,
        "clean": written.clean,
        "points": written.points,
    }
    data = json.dumps(content, separators=(",", ":")).encode()
    write_atomically(filesystem, f"{folder}/{WRITTEN_POINTS}", data, sync=sync)
    if sync:
        filesystem.sync_directory(folder)


def read_offsets(filesystem: FileSystem, folder: str, name: str) -> dict[str, int]:
    """Offsets by folder name, from a file in Kafka's format; empty if the file is missing or damaged."""
    try:
        lines = read_file(filesystem, f"{folder}/{name}").decode().splitlines()
        if int(lines[0]) != _KAFKA_VERSION or int(lines[1]) != len(lines) - 2:
            raise ValueError("wrong version or number of lines")
        points = {}
        for line in lines[2:]:
            topic, partition, offset = line.split(" ")
            points[f"{topic}-{int(partition)}"] = int(offset)
        return points
    except FileNotFoundError:
        return {}
    except (ValueError, IndexError) as error:
        _log.warning("ignoring the damaged file %s: %r", name, error)
        return {}


def write_recovery_points(filesystem: FileSystem, folder: str, points: Mapping[str, int]) -> None:
    """Raises OSError."""
    write_atomically(filesystem, f"{folder}/{RECOVERY_POINTS}", _offsets_text(points), sync=True)
    filesystem.sync_directory(folder)


def write_cleaned_offsets(filesystem: FileSystem, folder: str, points: Mapping[str, int]) -> None:
    """Raises OSError. Not synced: after a power loss, logs are cleaned again."""
    write_atomically(filesystem, f"{folder}/{CLEANED_OFFSETS}", _offsets_text(points), sync=False)


def _offsets_text(points: Mapping[str, int]) -> bytes:
    lines = [str(_KAFKA_VERSION), str(len(points))]
    lines += [f"{' '.join(name.rsplit('-', 1))} {offset}" for name, offset in points.items()]
    return ("\n".join(lines) + "\n").encode()
