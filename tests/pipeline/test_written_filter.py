"""The filter of what was written drops exactly that, and does not grow with it; on Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headrace.pipeline.runs.identities import Collected, Written
from headrace.pipeline.spark.steps.rows import OFFSET, ORDINAL, PARTITION, Rows, column
from headrace.pipeline.spark.written_filter import only_of, without_written

# A partition, an offset and an ordinal.
Place = tuple[int, int, int]
# Records this far from each other are in stretches of their own.
FAR = 100_000


def written(places: Iterable[Place]) -> dict[int, Written]:
    found: dict[int, Collected] = {}
    for partition, offset, ordinal in places:
        found.setdefault(partition, Collected()).add(offset, ordinal)
    return {partition: each.written() for partition, each in found.items()}


def rows(spark: SparkSession, places: Iterable[Place]) -> Rows:
    """One text for all: a row of its own would be a call to the JVM each."""
    text = ";".join(",".join(map(str, place)) for place in places)
    texts = spark.range(0, 1, 1, 1).select(F.explode(F.split(F.lit(text), ";")).alias("text"))
    frame = texts.select(F.split("text", ",").cast("array<bigint>").alias("place"))
    return Rows(
        frame=frame.select(
            F.col("place")[0].cast("int").alias(PARTITION),
            F.col("place")[1].alias(OFFSET),
            F.col("place")[2].cast("int").alias(ORDINAL),
        ),
        is_table=False,
    )


def places_of(rows: Rows) -> set[Place]:
    found = rows.frame.select(column(PARTITION), column(OFFSET), column(ORDINAL)).collect()
    return {(row[0], row[1], row[2]) for row in found}


def neighbours(places: Iterable[Place]) -> set[Place]:
    return {
        (partition + more, max(offset + further, 0), ordinal + other)
        for partition, offset, ordinal in places
        for more, further, other in ((0, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (1, 0, 0))
    }


def _scattered(chance: Random, stretches: int) -> list[Place]:
    """In stretches with and without holes, of several partitions, with several rows of some records."""
    found: list[Place] = []
    for number in range(stretches):
        partition, first = chance.choice((0, 1, 5)), number * FAR + chance.randrange(50)
        is_whole, width = chance.random() < 0.3, chance.choice((1, 1, 3))
        found += [
            (partition, first + offset, ordinal)
            for offset in range(chance.randint(1, 30))
            for ordinal in range(width)
            if is_whole or chance.random() < 0.5
        ]
    return [*found, (0, 2**62, 0)]


@pytest.mark.parametrize("stretches", [1, 3, 40])
def test_exactly_what_was_written_is_dropped(spark: SparkSession, stretches: int) -> None:
    places = _scattered(Random(stretches), stretches)
    asked = neighbours(places)
    assert places_of(without_written(rows(spark, asked), written(places))) == asked - set(places)
    assert places_of(only_of(rows(spark, asked), written(places))) == set(places)


def test_nothing_was_written(spark: SparkSession) -> None:
    asked: set[Place] = {(0, 0, 0), (1, 5, 0)}
    assert places_of(without_written(rows(spark, asked), {})) == asked
    assert places_of(only_of(rows(spark, asked), {})) == set()


def test_the_filter_does_not_grow_with_what_was_written(spark: SparkSession) -> None:
    def mentions(stretches: int) -> int:
        known: Mapping[int, Written] = written((0, number * FAR, 0) for number in range(stretches))
        assert len(known[0].stretches) == stretches
        frame = without_written(rows(spark, [(0, 0, 0)]), known).frame
        return str(frame._jdf.queryExecution().analyzed().toString()).count(OFFSET)

    assert mentions(3_000) == mentions(30) <= mentions(8)
