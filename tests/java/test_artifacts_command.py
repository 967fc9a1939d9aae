"""`headrace artifacts`, as someone would use it who wants to run Kafka's own tools."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.artifacts import app
from headrace.core.errors import HeadraceError
from headrace.java.artifacts import Artifacts
from headrace.java.runtime import JavaRuntime


@pytest.fixture(autouse=True)
def _full_cache(artifacts: Artifacts) -> None:
    for group in artifacts.groups:
        artifacts.jars(group, progress=True)


def test_the_class_path_runs_a_java_tool(java: JavaRuntime) -> None:
    result = CliRunner().invoke(app, ["classpath", "kafka"])
    assert result.exit_code == 0
    assert result.stdout.count("\n") == 1
    command = [
        str(java.executable),
        "-cp",
        result.stdout.strip(),
        "org.apache.kafka.tools.TopicCommand",
        "--version",
    ]
    version = subprocess.run(command, capture_output=True, text=True, check=True)
    assert version.stdout.startswith("4.3.1")


def test_fetch_says_where_the_artifacts_are(artifacts: Artifacts) -> None:
    result = CliRunner().invoke(app, ["fetch", "spark"])
    jars = artifacts.jars("spark")
    assert result.stdout == f"spark: {len(jars)} artifacts in {jars[0].parent}\n"
    assert len(CliRunner().invoke(app, ["fetch"]).stdout.splitlines()) == len(artifacts.groups)


def test_the_cache_folder_is_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "file"))
    (tmp_path / "file").touch()
    result = CliRunner().invoke(app, ["classpath", "kafka"])
    assert isinstance(result.exception, HeadraceError)
    assert str(tmp_path / "file") in result.exception.message
