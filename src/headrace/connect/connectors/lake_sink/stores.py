"""Where a lake sink writes: a bucket, or a folder of this machine, from its settings.

A local folder is the platform's lake, one below it, or one that the setting `file_connector_folders` allows:
configurations come over HTTP, so a path in one is somebody's wish. Invariant: the folder of a `LocalStorage`
has no links in it, so what was checked is what is written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlsplit

from headrace.connect.connectors.lake_sink.class_names import LOCAL_STORAGE, S3_STORAGE
from headrace.core.errors import HeadraceError
from headrace.lake.sink import LocalStorage, S3Storage, Storage

# Tables are below the folder, so it is allowed if something below it is.
_A_TABLE: Final = "_a_table"

Values = Mapping[str, Any]


class Allowed(Protocol):
    """The folders that a setting allows. `AllowedFolders` is one."""

    def resolved(self, path: str) -> Path:
        """Where the path leads. Raises path_not_allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """Where tables may be on this machine: in the lake, and in the folders that are allowed."""

    lake_dir: Path
    allowed: Allowed

    def find(self, url: str | None) -> Path:
        """The folder that a `store.url` means. Raises ValueError with the reason."""
        lake = Path(os.path.realpath(self.lake_dir))
        if not url:
            return lake
        parts = urlsplit(url)
        if parts.scheme != "file" or parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
            raise ValueError("For local storage it is of the form file:///absolute/folder")
        path = unquote(parts.path)
        if not path.startswith("/") or "\0" in path:
            raise ValueError("For local storage it is of the form file:///absolute/folder")
        place = Path(os.path.realpath(path))
        if place.is_relative_to(lake):
            return place
        try:
            return self.allowed.resolved(str(Path(path) / _A_TABLE)).parent
        except HeadraceError as error:
            raise ValueError(str(error)) from error


def wrong_store(values: Values, config: Mapping[str, str], folders: Folders) -> dict[str, str]:
    """What is wrong with the settings together, by their names."""
    wrong: dict[str, str] = {}
    url = values["store.url"]
    if values["storage.class"] == LOCAL_STORAGE:
        try:
            folders.find(url)
        except ValueError as error:
            wrong["store.url"] = str(error)
        return wrong
    if values["storage.class"] == S3_STORAGE:
        if values["s3.bucket.name"] == "":
            wrong["s3.bucket.name"] = "A bucket is required"
        if url and not _is_endpoint(url):
            wrong["store.url"] = "For a bucket it is of the form http://HOST:PORT or https://HOST"
    return wrong | _wrong_keys(config)


def read_store(values: Values, folders: Folders) -> Storage:
    """Of settings without errors."""
    url = values["store.url"] or ""
    if values["storage.class"] == LOCAL_STORAGE:
        return LocalStorage(root=folders.find(url))
    return S3Storage(
        bucket=values["s3.bucket.name"],
        region=values["s3.region"],
        endpoint=url.rstrip("/"),
        path_style=values["s3.path.style.access.enabled"],
        access_key=values["aws.access.key.id"],
        secret_key=values["aws.secret.access.key"],
    )


def _wrong_keys(config: Mapping[str, str]) -> dict[str, str]:
    names = ("aws.access.key.id", "aws.secret.access.key")
    given = {name: config.get(name, "").strip() for name in names}
    wrong = {
        name: "There are no configuration providers here, so this would be the key itself. Without both "
        "keys, they come from the environment or the usual AWS files"
        for name, value in given.items()
        if value.startswith("${")
    }
    if not wrong and bool(given[names[0]]) != bool(given[names[1]]):
        missing = names[0] if given[names[1]] else names[1]
        wrong[missing] = "Both keys are needed, or none"
    return wrong


def _is_endpoint(url: str) -> bool:
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return is_address and parts.path in ("", "/") and not (parts.query or parts.fragment or parts.username)
