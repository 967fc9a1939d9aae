"""Where settings come from, which source wins, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headrace.core.errors import HeadraceError
from headrace.core.settings import (
    Settings,
    describe,
    listening_ports,
    load,
    load_environment,
    load_with_sources,
    to_environment,
)


def _load(
    folder: Path,
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    toml: str | None = None,
) -> Settings:
    if toml is not None:
        (folder / "headrace.toml").write_text(toml, encoding="utf-8")
    return load(flags or {}, environ=environ or {}, folder=folder)


def _refused(folder: Path, **sources: Any) -> HeadraceError:
    with pytest.raises(HeadraceError) as raised:
        _load(folder, **sources)
    return raised.value


def test_defaults_are_those_of_the_table_with_absolute_paths(tmp_path: Path) -> None:
    settings = _load(tmp_path)
    defaults = Settings()
    for row in describe():
        if row.kind is not Path:
            assert getattr(settings, row.name) == getattr(defaults, row.name)
    assert settings.data_dir == tmp_path / "headrace-data"
    assert settings.cache_dir == Path("~/.cache/headrace").expanduser()
    assert settings.lake_dir == tmp_path / "headrace-data" / "lake"


def test_flag_beats_environment_beats_file(tmp_path: Path) -> None:
    toml = "ingest_port = 1001\nregistry_port = 1002\nconsole_port = 1003\n"
    environ = {"HEADRACE_REGISTRY_PORT": "2002", "HEADRACE_CONSOLE_PORT": "2003", "UNRELATED": "x"}
    loaded = load_with_sources(
        {"console_port": 3003, "kafka_port": None},
        environ=environ,
        folder=_with_toml(tmp_path, toml),
    )
    settings = loaded.settings
    assert (settings.ingest_port, settings.registry_port, settings.console_port) == (1001, 2002, 3003)
    assert loaded.sources["ingest_port"] == str(tmp_path / "headrace.toml")
    assert loaded.sources["registry_port"] == "environment variable HEADRACE_REGISTRY_PORT"
    assert loaded.sources["console_port"] == "flag --console-port"
    assert loaded.sources["kafka_port"] == "default"


@pytest.mark.parametrize(
    ("sources", "unknown", "nearest"),
    [
        ({"flags": {"ingst_port": 1}}, "--ingst-port", "--ingest-port"),
        ({"environ": {"HEADRACE_INGST_PORT": "1"}}, "HEADRACE_INGST_PORT", "HEADRACE_INGEST_PORT"),
        ({"environ": {"HEADRACE_ingest_port": "1"}}, "HEADRACE_ingest_port", "HEADRACE_INGEST_PORT"),
        ({"toml": "ingst_port = 1"}, "ingst_port", "ingest_port"),
        ({"toml": "[ingest]\nport = 1"}, "ingest", "ingest_port"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(
    tmp_path: Path, sources: dict[str, Any], unknown: str, nearest: str
) -> None:
    error = _refused(tmp_path, **sources)
    assert error.code == "unknown_setting"
    assert f"`{unknown}`" in error.message
    assert f"`{nearest}`" in error.remedy


def test_an_unknown_name_like_no_other_points_to_the_page(tmp_path: Path) -> None:
    assert "docs/settings.md" in _refused(tmp_path, environ={"HEADRACE_QQQQ": "1"}).remedy


@pytest.mark.parametrize(
    ("sources", "says"),
    [
        (
            {"environ": {"HEADRACE_BROKERS": "many"}},
            ["'many'", "HEADRACE_BROKERS", "whole number"],
        ),
        ({"environ": {"HEADRACE_BROKERS": ""}}, ["brokers", "whole number"]),
        ({"toml": "brokers = true"}, ["brokers", "True", "headrace.toml", "whole number"]),
        ({"toml": "brokers = 1.5"}, ["brokers", "1.5", "whole number"]),
        ({"toml": "brokers = 0"}, ["brokers", "at least 1"]),
        ({"toml": "host = 5"}, ["host", "text"]),
        ({"flags": {"host": "a b"}}, ["host", "'a b'", "flag --host", "address"]),
        ({"toml": 'data_dir = ""'}, ["data_dir", "path"]),
        ({"flags": {"ingest_port": 65_536}}, ["ingest_port", "at most 65535"]),
        ({"flags": {"ingest_port": 0}}, ["ingest_port", "at least 1"]),
        ({"flags": {"engine": "rabbit"}}, ["engine", "`embedded`", "`kafka`", "`external`"]),
        ({"flags": {"events_topic": "my events"}}, ["events_topic", "letters"]),
        ({"flags": {"events_topic": ".."}}, ["events_topic"]),
        ({"flags": {"spark_memory": "lots"}}, ["spark_memory", "`1g`"]),
    ],
)
def test_a_wrong_value_is_refused_with_name_value_source_and_reason(
    tmp_path: Path, sources: dict[str, Any], says: list[str]
) -> None:
    error = _refused(tmp_path, **sources)
    assert error.code == "invalid_setting"
    for part in says:
        assert part in error.message


def test_a_broken_file_is_refused_with_the_place(tmp_path: Path) -> None:
    error = _refused(tmp_path, toml="brokers = = 1")
    assert "headrace.toml" in error.message
    assert "line 1" in error.message


def test_a_missing_file_that_was_asked_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HeadraceError, match="does not exist"):
        load({}, environ={}, folder=tmp_path, file=Path("other.toml"))


def test_a_file_that_was_asked_for_is_read_instead(tmp_path: Path) -> None:
    _with_toml(tmp_path, "brokers = 2")
    (tmp_path / "other.toml").write_text('brokers = 3\nengine = "kafka"', encoding="utf-8")
    assert load({}, environ={}, folder=tmp_path, file=Path("other.toml")).brokers == 3


def test_relative_paths_count_from_the_file_or_else_from_the_working_folder(tmp_path: Path) -> None:
    platform, working = tmp_path / "platform", tmp_path / "working"
    platform.mkdir()
    working.mkdir()
    file = platform / "my.toml"
    file.write_text('data_dir = "data"\ncache_dir = "../cache"\n', encoding="utf-8")
    from_file = load({}, environ={}, folder=working, file=file)
    assert from_file.data_dir == platform / "data"
    assert from_file.cache_dir == tmp_path / "cache"
    environ = {"HEADRACE_DATA_DIR": "data"}
    assert load({}, environ=environ, folder=working, file=file).data_dir == working / "data"
    assert load({"data_dir": "flagged"}, environ=environ, folder=working).data_dir == working / "flagged"


def test_two_services_on_one_port_are_refused(tmp_path: Path) -> None:
    error = _refused(tmp_path, flags={"ingest_port": 9000})
    assert "ingest_port" in error.message
    assert "console_port" in error.message
    assert "9000" in error.message


def test_every_broker_takes_a_port(tmp_path: Path) -> None:
    three = {"engine": "kafka", "brokers": 3}
    settings = _load(tmp_path, flags={**three, "kafka_port": 9092})
    assert listening_ports(settings)["kafka_port"] == (9092, 9093, 9094)
    assert "9001" in _refused(tmp_path, flags={**three, "kafka_port": 8999, "console_port": 9001}).message
    assert "no room for 3 brokers" in _refused(tmp_path, flags={**three, "kafka_port": 65_534}).message


def test_the_embedded_engine_is_the_default_and_one_node(tmp_path: Path) -> None:
    settings = _load(tmp_path)
    assert (settings.engine, settings.fsync) == ("embedded", "os")
    assert listening_ports(settings)["kafka_port"] == (9092,)
    error = _refused(tmp_path, flags={"brokers": 2})
    assert error.code == "invalid_setting"
    assert "brokers is 2" in error.message
    assert "--engine kafka" in error.remedy


def test_an_external_log_takes_no_port_and_needs_an_address(tmp_path: Path) -> None:
    settings = _load(tmp_path, flags={"engine": "external", "bootstrap_servers": "kafka.test:9092"})
    assert settings.bootstrap == "kafka.test:9092"
    assert "kafka_port" not in listening_ports(settings)
    assert "bootstrap_servers is empty" in _refused(tmp_path, flags={"engine": "external"}).message


def test_an_address_that_would_be_ignored_is_refused(tmp_path: Path) -> None:
    error = _refused(tmp_path, flags={"bootstrap_servers": "kafka.test:9092"})
    assert "external" in error.remedy


def test_a_child_process_gets_exactly_the_same_settings(tmp_path: Path) -> None:
    flags = {
        "engine": "kafka",
        "brokers": 2,
        "spark_ui_port": 0,
        "pipeline_mode": "micro-batch",
        "java_home": "/opt/java",
    }
    settings = _load(tmp_path, flags=flags)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    _with_toml(elsewhere, "nonsense = 1")
    environ = {"PATH": "/bin"} | to_environment(settings)
    assert load_environment(environ, folder=elsewhere) == settings


def _with_toml(folder: Path, content: str) -> Path:
    (folder / "headrace.toml").write_text(content, encoding="utf-8")
    return folder
