"""What is done to every batch alike, made once: columns that are selected, and measures that are observed.

PySpark makes an expression with a call to the JVM for each of its parts, and passes a list of columns with
one for each. A small batch of the lake took 1,800 of them, each of which waits for a core if there is much to
do. Uses parts of PySpark that are not public, so it belongs to the pinned version.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql.classic.column import _to_seq


class Selection:
    """A `select`, for frames that have the columns which it names."""

    def __init__(self, spark: SparkSession, columns: Sequence[Column]) -> None:
        self._columns = _seq(spark, columns)

    def of(self, frame: DataFrame) -> DataFrame:
        return DataFrame(frame._jdf.select(self._columns), frame.sparkSession)


class Measures:
    """An `observe`, for frames that have the columns which it names."""

    def __init__(self, spark: SparkSession, columns: Sequence[Column]) -> None:
        self._spark = spark
        self._first: Any = columns[0]._jc
        self._others = _seq(spark, columns[1:])

    def of(self, frame: DataFrame) -> tuple[DataFrame, Observation]:
        """The frame to be written, and what will have been seen then."""
        observation = Observation()
        jvm = self._spark._jvm
        assert jvm is not None
        observation._jvm = jvm
        observation._jo = jvm.org.apache.spark.sql.Observation()
        observed = frame._jdf.observe(observation._jo, self._first, self._others)
        return DataFrame(observed, frame.sparkSession), observation


def _seq(spark: SparkSession, columns: Sequence[Column]) -> Any:
    return _to_seq(spark.sparkContext, [each._jc for each in columns])
