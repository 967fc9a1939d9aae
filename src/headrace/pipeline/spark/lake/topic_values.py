"""What is known of the values and keys of a topic, and the readers that follow from it.

Avro has its schemas in a registry; JSON with schemas carries them; the columns of other JSON are found in the
data. A run knows what was known at its start. If a record has more, the run ends before anything of its batch
is committed, and the next one knows it: `learn` reads that from the error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headrace.client.cluster import Cluster
from headrace.client.reading import records_between
from headrace.client.topics import TopicIdentity
from headrace.core.errors import HeadraceError
from headrace.lake.evolution import NEW_JSON_TABLE, NEW_TABLE, evolved
from headrace.lake.sink import ConverterKind, LakeSink
from headrace.lake.types import Field, Struct
from headrace.pipeline.sink_records.stored_columns import reads_keys
from headrace.pipeline.spark.kafka_source import newest_records
from headrace.pipeline.spark.lake.avro_values import AvroValues, columns_of_schemas
from headrace.pipeline.spark.lake.envelope_values import (
    EnvelopeValues,
    columns_of_envelopes,
    schemas_in,
)
from headrace.pipeline.spark.lake.json_columns import columns_in, infer
from headrace.pipeline.spark.lake.json_values import JsonValues
from headrace.pipeline.spark.lake.values import BytesValues, TextValues, ValueReader
from headrace.pipeline.spark.query_schemas import QuerySchemas, SchemaRegistry
from headrace.pipeline.spark.restarts import new_columns, new_columns_error, new_json_schema
from headrace.pipeline.spark.steps.rows import VALUE

# So many records of each partition, the newest ones, are looked at to find columns.
_SAMPLE: Final = 10_000
# So many records of each partition are looked at for schemas that no subject names.
_FIRST: Final = 10
_JSON: Final = "json"
_SCHEMA_ID_BYTES: Final = slice(1, 5)
_BY_TOPIC: Final = "TopicNameStrategy"


class TopicValues:
    """Of one topic of a sink. `registry_at` opens the registry with that address."""

    def __init__(
        self, sink: LakeSink, topic: str, *, cluster: Cluster, registry_at: Callable[[str], SchemaRegistry]
    ) -> None:
        self._sink = sink
        self._values = _Side(sink, topic, "value", cluster=cluster, registry_at=registry_at)
        self._keys: _Side | None = None
        if reads_keys(sink):
            self._keys = _Side(sink, topic, "key", cluster=cluster, registry_at=registry_at)

    def unready(self, topic: TopicIdentity) -> str:
        """Why the columns are not known yet; empty if they are. Raises log_unavailable."""
        return next((why for side in self._sides if (why := side.unready(topic))), "")

    def learn(self, error: object) -> None:
        """`error` ended the run before, or is None."""
        for side in self._sides:
            side.learn(error)

    def outdated(self) -> str:
        """Why a run should be restarted; empty if it should not."""
        return next((why for side in self._sides if (why := side.outdated())), "")

    def readers(
        self, session: SparkSession, topic: TopicIdentity, table: Struct | None
    ) -> tuple[ValueReader, ValueReader | None]:
        """For values, and for keys if they are read. `table` are the columns of the table, if it exists."""
        values = self._values.reader(session, topic, table)
        return values, None if self._keys is None else self._keys.reader(session, topic, None)

    @property
    def measures(self) -> Mapping[str, Column]:
        """What each batch has to observe, for `check`."""
        return self._values.measures

    def check(self, observed: Mapping[str, Any]) -> None:
        """Raises an error if the batch has fields that are no columns yet."""
        self._values.check(observed)

    @property
    def _sides(self) -> Sequence[_Side]:
        return (self._values,) if self._keys is None else (self._values, self._keys)


class _Side:
    """The values, or the keys."""

    def __init__(
        self,
        sink: LakeSink,
        topic: str,
        side: str,
        *,
        cluster: Cluster,
        registry_at: Callable[[str], SchemaRegistry],
    ) -> None:
        self._sink = sink
        self._topic = topic
        self._side = side
        converter = sink.value if side == "value" else sink.key
        self._converter = converter
        self._cluster = cluster
        self._schemas: QuerySchemas | None = None
        if converter.kind is ConverterKind.AVRO:
            self._schemas = QuerySchemas(registry_at(converter.registry_url))
        # Of JSON: the schemas that records carry, and the columns that were found.
        self._carried: tuple[str, ...] | None = None
        self._found: Struct | None = None

    def unready(self, topic: TopicIdentity) -> str:
        match self._converter.kind:
            case ConverterKind.AVRO:
                assert self._schemas is not None
                if self._schemas.of_subject(self._subject).by_id:
                    return ""
                self._schemas.know(self._first_ids(topic))
                if self._schemas.of_subject(self._subject).by_id:
                    return ""
                return f"the registry has no schema for the {self._side}s of topic {self._topic} yet"
            case ConverterKind.JSON if not self._has_records(topic):
                return f"topic {self._topic} has no record yet, from which its columns would follow"
            case _:
                return ""

    def learn(self, error: object) -> None:
        if self._schemas is not None:
            self._schemas.learn(error)
        text = str(error or "")
        if (schema := new_json_schema(text)) is not None and self._carried is not None:
            self._carried = tuple(dict.fromkeys((*self._carried, schema)))
        if (columns := new_columns(text)) is not None and self._found is not None:
            self._found = evolved(self._found, columns_in(columns), rules=NEW_JSON_TABLE).struct

    def outdated(self) -> str:
        return self._schemas.outdated() if self._schemas is not None else ""

    def reader(self, session: SparkSession, topic: TopicIdentity, table: Struct | None) -> ValueReader:
        match self._converter.kind:
            case ConverterKind.AVRO:
                assert self._schemas is not None
                schemas = self._schemas.of_subject(self._subject)
                columns = columns_of_schemas(schemas, table=None, rules=NEW_TABLE)
                return AvroValues(columns, schemas=schemas, side=self._side)
            case ConverterKind.JSON if self._converter.has_schemas:
                if self._carried is None:
                    self._carried = schemas_in(self._sample(session, topic), self._side)
                columns = columns_of_envelopes(self._carried, table=None, rules=NEW_TABLE)
                return EnvelopeValues(columns, schemas=self._carried, side=self._side)
            case ConverterKind.JSON:
                if self._found is None:
                    self._found = infer(self._sample(session, topic), self._side)
                columns = self._as_in(table, self._found)
                return JsonValues(columns, json_column=self._json_column, side=self._side)
            case ConverterKind.STRING:
                return TextValues()
            case ConverterKind.BYTES:
                return BytesValues()

    @property
    def measures(self) -> Mapping[str, Column]:
        if not self._finds_columns:
            return {}
        value = F.try_parse_json(F.make_valid_utf8(F.col(VALUE).cast("string")))
        is_object = F.schema_of_variant(value).startswith("OBJECT")
        return {_JSON: F.schema_of_variant_agg(F.when(is_object, value))}

    def check(self, observed: Mapping[str, Any]) -> None:
        if not self._finds_columns or self._found is None:
            return
        schema = str(observed[_JSON])
        if evolved(self._found, columns_in(schema), rules=NEW_JSON_TABLE).added:
            raise HeadraceError("pipeline_failed", new_columns_error(schema))

    @property
    def _finds_columns(self) -> bool:
        # What has a column for everything else needs no other.
        is_json = self._converter.kind is ConverterKind.JSON and not self._converter.has_schemas
        return is_json and not self._json_column

    @property
    def _json_column(self) -> str:
        return self._sink.json_column if self._side == "value" else ""

    @property
    def _subject(self) -> str:
        """Empty if it depends on the record."""
        return f"{self._topic}-{self._side}" if self._converter.subject_strategy == _BY_TOPIC else ""

    def _as_in(self, table: Struct | None, found: Struct) -> Struct:
        """With the types of the table's columns, so that values are read as what they have to be."""
        if table is None or self._sink.transformations:
            return found
        return Struct(
            fields=tuple(
                Field(name=each.name, type=column.type if (column := table.find(each.name)) else each.type)
                for each in found.fields
            )
        )

    def _sample(self, session: SparkSession, topic: TopicIdentity) -> DataFrame:
        return newest_records(session, self._cluster, topic, _SAMPLE)

    def _has_records(self, topic: TopicIdentity) -> bool:
        stretches = self._cluster.stretches([topic]).get(topic.name, {})
        return any(first < end for first, end in stretches.values())

    def _first_ids(self, topic: TopicIdentity) -> set[int]:
        """The schema ids of some records: the subject may have another name."""
        stretches = self._cluster.stretches([topic]).get(topic.name, {})
        first = {number: (start, min(start + _FIRST, end)) for number, (start, end) in stretches.items()}
        found: set[int] = set()
        for record in records_between(self._cluster.bootstrap, topic.name, first):
            raw = record.value() if self._side == "value" else record.key()
            if isinstance(raw, bytes) and len(raw) >= 5 and raw[0] == 0:
                found.add(int.from_bytes(raw[_SCHEMA_ID_BYTES]))
        return found
