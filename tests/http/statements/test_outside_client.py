"""A client that nobody here wrote: `ksqldb` from PyPI, over HTTP/1.1 for statements and HTTP/2 for rows."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headrace.pipeline.serving.service import StatementService
from tests.http.statements.test_ksql import stream
from tests.http.statements.test_queries import running_side

ksqldb = pytest.importorskip("ksqldb")


@pytest.fixture
def outside(address: str) -> Any:
    return ksqldb.KSQLdbClient(address)


def test_statements_inserts_and_queries(outside: Any, service: StatementService, name: str) -> None:
    (made,) = outside.ksql(stream(name))
    assert made["commandStatus"]["status"] == "SUCCESS"
    assert outside.get_properties()
    acknowledged = outside.inserts_stream(name, [{"ID": "a", "V": 1}, {"id": "b", "v": 2}])
    assert acknowledged == [{"status": "ok", "seq": 0}, {"status": "ok", "seq": 1}]
    header, *rows = outside.query_sync(f"SELECT * FROM {name};")
    assert (header["columnNames"], rows) == (["ID", "V"], [["a", 1], ["b", 2]])

    async def pushed() -> list[Any]:
        text = f"SELECT * FROM {name} EMIT CHANGES LIMIT 2;"
        return [row async for row in outside.query_async(text, timeout=120)]

    with running_side(service.cluster, [{"ID": "c", "V": 3}, {"ID": "d", "V": 4}]):
        header, *rows = asyncio.run(pushed())
    assert rows == [["c", 3], ["d", 4]]
    assert not outside.close_query(header["queryId"])
