"""What statements have made: streams and tables, the queries that fill them, types.

Frozen values. A catalogue is the fold of the statement log (`statement_log.py`); nothing else changes it, so
the gateway and the pipeline process have the same one. Never asks a broker or a registry: what statements
leave open (columns taken from a schema, partitions of a topic) is settled before a statement is logged.
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
    """The value column that has a record's time; a text has a format of Java's DateTimeFormatter."""

    name: str
    format: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyWindow:
    """Keys of the topic carry a window; `size_ms` is None for sessions, whose end stands in the key."""

    kind: WindowKind
    size_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """A format with what it may be told."""

    format: Format
    delimiter: str = ","
    # Whether a single column stands in a record of its own; None is the format's own way.
    wrapped: bool | None = None
    # The writer's schema, where the statement names one or the registry has it.
    schema_id: int | None = None
    # The full name that the schema is to have.
    schema_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A stream or a table. Its columns without pseudo-columns: first the key's, then the value's."""

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
    # Made by CREATE SOURCE …: nobody may insert, and dropping it leaves the topic.
    read_only: bool = False
    # GLOBAL=true: joined with by broadcast.
    is_global: bool = False
    statement: str = ""
    # What a topic that is not there yet is made with; None is the broker's own way.
    replicas: int | None = None
    retention_ms: int | None = None
    # None: tables are compacted, streams are not.
    cleanup_policy: str | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.key + self.value

    @property
    def topic_config(self) -> dict[str, str]:
        """How long the records of its topic stay, where the statement or the kind of source says so."""
        policy = self.cleanup_policy
        if policy is None and self.kind is SourceKind.TABLE:
            # A windowed table's keys never end, so old windows have to go by their age as well.
            policy = "compact" if self.window is None else "compact,delete"
        config = {} if policy is None else {"cleanup.policy": policy}
        return config if self.retention_ms is None else config | {"retention.ms": str(self.retention_ms)}


class QueryKind(Enum):
    CREATE_STREAM = "CSAS"
    CREATE_TABLE = "CTAS"
    INSERT = "INSERTQUERY"


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentQuery:
    """A query that runs until it is terminated. `id` as ksqlDB makes them: CSAS_NAME_7."""

    id: str
    kind: QueryKind
    sink: str
    sources: tuple[str, ...]
    statement: str
    paused: bool = False
    # Session properties that were set when it was made (auto.offset.reset, …).
    properties: tuple[tuple[str, str], ...] = ()
    # The streams and tables that it names, and the types there were, as its statement found them: what
    # `SELECT *` stands for does not change with its sources. A record of an older version has none.
    found_sources: tuple[Source, ...] = ()
    found_types: tuple[tuple[str, DataType], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    sources: dict[str, Source] = field(default_factory=dict)
    queries: dict[str, PersistentQuery] = field(default_factory=dict)
    types: dict[str, DataType] = field(default_factory=dict)

    def as_found_by(self, query: PersistentQuery) -> Catalogue:
        """With what the query's statement found in place of what became of it since."""
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
