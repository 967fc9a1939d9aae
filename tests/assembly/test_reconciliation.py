"""Reconciling a platform whose statements are real, and whose derived records were made by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import httpx
import pytest
from arro3.core import Array, DataType, Table
from deltalake import write_deltalake

from headrace.assembly.reconciliation import table_positions
from headrace.client.cluster import Cluster
from headrace.core.settings import Settings
from headrace.lake.coordinates import SOURCE_HEADER
from headrace.lake.delta_log import DeltaLog
from headrace.lake.positions import Progress, Reached
from headrace.pipeline import marketplace
from headrace.testing import EmbeddedBroker
from tests.gateway_process import gateway_settings, run_gateway
from tests.query.records import create_topic, produce

QUERY = "CSAS_EVENTS_AVRO_1"


@pytest.fixture
def log() -> Iterable[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


def derive(bootstrap: str, offsets: Iterable[int]) -> None:
    source = Cluster(bootstrap).lookup(["events"])["events"].topic_id
    headers = ([(SOURCE_HEADER, f"{QUERY}/{source}/0/{offset}/0")] for offset in offsets)
    produce(bootstrap, "events_avro", [{"value": b"x", "headers": each} for each in headers])


def reconcile(settings: Settings, *flags: str) -> tuple[int, dict[str, dict[str, object]]]:
    command = [
        str(Path(sys.executable).with_name("headrace")),
        *("reconcile", "--json", "--engine", "external", *flags),
        *("--bootstrap-servers", settings.bootstrap, "--data-dir", str(settings.data_dir)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, {finding["query"]: finding for finding in json.loads(done.stdout)}


def test_the_statements_of_a_platform_are_compared(log: EmbeddedBroker, tmp_path: Path) -> None:
    settings = gateway_settings(tmp_path, log.bootstrap)
    create_topic(log.bootstrap, "events")
    statements = (
        marketplace.statements("events")
        + "CREATE TABLE N AS SELECT user_id, COUNT(*) AS n FROM events GROUP BY user_id;"
    )
    with run_gateway(settings) as gateway:
        gateway.wait_until("ready")
        answer = httpx.post(
            f"{gateway.statements}/ksql", json={"ksql": statements}, timeout=60, trust_env=False
        )
        assert answer.status_code == httpx.codes.OK, answer.text
        produce(log.bootstrap, "events", [{"value": b"{}"}] * 4)
        late = {"ksql": "CREATE STREAM late AS SELECT * FROM events;"}
        answer = httpx.post(f"{gateway.statements}/ksql", json=late, timeout=60, trust_env=False)
        assert answer.status_code == httpx.codes.OK, answer.text
    for topic in ("events_avro", "events_dlq", "N", "LATE"):
        if Cluster(log.bootstrap).topic(topic) is None:
            create_topic(log.bootstrap, topic)
    produce(log.bootstrap, "events", [{"value": b"{}"}] * 6)
    derive(log.bootstrap, range(7))
    code, found = reconcile(settings)
    assert code == 0
    assert found[QUERY]["waiting"] == 3, "nobody has recorded a position behind them: they are on their way"
    assert (found[QUERY]["accepted"], found[QUERY]["written"]) == (10, 7)
    (late_one,) = [finding for query, finding in found.items() if query.startswith("CSAS_LATE")]
    assert late_one["waiting"] == 6, "it began behind the first four"
    (aggregate,) = [finding for query, finding in found.items() if query.startswith("CTAS_N")]
    assert "many records" in str(aggregate["unchecked"])
    assert not [query for query in found if "lake" in query], "there is no connector"
    derive(log.bootstrap, [3])
    code, found = reconcile(settings)
    assert code == 1
    (double,) = found[QUERY]["doubles"]  # type: ignore[misc]
    assert double["times"] == 2
    assert double["id"].endswith("/0/3/0")


def test_a_table_says_how_far_it_has_read_unless_somebody_has_overwritten_it(tmp_path: Path) -> None:
    table = tmp_path / "x"
    assert table_positions(table) == {}
    write_deltalake(table, Table.from_pydict({"A": Array(["1"], type=DataType.utf8())}))
    log = DeltaLog(table)
    progress = Progress(positions=Reached(topic_id="t", offsets={0: 7, 1: 3}))
    append = {"operation": "WRITE", "operationParameters": {"mode": "Append"}}
    log.add_commit(1, {**append, "userMetadata": progress.as_metadata()}, [])
    assert table_positions(table) == {"t": {0: 7, 1: 3}}
    log.add_commit(2, {"operation": "OPTIMIZE", "operationParameters": {}}, [])
    assert table_positions(table) == {"t": {0: 7, 1: 3}}
    overwrite = {"operation": "WRITE", "operationParameters": {"mode": "Overwrite"}}
    log.add_commit(3, overwrite, [])
    assert table_positions(table) == {}
