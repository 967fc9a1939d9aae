"""Partition folders: creating them, finding out which topic they belong to, and removing them.

Byte format: `partition.metadata`, see `topic_catalogue`. Crash behaviour: if a crash interrupted the deletion
of a topic, its folder is moved aside for removal before a new one is created. Who may call: the data folder.
Never touches the folder of an existing partition.
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
    """Whether an existing folder belongs to a partition of this topic; if it does not, move it aside.

    A folder without `partition.metadata` is claimed: a power loss may have taken that file. Raises OSError.
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
    """Create the folder of a partition before the first write. Raises OSError."""
    filesystem.mkdirs(f"{parent}/{name}")
    write_metadata(filesystem, f"{parent}/{name}", topic_id)


def make_way(filesystem: FileSystem, parent: str, names: set[str]) -> None:
    """Move folders with the names of new partitions aside. Raises OSError."""
    for name in names.intersection(filesystem.folders(parent)):
        if read_metadata(filesystem, f"{parent}/{name}") is None and filesystem.files(f"{parent}/{name}"):
            raise FileExistsError(f"{parent}/{name} contains files that are not ours")
        put_aside(filesystem, parent, name)


def put_aside(filesystem: FileSystem, parent: str, name: str) -> None:
    _log.warning("moving %s/%s aside, which belongs to a deleted topic", parent, name)
    filesystem.rename(f"{parent}/{name}", f"{parent}/{doomed_name(name)}")


def doomed_name(name: str) -> str:
    suffix = f".{uuid.uuid4().hex}{DELETION_SUFFIX}"
    return name[: _LONGEST_NAME - len(suffix)] + suffix


def mark_for_deletion(filesystem: FileSystem, parent: str, name: str) -> str | None:
    """Rename a folder for deletion. Return its new path, or None if it was not renamed.

    A folder that keeps its name must not be removed later: it may belong to another topic by then. Creating a
    topic with that name, or a restart, removes it.
    """
    path = f"{parent}/{name}"
    target = f"{parent}/{doomed_name(name)}"
    try:
        filesystem.rename(path, target)
    except FileNotFoundError:
        return None  # it was never written to
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
