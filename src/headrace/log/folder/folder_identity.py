"""The identity of a data folder and its lock: the cluster id, and which process has the folder open.

Byte format of `meta.properties`: lines of `name=value`, as written by Kafka; `cluster.id` is a random id of
22 characters, created once. `.lock` is empty and never deleted; the kernel holds the lock and releases it
when the process ends, however it ends. Crash behaviour: the id is synced before it is used. Who may call: the
data folder.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Final

from headrace.core.errors import HeadraceError
from headrace.log.filesystem import FileSystem, read_file, write_atomically
from headrace.log.folder.topic_catalogue import encode_id

LOCK: Final = ".lock"
PROPERTIES: Final = "meta.properties"
_CLUSTER_ID: Final = "cluster.id"


def lock_folder(filesystem: FileSystem, folder: str) -> int:
    """Create the folder if necessary and lock it. Return the lock's descriptor. Raises HeadraceError."""
    try:
        path = Path(folder).absolute()
        missing = [each for each in (path, *path.parents) if not each.exists()]
        filesystem.mkdirs(folder)
        for made in missing:
            filesystem.sync_directory(str(made.parent))
        lock = filesystem.lock(f"{folder}/{LOCK}")
    except OSError as error:
        raise HeadraceError(
            "invalid_setting",
            f"The data folder {folder} cannot be used: {error.strerror}.",
            remedy="Make the folder writable, or choose another with --data-dir.",
        ) from error
    if lock is None:
        raise HeadraceError(
            "data_dir_in_use",
            f"The data folder {folder} is in use by another broker.",
            remedy="Stop that broker, or choose another folder with --data-dir.",
        )
    return lock


def note_of_boot(filesystem: FileSystem, lock: int) -> str:
    """What a folder notes of this boot of the machine; empty where the system has no boot id.

    It differs for a copy of the folder, which may lack what the original has shown to others since.
    """
    boot = filesystem.boot_id()
    return f"{boot} {os.fstat(lock).st_ino}" if boot else ""


def read_or_make_cluster_id(filesystem: FileSystem, folder: str) -> str:
    """Raises HeadraceError, OSError."""
    path = f"{folder}/{PROPERTIES}"
    try:
        content = read_file(filesystem, path).decode(errors="replace")
    except FileNotFoundError:
        cluster_id = encode_id(uuid.uuid4())
        text = f"version=1\n{_CLUSTER_ID}={cluster_id}\ndirectory.id={encode_id(uuid.uuid4())}\n"
        write_atomically(filesystem, path, text.encode(), sync=True)
        filesystem.sync_directory(folder)
        return cluster_id
    for line in content.splitlines():
        name, _, value = line.partition("=")
        if name == _CLUSTER_ID and value:
            return value
    raise HeadraceError(
        "data_dir_damaged",
        f"{path} does not contain a cluster id.",
        remedy="Restore it from a backup, or remove it to give the folder a new cluster id.",
    )
