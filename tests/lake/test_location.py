"""Locations name one place in one way, for people and for Spark, without credentials."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import HeadraceError
from headrace.lake.location import located
from headrace.lake.sink import LocalStorage, S3Storage, Storage

BUCKET = S3Storage(bucket="b", region="r", endpoint="minio:9000", access_key="AKIA", secret_key="hidden")


def test_a_folder() -> None:
    table = located(Path("/data/lake")) / "events"
    assert (str(table), table.uri, table.path) == ("/data/lake/events",) * 2 + (Path("/data/lake/events"),)
    assert (table.name, table.is_local) == ("events", True)
    assert Path(table / "x.json") == Path("/data/lake/events/x.json")


def test_a_bucket() -> None:
    table = located(BUCKET) / "topics" / "events"
    assert (str(table), table.uri) == ("s3://b/topics/events", "s3a://b/topics/events")
    assert (table.name, table.key, table.is_local) == ("events", "topics/events", False)
    with pytest.raises(HeadraceError, match="s3://b/topics/events is not a folder") as error:
        Path(table)
    assert error.value.code == "lake_unsupported"
    assert located(BUCKET).parent == located(BUCKET)


def test_credentials_are_not_shown() -> None:
    table = located(BUCKET) / "events"
    shown = f"{table!r} {table}"
    assert "AKIA" not in shown
    assert "hidden" not in shown
    assert BUCKET.endpoint_url == "https://minio:9000"


names = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1).filter(
    lambda name: name not in (".", "..")
)


@given(st.sampled_from([LocalStorage(root=Path("/data")), BUCKET]), st.lists(names, min_size=1, max_size=4))
def test_parts_and_whole_are_the_same_place(storage: Storage, parts: list[str]) -> None:
    step = located(storage)
    for part in parts:
        step = step / part
        assert step.name == part
    assert step == located(storage) / "/".join(parts)
    assert step.parent / parts[-1] == step
