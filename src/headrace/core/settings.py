"""Settings from flags, then the environment, then `headrace.toml`; the first source that sets one wins.

The dataclass `Settings` (in `settings_table.py`) *is* the table: flags, environment names, the keys of
`headrace.toml` and `docs/settings.md` all derive from its fields. Invariants: the error for an unknown name
suggests the closest one; the error for an invalid value names the setting, the value and where it came from;
paths in loaded settings are absolute (relative ones in `headrace.toml` are relative to that file's folder,
all others to the working directory). Never reads the environment or the working directory by itself: both
are arguments.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headrace.core.errors import HeadraceError
from headrace.core.settings_table import (
    ENVIRONMENT_PREFIX,
    HIGHEST_PORT,
    SettingDescription,
    Settings,
    describe,
    environment_name,
    field_names,
    flag_name,
    listening_ports,
)

__all__ = [
    "ENVIRONMENT_PREFIX",
    "FILE_NAME",
    "LoadedSettings",
    "SettingDescription",
    "Settings",
    "describe",
    "environment_name",
    "field_names",
    "flag_name",
    "listening_ports",
    "load",
    "load_environment",
    "load_with_sources",
    "to_environment",
]

FILE_NAME: Final = "headrace.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSettings:
    """Settings, and for each name the source that set it (`default` if none did)."""

    settings: Settings
    sources: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """A value as one source gave it; a relative path in it is relative to `folder`."""

    value: Any
    source: str
    folder: Path


def load(
    flags: Mapping[str, Any], *, environ: Mapping[str, str], folder: Path, file: Path | None = None
) -> Settings:
    """Merge the three sources; a flag that is None was not given. Raises on anything unknown or invalid."""
    return load_with_sources(flags, environ=environ, folder=folder, file=file).settings


def load_with_sources(
    flags: Mapping[str, Any], *, environ: Mapping[str, str], folder: Path, file: Path | None = None
) -> LoadedSettings:
    """Like `load`, but also says where each value came from. `file` is read instead of `headrace.toml`."""
    path = folder / (file.expanduser() if file is not None else FILE_NAME)
    if file is not None and not path.is_file():
        raise HeadraceError(
            "invalid_setting",
            f"The settings file {path} does not exist.",
            remedy="Create it, or omit --config.",
        )
    given = _from_file(path) if path.is_file() else {}
    given |= _from_environment(environ, folder)
    given |= _from_flags(flags, folder)
    return _settle(given, folder)


def load_environment(environ: Mapping[str, str], *, folder: Path) -> Settings:
    """The settings of a child process: what `to_environment` wrote, regardless of any `headrace.toml`."""
    return _settle(_from_environment(environ, folder), folder).settings


def to_environment(settings: Settings) -> dict[str, str]:
    """The settings as environment variables, for a child process."""
    return {environment_name(name): str(getattr(settings, name)) for name in field_names()}


def _settle(given: Mapping[str, _Given], folder: Path) -> LoadedSettings:
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for row in describe():
        found = given.get(row.name) or _Given(value=row.default, source="default", folder=folder)
        value = _convert(row, found)
        values[row.name] = (found.folder / value.expanduser()).resolve() if row.kind is Path else value
        sources[row.name] = found.source
    settings = Settings(**values)
    _check_engine(settings)
    _check_ports(settings)
    return LoadedSettings(settings=settings, sources=sources)


def _check_engine(settings: Settings) -> None:
    if settings.engine == "embedded" and settings.brokers > 1:
        raise HeadraceError(
            "invalid_setting",
            f"brokers is {settings.brokers}, but the `embedded` engine has only one node.",
            remedy="Set engine to `kafka` (`--engine kafka`) for a cluster of several brokers.",
        )
    if settings.engine == "external" and not settings.bootstrap_servers:
        raise HeadraceError(
            "invalid_setting",
            "engine is `external` but bootstrap_servers is empty.",
            remedy="Set bootstrap_servers to the address of your Kafka cluster, for example 127.0.0.1:9092.",
        )
    if settings.engine != "external" and settings.bootstrap_servers:
        raise HeadraceError(
            "invalid_setting",
            f"bootstrap_servers is `{settings.bootstrap_servers}` but engine is `{settings.engine}`, "
            "which starts its own log.",
            remedy="Set engine to `external` to use that cluster, or remove bootstrap_servers.",
        )


def _check_ports(settings: Settings) -> None:
    """Two services cannot share a port: report it before anything starts."""
    taken: dict[int, str] = {}
    for name, ports in listening_ports(settings).items():
        for port in ports:
            if port > HIGHEST_PORT:
                raise HeadraceError(
                    "invalid_setting",
                    f"kafka_port = {settings.kafka_port} leaves no room for {settings.brokers} brokers: "
                    f"the highest port is {HIGHEST_PORT}.",
                    remedy="Choose a lower kafka_port.",
                )
            if port in taken:
                raise HeadraceError(
                    "invalid_setting",
                    f"{taken[port]} and {name} both want port {port}.",
                    remedy=f"Give {name} another port.",
                )
            taken[port] = name


def _from_file(path: Path) -> dict[str, _Given]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise HeadraceError(
            "invalid_setting", f"{path} is not valid TOML: {error}.", remedy="Correct that line."
        ) from error
    except OSError as error:
        raise HeadraceError(
            "invalid_setting", f"{path} cannot be read: {error.strerror}.", remedy="Make it readable."
        ) from error
    for name in content:
        if name not in field_names():
            raise _unknown(name, shown=name, source=str(path))
    folder = path.resolve().parent
    return {name: _Given(value=value, source=str(path), folder=folder) for name, value in content.items()}


def _from_environment(environ: Mapping[str, str], folder: Path) -> dict[str, _Given]:
    found: dict[str, _Given] = {}
    for variable, value in environ.items():
        if variable.startswith(ENVIRONMENT_PREFIX):
            name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
            if environment_name(name) != variable or name not in field_names():
                raise _unknown(name, shown=variable, source="environment", spelled=environment_name)
            found[name] = _Given(value=value, source=f"environment variable {variable}", folder=folder)
    return found


def _from_flags(flags: Mapping[str, Any], folder: Path) -> dict[str, _Given]:
    found: dict[str, _Given] = {}
    for name, value in flags.items():
        if name not in field_names():
            raise _unknown(name, shown=flag_name(name), source="flag", spelled=flag_name)
        if value is not None:
            found[name] = _Given(value=value, source=f"flag {flag_name(name)}", folder=folder)
    return found


def _unknown(name: str, *, shown: str, source: str, spelled: Callable[[str], str] = str) -> HeadraceError:
    nearest = difflib.get_close_matches(name, field_names(), n=1, cutoff=0.4)
    remedy = f"Did you mean `{spelled(nearest[0])}`?" if nearest else "See docs/settings.md for all settings."
    return HeadraceError("unknown_setting", f"Unknown setting `{shown}` ({source}).", remedy=remedy)


def _convert(row: SettingDescription, given: _Given) -> Any:
    try:
        result = _as_kind(row.kind, given.value)
    except ValueError as error:
        kind = {int: "a whole number", Path: "a path", str: "text"}[row.kind]
        raise _invalid(row, given, f"it must be {kind}") from error
    if row.minimum is not None and result < row.minimum:
        raise _invalid(row, given, f"it must be at least {row.minimum}")
    if row.maximum is not None and result > row.maximum:
        raise _invalid(row, given, f"it must be at most {row.maximum}")
    if row.choices and result not in row.choices:
        raise _invalid(row, given, "it must be one of " + ", ".join(f"`{choice}`" for choice in row.choices))
    if row.pattern and not re.fullmatch(row.pattern, result):
        raise _invalid(row, given, f"it must be {row.shape}")
    return result


def _as_kind(kind: type, value: Any) -> Any:
    if kind is int:
        # To Python a bool is an int, but `brokers = true` is a mistake.
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            raise ValueError(value)
        return int(value)
    if kind is Path:
        if not isinstance(value, (str, Path)) or not str(value):
            raise ValueError(value)
        return Path(value)
    if not isinstance(value, str):
        raise ValueError(value)
    return value


def _invalid(row: SettingDescription, given: _Given, reason: str) -> HeadraceError:
    shown = str(given.value) if isinstance(given.value, Path) else given.value
    return HeadraceError(
        "invalid_setting", f"Setting `{row.name}` = {shown!r} ({given.source}) is not valid: {reason}."
    )
