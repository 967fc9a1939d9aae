"""The `headrace` command as a user runs it, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import headrace
from headrace.cli.settings_page import settings_page
from headrace.core.settings import Settings, field_names

ENTRY = "from headrace.cli.main import main; main()"


def run_headrace(*arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    source = str(Path(headrace.__file__).parent.parent)
    return subprocess.run(
        [sys.executable, "-c", ENTRY, *arguments],
        cwd=folder,
        env=clean | {"PYTHONPATH": source, "COLUMNS": "200"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_version(tmp_path: Path) -> None:
    result = run_headrace("--version", folder=tmp_path)
    assert (result.returncode, result.stdout) == (0, f"headrace {headrace.__version__}\n")


def test_help_imports_nothing_heavy(tmp_path: Path) -> None:
    script = "import sys; import headrace.cli.main; print(*sorted(sys.modules))"
    source = str(Path(headrace.__file__).parent.parent)
    loaded = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    heavy = {"duckdb", "deltalake", "pyspark", "confluent_kafka", "litestar", "psutil", "rich.live"}
    assert not heavy.intersection(loaded)
    assert "up" in run_headrace("--help", folder=tmp_path).stdout


def test_our_errors_are_one_line_and_exit_code_2(tmp_path: Path) -> None:
    result = run_headrace("down", folder=tmp_path, HEADRACE_DATA_DIRR="x")
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr == (
        "headrace: Unknown setting `HEADRACE_DATA_DIRR` (environment). Did you mean `HEADRACE_DATA_DIR`?\n"
    )


def test_settings_are_shown_with_their_sources(tmp_path: Path) -> None:
    (tmp_path / "headrace.toml").write_text(
        'engine = "kafka"\nbrokers = 3\nevents_topic = "clicks"\n', encoding="utf-8"
    )
    result = run_headrace("settings", "--ingest-port", "7", folder=tmp_path, HEADRACE_BROKERS="2")
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    assert "ingest_port = 7  # flag --ingest-port" in lines
    assert "brokers = 2  # environment variable HEADRACE_BROKERS" in lines
    assert f'events_topic = "clicks"  # {tmp_path / "headrace.toml"}' in lines
    assert f"console_port = {Settings().console_port}  # default" in lines


def test_what_settings_prints_is_a_settings_file(tmp_path: Path) -> None:
    printed = run_headrace("settings", "--engine", "kafka", "--brokers", "2", folder=tmp_path).stdout
    (tmp_path / "headrace.toml").write_text(printed, encoding="utf-8")
    values = json.loads(run_headrace("settings", "--json", folder=tmp_path).stdout)
    assert values["brokers"] == 2
    assert tuple(values) == field_names()


@pytest.mark.parametrize("name", field_names())
def test_every_setting_is_on_the_page(name: str) -> None:
    assert f"## `{name}`\n" in settings_page()
