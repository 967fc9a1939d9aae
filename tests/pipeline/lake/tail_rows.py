"""Records as rows twice: as Spark writes them into the lake, and as the tail of the table has them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headrace.client.batches import RecordSet
from headrace.client.topics import TopicIdentity
from headrace.lake import layout
from headrace.lake.columns.arrow_types import arrow_type
from headrace.lake.evolution import NEW_TABLE
from headrace.lake.layout import TableLayout
from headrace.lake.location import Location
from headrace.lake.read_columns import ReadColumns
from headrace.lake.sink import Converter, ConverterKind, LakeSink
from headrace.lake.types import Struct
from headrace.pipeline.sink_records.stored_columns import reads_keys
from headrace.pipeline.spark.formats.avro_format import writer_schemas
from headrace.pipeline.spark.lake.avro_values import AvroValues, columns_of_schemas
from headrace.pipeline.spark.lake.envelope_values import EnvelopeValues, columns_of_envelopes, schemas_in
from headrace.pipeline.spark.lake.evolving import with_columns
from headrace.pipeline.spark.lake.json_columns import infer
from headrace.pipeline.spark.lake.json_values import JsonValues
from headrace.pipeline.spark.lake.rows import DROPPED, with_coordinates
from headrace.pipeline.spark.lake.shape import TableShape
from headrace.pipeline.spark.lake.values import BytesValues, TextValues, ValueReader
from headrace.pipeline.spark.steps.rows import REASON
from headrace.query.tail.decoding import BatchDecoder
from headrace.query.tail.outcomes import Dropped, Outcome, Refused, Row, Unsure
from headrace.query.tail.record_rows import RecordRows
from headrace.query.tail.row_shape import RowShape, row_shape
from headrace.wire.record_batch import scan
from headrace.wire.records import Record, build_batch
from tests.query.tail.written_table import COORDINATES, sink

TOPIC = TopicIdentity(name="shop.orders", topic_id="t1", partitions=4)
PARTITION, FIRST_OFFSET = 3, 40
_RECORDS = (
    "key BINARY, value BINARY, partition INT, offset BIGINT, millis BIGINT, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A record of the topic."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int = 1_700_000_000_123


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """`row` is None for a record that is none."""

    row: Mapping[str, Any] | None = None
    reason: str | None = None
    is_dropped: bool = False


@dataclass(slots=True, kw_only=True)
class Compared:
    """How many records became what in the tail, and why some are left to the lake."""

    rows: int = 0
    refused: int = 0
    dropped: int = 0
    unsure: list[str] = field(default_factory=list)


def of_sink(**changes: Any) -> LakeSink:
    return sink(TOPIC.name, Path("/none"), **changes)


class Twice:
    """A sink and the schemas of its topic. `table` are the columns of the table; those of a new one if it is
    None.
    """

    def __init__(
        self,
        spark: SparkSession,
        made: LakeSink,
        *,
        schemas: Mapping[int, Any] | None = None,
        key_schemas: Mapping[int, Any] | None = None,
        records: Sequence[Given] = (),
        table: Struct | None = None,
    ) -> None:
        self.sink = made
        self._spark = spark
        of_side = {"value": schemas or {}, "key": key_schemas or {}}
        self._schemas = {
            side: {number: json.dumps(schema) for number, schema in known.items()}
            for side, known in of_side.items()
        }
        self.schemas = self._schemas["value"] | self._schemas["key"]
        values = self._reader(made.value, "value", records)
        keys = self._reader(made.key, "key", records) if reads_keys(made) else None
        self.reads = ReadColumns(value=values.struct, key=None if keys is None else keys.struct)
        self.shape = TableShape(made, TOPIC.name, values, keys)
        self.columns = table or self.shape.struct
        self.layout = with_columns(
            TableLayout(
                name="t",
                location=Location.local(Path("/none")),
                value_columns=(),
                partition_columns=self.shape.partition_columns,
            ),
            self.columns,
        )

    def row_shape(self) -> RowShape | str:
        columns = Struct(fields=(*self.columns.fields, *COORDINATES))
        return row_shape(
            self.sink,
            columns,
            self.shape.partition_columns,
            topic=TOPIC.name,
            reads=self.reads if self.sink.changes_records else None,
        )

    def compare(self, records: Sequence[Given]) -> Compared:
        """Asserts that the tail has what Spark writes, or leaves it out."""
        shape = self.row_shape()
        assert isinstance(shape, RowShape), shape
        of_spark = self._of_spark(records, shape)
        found = Compared()
        rows: list[dict[str, Any]] = []
        for record, fate, outcome in zip(records, of_spark, self._outcomes(records, shape), strict=True):
            match outcome:
                case Row():
                    found.rows += 1
                    row = _plain([dict(outcome.values)], shape)[0]
                    assert (fate.reason, fate.is_dropped) == (None, False), (record, fate, row)
                    assert repr(row) == repr(fate.row), (record, fate, row)
                    rows.append(row)
                case Refused():
                    found.refused += 1
                    assert fate.reason is not None, (record, fate, outcome)
                case Dropped():
                    found.dropped += 1
                    assert fate.is_dropped, (record, fate, outcome)
                case Unsure():
                    found.unsure.append(outcome.reason)
        assert [repr(row) for row in self._decoded(records, shape)] == [repr(row) for row in rows]
        return found

    def _reader(self, converter: Converter, side: str, records: Sequence[Given]) -> ValueReader:
        match converter.kind:
            case ConverterKind.AVRO:
                schemas = writer_schemas(self._schemas[side], absent=(999,))
                columns = columns_of_schemas(schemas, table=None, rules=NEW_TABLE)
                return AvroValues(columns, schemas=schemas, side=side)
            case ConverterKind.JSON if not converter.has_schemas:
                return JsonValues(infer(self._frame(records), side), side=side)
            case ConverterKind.JSON:
                carried = schemas_in(self._frame(records), side)
                columns = columns_of_envelopes(carried, table=None, rules=NEW_TABLE)
                return EnvelopeValues(columns, schemas=carried, side=side)
            case ConverterKind.STRING:
                return TextValues()
            case ConverterKind.BYTES:
                return BytesValues()

    def _frame(self, records: Sequence[Given]) -> Any:
        rows = [
            (
                None if each.key is None else bytearray(each.key),
                None if each.value is None else bytearray(each.value),
                PARTITION,
                FIRST_OFFSET + number,
                each.timestamp,
                [(name, None if value is None else bytearray(value)) for name, value in each.headers] or None,
            )
            for number, each in enumerate(records)
        ]
        frame = self._spark.createDataFrame(self._spark.sparkContext.parallelize(rows, 1), _RECORDS)
        return frame.withColumn("timestamp", F.timestamp_millis("millis")).drop("millis")

    def _of_spark(self, records: Sequence[Given], shape: RowShape) -> list[Fate]:
        made = with_coordinates(self.shape.rows(self._frame(records), self.columns), self.layout, topic=TOPIC)
        table = made.toArrow()
        rows = _plain(table.to_pylist(), shape)
        reasons = table.column(REASON).to_pylist()
        dropped = table.column(DROPPED).to_pylist()
        places = table.column(layout.TOPIC_OFFSET).to_pylist()
        found = {
            place: Fate(row=row, reason=reason, is_dropped=is_dropped)
            for place, row, reason, is_dropped in zip(places, rows, reasons, dropped, strict=True)
        }
        return [found[FIRST_OFFSET + number] for number in range(len(records))]

    def _outcomes(self, records: Sequence[Given], shape: RowShape) -> list[Outcome]:
        single = RecordRows(shape, topic_id=TOPIC.topic_id, schema_by_id=self.schemas.get)
        return [
            single.outcome(
                _wire(each, 0, 0), partition=PARTITION, offset=FIRST_OFFSET + number, timestamp=each.timestamp
            )
            for number, each in enumerate(records)
        ]

    def _decoded(self, records: Sequence[Given], shape: RowShape) -> list[dict[str, Any]]:
        """As a tail decodes them: in columns, if that is possible."""
        decoder = BatchDecoder(
            shape,
            topic_id=TOPIC.topic_id,
            schema_by_id=self.schemas.get,
            without_known=lambda rows: rows,
            refused_folders=lambda _: set(),
        )
        base = min((each.timestamp for each in records), default=0)
        batch = bytes(
            build_batch(
                [_wire(each, number, each.timestamp - base) for number, each in enumerate(records)],
                base_timestamp=base,
                base_offset=FIRST_OFFSET,
            )
        )
        end = FIRST_OFFSET + len(records)
        given = RecordSet(content=batch, batches=tuple(scan(batch)), position=end, end=end)
        decoded = decoder.decode(given, partition=PARTITION, first=FIRST_OFFSET)
        return _plain(decoded.rows.to_pylist(), shape)


def _wire(given: Given, number: int, delta: int) -> Record:
    headers = tuple((name.encode(), value) for name, value in given.headers)
    return Record(
        offset_delta=number, timestamp_delta=delta, key=given.key, value=given.value, headers=headers
    )


def _plain(rows: Sequence[Mapping[str, Any]], shape: RowShape) -> list[dict[str, Any]]:
    """As Arrow has them in the columns of the table; in folders, the empty text and null are one value."""
    texts = {each.name for each in shape.folders}
    arrays = {
        each.name: pa.array(
            [(row.get(each.name) or None) if each.name in texts else row.get(each.name) for row in rows],
            arrow_type(each.type),
        )
        for each in shape.columns.fields
    }
    return [_sorted(dict(row)) for row in pa.table(arrays).to_pylist()]


def _sorted(value: Any) -> Any:
    """With the entries of maps in order: Spark has that of a Java hash map."""
    match value:
        case dict():
            return {name: _sorted(each) for name, each in value.items()}
        case list() if value and all(isinstance(each, tuple) for each in value):
            return sorted((key, _sorted(each)) for key, each in value)
        case list():
            return [_sorted(each) for each in value]
        case _:
            return value
