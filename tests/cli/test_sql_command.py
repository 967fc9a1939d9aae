"""`headrace sql` over a small Delta table that Delta's own library wrote."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from arro3.core import Array, DataType, Table
from deltalake import write_deltalake
from typer.testing import CliRunner

from headrace.cli import sql as sql_command
from headrace.cli.app import app
from headrace.cli.sql_asking import ask
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from tests.ports import free_port
from tests.query_process import run_query_process


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    columns = {
        "EVENT_TYPE": ["ListingView", "ListingView", "Search"],
        "SERVER_DATE": ["2026-01-01"] * 3,
        "USER_ID": ["u1", 'a "quoted", name', None],
    }
    table = Table.from_pydict({name: Array(values, type=DataType.utf8()) for name, values in columns.items()})
    write_deltalake(tmp_path / "lake" / "events", table, partition_by=["EVENT_TYPE", "SERVER_DATE"])
    return tmp_path


def _ask(data_dir: Path, statement: str, *options: str) -> str:
    result = CliRunner().invoke(app, ["sql", statement, "--data-dir", str(data_dir), *options])
    if result.exception is not None:
        raise result.exception
    assert result.exit_code == 0
    return result.stdout


def test_a_table_is_the_default(data_dir: Path) -> None:
    answer = _ask(data_dir, "SELECT EVENT_TYPE, count(*) AS EVENTS FROM events GROUP BY ALL ORDER BY 1")
    rows = [line.strip("│").split("│") for line in answer.splitlines() if "│" in line]
    assert [[cell.strip() for cell in row] for row in rows] == [["ListingView", "2"], ["Search", "1"]]
    assert "2 rows" in answer


def test_json_is_raw_and_exact(data_dir: Path) -> None:
    answer = _ask(
        data_dir,
        "SELECT USER_ID, 1.10::DECIMAL(4,2) AS PRICE, DATE '2026-01-02' AS DAY, repeat('x', 500) AS LONG, "
        "'ab'::BLOB AS BYTES, [1, 2] AS NUMBERS, true AS YES FROM events WHERE EVENT_TYPE = 'Search'",
        "--format",
        "json",
    )
    assert answer.count("\n") == 1
    assert json.loads(answer) == [
        {
            "USER_ID": None,
            "PRICE": "1.10",
            "DAY": "2026-01-02",
            "LONG": "x" * 500,
            "BYTES": "YWI=",
            "NUMBERS": [1, 2],
            "YES": True,
        }
    ]


def test_csv_quotes_what_needs_it(data_dir: Path) -> None:
    answer = _ask(data_dir, "SELECT USER_ID, 7 AS N FROM events ORDER BY USER_ID NULLS LAST", "-f", "csv")
    assert list(csv.reader(io.StringIO(answer))) == [
        ["USER_ID", "N"],
        ['a "quoted", name', "7"],
        ["u1", "7"],
        ["", "7"],
    ]


def test_a_wrong_statement_and_a_wrong_format_are_our_errors(data_dir: Path) -> None:
    with pytest.raises(HeadraceError) as raised:
        _ask(data_dir, "SELECT nothing FROM events")
    assert raised.value.code == "query_failed"
    with pytest.raises(HeadraceError, match="no output format `xml`"):
        _ask(data_dir, "SELECT 1", "-f", "xml")


def test_the_running_platform_answers_as_the_command_would(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements = [
        "SELECT USER_ID, 1.10::DECIMAL(4,2) AS PRICE, 1.5::DOUBLE AS SHARE, DATE '2026-01-02' AS DAY, "
        "'ab'::BLOB AS BYTES, [1.5, 2] AS NUMBERS, true AS YES FROM events ORDER BY USER_ID NULLS LAST",
        "SELECT EVENT_TYPE, count(*) AS N FROM events GROUP BY ALL ORDER BY 1",
    ]
    # Not every statement in every format: each command starts a worker.
    asking = [(statements[number % len(statements)], output) for number, output in enumerate(FORMATS)]
    embedded = [_ask(data_dir, statement, "-f", output) for statement, output in asking]
    settings = Settings(data_dir=data_dir, query_port=free_port(), postgres_port=free_port())
    url = f"http://{settings.host}:{settings.query_port}"
    with run_query_process(settings):
        monkeypatch.setattr(sql_command, "running_query_process", lambda _: url)
        asked = [_ask(data_dir, statement, "-f", output) for statement, output in asking]
        with pytest.raises(HeadraceError) as raised:
            _ask(data_dir, "SELECT nothing FROM events")
        assert raised.value.code == "query_failed"
    assert asked == embedded
    with pytest.raises(HeadraceError) as raised:
        ask(url, "SELECT 1")
    assert raised.value.code == "query_unavailable"


FORMATS = ("table", "json", "csv")


def test_an_event_can_be_waited_for_on_a_running_platform_only(data_dir: Path) -> None:
    with pytest.raises(HeadraceError) as raised:
        _ask(data_dir, "SELECT 1 FROM events", "--after", "events/0/1")
    assert raised.value.code == "not_running"
    assert "events/0/1" in raised.value.message
