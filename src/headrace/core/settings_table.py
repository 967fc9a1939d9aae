"""The table of settings: every setting of the platform with its type, default, limits and meaning.

Invariants: a row is one field of `Settings`, so there is no second list to keep in sync; flag and environment
names derive from the field's name. Never reads a source: that is `headrace.core.settings`, from which
everybody else imports.
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


def _comma_separated(entry: str) -> str:
    """The pattern of a list, which may be empty."""
    return rf"\s*(({entry})(\s*,\s*({entry}))*)?\s*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting of the platform with its default."""

    data_dir: Path = _setting(  # noqa: RUF009 - a path is immutable
        Path("headrace-data"), "Folder for all data, log files and the lock of one platform."
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
        "Log engine: `embedded` is a one-node broker in Python, `kafka` starts Apache Kafka (KRaft) from its "
        "Maven artifacts, `external` uses the cluster in `bootstrap_servers`.",
        choices=("embedded", "kafka", "external"),
    )
    bootstrap_servers: str = _setting("", 'The Kafka cluster to use with `engine = "external"`.')
    brokers: int = _setting(1, "How many brokers the Apache Kafka engine starts.", minimum=1)
    kafka_port: int = _port(9092, "Port of the log (of the first broker; the others use the next ports).")
    advertised_host: str = _setting(
        "",
        "Host name or address at which clients reach the log; if empty, `host`, or this machine's name if "
        "`host` means all addresses.",
        pattern=r"\S*",
        shape="a host name or an address",
    )
    fsync: str = _setting(
        "os",
        "When the embedded engine syncs records to disk: `os` leaves it to the operating system, like Apache "
        "Kafka; `interval` syncs every `fsync_interval_ms`; `always` syncs before it acknowledges a record.",
        choices=("os", "interval", "always"),
    )
    fsync_interval_ms: int = _setting(
        1000, 'How long a record may remain unsynced with `fsync = "interval"`.', minimum=1
    )
    allowed_hosts: str = _setting(
        "",
        "Further host names under which clients reach the HTTP APIs, separated by commas: that of a proxy, "
        "a container or a service. `*.example.com` stands for all subdomains; `*` turns the check off. "
        "Addresses, `localhost`, `host` and `advertised_host` are always allowed, and this machine's name if "
        "other machines can connect.",
        pattern=_comma_separated(r"\*|(\*\.)?[A-Za-z0-9_.-]+"),
        shape="host names without ports, separated by commas",
    )
    allowed_origins: str = _setting(
        "",
        "Origins of other sites whose pages may use the HTTP APIs, separated by commas, such as "
        "`https://app.example.com`. Pages of the console need no entry.",
        pattern=_comma_separated(r"[a-z][a-z0-9+.-]*://[^\s,/]+"),
        shape="origins such as `https://app.example.com`, separated by commas",
    )
    ingest_port: int = _port(8080, "Port of the events API.")
    registry_port: int = _port(8081, "Port of the schema registry.")
    connect_port: int = _port(8083, "Port of the Connect API, which is Kafka Connect's.")
    connect_second_port: int = _port(
        8086, "Second port of the Connect API, for clients that expect a further worker there."
    )
    statements_port: int = _port(8088, "Port of the statements API, which is ksqlDB's.")
    query_port: int = _port(8888, "Port of SQL over HTTP: `/sql`, and Druid's SQL API.")
    console_port: int = _port(9000, "Port of the console, `/sql`, `/flow`, `/latency` and `/health`.")
    postgres_port: int = _port(5433, "Port of SQL for PostgreSQL's clients.")
    spark_ui_port: int = _port(4040, "Port of the Spark UI; 0 turns it off.", minimum=0)
    ingest_workers: int = _setting(
        0, "Worker processes of the events API; 0 means one per two cores.", minimum=0
    )
    ingest_timeout_ms: int = _setting(
        15_000, "How long `POST /events` waits for the log before it reports an unknown result.", minimum=1
    )
    default_partitions: int = _setting(
        1, "Number of partitions of a topic that is created by its first event.", minimum=1
    )
    events_topic: str = _setting(
        "events",
        "Topic that `POST /events` writes to.",
        # Kafka's limit is 249: this leaves room for the names derived from it, such as `…_avro_dlq`.
        pattern=r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,235}",
        shape="1 to 235 letters, digits, `.`, `_` or `-`",
    )
    max_event_bytes: int = _setting(
        1_048_576, "Largest event that `POST /events` accepts, in bytes.", minimum=1
    )
    max_request_bytes: int = _setting(
        67_108_864, "Largest request body that `POST /events` accepts, in bytes.", minimum=1
    )
    pipeline_mode: str = _setting(
        "real-time",
        "How JSON is converted to Avro: `real-time` (milliseconds) or `micro-batch`.",
        choices=("real-time", "micro-batch"),
    )
    pipeline_slots: int = _setting(
        12, "Task slots of the local Spark; a real-time query permanently holds one per partition.", minimum=4
    )
    pipeline_on_gap: str = _setting(
        "continue",
        "What a query does if records expired before it read them: `continue` behind the gap, or `stop`.",
        choices=("continue", "stop"),
    )
    real_time_batch_seconds: int = _setting(
        60,
        "Length of a real-time batch: the time between commits, and between short pauses.",
        minimum=5,
    )
    lake_interval_ms: int = _setting(1000, "Shortest time between two commits to the lake.", minimum=0)
    lake_new_partitions_per_hour: int = _setting(
        100,
        "Most new partitions with only a few rows that a table of the lake gets in an hour; further records "
        "with new values of its partition columns become dead letters. 0 is no limit.",
        minimum=0,
    )
    lake_maintenance: str = _setting(
        "on",
        "Whether the pipeline process merges small files of the lake's tables in the background, and removes "
        "files that no recent version of a table needs.",
        choices=("on", "off"),
    )
    lake_file_megabytes: int = _setting(
        128,
        "Size of the files that small files of the lake are merged to. Files of half that size stay as they "
        "are.",
        minimum=1,
        maximum=4096,
    )
    lake_merge_files: int = _setting(
        4,
        "Number of small files in a partition of a table from which on they are merged. In a partition that "
        "got nothing for ten minutes, two are enough.",
        minimum=2,
        maximum=1000,
    )
    lake_rollup_seconds: int = _setting(
        10,
        "How often the pipeline process brings a rollup up to date. Questions are as fresh in any case: they "
        "add what came later.",
        minimum=1,
        maximum=3600,
    )
    lake_vacuum_hours: int = _setting(
        168,
        "Hours that files which a table no longer needs stay, for readers of its older versions and for a "
        "return to one; also files that were never committed. At most a week: then Delta's log forgets them.",
        minimum=1,
        maximum=168,
    )
    lake_retention_days: int = _setting(
        0,
        "Days after which the lake's tables lose partitions by their date: those of connectors that "
        "partition by time. 0 keeps everything.",
        minimum=0,
    )
    query_tail_megabytes: int = _setting(
        1024,
        "Disk space for records on their way into the lake that SQL has been asked for; what does not fit is "
        "left out, and the answer says so.",
        minimum=16,
        maximum=1_048_576,
    )
    query_bucket_cache_megabytes: int = _setting(
        1024,
        "Disk space for the parts of tables in buckets that SQL has read. The least recently used parts are "
        "removed first.",
        minimum=64,
        maximum=1_048_576,
    )
    query_slots: int = _setting(
        0,
        "How many SQL questions run at once; 0 means one per core, at least two. Questions that run for "
        "longer than a second get all slots but one.",
        minimum=0,
        maximum=64,
    )
    query_waiting: int = _setting(
        64, "How many SQL questions wait for a slot; further ones are refused with 429.", minimum=1
    )
    query_seconds: int = _setting(
        30, "How long a SQL question may run, in seconds; then it is stopped.", minimum=1, maximum=3600
    )
    query_memory_megabytes: int = _setting(
        512, "Memory of a SQL question; one that needs more fails.", minimum=64, maximum=1_048_576
    )
    query_rows: int = _setting(100_000, "Most rows of the answer to a SQL question.", minimum=1)
    query_answer_megabytes: int = _setting(
        256, "Largest answer to a SQL question, as it is sent.", minimum=1, maximum=1_048_576
    )
    query_spark_seconds: int = _setting(
        600,
        "How long a SQL question may run in Spark (`engine=spark`), in seconds.",
        minimum=1,
        maximum=86_400,
    )
    query_spark_waiting: int = _setting(
        8, "How many SQL questions run or wait in Spark; further ones are refused with 429.", minimum=1
    )
    query_topic_megabytes: int = _setting(
        1024,
        "Most that a SQL question reads of topics, as their records are stored; one that needs more fails.",
        minimum=1,
        maximum=1_048_576,
    )
    file_connector_folders: str = _setting(
        "files",
        "Folders in which file connectors may read and write, separated by commas; relative ones are in "
        "`data_dir`. Paths of connectors are relative to the first.",
        pattern=r"\s*[^,\s][^,]*(,\s*[^,\s][^,]*)*",
        shape="folders separated by commas",
    )
    spark_memory: str = _setting(
        "1g",
        "Heap size of the Spark driver.",
        pattern=r"[1-9][0-9]*[kmgKMG]",
        shape="a number with `k`, `m` or `g`, such as `1g`",
    )
    java_home: str = _setting("", "Java installation to use; if empty, JAVA_HOME, then `java` on the PATH.")

    @property
    def bootstrap(self) -> str:
        """Where clients find the log."""
        return self.bootstrap_servers if self.engine == "external" else f"{self.host}:{self.kafka_port}"

    @property
    def lake_dir(self) -> Path:
        return self.data_dir / "lake"

    @property
    def log_dir(self) -> Path:
        """Where the processes write their output (not the Kafka log)."""
        return self.data_dir / "logs"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDescription:
    """One row of the table: what flags, documentation and error messages need to know about a setting."""

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
    """The ports on which the platform listens with these settings, by the name of the setting."""
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
