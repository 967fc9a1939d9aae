"""The connector of `s3-parquet-connector.json`, as it stands: on port 8086, with a bucket on port 7070."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.fs
import pytest
from deltalake import DeltaTable

from headrace.java.runtime import JavaRuntime
from tests.acceptance.platform_up import STATEMENTS, headrace_up
from tests.lake_connectors import s3_options
from tests.running_platform import event, wait_for
from tests.s3_server import ACCESS_KEY, SECRET_KEY, S3Server, running_s3_server

CONNECTOR = (Path(__file__).parent / "s3-parquet-connector.json").read_bytes()
NAME = json.loads(CONNECTOR)["name"]
TABLE = "events-lake/topics/events_avro"
DAYS = ("2026-03-13", "2026-03-14")
TYPES = ("ListingView", "Search", "Purchase")
EACH = 4
OPTIONS = s3_options("http://127.0.0.1:7070")
_HTTP = httpx.Client(timeout=60, trust_env=False)


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory, java: JavaRuntime) -> Iterator[S3Server]:
    with running_s3_server(tmp_path_factory.mktemp("bucket"), java, port=7070) as server:
        server.new_bucket("events-lake")
        yield server


@pytest.fixture(scope="module")
def users(
    s3: S3Server,  # noqa: ARG001 - the bucket
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, tuple[str, str]]]:
    """The users of the events that were posted, with type and date. All of them are in the bucket."""
    keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    with headrace_up(tmp_path_factory.mktemp("acceptance"), keys):
        answer = _HTTP.post("http://localhost:8088/ksql", json={"ksql": "\n".join(STATEMENTS)})
        assert answer.status_code == 200, answer.text
        created = _HTTP.post(
            "http://localhost:8086/connectors/",
            content=CONNECTOR,
            headers={"content-type": "application/json"},
        )
        assert created.status_code == 201, created.text
        # A query begins with what comes after it has begun, as in ksqlDB.
        wait_for(_query_runs, "the query passes events on", pause_seconds=0.5)
        sent = {
            f"u-{kind}-{day}-{number}": (kind, day)
            for kind in TYPES
            for day in DAYS
            for number in range(EACH)
        }
        events = [
            event(user, Event_Type=kind, Server_Time=f"{day}T09:26:53Z") for user, (kind, day) in sent.items()
        ]
        assert _HTTP.post("http://localhost:8080/events", json=events).status_code == 200
        wait_for(
            lambda: sent.keys() <= {row["USER_ID"] for row in _delta_rows()},
            "the rows are in the bucket",
            pause_seconds=1,
            explain=lambda: _HTTP.get(f"http://localhost:8086/connectors/{NAME}/status").text,
        )
        status = _HTTP.get(f"http://localhost:8083/connectors/{NAME}/status").json()
        assert (status["connector"]["state"], status["tasks"][0]["state"]) == ("RUNNING", "RUNNING")
        yield sent


def test_every_reader_sees_the_same_rows_once(users: dict[str, tuple[str, str]]) -> None:
    expected = Counter(dict.fromkeys(users, 1))
    delta = [row for row in _delta_rows() if row["USER_ID"] in users]
    assert Counter(row["USER_ID"] for row in delta) == expected
    assert {row["USER_ID"]: (row["EVENT_TYPE"], row["SERVER_DATE"]) for row in delta} == users

    plain = _parquet().to_table(columns=["USER_ID", "EVENT_TYPE", "SERVER_DATE"]).to_pylist()
    assert Counter(row["USER_ID"] for row in plain if row["USER_ID"] in users) == expected

    with duckdb.connect() as connection:
        connection.register("events", _table().to_pyarrow_dataset())
        found = connection.execute(
            "SELECT EVENT_TYPE, SERVER_DATE, count(*) FROM events WHERE USER_ID LIKE 'u-%-%' "
            "GROUP BY ALL ORDER BY ALL"
        ).fetchall()
    assert found == [(kind, day, EACH) for kind in sorted(TYPES) for day in DAYS]


@pytest.mark.usefixtures("users")
def test_a_query_for_one_type_and_date_opens_only_that_folder(s3: S3Server) -> None:
    folder = f"EVENT_TYPE=Purchase/SERVER_DATE={DAYS[1]}/"
    there = {path.name for path in (s3.folder / TABLE / folder).glob("*.parquet")}
    everything = list((s3.folder / TABLE).rglob("*.parquet"))
    assert 0 < len(there) < len(everything)

    delta = _table().file_uris([("EVENT_TYPE", "=", "Purchase"), ("SERVER_DATE", "=", DAYS[1])])
    assert {uri.rpartition("/")[2] for uri in delta} == there
    assert all(folder in uri for uri in delta)

    wanted = (pc.field("EVENT_TYPE") == "Purchase") & (pc.field("SERVER_DATE") == DAYS[1])
    fragments = [fragment.path for fragment in _parquet().get_fragments(filter=wanted)]
    assert {path.rpartition("/")[2] for path in fragments} == there


def _query_runs() -> bool:
    answer = _HTTP.post("http://localhost:8080/events", json=event("first"))
    assert answer.status_code == 200
    return bool(_HTTP.get("http://localhost:9000/flow").json()["avro"])


def _table() -> DeltaTable:
    return DeltaTable(f"s3://{TABLE}", storage_options=OPTIONS)


def _delta_rows() -> list[dict[str, Any]]:
    if not DeltaTable.is_deltatable(f"s3://{TABLE}", storage_options=OPTIONS):
        return []
    rows: list[dict[str, Any]] = _table().to_pyarrow_table().to_pylist()
    return rows


def _parquet() -> Any:
    """The data files alone, as a reader that knows nothing of Delta sees them."""
    bucket = pyarrow.fs.S3FileSystem(
        access_key=ACCESS_KEY,
        secret_key=SECRET_KEY,
        endpoint_override="127.0.0.1:7070",
        scheme="http",
        region="us-east-1",
    )
    return pyarrow.dataset.dataset(
        TABLE,
        filesystem=bucket,
        partitioning=pyarrow.dataset.partitioning(
            pyarrow.schema([("EVENT_TYPE", pyarrow.string()), ("SERVER_DATE", pyarrow.string())]),
            flavor="hive",
        ),
        exclude_invalid_files=False,
    )
