"""Runs statements on given records, as one batch without a broker: records in, records for the sink out.

The steps, formats and the sink are those of running queries. Records may be anything.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headrace.client.topics import TopicIdentity
from headrace.pipeline.catalogue.catalogue import Catalogue, Source
from headrace.pipeline.plan import Aggregate, QueryPlan, Read, reads_of
from headrace.pipeline.rules.planning import plan_query, plan_source
from headrace.pipeline.spark.formats.avro_format import WriterSchemas
from headrace.pipeline.spark.query_schemas import QuerySchemas
from headrace.pipeline.spark.steps.building import built
from headrace.pipeline.spark.steps.read import latest_rows, read_rows
from headrace.pipeline.spark.steps.rows import Rows
from headrace.pipeline.spark.steps.sink import sink_records
from headrace.pipeline.spark.steps.table_aggregating import aggregate_table
from headrace.pipeline.spark.steps.writable import NO_LIMITS, Limits
from headrace.pipeline.statements.parser import parse
from headrace.pipeline.statements.tree import CreateAs, CreateSource
from tests.pipeline.plans.harness import MemoryRegistry

QUERY = "CSAS_1"
DEAD_LETTERS = "dead_letters"
_PARTITIONS = 3


@dataclass(frozen=True, kw_only=True)
class Given:
    """A record of a source; its partition and offset are those of its place."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int = 1_000
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A record as it is handed to the Kafka sink."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, str]

    @property
    def is_dead(self) -> bool:
        return self.topic == DEAD_LETTERS

    @property
    def number(self) -> int:
        """Which of the given records it comes from."""
        _query, _topic, partition, offset, _ordinal = self.headers["headrace-source"].split("/")
        return int(offset) * _PARTITIONS + int(partition)


def catalogue_of(statements: str) -> Catalogue:
    catalogue = Catalogue()
    for parsed in parse(statements):
        assert isinstance(parsed.statement, CreateSource)
        source = plan_source(parsed.statement, catalogue, text=parsed.text)
        catalogue = dataclasses.replace(catalogue, sources={**catalogue.sources, source.name: source})
    return catalogue


def planned(statement: str, catalogue: Catalogue) -> QueryPlan:
    (parsed,) = parse(statement)
    assert isinstance(parsed.statement, CreateAs)
    return plan_query(parsed.statement, catalogue, text=parsed.text)


@dataclass(kw_only=True)
class Records:
    """Given records of sources, by the names of their topics."""

    spark: SparkSession
    folder: Path
    registry: MemoryRegistry

    def frame(self, records: Iterable[Given]) -> DataFrame:
        """From a file: of Python's rows Spark would make tasks that each start a Python process."""
        path = self.folder / f"{uuid.uuid4().hex}.json"
        with path.open("w") as file:
            for number, record in enumerate(records):
                file.write(json.dumps(_line(number, record)) + "\n")
        lines = self.spark.read.schema(
            "k STRING, v STRING, p INT, o BIGINT, t BIGINT, h ARRAY<STRUCT<key: STRING, value: STRING>>"
        ).json(str(path))
        return lines.select(
            F.unbase64("k").alias("key"),
            F.unbase64("v").alias("value"),
            F.lit("topic").alias("topic"),
            F.col("p").alias("partition"),
            F.col("o").alias("offset"),
            F.timestamp_micros(F.col("t") * 1000).alias("timestamp"),
            F.transform(
                "h",
                lambda each: F.struct(each["key"].alias("key"), F.unbase64(each["value"]).alias("value")),
            ).alias("headers"),
        )

    def sent(
        self, jobs: Sequence[tuple[QueryPlan, Mapping[str, DataFrame]]], limits: Limits = NO_LIMITS
    ) -> list[list[Sent]]:
        """What each plan sends. One job for all plans, as a job costs more than its records."""
        made = [
            # Without the origin, which only rows of a join of streams have.
            self.for_the_sink(plan, frames, limits).select(
                "topic", "key", "value", "headers", F.lit(number).alias("number")
            )
            for number, (plan, frames) in enumerate(jobs)
        ]
        found: list[list[Sent]] = [[] for _ in jobs]
        for row in reduce(DataFrame.unionByName, made).collect():
            found[row["number"]].append(_sent(row))
        return found

    def for_the_sink(
        self,
        plan: QueryPlan,
        frames: Mapping[str, DataFrame],
        limits: Limits = NO_LIMITS,
        tables: Mapping[str, DataFrame] | None = None,
    ) -> DataFrame:
        """`tables` are the topics as they are read as a whole, if `frames` are streams."""
        schemas = QuerySchemas(self.registry)
        inputs = GivenTopics(frames, schemas, frames if tables is None else tables)
        return sink_records(
            built(plan.root, inputs),
            plan.sink,
            topic=_identity(plan.sink.topic),
            keys=schemas.writer(plan.sink, "key"),
            values=schemas.writer(plan.sink, "value"),
            dead_letter_topic=DEAD_LETTERS,
            read=reads_of(plan.root)[0],
            query=QUERY,
            limits=limits,
        )


def _sent(row: Row) -> Sent:
    headers = {each["key"]: bytes(each["value"] or b"").decode("utf-8", "replace") for each in row["headers"]}
    return Sent(topic=row["topic"], key=_bytes(row["key"]), value=_bytes(row["value"]), headers=headers)


class GivenTopics:
    """The plan's `Inputs`."""

    def __init__(
        self, frames: Mapping[str, DataFrame], schemas: QuerySchemas, tables: Mapping[str, DataFrame]
    ) -> None:
        self._frames = frames
        self._schemas = schemas
        self._tables = tables

    def changes(self, read: Read) -> Rows:
        return self._rows(read, self._frames[read.source.topic])

    def standing(self, read: Read, *, is_global: bool) -> Rows:  # noqa: ARG002 - of the interface
        return latest_rows(read, self._rows(read, self._tables[read.source.topic]))

    def table_groups(self, step: Aggregate) -> Rows:
        (read,) = reads_of(step)
        batch = self._tables[read.source.topic].filter(F.col("key").isNotNull())
        newest = F.max_by(F.struct(*batch.columns), "offset").alias("record")
        after = batch.groupBy("key").agg(newest).select("record.*").filter(F.col("value").isNotNull())
        return aggregate_table(
            step, before=batch.filter(F.lit(False)), after=after, batch=batch, decode=self._rows
        )

    def _rows(self, read: Read, records: DataFrame) -> Rows:
        return read_rows(
            read,
            records,
            query=QUERY,
            topic=_identity(read.source.topic),
            key_schemas=self._writers(read.source, "key"),
            value_schemas=self._writers(read.source, "value"),
        )

    def _writers(self, source: Source, side: str) -> WriterSchemas:
        """All ids that the registry lacks are known to be absent; a new one would end the query once."""
        known = self._schemas.of_writers(source, side).by_id
        last = max(known, default=0)
        absent = frozenset(range(last)) - known.keys()
        return WriterSchemas(by_id=known, absent=absent, absent_from=last + 1)


def _identity(name: str) -> TopicIdentity:
    return TopicIdentity(name=name, topic_id=f"id-of-{name}", partitions=_PARTITIONS)


def _line(number: int, record: Given) -> dict[str, Any]:
    return {
        "k": _text(record.key),
        "v": _text(record.value),
        "p": number % _PARTITIONS,
        "o": number // _PARTITIONS,
        "t": record.timestamp_ms,
        "h": [{"key": name, "value": _text(value)} for name, value in record.headers],
    }


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(data: bytearray | None) -> bytes | None:
    return None if data is None else bytes(data)
