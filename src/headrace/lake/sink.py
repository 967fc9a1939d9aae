"""A sink into the lake as values: what a connector's configuration asks for, without a word of Spark or REST.

`connect/connectors/lake_sink/` makes it from the settings of a connector; `pipeline/spark/lake/` runs it. One
sink may read many topics; each becomes a table of its own, below `<root>/<topics_dir>/<table>/`. The name of
the table is that of the topic, unless a transformation changes it (RegexRouter).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final


class FileFormat(Enum):
    PARQUET = "parquet"
    AVRO = "avro"
    JSON = "json"
    BYTES = "bytes"


class TableFormat(Enum):
    """DELTA: a Delta table whose data files are Parquet. FILES: plain files and a manifest."""

    DELTA = "delta"
    FILES = "files"


class ConverterKind(Enum):
    AVRO = "avro"
    JSON = "json"
    STRING = "string"
    BYTES = "bytes"


class NullValues(Enum):
    """What becomes of records whose value is null."""

    FAIL = "fail"
    IGNORE = "ignore"
    WRITE = "write"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalStorage:
    """Folders of this machine. Below `root`, nowhere else."""

    root: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Storage:
    """A bucket. Without keys, credentials come from the environment or the usual AWS files.

    `endpoint` is empty for Amazon's own; without a scheme, it is https.
    """

    bucket: str
    region: str
    endpoint: str = ""
    path_style: bool = True
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)

    @property
    def endpoint_url(self) -> str:
        return self.endpoint if "://" in self.endpoint or not self.endpoint else f"https://{self.endpoint}"


Storage = LocalStorage | S3Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Converter:
    """How the key or the value of a record is read.

    `registry_url` is for AVRO, `has_schemas` for JSON: whether each record has the form
    `{"schema": …, "payload": …}`; without, the columns are found in the data. `subject_strategy` is
    `TopicNameStrategy`, `RecordNameStrategy` or `TopicRecordNameStrategy`.
    """

    kind: ConverterKind
    registry_url: str = ""
    has_schemas: bool = False
    subject_strategy: str = "TopicNameStrategy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicate:
    """`kind` is Kafka's class without its package: `TopicNameMatches`, `HasHeaderKey` or
    `RecordIsTombstone`.
    """

    kind: str
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformation:
    """A single message transform. `kind` is Kafka's class without its package and `$Key` or `$Value`; `side`
    is `key`, `value`, or empty if the class has no sides.
    """

    name: str
    kind: str
    side: str
    settings: Mapping[str, str] = field(default_factory=dict)
    predicate: Predicate | None = None
    negate: bool = False


# The transformation that changes the name of the topic, and so of the table, and nothing in a record.
RENAMES_TABLE: Final = "RegexRouter"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePartitions:
    """Folders by time. `columns` are the parts of the path, each with the name of its column and its Java
    pattern: `("year", "yyyy"), ("month", "MM")`. Patterns have only the letters y, M, d, H, m and s, and text
    between apostrophes.

    `extractor` is `Wallclock`, `Record` or `RecordField` (then `field` names it, with dots between the names
    of nested ones).
    """

    columns: tuple[tuple[str, str], ...]
    duration_ms: int
    timezone: str
    extractor: str = "Wallclock"
    field: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioning:
    """How rows are put into folders: by fields, then by time; by the topic's partition if `by_partition`.

    `date_fields` are those of the fields whose text must be a date.
    """

    fields: tuple[str, ...] = ()
    date_fields: tuple[str, ...] = ()
    time: TimePartitions | None = None
    by_partition: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorPolicy:
    """`tolerates_all`: bad records become dead letters and the sink goes on; otherwise it fails at the first.

    `dead_letter_topic` is empty for the default, `<topic>_dlq`.
    """

    tolerates_all: bool = False
    dead_letter_topic: str = ""
    has_context_headers: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainStyle:
    """Of plain files: what is between the parts of their names, and how many digits offsets have at least;
    of files of bytes, how their names end and what follows each record.
    """

    delimiter: str = "+"
    offset_digits: int = 10
    bytes_ending: str = ".bin"
    bytes_separator: str = "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeSink:
    """See the module's text. `topics_regex` is used if `topics` is empty.

    `flush_size` bounds the rows of a file, `commit_within_ms` the time until rows are committed. `codec` is
    Spark's name for the compression of the file format; `plain_style` is for TableFormat.FILES.
    `json_column` names a column that gets, as JSON, all fields that no other column has; empty for none.
    """

    name: str
    topics: tuple[str, ...]
    topics_regex: str
    storage: Storage
    topics_dir: str
    key: Converter
    value: Converter
    partitioning: Partitioning
    flush_size: int
    commit_within_ms: int | None
    file_format: FileFormat = FileFormat.PARQUET
    table_format: TableFormat = TableFormat.DELTA
    codec: str = "snappy"
    plain_style: PlainStyle = field(default_factory=PlainStyle)
    transformations: tuple[Transformation, ...] = ()
    null_values: NullValues = NullValues.FAIL
    compatibility: str = "NONE"
    stores_keys: bool = False
    stores_headers: bool = False
    json_column: str = ""
    errors: ErrorPolicy = field(default_factory=ErrorPolicy)
    starts_at_latest: bool = False

    @property
    def changes_records(self) -> bool:
        """Whether a transformation does more than name the table."""
        return any(step.kind != RENAMES_TABLE for step in self.transformations)
