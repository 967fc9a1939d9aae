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
from headrace.log.topic_catalogue import read_metadata, write_metadata

_log = logging.getLogger(__name__)

DELETION_SUFFIX: Final = "-delete"
_LONGEST_NAME: Final = 255
_PARTITION: Final = re.compile(r".+-\d+")


def is_partition_folder(name: str) -> bool:
    return _PARTITION.fullmatch(name) is not None


def open_partition_folder(filesystem: FileSystem, parent: str, name: str, topic_id: uuid.UUID) -> None:
    """Make sure that the folder of a partition that the catalogue has is there. Raises OSError."""
    path = f"{parent}/{name}"
    owner = read_metadata(filesystem, path)
    if owner == topic_id:
        return
    if owner is not None:
        _put_aside(filesystem, parent, name)
    filesystem.mkdirs(path)
    write_metadata(filesystem, path, topic_id)


def make_partition_folder(filesystem: FileSystem, parent: str, name: str, topic_id: uuid.UUID) -> None:
    """Make the folder of a new partition. Raises OSError, if it would take over somebody's files too."""
    path = f"{parent}/{name}"
    if read_metadata(filesystem, path) is not None:
        _put_aside(filesystem, parent, name)
    filesystem.mkdirs(path)
    if filesystem.files(path):
        raise FileExistsError(f"{path} holds files of nobody knows whom")
    write_metadata(filesystem, path, topic_id)


def _put_aside(filesystem: FileSystem, parent: str, name: str) -> None:
    _log.warning("%s/%s is of a deleted topic and put aside", parent, name)
    filesystem.rename(f"{parent}/{name}", f"{parent}/{doomed_name(name)}")


def doomed_name(name: str) -> str:
    suffix = f".{uuid.uuid4().hex}{DELETION_SUFFIX}"
    return name[: _LONGEST_NAME - len(suffix)] + suffix


def mark_for_deletion(filesystem: FileSystem, parent: str, name: str) -> str:
    """Give a folder a name that no partition has; its path now. If that fails, a start sees to it."""
    path = f"{parent}/{name}"
    target = f"{parent}/{doomed_name(name)}"
    try:
        filesystem.rename(path, target)
    except OSError as error:
        _log.warning("%s cannot be renamed: %s", path, error)
        return path
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
