"""The table of settings: every setting of the platform with its type, default, limits and meaning.

Invariants: a row is one field of `Settings`, so there is no second list to keep in step; flag and
environment names derive from the field's name. Never reads a source: that is `headrace.core.settings`,
from which everybody else imports.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_type_hints

ENVIRONMENT_PREFIX: Final = "HEADRACE_"
HIGHEST_PORT: Final = 65_535


def _setting(
    default: Any,
    help_text: str,
    *,
    choices: tuple[str, ...] = (),
    minimum: int | None = None,
    maximum: int | None = None,
    pattern: str = "",
    shape: str = "",
) -> Any:
    metadata = {
        "help": help_text,
        "choices": choices,
        "minimum": minimum,
        "maximum": maximum,
        "pattern": pattern,
        "shape": shape,
    }
    return dataclasses.field(default=default, metadata=metadata)


def _port(default: int, help_text: str, *, minimum: int = 1) -> Any:
    return _setting(default, help_text, minimum=minimum, maximum=HIGHEST_PORT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting of the platform with its default."""

    data_dir: Path = _setting(  # noqa: RUF009 - a path is immutable
        Path("headrace-data"), "Folder that holds all data, logs and the lock of one platform."
    )
    cache_dir: Path = _setting(  # noqa: RUF009 - a path is immutable
        Path("~/.cache/headrace"),
        "Folder for downloaded Java artifacts, shared by all platforms of this user.",
    )
    host: str = _setting(
        "127.0.0.1",
        "Address that every service listens on.",
        pattern=r"\S+",
        shape="a host name or an address",
    )
    engine: str = _setting(
        "embedded",
        "Log engine: `embedded` is a broker of one node in Python, `kafka` starts Apache Kafka (KRaft) from "
        "its Maven artifacts, `external` uses the cluster named by `bootstrap_servers`.",
        choices=("embedded", "kafka", "external"),
    )
    bootstrap_servers: str = _setting("", 'The Kafka cluster to use with `engine = "external"`.')
    brokers: int = _setting(1, "How many brokers the Apache Kafka engine starts.", minimum=1)
    kafka_port: int = _port(9092, "Port of the log (of the first broker; further ones take the next).")
    advertised_host: str = _setting(
        "",
        "Name or address by which clients reach the log; empty takes `host`, or this machine's name where "
        "`host` stands for all addresses.",
        pattern=r"\S*",
        shape="a host name or an address",
    )
    fsync: str = _setting(
        "os",
        "When the embedded engine has the disk confirm what it wrote: `os` leaves that to the operating "
        "system, as Apache Kafka does, `interval` every `fsync_interval_ms`, `always` before it acknowledges "
        "a record.",
        choices=("os", "interval", "always"),
    )
    fsync_interval_ms: int = _setting(
        1000, 'How long a record may wait for the disk with `fsync = "interval"`.', minimum=1
    )
    ingest_port: int = _port(8080, "Port of the events API.")
    registry_port: int = _port(8081, "Port of the schema registry.")
    statements_port: int = _port(8088, "Port of the statements, which are ksqlDB's, with its API.")
    console_port: int = _port(9000, "Port of the console, of `/sql`, `/flow`, `/latency` and `/health`.")
    spark_ui_port: int = _port(4040, "Port of the Spark UI; 0 switches it off.", minimum=0)
    ingest_workers: int = _setting(
        0, "Worker processes of the events API; 0 takes one per two cores.", minimum=0
    )
    ingest_timeout_ms: int = _setting(
        15_000, "How long `POST /events` waits for the log before it answers that it cannot say.", minimum=1
    )
    default_partitions: int = _setting(
        1, "Partitions of a topic that is created by its first event.", minimum=1
    )
    events_topic: str = _setting(
        "events",
        "Topic that `POST /events` writes to.",
        # Kafka's limit is 249: room is left for the names derived from this one, such as `…_avro_dlq`.
        pattern=r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,235}",
        shape="1 to 235 letters, digits, `.`, `_` or `-`",
    )
    max_event_bytes: int = _setting(
        1_048_576, "Largest event that `POST /events` takes, in bytes.", minimum=1
    )
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
        60,
        "Length of a real-time batch: what is repeated after a crash, and the time between short pauses.",
        minimum=5,
    )
    lake_interval_ms: int = _setting(1000, "Shortest time between two commits to the lake.", minimum=0)
    spark_memory: str = _setting(
        "1g",
        "Heap of the Spark driver.",
        pattern=r"[1-9][0-9]*[kmgKMG]",
        shape="a number with `k`, `m` or `g`, such as `1g`",
    )
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDescription:
    """One row of the table: what flags, documentation and error messages need to know of a setting."""

    name: str
    kind: type
    default: Any
    help: str
    choices: tuple[str, ...]
    minimum: int | None
    maximum: int | None
    pattern: str
    shape: str

    @property
    def flag(self) -> str:
        return flag_name(self.name)

    @property
    def environment(self) -> str:
        return environment_name(self.name)


def describe() -> tuple[SettingDescription, ...]:
    """The table as data, in the order of its fields."""
    kinds = get_type_hints(Settings)
    return tuple(
        SettingDescription(name=field.name, kind=kinds[field.name], default=field.default, **field.metadata)
        for field in dataclasses.fields(Settings)
    )


def field_names() -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(Settings))


def environment_name(name: str) -> str:
    return ENVIRONMENT_PREFIX + name.upper()


def flag_name(name: str) -> str:
    return "--" + name.replace("_", "-")


def listening_ports(settings: Settings) -> dict[str, tuple[int, ...]]:
    """The ports that these settings make the platform listen on, by the setting that names them."""
    ports: dict[str, tuple[int, ...]] = {
        row.name: (getattr(settings, row.name),) for row in describe() if row.name.endswith("_port")
    }
    if settings.engine == "external":
        del ports["kafka_port"]
    else:
        ports["kafka_port"] = tuple(range(settings.kafka_port, settings.kafka_port + settings.brokers))
    if settings.spark_ui_port == 0:
        del ports["spark_ui_port"]
    return ports
