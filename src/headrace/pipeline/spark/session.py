"""The Spark session of the pipeline process: JVM, connectors, and settings for a small machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from headrace.core.settings import Settings
from headrace.lake import layout
from headrace.pipeline.spark.fair_turns import all_slots, pools_file

_SQL_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    # As in files that are written in columns. The older INT96 says neither that it is in UTC nor its limits.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # JSON fields are case-insensitive, so `a` and `A` in one event are one column; the last one wins, as in
    # ksqlDB.
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    # Otherwise Spark would substitute ${…} in the texts of statements, even with environment variables.
    "spark.sql.variable.substitute": "false",
    # The defaults of 200 and 50 are for clusters; here more tasks than cores are overhead.
    "spark.sql.shuffle.partitions": "2",
    # Adaptive execution splits every small query into a job per stage; batches here are small and their plans
    # fixed.
    "spark.sql.adaptive.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
    # Hadoop's own local file system starts a `chmod` process for every file it makes (32 and
    # more a batch); this one asks the JVM.
    "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # A task repeated within a run would write its rows again. A failed task ends the run, and the next
    # one finds out what was written.
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.speculation": "false",
    # Its workers have what they need from the start.
    "spark.python.daemon.module": "headrace.pipeline.spark.python_daemon",
    # A thread for each core in each Python process would only wait: tasks are the threads here.
    **{f"spark.executorEnv.{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS")},
    # And a thread of Arrow's allocator would not survive the fork.
    "spark.executorEnv.JE_ARROW_MALLOC_CONF": "background_thread:false",
    # Each run of a query has its own producer; that of a former run need not stay for 10 minutes.
    "spark.kafka.producer.cache.timeout": "3m",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.databricks.delta.autoCompact.enabled": "false",
    # Offsets are all different: a dictionary of them is made in vain.
    **{f"spark.hadoop.parquet.enable.dictionary#{name}": "false" for name in layout.ALL_DIFFERENT},
    "spark.sql.ui.retainedExecutions": "20",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "500",
    # The links that end jobs also work from any other site's page: nobody checks who sends the request.
    "spark.ui.killEnabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.cleaner.periodicGC.interval": "10min",
    "spark.scheduler.mode": "FAIR",
    # A query keeps a consumer for each partition it reads. With more of them than this (64 by default) their
    # connections are closed and made again all the time.
    "spark.kafka.consumer.cache.capacity": "1024",
}

_JAVA_OPTIONS: Final = (
    # A damaged Avro record can claim a string of gigabytes; the reader must refuse it instead of running out
    # of memory.
    "-Dorg.apache.avro.limits.string.maxLength=67108864",
    "-Dorg.apache.avro.limits.bytes.maxLength=67108864",
    "-Dorg.apache.avro.limits.collectionItems.maxLength=10000000",
    # For the management beans of Kafka's producers (`producers.py`).
    "--add-opens=java.management/com.sun.jmx.mbeanserver=ALL-UNNAMED",
    # Java matches repeated groups of regular expressions by recursion; with the usual megabyte, some overflow
    # the stack on a text of 2,000 characters, and Spark ends the JVM then.
    "-Xss16m",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=50",
    "-XX:+ExitOnOutOfMemoryError",
    # Otherwise Java never compiles a method of more than 8,000 bytes. Spark generates one for a table with a
    # dozen columns: each row would be interpreted.
    "-XX:-DontCompileHugeMethods",
)


def create_session(settings: Settings, *, java_home: Path, jars: Iterable[Path]) -> SparkSession:
    """Start the JVM and return its session. `jars` are those of `Artifacts.spark_jars`."""
    os.environ["JAVA_HOME"] = str(java_home)
    # Spark Connect or another Spark in the environment would take over this session.
    for variable in ("SPARK_HOME", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "PYSPARK_SUBMIT_ARGS"):
        os.environ.pop(variable, None)
    # Tasks that write the lake in columns run in Python processes that Spark starts.
    # They need this one: another Python does not have our packages.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Otherwise Spark would bind the address that the host name resolves to.
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    folder = settings.data_dir / "pipeline"
    (folder / "scratch").mkdir(parents=True, exist_ok=True)
    pools = folder / "fair_pools.xml"
    pools.write_text(pools_file(slots=settings.pipeline_slots), encoding="utf-8")
    builder = SparkSession.builder.appName("headrace").master(f"local[{all_slots(settings.pipeline_slots)}]")
    for name, value in _SQL_SETTINGS.items():
        builder = builder.config(name, value)
    with resources.as_file(resources.files(__package__) / "log4j2.properties") as logging_file:
        options = (
            f"-Dlog4j2.configurationFile={logging_file}",
            f"-Djava.io.tmpdir={folder / 'scratch'}",
            *_JAVA_OPTIONS,
        )
        session = (
            builder.config("spark.driver.memory", settings.spark_memory)
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.extraClassPath", os.pathsep.join(str(jar) for jar in jars))
            .config("spark.driver.extraJavaOptions", " ".join(options))
            .config("spark.scheduler.allocation.file", pools.absolute().as_uri())
            .config("spark.local.dir", str(folder / "scratch"))
            # Where files for a bucket are until they are whole.
            .config("spark.hadoop.fs.s3a.buffer.dir", str(folder / "scratch" / "s3"))
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .config("spark.ui.enabled", str(settings.spark_ui_port > 0).lower())
            .config("spark.ui.port", str(settings.spark_ui_port))
            .getOrCreate()
        )
    _write_no_checksums(session)
    return session


def ask_jvm(session: SparkSession) -> None:
    """Wait until the JVM has answered."""
    jvm = session.sparkContext._jvm
    assert jvm is not None
    jvm.java.lang.System.nanoTime()


def _write_no_checksums(session: SparkSession) -> None:
    """Omit the `.crc` file that Hadoop writes for each local file.

    The JVM shares one object for local files. A file system without checksums would have the same effect, but
    RocksDB's snapshots require Hadoop's class with checksums.
    """
    jvm, context = session._jvm, session.sparkContext._jsc
    assert jvm is not None
    assert context is not None
    local = jvm.org.apache.hadoop.fs.FileSystem.getLocal(context.hadoopConfiguration())
    local.setWriteChecksum(False)
    local.setVerifyChecksum(False)
