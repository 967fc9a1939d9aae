"""Delta tables made by hand, in a folder or in a bucket: commits of ours, of others, and damaged ones."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from headrace.lake.delta_log import LOG_FOLDER, DeltaLog
from headrace.lake.location import Location
from headrace.lake.sink import LocalStorage


@dataclass(frozen=True)
class StoredTable:
    """A table, and what one does to its files behind its back. `client` is of its S3 server, if any."""

    location: Location
    client: Any = None

    @property
    def log(self) -> DeltaLog:
        return DeltaLog(self.location)

    def put(self, name: str, content: bytes) -> None:
        if self.client is None:
            file = self.location.path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        else:
            self.client.put_object(**self._object(name), Body=content)

    def remove(self, name: str) -> None:
        if self.client is None:
            (self.location.path / name).unlink()
        else:
            self.client.delete_object(**self._object(name))

    def read(self, name: str) -> bytes:
        return self.log.files.read(name)

    def has(self, file: Location) -> bool:
        return self.log.files.identity(self.name_of(file)) is not None

    def names(self, folder: str = LOG_FOLDER) -> set[str]:
        return set(self.log.files.names(folder))

    def name_of(self, file: Location) -> str:
        return str(file).removeprefix(str(self.location)).lstrip("/")

    def add_action(self, name: str, content: bytes = b"PAR1 rows PAR1") -> str:
        """A data file, and the action that adds it."""
        self.put(name, content)
        return json.dumps({"add": {"path": name, "size": len(content), "dataChange": True}})

    def fill(self, versions: int) -> DeltaLog:
        """So many commits, each with a data file."""
        if isinstance(self.location.storage, LocalStorage):
            (self.location.path / LOG_FOLDER).mkdir(parents=True)
        for version in range(versions):
            add = self.add_action(f"k=a/{version}.parquet")
            self.log.add_commit(version, {"operation": "WRITE"}, [add])
        return self.log

    def _object(self, name: str) -> dict[str, str]:
        assert not isinstance(self.location.storage, LocalStorage)
        return {"Bucket": self.location.storage.bucket, "Key": f"{self.location.key}/{name}"}


def commit_name(version: int) -> str:
    return f"{LOG_FOLDER}/{version:020d}.json"


def checkpoint_name(version: int, part: str = "") -> str:
    return f"{LOG_FOLDER}/{version:020d}.checkpoint{part}.parquet"
