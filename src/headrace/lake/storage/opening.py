"""Opens the storage that a location is in."""

from __future__ import annotations

from headrace.lake.location import Location
from headrace.lake.sink import LocalStorage
from headrace.lake.storage.local import LocalFiles
from headrace.lake.storage.s3 import S3Files
from headrace.lake.storage.table_files import TableFiles


def files_at(location: Location) -> TableFiles:
    if isinstance(location.storage, LocalStorage):
        return LocalFiles(location.storage.root)
    return S3Files(location.storage, location.key)
