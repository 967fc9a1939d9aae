"""Druid's SQL API over real Delta tables and HTTP, as the query process serves it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headrace.http.druid.answers import DRUID_RULES
from headrace.http.druid.app import create_druid_app
from headrace.query.druid.asking import ThreadedEngine
from headrace.query.druid.tables import druid_tables
from headrace.query.snapshots import LakeTables
from headrace.query.sql import LakeQuery, QueryResult
from tests.http.registry.serving import served


def clicks() -> pa.Table:
    times = [datetime(2026, 1, day, hour, tzinfo=UTC) for day, hour in ((1, 10), (1, 11), (2, 12))]
    return pa.table(
        {
            "EVENT_TYPE": ["ListingView", "Search", "ListingView"],
            "USER_ID": ["u1", "ü2", None],
            "VIEWS": pa.array([1, 2, None], pa.int64()),
            "PRICE": [1.5, 2.5, 4.0],
            "SERVER_TIME": pa.array(times, pa.timestamp("us", tz="UTC")),
            "TAGS": [["a", "b"], ["c"], None],
        }
    )


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    lake = tmp_path_factory.mktemp("lake")
    write_deltalake(lake / "clicks", clicks())
    with served_lake(lake) as url:
        yield url


def served_lake(lake: Path):  # type: ignore[no-untyped-def]
    query, tables = LakeQuery(lake), LakeTables(lake)

    def run(sql: str, parameters: Sequence[object]) -> QueryResult:
        assert not parameters, "they are part of the statement"
        return query.run(sql)

    engine = ThreadedEngine(run, lambda: druid_tables(list(tables.current().values())))
    return served(create_druid_app(engine), DRUID_RULES)


@pytest.fixture
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=120) as opened:
        yield opened
