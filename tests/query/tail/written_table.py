"""A topic of a real log and a real Delta table that is fed by it, written as the pipeline does: rows and
positions in one commit, going on by `lake/resuming.py`. Tests drive both, and then compare them with the
tail.

A record has a number of its own. A derived one says in its header where it comes from, and that is the same
when it is produced again.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.client.cluster import Cluster
from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.lake import layout
from headrace.lake.columns.arrow_types import arrow_type
from headrace.lake.columns.data_files import ColumnFiles
from headrace.lake.columns.folders import FolderColumn
from headrace.lake.columns.plan import ColumnPlan
from headrace.lake.coordinates import SourceCoordinates
from headrace.lake.delta_log import DeltaLog
from headrace.lake.delta_schema import schema_of, struct_of
from headrace.lake.location import Location
from headrace.lake.new_partitions import NO_VALUE
from headrace.lake.positions import Position, Progress, Reached, Source
from headrace.lake.read_columns import ReadColumns
from headrace.lake.replacing import replace_files
from headrace.lake.resuming import RESTORE, TopicNow, history, resume
from headrace.lake.sink import (
    Converter,
    ConverterKind,
    ErrorPolicy,
    LakeSink,
    LocalStorage,
    NullValues,
    Partitioning,
)
from headrace.lake.table_state import TableState
from headrace.lake.types import Field, Simple, Struct
from headrace.pipeline.runs.asked_topic import AskedTopic
from headrace.query.snapshots import TableSnapshot
from headrace.query.sources import TailChunk, TailView
from headrace.query.tail.feeds import TableFeed
from headrace.testing import EmbeddedBroker
from tests.lake.columns.records import framed
from tests.query.records import add_partitions, create_topic, delete_topic

FIRST = {
    "type": "record",
    "name": "Row",
    "fields": [{"name": "KIND", "type": ["null", "string"]}, {"name": "NUMBER", "type": "long"}],
}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "NOTE", "type": "string"}]}
SCHEMAS = {1: FIRST, 2: SECOND}
NOTE = Field(name="NOTE", type=Simple.STRING)
COORDINATES = tuple(
    Field(name=name, type=next(each for each in Simple if each.value == kind))
    for name, kind in layout.COORDINATE_COLUMNS
)
COLUMNS = Struct(
    fields=(
        Field(name="KIND", type=Simple.STRING),
        Field(name="NUMBER", type=Simple.BIGINT),
        *COORDINATES,
    )
)
KIND = FolderColumn(name="KIND", type=Simple.STRING)
QUERY, UPSTREAM = "q", "upstream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Produced:
    """A record in the topic."""

    number: int
    kind: str | None
    schema: int
    partition: int
    offset: int
    posted_ms: int


def sink(name: str, root: Path, **changes: Any) -> LakeSink:
    given: dict[str, Any] = {
        "name": "lake",
        "topics": (name,),
        "topics_regex": "",
        "storage": LocalStorage(root=root),
        "topics_dir": "",
        "key": Converter(kind=ConverterKind.STRING),
        "value": Converter(kind=ConverterKind.AVRO),
        "partitioning": Partitioning(fields=("KIND",)),
        "flush_size": 1_000,
        "commit_within_ms": None,
        "null_values": NullValues.IGNORE,
        "errors": ErrorPolicy(tolerates_all=True),
    }
    return LakeSink(**{**given, **changes})


@dataclass
class FeedsOfTests:
    """Feeds by the folders of their tables. `schemas` is the registry; None stands for one that is away."""

    cluster: Cluster
    feeds: dict[str, TableFeed] = field(default_factory=dict)
    schemas: dict[int, Any] | None = field(default_factory=lambda: dict(SCHEMAS))
    # Partitions that have lost the last record before any position.
    shorter: set[int] = field(default_factory=set)

    def of(self, table: Location) -> TableFeed | None:
        return self.feeds.get(str(table))

    def topic_now(self, topic: TopicIdentity) -> TopicNow:
        asked = AskedTopic(self.cluster, topic)
        return _ShorterTopic(asked.topic_id, asked.starts, self.shorter) if self.shorter else asked

    def schema_by_id(self, schema_id: int) -> str | None:
        if self.schemas is None:
            raise HeadraceError("log_unavailable", "The registry does not answer.")
        found = self.schemas.get(schema_id)
        return None if found is None else json.dumps(found)


@dataclass(frozen=True)
class _ShorterTopic:
    topic_id: str
    starts: Mapping[int, int]
    shorter: set[int]

    def lacking(self, offsets: Mapping[int, int]) -> set[int]:
        return offsets.keys() & self.shorter


class _NoLetters:
    topic_id = ""
    starts: Mapping[int, int] = {}

    def lacking(self, _: Mapping[int, int]) -> set[int]:
        return set()


class WrittenTable:
    """One table and its topic."""

    def __init__(
        self,
        broker: EmbeddedBroker,
        name: str,
        lake: Path,
        feeds: FeedsOfTests,
        *,
        partitions: int = 2,
        is_derived: bool = False,
        columns: Struct = COLUMNS,
        folders: tuple[FolderColumn, ...] = (KIND,),
        per_hour: int = 0,
        **of_sink: Any,
    ) -> None:
        self.bootstrap, self.name, self.folder = broker.bootstrap, name, lake / name
        self.cluster = feeds.cluster
        self.is_derived = is_derived
        self._numbers = 0
        self._folders = folders
        self.records: list[Produced] = []
        # Those that a tail may have read before they expired.
        self.expired: list[Produced] = []
        create_topic(self.bootstrap, name, partitions=partitions)
        self.topic = self._identity()
        self.location = Location.local(self.folder)
        self.feed = TableFeed(
            sink=sink(name, lake, **of_sink),
            topic=name,
            letters=f"{name}_dlq",
            new_partitions_per_hour=per_hour,
            schema_by_id=feeds.schema_by_id,
        )
        feeds.feeds[str(self.folder)] = self.feed
        (self.folder / "_delta_log").mkdir(parents=True)
        self.log = DeltaLog(self.folder)
        self.commit("CREATE TABLE", _definition(columns, folders, table_id=name))

    # The topic.

    def produce(
        self, count: int = 1, *, partition: int = 0, kind: str | None = "a", schema: int = 1
    ) -> list[int]:
        """New records; their numbers."""
        numbers = list(range(self._numbers, self._numbers + count))
        self._numbers += count
        self.produce_numbers(numbers, partition=partition, kind=kind, schema=schema)
        return numbers

    def produce_numbers(
        self, numbers: Iterable[int], *, partition: int, kind: str | None = "a", schema: int = 1
    ) -> None:
        now = time.time_ns() // 1_000_000
        found: list[Produced] = []
        values = []
        for number in numbers:
            row: dict[str, Any] = {"KIND": kind, "NUMBER": number}
            if schema == 2:
                row["NOTE"] = f"n{number}"
            values.append((number, framed(schema, SCHEMAS[schema], row)))
        offsets = self.send(
            [value for _, value in values],
            partition=partition,
            headers=[self.headers(number, now) for number, _ in values],
        )
        for (number, _), offset in zip(values, offsets, strict=True):
            found.append(
                Produced(
                    number=number, kind=kind, schema=schema, partition=partition, offset=offset, posted_ms=now
                )
            )
        self.records += found

    def headers(self, number: int, now: int) -> list[tuple[str, bytes]]:
        posted = ("headrace-posted-at", str(now).encode())
        if not self.is_derived:
            return [posted]
        source = SourceCoordinates(query=QUERY, topic_id=UPSTREAM, partition=0, offset=number, ordinal=0)
        return [("headrace-source", source.as_header()), posted]

    def send(
        self,
        values: Iterable[bytes | None],
        *,
        partition: int = 0,
        headers: list[list[tuple[str, bytes]]] | None = None,
        **options: Any,
    ) -> list[int]:
        """Any values; their offsets."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5, **options})
        offsets: list[int] = []

        def delivered(error: object, message: Any) -> None:
            assert error is None, error
            offsets.append(message.offset())

        given = list(values)
        for at, value in enumerate(given):
            of_record = headers[at] if headers else []
            producer.produce(self.name, value, partition=partition, headers=of_record, on_delivery=delivered)
        assert producer.flush(60) == 0
        assert len(offsets) == len(given)
        return sorted(offsets)

    def recreate(self, *, partitions: int) -> None:
        delete_topic(self.bootstrap, self.name)
        create_topic(self.bootstrap, self.name, partitions=partitions)
        self.topic = self._identity()
        self.records, self.expired = [], []

    def add_partition(self) -> None:
        add_partitions(self.bootstrap, self.name, total=self.topic.partitions + 1)
        self.topic = self._identity()

    def expire(self, partition: int, before: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        place = TopicPartition(self.name, partition, before)
        admin.delete_records([place])[place].result()
        gone = [each for each in self.records if each.partition == partition and each.offset < before]
        self.records = [each for each in self.records if each not in gone]
        self.expired += gone

    def _identity(self) -> TopicIdentity:
        found = self.cluster.topic(self.name)
        assert found is not None
        return found

    # The table.

    @property
    def version(self) -> int:
        return self.log.newest_version()

    @property
    def columns(self) -> Struct:
        return struct_of(TableState(self.log).metadata["schemaString"], table=self.name)

    def commit(
        self,
        operation: str,
        actions: Iterable[str] = (),
        progress: Progress | None = None,
        **parameters: Any,
    ) -> int:
        version = self.log.newest_version() + 1
        info: dict[str, Any] = {
            "operation": operation,
            "operationParameters": parameters,
            "timestamp": time.time_ns() // 1_000_000,
        }
        if progress is not None:
            info["userMetadata"] = progress.as_metadata()
        self.log.add_commit(version, info, list(actions))
        return version

    def positions(self) -> dict[int, int]:
        """Where a writer would go on now."""
        return dict(self._progress(self.version).positions.offsets)

    def write(self, upto: Mapping[int, int] | None = None) -> int:
        """A batch of ours, up to these offsets, or everything; the version."""
        progress = self._progress(self.version)
        positions = progress.positions.offsets
        ends = self.cluster.end_offsets(self.name)
        wanted = {
            number: max(
                positions.get(number, 0),
                # Without any record, nothing is written: not what the log has meanwhile.
                (ends if upto is None else upto).get(number, positions.get(number, 0)),
            )
            for number in ends
        }
        batch = [
            each
            for each in self._unwritten(self.version, progress, self.records)
            if each.offset < wanted[each.partition]
        ]
        reached = Reached(topic_id=self.topic.topic_id, offsets=wanted)
        return self.commit("WRITE", self.adds(batch), progress.at(reached), mode="Append")

    def say_reads(self, reads: ReadColumns | None) -> int:
        """A batch without rows of a run that reads records so."""
        progress = self._progress(self.version).reading(reads)
        return self.commit("WRITE", [], progress, mode="Append")

    def unwritten(self, version: int) -> list[Produced]:
        """The records that a writer would write if this version were the newest."""
        return self._unwritten(version, self._progress(version), self.records)

    def unwritten_before(self, version: int) -> list[Produced]:
        """Those among them that have expired."""
        return self._unwritten(version, self._progress(version), self.expired)

    def _unwritten(self, version: int, progress: Progress, records: Iterable[Produced]) -> list[Produced]:
        positions = progress.positions.offsets
        known = set(self.numbers(version)) if progress.bounds else set()
        return [
            each
            for each in records
            if positions.get(each.partition, 0) <= each.offset
            and not (self._is_suspect(progress, each) and each.number in known)
        ]

    def adds(self, batch: Iterable[Produced]) -> list[str]:
        """Files with these rows, as actions."""
        rows = self.rows_of(batch)
        if not rows:
            return []
        columns = self.columns
        values = Struct(fields=tuple(each for each in columns.fields if each not in COORDINATES))
        plan = ColumnPlan(
            bootstrap=self.bootstrap,
            topic=self.topic,
            location=self.location,
            columns=values,
            folders=self._folders,
            schemas={},
            drops_nulls=True,
            codec="snappy",
            rows_per_file=1_000,
        )
        files = ColumnFiles(plan, 0)
        files.write(pa.Table.from_pylist(rows, schema=arrow_schema(columns)))
        return [file.add for file in files.written]

    def rows_of(self, batch: Iterable[Produced], columns: Struct | None = None) -> list[dict[str, Any]]:
        """As the table has them, with these columns or those that it has now."""
        names = [each.name for each in (columns or self.columns).fields]
        rows = []
        for each in batch:
            row: dict[str, Any] = {
                "KIND": each.kind or None,
                "NUMBER": each.number,
                "NOTE": f"n{each.number}" if each.schema == 2 else None,
                layout.QUERY: QUERY if self.is_derived else "",
                layout.SOURCE_TOPIC_ID: UPSTREAM if self.is_derived else self.topic.topic_id,
                layout.SOURCE_PARTITION: 0 if self.is_derived else each.partition,
                layout.SOURCE_OFFSET: each.number if self.is_derived else each.offset,
                layout.SOURCE_ORDINAL: 0,
                layout.TOPIC_PARTITION: each.partition,
                layout.TOPIC_OFFSET: each.offset,
                layout.POSTED_AT: pa.scalar(each.posted_ms * 1_000, pa.timestamp("us", "UTC")).as_py(),
            }
            rows.append({name: row[name] for name in names})
        return rows

    def restore(self, version: int, *, is_ours: bool) -> int:
        then, now = TableState(self.log, at=version), TableState(self.log)
        removed = now.files.keys() - then.files.keys()
        added = then.files.keys() - now.files.keys()
        actions = [
            json.dumps({"remove": {"path": name, "dataChange": True, "deletionTimestamp": 0}})
            for name in removed
        ]
        actions += [json.dumps({"add": dict(then.files[name].action)}) for name in added]
        if then.metadata != now.metadata:
            actions.insert(0, json.dumps({"metaData": then.metadata}))
        said = next(history(self.log, version), None) if is_ours else None
        progress = None if said is None else said.progress
        if said is not None and said.is_doubtful:
            progress = said.progress.bounded(self._bounds(version))
        return self.commit(RESTORE, actions, progress, version=version)

    def optimize(self) -> int:
        """All files of a folder by one."""
        state = TableState(self.log)
        old = list(state.files.values())
        adds = [json.loads(line)["add"] | {"dataChange": False} for line in self._again(self._read(state))]
        version = replace_files(
            self.log,
            state,
            old=old,
            adds=adds,
            definition=state.definition,
            operation="OPTIMIZE",
            parameters={},
            changes_data=False,
        )
        assert version is not None
        return version

    def delete(self, numbers: Iterable[int]) -> int:
        """Somebody's DELETE."""
        state = TableState(self.log)
        rows = self._read(state)
        kept = rows.filter(pc.invert(pc.is_in(rows.column("NUMBER"), pa.array(list(numbers), pa.int64()))))
        version = replace_files(
            self.log,
            state,
            old=list(state.files.values()),
            adds=[json.loads(line)["add"] for line in self._again(kept)],
            definition=state.definition,
            operation="DELETE",
            parameters={},
            changes_data=True,
        )
        assert version is not None
        return version

    def add_column(self, column: Field) -> int:
        state = TableState(self.log)
        columns = Struct(fields=(*self.columns.fields, column))
        metadata = {**state.metadata, "schemaString": schema_of(columns)}
        return self.commit("ADD COLUMNS", [json.dumps({"metaData": metadata})])

    def _again(self, rows: pa.Table) -> list[str]:
        if not len(rows):
            return []
        plan = ColumnPlan(
            bootstrap=self.bootstrap,
            topic=self.topic,
            location=self.location,
            columns=Struct(fields=tuple(each for each in self.columns.fields if each not in COORDINATES)),
            folders=self._folders,
            schemas={},
            drops_nulls=True,
            codec="snappy",
            rows_per_file=1_000_000,
        )
        files = ColumnFiles(plan, 0)
        files.write(rows)
        return [file.add for file in files.written]

    def rows(self, version: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._read(TableState(self.log, at=version)).to_pylist()
        return found

    def numbers(self, version: int) -> list[int]:
        return [row["NUMBER"] for row in self.rows(version)]

    def _read(self, state: TableState) -> pa.Table:
        schema = arrow_schema(struct_of(state.metadata["schemaString"], table=self.name))
        tables = [schema.empty_table()]
        for file in state.files.values():
            rows = pq.read_table(self.folder / file.name, partitioning=None).to_pylist()
            values = dict(file.partition)
            tables.append(pa.Table.from_pylist([{**row, **values} for row in rows], schema=schema))
        return pa.concat_tables(tables)

    def snapshot(self, version: int | None = None) -> TableSnapshot:
        at = self.version if version is None else version
        return TableSnapshot(
            name=self.name,
            folder=self.folder,
            table_id=self.name,
            version=at,
            columns=(),
            partition_columns=tuple(each.name for each in self._folders),
            files=(),
        )

    def _progress(self, version: int) -> Progress:
        commits = _UpTo(self.log, version)
        resumption = resume(commits, topic=self._asked(), dead_letters=_NoLetters())
        progress = resumption.progress.begun(dict.fromkeys(range(self.topic.partitions), 0))
        return progress.bounded(self._bounds(version)) if resumption.is_doubtful else progress

    def _bounds(self, version: int) -> dict[Source, Position]:
        bounds: dict[Source, Position] = {}
        for row in self.rows(version):
            source = Source(
                query=row[layout.QUERY],
                topic_id=row[layout.SOURCE_TOPIC_ID],
                partition=row[layout.SOURCE_PARTITION],
            )
            position = Position(offset=row[layout.SOURCE_OFFSET], ordinal=row[layout.SOURCE_ORDINAL])
            bounds[source] = max(bounds.get(source, position), position)
        return bounds

    def _is_suspect(self, progress: Progress, record: Produced) -> bool:
        (row,) = self.rows_of([record])
        source = Source(
            query=row[layout.QUERY],
            topic_id=row[layout.SOURCE_TOPIC_ID],
            partition=row[layout.SOURCE_PARTITION],
        )
        return progress.is_suspect(source, Position(offset=row[layout.SOURCE_OFFSET], ordinal=0))

    def _asked(self) -> AskedTopic:
        return AskedTopic(self.cluster, self.topic)


class _UpTo:
    def __init__(self, log: DeltaLog, version: int) -> None:
        self._log, self._version = log, version

    def newest_version(self) -> int:
        return self._version

    def commit(self, version: int) -> Any:
        return self._log.commit(version)


def arrow_schema(columns: Struct) -> pa.Schema:
    return pa.schema([pa.field(each.name, arrow_type(each.type)) for each in columns.fields])


def rows_in(view: TailView) -> list[dict[str, Any]]:
    """The rows of a view, as a question sees them."""
    found: list[dict[str, Any]] = []
    for chunk in view.chunks:
        rows = sorted(_rows_of(chunk), key=lambda row: row[layout.TOPIC_OFFSET])
        assert len(rows) == chunk.rows
        for row in rows:
            assert row[layout.TOPIC_PARTITION] == chunk.partition
            assert chunk.first <= row[layout.TOPIC_OFFSET] < chunk.end
            if row[layout.TOPIC_OFFSET] >= view.starts[chunk.partition]:
                found.append(row)
    return found


def _rows_of(chunk: TailChunk) -> list[dict[str, Any]]:
    if not chunk.files:
        with pa.memory_map(chunk.path) as source:
            rows: list[dict[str, Any]] = pa.ipc.open_file(source).read_all().to_pylist()
            return rows
    found = []
    for name in chunk.files:
        *folders, _ = name.split("/")
        values = {column: unquote(value) for column, _, value in (each.partition("=") for each in folders)}
        given = {column: None if value == NO_VALUE else value for column, value in values.items()}
        # Partition columns are texts here, and the first ones.
        found += [
            {**given, **row} for row in pq.read_table(f"{chunk.path}/{name}", partitioning=None).to_pylist()
        ]
    return found


def numbers_in(view: TailView) -> list[int]:
    return sorted(row["NUMBER"] for row in rows_in(view))


def twice(numbers: Iterable[int]) -> list[int]:
    return [number for number, count in Counter(numbers).items() if count > 1]


def _definition(columns: Struct, folders: tuple[FolderColumn, ...], *, table_id: str) -> list[str]:
    metadata = {
        "id": table_id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema_of(columns),
        "partitionColumns": [each.name for each in folders],
        "configuration": {},
    }
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    return [json.dumps({"protocol": protocol}), json.dumps({"metaData": metadata})]
