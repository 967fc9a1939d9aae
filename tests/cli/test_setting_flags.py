"""Every setting is a flag; flags reach the command as settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from headrace.cli.setting_flags import with_settings
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings, describe


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _app(*names: str) -> tuple[typer.Typer, list[tuple[Settings, str, bool]]]:
    app = typer.Typer()
    seen: list[tuple[Settings, str, bool]] = []

    @app.command()
    @with_settings(*names)
    def command(
        settings: Settings, word: str, loud: Annotated[bool, typer.Option(help="Shout.")] = False
    ) -> None:
        """Does as it is told."""
        seen.append((settings, word, loud))

    return app, seen


def test_every_setting_has_a_flag_with_its_help() -> None:
    app, _ = _app()
    result = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "1000"})
    assert result.exit_code == 0
    for row in describe():
        assert row.flag in result.output
        assert row.help in result.output
    assert "Does as it is told." in result.output


def test_flags_beat_the_environment_and_arguments_of_the_command_stay() -> None:
    app, seen = _app()
    result = CliRunner().invoke(
        app,
        ["hello", "--loud", "--ingest-port", "1234", "--pipeline-mode", "micro-batch"],
        env={"HEADRACE_INGEST_PORT": "4321", "HEADRACE_CONSOLE_PORT": "4322"},
    )
    assert result.exit_code == 0, result.output
    ((settings, word, loud),) = seen
    assert (settings.ingest_port, settings.console_port) == (1234, 4322)
    assert settings.pipeline_mode == "micro-batch"
    assert (word, loud) == ("hello", True)


def test_a_config_file_is_read(tmp_path: Path) -> None:
    app, seen = _app("data_dir")
    (tmp_path / "platform").mkdir()
    (tmp_path / "platform" / "my.toml").write_text('data_dir = "here"', encoding="utf-8")
    assert CliRunner().invoke(app, ["x", "--config", "platform/my.toml"]).exit_code == 0
    assert seen[0][0].data_dir == tmp_path / "platform" / "here"


def test_a_command_has_only_the_flags_it_asks_for() -> None:
    app, _ = _app("data_dir")
    result = CliRunner().invoke(app, ["x", "--ingest-port", "1"])
    assert result.exit_code == 2
    assert "No such option" in result.output


def test_an_unknown_flag_is_refused_with_the_nearest() -> None:
    app, _ = _app()
    result = CliRunner().invoke(app, ["x", "--ingst-port", "1"], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert "--ingest-port" in result.output


def test_a_wrong_value_is_our_own_error() -> None:
    app, _ = _app()
    result = CliRunner().invoke(app, ["x", "--engine", "rabbit"])
    assert isinstance(result.exception, HeadraceError)
    assert "flag --engine" in str(result.exception)
