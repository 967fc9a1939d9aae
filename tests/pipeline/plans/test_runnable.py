"""What planning accepts, Spark runs; what planning refuses as impossible on Spark, Spark refuses.

Every kind of query is planned, and started on streams without records.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headrace.pipeline.plan import QueryPlan, steps_of
from headrace.pipeline.rules import planning
from headrace.pipeline.rules.modes import output_mode
from headrace.pipeline.spark.steps.table_aggregating import aggregated_table
from headrace.pipeline.statements.errors import UnsupportedError
from tests.pipeline.plans.given_records import Records, catalogue_of, planned
from tests.pipeline.plans.harness import MemoryRegistry

CATALOGUE = catalogue_of(
    """
    CREATE STREAM s (id INT KEY, v INT, many ARRAY<INT>) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
    CREATE STREAM r (id INT KEY, v INT) WITH (KAFKA_TOPIC='r', VALUE_FORMAT='JSON');
    CREATE STREAM q (id INT KEY, v INT) WITH (KAFKA_TOPIC='q', VALUE_FORMAT='JSON');
    CREATE STREAM h (id INT KEY, v INT)
        WITH (KAFKA_TOPIC='h', VALUE_FORMAT='JSON', WINDOW_TYPE='TUMBLING', WINDOW_SIZE='1 HOURS');
    CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');
    CREATE TABLE u (id INT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='u', VALUE_FORMAT='JSON');
    """
)
WINDOWS = ("", "WINDOW TUMBLING (SIZE 1 HOUR)")
WINDOWS_AND_SESSIONS = (
    *WINDOWS,
    "WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY 30 MINUTES)",
    "WINDOW SESSION (1 HOUR)",
)
EMIT = ("", "EMIT FINAL")
KINDS = ("INNER", "LEFT", "RIGHT", "FULL")


def _streams() -> Iterator[tuple[str, str]]:
    """What a query may read as a stream, and its key."""
    yield "s", "id"
    yield "h", "id"
    yield "s LEFT JOIN t ON s.id = t.id", "s.id"
    for kind in KINDS:
        key = "ROWKEY" if kind == "FULL" else "s.id"
        yield f"s {kind} JOIN r WITHIN 1 HOUR ON s.id = r.id", key
        if kind != "FULL":
            yield f"s {kind} JOIN r WITHIN 1 HOUR ON s.id = r.id JOIN t ON s.id = t.id", key
    for first, second in itertools.product(KINDS, KINDS):
        joins = f"{first} JOIN r WITHIN 1 HOUR ON s.id = r.id {second} JOIN q WITHIN 1 HOUR ON s.id = q.id"
        yield f"s {joins}", "ROWKEY" if second == "FULL" else "s.id"


def _statements() -> Iterator[str]:
    for source, key in _streams():
        column = "v" if " " not in source else "s.v"
        yield f"CREATE STREAM o AS SELECT {key} AS k, {column} AS v FROM {source};"
        yield f"CREATE STREAM o AS SELECT {key} AS k, {column} AS v FROM {source} WHERE {column} > 1;"
        grouped = itertools.product(WINDOWS if "JOIN" in source else WINDOWS_AND_SESSIONS, EMIT)
        for window, emit in grouped if source.count("JOIN") < 2 else [("", "")]:
            if emit and not window:
                continue
            yield (
                f"CREATE TABLE o AS SELECT {column} AS v, COUNT(*) AS n FROM {source} {window} "
                f"GROUP BY {column} HAVING COUNT(*) > 1 {emit};"
            )
    yield "CREATE STREAM o AS SELECT id, EXPLODE(many) AS e FROM s;"
    yield "CREATE STREAM o AS SELECT id, v FROM s PARTITION BY v;"
    yield "CREATE STREAM o AS SELECT id, v FROM h PARTITION BY v;"
    yield "CREATE TABLE o AS SELECT id, v FROM t WHERE v > 1;"
    yield "CREATE TABLE o AS SELECT v, COUNT(*) AS n FROM t WHERE v > 1 GROUP BY v HAVING COUNT(*) > 1;"
    for kind in KINDS:
        key = "ROWKEY" if kind == "FULL" else "t.id"
        yield f"CREATE TABLE o AS SELECT {key} AS k, t.v, u.v FROM t {kind} JOIN u ON t.id = u.id;"
        yield f"CREATE TABLE o AS SELECT t.v, COUNT(*) AS n FROM t {kind} JOIN u ON t.id = u.id GROUP BY t.v;"
    for kind in ("INNER", "LEFT"):
        yield f"CREATE TABLE o AS SELECT t.id, t.v, u.v FROM t {kind} JOIN u ON t.v = u.id;"


def _chosen(statements: tuple[str, ...]) -> list[Any]:
    """Every sixteenth statement; the others run with the long tests."""
    some = tuple(each for number, each in enumerate(statements) if number % 16 == 0)
    others = tuple(each for each in statements if each not in some)
    return [pytest.param(some, id="some"), pytest.param(others, id="others", marks=pytest.mark.long)]


STATEMENTS = tuple(dict.fromkeys(_statements()))


def _refusal(statement: str) -> UnsupportedError | None:
    try:
        planned(statement, CATALOGUE)
    except UnsupportedError as error:
        return error
    return None


ACCEPTED = tuple(statement for statement in STATEMENTS if _refusal(statement) is None)
REFUSED = tuple(statement for statement in STATEMENTS if _refusal(statement) is not None)


@pytest.fixture(scope="module")
def records(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Records:
    return Records(spark=spark, folder=tmp_path_factory.mktemp("records"), registry=MemoryRegistry())


def test_refusals_have_a_position() -> None:
    assert len(REFUSED) > 20
    for statement in REFUSED:
        refusal = _refusal(statement)
        assert refusal is not None
        assert refusal.at.line == 1
        assert refusal.remedy, statement


@pytest.mark.parametrize("statements", _chosen(ACCEPTED))
def test_spark_runs_what_is_accepted(records: Records, tmp_path: Path, statements: tuple[str, ...]) -> None:
    found = {
        statement: reason
        for number, statement in enumerate(statements)
        if (reason := _why_not(records, planned(statement, CATALOGUE), tmp_path / str(number)))
    }
    assert found == {}


@pytest.mark.parametrize("statements", _chosen(REFUSED))
def test_spark_refuses_what_is_refused(
    records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statements: tuple[str, ...]
) -> None:
    """A limit that Spark no longer has can go. It finds a second watermark only with records
    (`test_limits.py`).
    """
    statements = tuple(each for each in statements if "second watermark" not in str(_refusal(each)))
    monkeypatch.setattr(planning, "check_runnable", lambda _plan: None)
    run = [
        statement
        for number, statement in enumerate(statements)
        if _why_not(records, planned(statement, CATALOGUE), tmp_path / str(number)) is None
    ]
    assert run == []


def _why_not(records: Records, plan: QueryPlan, folder: Path) -> str | None:
    """Why Spark does not run the plan on streams without records; None if it does."""
    topics = [CATALOGUE.sources[name].topic for name in plan.sources]
    tables = {topic: records.frame(()) for topic in topics}
    is_batch = any(aggregated_table(step) for step in steps_of(plan.root))
    streams = tables if is_batch else {topic: _stream(records.spark, topic) for topic in topics}
    try:
        rows = records.for_the_sink(plan, streams, tables=tables)
        if is_batch:
            # Aggregations of tables run batch by batch.
            rows.collect()
            return None
        query = (
            rows.writeStream.format("noop")
            .outputMode(output_mode(plan))
            .option("checkpointLocation", str(folder))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination(60)
        finally:
            query.stop()
    except (PySparkException, AssertionError) as error:
        return str(error)[:300] or type(error).__name__
    return None


def _stream(spark: SparkSession, topic: str) -> DataFrame:
    """A stream with the columns of Kafka's source, and no records."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    return rows.filter(F.lit(False)).select(
        F.lit(None).cast("binary").alias("key"),
        F.lit(None).cast("binary").alias("value"),
        F.lit(topic).alias("topic"),
        F.lit(0).alias("partition"),
        F.col("value").alias("offset"),
        "timestamp",
        F.lit(None).cast("array<struct<key: string, value: binary>>").alias("headers"),
    )
