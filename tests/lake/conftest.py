"""A table in a folder and one in a bucket, for the same tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.lake.location import Location
from tests.lake.stored_tables import StoredTable
from tests.s3_server import S3Server


@pytest.fixture(params=["folder", "bucket"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> StoredTable:
    if request.param == "folder":
        return StoredTable(Location.local(tmp_path / "lake" / "t"))
    server: S3Server = request.getfixturevalue("s3_server")
    return StoredTable(Location(storage=server.new_bucket()) / "lake/t", server.client)


@pytest.fixture
def local_table(tmp_path: Path) -> StoredTable:
    return StoredTable(Location.local(tmp_path / "t"))
