"""The tree of statements; queries and expressions have their own files.

The tree does not include the text as it was typed: `Parsed` has both.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from headrace.pipeline.statements.expressions import Expression, Literal, Node
from headrace.pipeline.statements.queries import Duration, Select
from headrace.pipeline.statements.types import DataType


class SourceKind(Enum):
    STREAM = "STREAM"
    TABLE = "TABLE"


class ColumnConstraint(Enum):
    NONE = ""
    KEY = "KEY"
    PRIMARY_KEY = "PRIMARY KEY"
    HEADERS = "HEADERS"


@dataclass(frozen=True, slots=True)
class ColumnDefinition(Node):
    """`header` is the key of `HEADER('key')`; None for `HEADERS`, which takes all of them."""

    name: str
    type: DataType
    constraint: ColumnConstraint = ColumnConstraint.NONE
    header: str | None = None


@dataclass(frozen=True, slots=True)
class Property(Node):
    """One property of a WITH clause; the name is in upper case if it was not quoted."""

    name: str
    value: Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSource(Node):
    """`CREATE [OR REPLACE] [SOURCE] STREAM|TABLE … (columns) WITH (…)`. `is_source`: read-only."""

    kind: SourceKind
    name: str
    columns: tuple[ColumnDefinition, ...] = ()
    properties: tuple[Property, ...] = ()
    or_replace: bool = False
    if_not_exists: bool = False
    is_source: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAs(Node):
    kind: SourceKind
    name: str
    query: Select
    properties: tuple[Property, ...] = ()
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertSelect(Node):
    """`properties` may contain QUERY_ID."""

    target: str
    query: Select
    properties: tuple[Property, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertValues(Node):
    """Without column names, the values are for all columns, in order."""

    target: str
    columns: tuple[str, ...]
    values: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Query(Node):
    """A query on its own: with `EMIT CHANGES` it returns rows as they arrive, otherwise the current rows."""

    select: Select


class Shown(Enum):
    STREAMS = "STREAMS"
    TABLES = "TABLES"
    TOPICS = "TOPICS"
    ALL_TOPICS = "ALL TOPICS"
    QUERIES = "QUERIES"
    FUNCTIONS = "FUNCTIONS"
    PROPERTIES = "PROPERTIES"
    TYPES = "TYPES"
    VARIABLES = "VARIABLES"
    CONNECTORS = "CONNECTORS"
    CONNECTOR_PLUGINS = "CONNECTOR PLUGINS"
    ROLLUPS = "ROLLUPS"


@dataclass(frozen=True, slots=True)
class Show(Node):
    """`SHOW` or `LIST`."""

    what: Shown
    extended: bool = False


@dataclass(frozen=True, slots=True)
class Describe(Node):
    """A stream or table; without a name, all of one kind: `DESCRIBE STREAMS EXTENDED`."""

    name: str | None
    extended: bool = False
    all_of: SourceKind | None = None


@dataclass(frozen=True, slots=True)
class DescribeFunction(Node):
    name: str


@dataclass(frozen=True, slots=True)
class Explain(Node):
    """Explains a running query, by its id, or a statement."""

    query_id: str | None = None
    statement: Statement | None = None


@dataclass(frozen=True, slots=True)
class Print(Node):
    topic: str
    from_beginning: bool = False
    interval: int | None = None
    limit: int | None = None


class QueryAction(Enum):
    TERMINATE = "TERMINATE"
    PAUSE = "PAUSE"
    RESUME = "RESUME"


@dataclass(frozen=True, slots=True)
class ChangeQuery(Node):
    """Changes one query, or all of them (no id)."""

    action: QueryAction
    query_id: str | None


@dataclass(frozen=True, slots=True)
class Drop(Node):
    kind: SourceKind
    name: str
    if_exists: bool = False
    delete_topic: bool = False


@dataclass(frozen=True, slots=True)
class AlterSource(Node):
    """`ALTER STREAM|TABLE … ADD COLUMN …`."""

    kind: SourceKind
    name: str
    added: tuple[ColumnDefinition, ...]


@dataclass(frozen=True, slots=True)
class CreateType(Node):
    name: str
    type: DataType
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropType(Node):
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateRollup(Node):
    """`CREATE ROLLUP … AS SELECT … FROM table GROUP BY …`: of a table of the lake."""

    name: str
    query: Select
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropRollup(Node):
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class Define(Node):
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Undefine(Node):
    name: str


@dataclass(frozen=True, slots=True)
class SetProperty(Node):
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class UnsetProperty(Node):
    name: str


@dataclass(frozen=True, slots=True)
class RunScript(Node):
    path: str


@dataclass(frozen=True, slots=True)
class AssertTopic(Node):
    """`ASSERT [NOT EXISTS] TOPIC … WITH (…) TIMEOUT …`."""

    topic: str
    properties: tuple[Property, ...] = ()
    exists: bool = True
    timeout: Duration | None = None


@dataclass(frozen=True, slots=True)
class AssertSchema(Node):
    subject: str | None
    schema_id: int | None
    exists: bool = True
    timeout: Duration | None = None


Statement = (
    CreateSource
    | CreateAs
    | InsertSelect
    | InsertValues
    | Query
    | Show
    | Describe
    | DescribeFunction
    | Explain
    | Print
    | ChangeQuery
    | Drop
    | AlterSource
    | CreateType
    | DropType
    | CreateRollup
    | DropRollup
    | Define
    | Undefine
    | SetProperty
    | UnsetProperty
    | RunScript
    | AssertTopic
    | AssertSchema
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A statement and its text, including the semicolon."""

    statement: Statement
    text: str
