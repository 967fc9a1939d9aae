"""Settings: one typed table, read from flags, then the environment, then `headrace.toml`; the first that says wins.

The dataclass below *is* the table: flags, environment names, the keys of `headrace.toml` and `docs/settings.md` all derive
from its fields. An unknown name is an error that offers the nearest one, never a silent nothing.
"""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headrace.core.errors import HeadraceError

ENVIRONMENT_PREFIX: Final = "HEADRACE_"
FILE_NAME: Final = "headrace.toml"


def _setting(default: Any, help_text: str, *, choices: tuple[str, ...] = (), minimum: int | None = None) -> Any:
    metadata = {"help": help_text, "choices": choices, "minimum": minimum}
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting of the platform with its default."""

    data_dir: Path = _setting(Path("headrace-data"), "Folder that holds all data, logs and the lock of one platform.")
    cache_dir: Path = _setting(
        Path("~/.cache/headrace"), "Folder for downloaded Java artifacts, shared by all platforms of this user."
    )
    host: str = _setting("127.0.0.1", "Address that every service listens on.")
    engine: str = _setting(
        "kafka",
        "Log engine: `kafka` starts Apache Kafka (KRaft) from its Maven artifacts, "
        "`external` uses the cluster named by `bootstrap_servers`.",
        choices=("kafka", "external"),
    )
    bootstrap_servers: str = _setting("", "The Kafka cluster to use with `engine = \"external\"`.")
    brokers: int = _setting(1, "How many brokers the Apache Kafka engine starts.", minimum=1)
    kafka_port: int = _setting(9092, "Port of the log (of the first broker; further ones take the next).", minimum=0)
    ingest_port: int = _setting(8080, "Port of the events API.", minimum=0)
    registry_port: int = _setting(8081, "Port of the schema registry.", minimum=0)
    console_port: int = _setting(9000, "Port of the console, of `/sql`, `/flow`, `/latency` and `/health`.", minimum=0)
    spark_ui_port: int = _setting(4040, "Port of the Spark UI; 0 switches it off.", minimum=0)
    ingest_workers: int = _setting(0, "Worker processes of the events API; 0 takes one per two cores.", minimum=0)
    default_partitions: int = _setting(1, "Partitions of a topic that is created by its first event.", minimum=1)
    events_topic: str = _setting("events", "Topic that `POST /events` writes to.")
    max_event_bytes: int = _setting(1_048_576, "Largest event that `POST /events` takes, in bytes.", minimum=1)
    max_request_bytes: int = _setting(
        67_108_864, "Largest request body that `POST /events` takes, in bytes.", minimum=1
    )
    pipeline_mode: str = _setting(
        "real-time",
        "How JSON becomes Avro: `real-time` (milliseconds) or `micro-batch`.",
        choices=("real-time", "micro-batch"),
    )
    pipeline_slots: int = _setting(
        12, "Task slots of the local Spark; a real-time query holds one per partition for good.", minimum=4
    )
    real_time_batch_seconds: int = _setting(
        60, "Length of a real-time batch: what is repeated after a crash, and the time between short pauses.", minimum=5
    )
    lake_interval_ms: int = _setting(1000, "Shortest time between two commits to the lake.", minimum=0)
    spark_memory: str = _setting("1g", "Heap of the Spark driver.")
    java_home: str = _setting("", "Java installation to use; empty takes JAVA_HOME, then `java` on the PATH.")

    @property
    def bootstrap(self) -> str:
        """Where clients find the log."""
        return self.bootstrap_servers if self.engine == "external" else f"{self.host}:{self.kafka_port}"

    @property
    def lake_dir(self) -> Path:
        return self.data_dir / "lake"

    @property
    def log_dir(self) -> Path:
        """Where the processes write what they print (not the Kafka log)."""
        return self.data_dir / "logs"


def field_names() -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(Settings))


def environment_name(name: str) -> str:
    return ENVIRONMENT_PREFIX + name.upper()


def load(
    flags: Mapping[str, Any], *, environ: Mapping[str, str], folder: Path, file: Path | None = None
) -> Settings:
    """Merge the three sources. `flags` with value None were not given. Raises HeadraceError on anything unknown or wrong."""
    values: dict[str, tuple[Any, str]] = {}
    path = file or folder / FILE_NAME
    if file is not None and not path.is_file():
        raise HeadraceError("invalid_setting", f"The settings file {path} does not exist.", remedy="Create it, or leave out --config.")
    if path.is_file():
        values.update(_from_file(path))
    values.update(_from_environment(environ))
    for name, value in flags.items():
        if value is not None:
            _known(name, source="flag")
            values[name] = (value, "flag --" + name.replace("_", "-"))
    converted = {name: _convert(name, value, source) for name, (value, source) in values.items()}
    settings = Settings(**converted)
    settings = dataclasses.replace(
        settings, data_dir=(folder / settings.data_dir).resolve(), cache_dir=settings.cache_dir.expanduser().resolve()
    )
    if settings.engine == "external" and not settings.bootstrap_servers:
        raise HeadraceError(
            "invalid_setting",
            "engine is `external` but bootstrap_servers is empty.",
            remedy="Set bootstrap_servers to the address of your Kafka cluster, for example 127.0.0.1:9092.",
        )
    return settings


def to_environment(settings: Settings) -> dict[str, str]:
    """The settings as environment variables, to hand them to a child process."""
    return {environment_name(name): str(getattr(settings, name)) for name in field_names()}


def _from_file(path: Path) -> dict[str, tuple[Any, str]]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise HeadraceError("invalid_setting", f"{path} is not valid TOML: {error}.", remedy="Correct that line.") from error
    for name in content:
        _known(name, source=str(path))
    return {name: (value, str(path)) for name, value in content.items()}


def _from_environment(environ: Mapping[str, str]) -> dict[str, tuple[Any, str]]:
    found: dict[str, tuple[Any, str]] = {}
    for variable, value in environ.items():
        if variable.startswith(ENVIRONMENT_PREFIX):
            name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
            _known(name, source="environment", shown=variable)
            found[name] = (value, f"environment variable {variable}")
    return found


def _known(name: str, *, source: str, shown: str = "") -> None:
    names = field_names()
    if name in names:
        return
    nearest = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    hint = nearest[0] if nearest else ""
    if shown and hint:
        hint = environment_name(hint)
    raise HeadraceError(
        "unknown_setting",
        f"Unknown setting `{shown or name}` ({source}).",
        remedy=f"Did you mean `{hint}`?" if hint else "See docs/settings.md for all settings.",
    )


def _convert(name: str, value: Any, source: str) -> Any:
    field = next(field for field in dataclasses.fields(Settings) if field.name == name)
    kind = type(field.default)
    try:
        result = _as_kind(kind, value)
    except ValueError as error:
        raise _invalid(name, value, source, f"it must be {_kind_name(kind)}") from error
    minimum: int | None = field.metadata["minimum"]
    if minimum is not None and result < minimum:
        raise _invalid(name, value, source, f"it must be at least {minimum}")
    choices: Iterable[str] = field.metadata["choices"]
    if choices and result not in choices:
        raise _invalid(name, value, source, "it must be one of " + ", ".join(f"`{choice}`" for choice in choices))
    if name.endswith("_port") and result > 65_535:
        raise _invalid(name, value, source, "a port is at most 65535")
    return result


def _as_kind(kind: type, value: Any) -> Any:
    if kind is int:
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


def _kind_name(kind: type) -> str:
    return {int: "a whole number", Path: "a path", str: "text"}[kind]


def _invalid(name: str, value: Any, source: str, reason: str) -> HeadraceError:
    return HeadraceError("invalid_setting", f"Setting `{name}` = {value!r} ({source}) is not valid: {reason}.")
