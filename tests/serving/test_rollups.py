"""CREATE, DROP and SHOW ROLLUP: what the gateway accepts, what it refuses and why, and what is in the log."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headrace.client.cluster import Cluster
from headrace.lake.rollups.definition import Bucket, Dimension, Measure
from headrace.pipeline.catalogue.rollups import RollupLog, RollupStatus
from headrace.pipeline.catalogue.statement_log import StatementLog
from headrace.pipeline.serving.errors import StatementFailedError
from headrace.pipeline.serving.registry_schemas import RegistrySchemas
from headrace.pipeline.serving.rollups import RollupStatements
from headrace.pipeline.serving.service import StatementService
from headrace.pipeline.serving.session import Session
from headrace.testing import EmbeddedBroker

HOURLY = (
    "CREATE ROLLUP hourly AS SELECT date_trunc('hour', moment) AS h, Kind, count(*), sum(n), avg(price), "
    "max(note) "
    "FROM Events GROUP BY date_trunc('hour', moment), Kind;"
)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    schema = pa.schema(
        {"kind": pa.string(), "moment": pa.timestamp("us", tz="UTC"), "n": pa.int64(), "heat": pa.float64(),
         "price": pa.decimal128(9, 2), "huge": pa.decimal128(38, 2), "note": pa.string(),
         "tags": pa.list_(pa.string())}
    )  # fmt: skip
    write_deltalake(tmp_path / "events", pa.Table.from_pylist([], schema=schema), partition_by=["kind"])
    return tmp_path


@pytest.fixture
def topic() -> str:
    return f"_rollups_{uuid.uuid4().hex}"


@pytest.fixture
def service(  # noqa: PLR0917 - fixtures
    lake: Path,
    topic: str,
    broker: EmbeddedBroker,
    statement_log: StatementLog,
    cluster: Cluster,
    schemas: RegistrySchemas,
) -> Iterator[StatementService]:
    rollups = RollupStatements(lake, lambda: RollupLog(broker.bootstrap, topic=topic))
    yield StatementService(log=statement_log, cluster=cluster, schemas=schemas, rollups=rollups)
    rollups.stop()


def run(service: StatementService, text: str) -> dict[str, Any]:
    (answer,) = service.execute(text, Session())
    return answer


def refusal(service: StatementService, text: str) -> str:
    with pytest.raises(StatementFailedError) as failed:
        service.execute(text, Session())
    return failed.value.message


def test_created_shown_replaced_dropped(
    service: StatementService, broker: EmbeddedBroker, topic: str
) -> None:
    assert run(service, "SHOW ROLLUPS;")["rollups"] == []
    assert run(service, HOURLY)["commandStatus"]["message"] == "Rollup created"
    (shown,) = run(service, "SHOW ROLLUPS;")["rollups"]
    assert (shown["name"], shown["table"], shown["state"]) == ("HOURLY", "events", "CREATED")
    assert shown["statement"] == HOURLY
    other = RollupLog(broker.bootstrap, topic=topic)
    other.start()
    try:
        (wish,) = other.wishes().values()
        definition = wish.definition
        assert definition.dimensions == (
            Dimension(column="moment", bucket=Bucket(width_us=3_600_000_000)),
            Dimension(column="kind"),
        )
        assert definition.measures == (
            Measure(kind="sum", column="n"),
            Measure(kind="sum", column="price"),
            Measure(kind="count", column="price"),
            Measure(kind="max", column="note"),
        )
        assert definition.partition_columns == ("kind",)
        other.put_status(definition.id, RollupStatus(state="RUNNING", version=7, groups=3))
        deadline = time.monotonic() + 30
        while (shown := run(service, "LIST ROLLUPS;")["rollups"][0])["state"] == "CREATED":
            assert time.monotonic() < deadline
        assert (shown["state"], shown["version"], shown["groups"]) == ("RUNNING", 7, 3)
        assert "exists already" in refusal(service, HOURLY)
        assert "exists already" in run(service, HOURLY.replace("ROLLUP", "ROLLUP IF NOT EXISTS"))["message"]
        run(service, HOURLY.replace("CREATE", "CREATE OR REPLACE").replace("'hour'", "'day'"))
        other.refresh()
        assert other.wishes()["HOURLY"].definition.id != definition.id
        assert run(service, "DROP ROLLUP hourly;")["commandStatus"]["message"] == "Rollup dropped"
        other.refresh()
        assert other.wishes() == {}
    finally:
        other.stop()
    assert "no rollup" in refusal(service, "DROP ROLLUP hourly;")
    assert "no rollup" in run(service, "DROP ROLLUP IF EXISTS hourly;")["message"]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT kind, count(*) FROM nothing GROUP BY kind", "no table NOTHING"),
        ("SELECT other, count(*) FROM events GROUP BY other", "no column OTHER"),
        ("SELECT count(*) FROM events", "needs a dimension"),
        ("SELECT heat, count(*) FROM events GROUP BY heat", "cannot be a dimension"),
        ("SELECT tags, count(*) FROM events GROUP BY tags", "cannot be a dimension"),
        ("SELECT kind, sum(heat) FROM events GROUP BY kind", "depend on the order"),
        ("SELECT kind, sum(huge) FROM events GROUP BY kind", "exact only"),
        ("SELECT kind, max(tags) FROM events GROUP BY kind", "has no order"),
        ("SELECT kind, topk(n) FROM events GROUP BY kind", "cannot keep topk"),
        ("SELECT kind, n, count(*) FROM events GROUP BY kind", "must stand in GROUP BY"),
        ("SELECT kind, count(*) FROM events WHERE n > 1 GROUP BY kind", "no WHERE"),
        ("SELECT kind, count(*) FROM events GROUP BY kind HAVING count(*) > 1", "no HAVING"),
        ("SELECT kind, count(*) FROM events GROUP BY kind EMIT CHANGES", "no EMIT"),
        ("SELECT * FROM events GROUP BY kind", "without `*`"),
        ("SELECT count(*) FROM events GROUP BY date_trunc('hour', note)", "no time"),
        ("SELECT count(*) FROM events GROUP BY date_trunc('fortnight', moment)", "grouped by columns"),
        ("SELECT count(*) FROM events GROUP BY time_bucket('7 minutes', moment)", "does not divide a day"),
        ("SELECT count(*) FROM events GROUP BY date_trunc('hour', moment), date_trunc('day', moment)",
        "one time bucket"),
    ],
)  # fmt: skip
def test_refused_with_the_reason(service: StatementService, query: str, reason: str) -> None:
    assert reason in refusal(service, f"CREATE ROLLUP r AS {query};")
    assert run(service, "SHOW ROLLUPS;")["rollups"] == []


def test_names(service: StatementService) -> None:
    query = "SELECT kind, count(*) FROM events GROUP BY kind"
    assert "cannot be the name" in refusal(service, f"CREATE ROLLUP `../../x` AS {query};")
    run(service, f"CREATE ROLLUP `Mixed_1` AS {query};")
    assert "exists already" in refusal(service, f"CREATE ROLLUP mixed_1 AS {query};")
    run(service, "DROP ROLLUP MIXED_1;")


def test_a_service_without_a_lake(
    statement_log: StatementLog, cluster: Cluster, schemas: RegistrySchemas
) -> None:
    without = StatementService(log=statement_log, cluster=cluster, schemas=schemas)
    assert "no rollups here" in refusal(without, "SHOW ROLLUPS;")
