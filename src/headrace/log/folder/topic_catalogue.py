"""The file that decides which topics exist.

Byte format of `catalogue.json`: `{"version": 1, "topics": {name: {"id": …, "partitions": 3, "overrides":
{…}}}, "deleting": [ids], "broker_overrides": {…}}`. A topic exists if it is listed here, whatever folders
exist: writing the file commits the creation, deletion or change of a topic. `deleting` holds the ids of
deleted topics whose folders may still exist, so that a start can tell them from unknown folders, which it
must not touch.

`partition.metadata` in each partition's folder, in Kafka's format, names the topic that the folder belongs
to:

    version: 0
    topic_id: mZ6YGZq0QGKn7bWPlzq9Sg

Crash behaviour: the file is replaced as a whole and synced with its directory, so a crash leaves the state
before or after a change. A file that cannot be read stops the start: without it, the owner of the data would
be guesswork. Who may call: the data folder. Never touches partitions.
"""

from __future__ import annotations

import base64
import json
import uuid
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.core.errors import HeadraceError
from headrace.log.filesystem import FileSystem, read_file, write_atomically

CATALOGUE: Final = "catalogue.json"
METADATA: Final = "partition.metadata"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEntry:
    """The catalogue's entry for one topic."""

    id: uuid.UUID
    partitions: int
    overrides: dict[str, str]


@dataclass(slots=True, kw_only=True)
class Catalogue:
    """The content of the file."""

    topics: dict[str, TopicEntry] = field(default_factory=dict)
    deleting: set[uuid.UUID] = field(default_factory=set)
    broker_overrides: dict[str, str] = field(default_factory=dict)


def read_catalogue(filesystem: FileSystem, folder: str) -> Catalogue | None:
    """Read the catalogue; None if there is none yet. Raises HeadraceError if it is damaged."""
    path = f"{folder}/{CATALOGUE}"
    try:
        content = read_file(filesystem, path)
    except FileNotFoundError:
        return None
    try:
        data = json.loads(content)
        if data["version"] != _VERSION:
            raise ValueError(f"its version is {data['version']}, not {_VERSION}")
        return Catalogue(
            topics={
                name: TopicEntry(
                    id=uuid.UUID(entry["id"]),
                    partitions=int(entry["partitions"]),
                    overrides=dict(entry["overrides"]),
                )
                for name, entry in data["topics"].items()
            },
            deleting={uuid.UUID(text) for text in data["deleting"]},
            broker_overrides=dict(data["broker_overrides"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise HeadraceError(
            "data_dir_damaged",
            f"The list of topics, {path}, cannot be read: {error}.",
            remedy="Restore it from a backup; without it the logs in this folder belong to no topic.",
        ) from error


def write_catalogue(filesystem: FileSystem, folder: str, catalogue: Catalogue) -> None:
    """Replace the file durably. Raises OSError."""
    data: dict[str, Any] = {
        "version": _VERSION,
        "topics": {
            name: {"id": str(entry.id), "partitions": entry.partitions, "overrides": entry.overrides}
            for name, entry in catalogue.topics.items()
        },
        "deleting": sorted(str(topic_id) for topic_id in catalogue.deleting),
        "broker_overrides": catalogue.broker_overrides,
    }
    write_atomically(filesystem, f"{folder}/{CATALOGUE}", json.dumps(data).encode(), sync=True)
    filesystem.sync_directory(folder)


def encode_id(identifier: uuid.UUID) -> str:
    """An id in Kafka's notation: 22 characters."""
    return base64.urlsafe_b64encode(identifier.bytes).decode().rstrip("=")


def decode_id(text: str) -> uuid.UUID:
    """The inverse of `encode_id`. Raises ValueError."""
    return uuid.UUID(bytes=base64.b64decode(text + "==", altchars=b"-_", validate=True))


def write_metadata(filesystem: FileSystem, folder: str, topic_id: uuid.UUID) -> None:
    """Write the topic id into a partition's folder. Raises OSError."""
    text = f"version: 0\ntopic_id: {encode_id(topic_id)}\n"
    write_atomically(filesystem, f"{folder}/{METADATA}", text.encode(), sync=False)


def read_metadata(filesystem: FileSystem, folder: str) -> uuid.UUID | None:
    """The topic id of a partition's folder; None if it is not known. Raises OSError."""
    try:
        lines = read_file(filesystem, f"{folder}/{METADATA}").decode("ascii").split("\n")
        name, _, text = lines[1].partition(": ")
        if lines[0] != "version: 0" or name != "topic_id":
            return None
        return decode_id(text)
    except (FileNotFoundError, ValueError, IndexError):
        return None
