"""Folders of partitions: making them, telling whose they are, and getting rid of them.

Byte format: `partition.metadata`, see `topic_catalogue`. Crash behaviour: a folder of another topic than
the catalogue's, left by a deletion that a crash broke off, is put aside for removal before a new one is
made. Who may call: the data folder. Never touches the folder of a partition that exists.
"""

from __future__ import annotations

import logging
import re
import uuid
from typing import Final

from headrace.log.filesystem import FileSystem, remove_file
from headrace.log.folder.topic_catalogue import read_metadata, write_metadata

_log = logging.getLogger(__name__)

DELETION_SUFFIX: Final = "-delete"
_LONGEST_NAME: Final = 255
_PARTITION: Final = re.compile(r".+-\d+")


def is_partition_folder(name: str) -> bool:
    return _PARTITION.fullmatch(name) is not None


def claim_folder(filesystem: FileSystem, parent: str, name: str, topic_id: uuid.UUID) -> bool:
    """Whether a folder that is there has the log of a partition; one of a deleted topic is put aside.

    A folder that does not say whose it is is taken: a power loss may have had what it said. Raises OSError.
    """
    path = f"{parent}/{name}"
    owner = read_metadata(filesystem, path)
    if owner is None:
        write_metadata(filesystem, path, topic_id)
    elif owner != topic_id:
        put_aside(filesystem, parent, name)
        return False
    return True


def make_folder(filesystem: FileSystem, parent: str, name: str, topic_id: uuid.UUID) -> None:
    """Make the folder of a partition that is about to be written to. Raises OSError."""
    filesystem.mkdirs(f"{parent}/{name}")
    write_metadata(filesystem, f"{parent}/{name}", topic_id)


def make_way(filesystem: FileSystem, parent: str, names: set[str]) -> None:
    """See to it that no folder has the name of a new partition. Raises OSError."""
    for name in names.intersection(filesystem.folders(parent)):
        if read_metadata(filesystem, f"{parent}/{name}") is None and filesystem.files(f"{parent}/{name}"):
            raise FileExistsError(f"{parent}/{name} holds files of nobody knows whom")
        put_aside(filesystem, parent, name)


def put_aside(filesystem: FileSystem, parent: str, name: str) -> None:
    _log.warning("%s/%s is of a deleted topic and put aside", parent, name)
    filesystem.rename(f"{parent}/{name}", f"{parent}/{doomed_name(name)}")


def doomed_name(name: str) -> str:
    suffix = f".{uuid.uuid4().hex}{DELETION_SUFFIX}"
    return name[: _LONGEST_NAME - len(suffix)] + suffix


def mark_for_deletion(filesystem: FileSystem, parent: str, name: str) -> str | None:
    """Give a folder a name that no partition has; its path now, None if it did not get one.

    A folder that keeps its name must not be removed later: it may be another topic's by then. A new topic of
    that name, or a start, sees to it.
    """
    path = f"{parent}/{name}"
    target = f"{parent}/{doomed_name(name)}"
    try:
        filesystem.rename(path, target)
    except FileNotFoundError:
        return None  # nothing was ever written to it
    except OSError as error:
        _log.warning("%s cannot be renamed: %s", path, error)
        return None
    return target


def remove_folder(filesystem: FileSystem, path: str) -> None:
    """Remove a partition's folder and the files in it. Raises OSError."""
    try:
        names = filesystem.files(path)
    except FileNotFoundError:
        return
    for name in names:
        remove_file(filesystem, f"{path}/{name}")
    filesystem.rmdir(path)
