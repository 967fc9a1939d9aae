"""Makes the archives of classes that tests start Spark and Apache Kafka with (`jvm_flags.py`).

    python -m tests.class_archives

Each is written by a JVM that has done a little of everything, so that it has loaded most classes, and has its
name when it is complete.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.core import settings
from headrace.core.settings import Settings
from headrace.engines.apache_kafka import ApacheKafka
from headrace.java.artifacts import Artifacts
from headrace.java.runtime import JavaRuntime, find_java
from headrace.pipeline.spark.warm_up import warm_up
from headrace.testing import EmbeddedBroker
from tests import jvm_flags
from tests.pipeline.plans.given_records import catalogue_of, planned
from tests.pipeline.plans.harness import Plans
from tests.ports import free_port
from tests.spark_session import running_spark

_STREAM = "CREATE STREAM clicks (id VARCHAR KEY, n INT) WITH (KAFKA_TOPIC='clicks', VALUE_FORMAT='JSON');"
_STATEMENTS = (
    ("micro-batch", "CREATE STREAM copied WITH (VALUE_FORMAT='AVRO') AS SELECT * FROM clicks;"),
    ("real-time", "CREATE STREAM chosen AS SELECT * FROM clicks WHERE n > 0;"),
    ("micro-batch", "CREATE TABLE counted AS SELECT id, COUNT(*) AS c, SUM(n) AS s FROM clicks GROUP BY id;"),
)


def run_spark(folder: Path, java: JavaRuntime, artifacts: Artifacts) -> None:
    with EmbeddedBroker(folder / "broker") as broker, running_spark(folder, java, artifacts) as spark:
        _fill_a_lake(spark, folder)
        plans = Plans(spark=spark, bootstrap=broker.bootstrap, folder=folder)
        plans.cluster.create_topic("clicks", partitions=1)
        plans.produce("clicks", ("k", {"n": 1}))
        for mode, statement in _STATEMENTS:
            plans.results(planned(statement, catalogue_of(_STREAM)), 1, mode=mode)


def _fill_a_lake(spark: SparkSession, folder: Path) -> None:
    configured = dataclasses.replace(Settings(), data_dir=folder)
    rounds = iter((False, True))
    warm_up(spark, settings=configured, stopping=lambda: next(rounds))


def run_kafka(folder: Path, java: JavaRuntime, artifacts: Artifacts) -> None:
    engine = ApacheKafka(folder, java, artifacts.jars("kafka"), "127.0.0.1", free_port())
    engine.start()
    try:
        engine.wait_ready(timeout=120)
    finally:
        engine.stop()


def _make(archive: Path, run: Callable[[Path, JavaRuntime, Artifacts], None]) -> None:
    archive.parent.mkdir(exist_ok=True)
    partial = archive.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    jvm_flags.use(spark=jvm_flags.making(partial), kafka=jvm_flags.making(partial))
    cache = settings.load({}, environ=os.environ, folder=Path("/")).cache_dir
    with tempfile.TemporaryDirectory(prefix="headrace-classes-") as folder:
        run(Path(folder), find_java(), Artifacts(cache))
    if partial.exists():
        partial.replace(archive)
    else:
        print(f"This Java wrote no {archive.name}: the tests take longer without.")


def main() -> None:
    _make(jvm_flags.SPARK_ARCHIVE, run_spark)
    _make(jvm_flags.KAFKA_ARCHIVE, run_kafka)


if __name__ == "__main__":
    main()
