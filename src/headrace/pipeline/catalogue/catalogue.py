"""What statements have created: streams and tables, the queries that fill them, and types.

Frozen values. The catalogue is the fold of the statement log (`statement_log.py`) and changes in no other
way, so the gateway and the pipeline process have the same one. Never asks a broker or a registry: what a
statement leaves open (columns from a schema, partitions of a topic) is settled before it is logged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from headrace.pipeline.statements.queries import WindowKind
from headrace.pipeline.statements.tree import SourceKind
from headrace.pipeline.statements.types import DataType


class Format(Enum):
    """How a record's key or value is written."""

    JSON = "JSON"
    AVRO = "AVRO"
    DELIMITED = "DELIMITED"
    KAFKA = "KAFKA"
    NONE = "NONE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    name: str
    type: DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderColumn:
    """The value of the last header of that key, or all headers (`header` is None)."""

    name: str
    type: DataType
    header: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampColumn:
    """The value column with the record's time; texts have a format of Java's DateTimeFormatter."""

    name: str
    format: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyWindow:
    """The window in the topic's keys; `size_ms` is None for sessions, whose keys include their end."""

    kind: WindowKind
    size_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """A format with its options."""

    format: Format
    delimiter: str = ","
    # Whether a single column is wrapped in a record; None is the default of the format.
    wrapped: bool | None = None
    # The writer's schema, if the statement names one or the registry has one.
    schema_id: int | None = None
    # The full name for the schema.
    schema_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A stream or a table. `columns` are those of the key, then those of the value; no pseudo-columns."""

    name: str
    kind: SourceKind
    topic: str
    key: tuple[Column, ...]
    value: tuple[Column, ...]
    key_encoding: Encoding
    value_encoding: Encoding
    headers: tuple[HeaderColumn, ...] = ()
    timestamp: TimestampColumn | None = None
    window: KeyWindow | None = None
    partitions: int = 1
    # Made by CREATE SOURCE …: inserts are refused, and dropping it keeps the topic.
    read_only: bool = False
    # GLOBAL=true: joins broadcast it.
    is_global: bool = False
    statement: str = ""
    # For creating the topic if it does not exist; None is the default of the broker.
    replicas: int | None = None
    retention_ms: int | None = None
    # None: tables are compacted, streams are not.
    cleanup_policy: str | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.key + self.value

    @property
    def topic_config(self) -> dict[str, str]:
        """Retention of its topic, if the statement or the kind of source determines it."""
        policy = self.cleanup_policy
        if policy is None and self.kind is SourceKind.TABLE:
            # A windowed table gets new keys forever, so old windows must expire by age as well.
            policy = "compact" if self.window is None else "compact,delete"
        config = {} if policy is None else {"cleanup.policy": policy}
        return config if self.retention_ms is None else config | {"retention.ms": str(self.retention_ms)}


class QueryKind(Enum):
    CREATE_STREAM = "CSAS"
    CREATE_TABLE = "CTAS"
    INSERT = "INSERTQUERY"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPositions:
    """Where a query begins: offsets by topic id and partition, as they were when its statement was answered.

    `sources` has its streams: their ends, or their beginnings; a topic that is missing there, or a partition
    that was added later, is read from its beginning. `sinks` has the ends of the topics that it writes:
    everything that it ever writes lies behind them. `statement` tells statements apart: a QUERY_ID can be
    used again once its query is terminated. It is empty in records of older versions.
    """

    sources: dict[str, dict[int, int]] = field(default_factory=dict)
    sinks: dict[str, dict[int, int]] = field(default_factory=dict)
    statement: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentQuery:
    """A query that runs until it is terminated. `id` as ksqlDB makes them: CSAS_NAME_7."""

    id: str
    kind: QueryKind
    sink: str
    sources: tuple[str, ...]
    statement: str
    paused: bool = False
    # Session properties at its creation (auto.offset.reset, …).
    properties: tuple[tuple[str, str], ...] = ()
    # The streams and tables that it names, and all types, as they were when its statement was accepted: the
    # meaning of `SELECT *` does not change with its sources. Records of older versions have none.
    found_sources: tuple[Source, ...] = ()
    found_types: tuple[tuple[str, DataType], ...] = ()
    # None in records of older versions: it begins where its properties say at its first start.
    start: StartPositions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    sources: dict[str, Source] = field(default_factory=dict)
    queries: dict[str, PersistentQuery] = field(default_factory=dict)
    types: dict[str, DataType] = field(default_factory=dict)

    def as_found_by(self, query: PersistentQuery) -> Catalogue:
        """The catalogue with sources and types as they were when the query's statement was accepted."""
        if not query.found_sources:
            return self
        return Catalogue(
            sources={**self.sources, **{source.name: source for source in query.found_sources}},
            queries=self.queries,
            types=dict(query.found_types),
        )

    def writers_of(self, source: str) -> tuple[PersistentQuery, ...]:
        return tuple(query for query in self.queries.values() if query.sink == source)

    def readers_of(self, source: str) -> tuple[PersistentQuery, ...]:
        return tuple(query for query in self.queries.values() if source in query.sources)
