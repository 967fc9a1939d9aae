"""A program: hand-written JSON to Avro, or Avro to Delta, on stock Spark Structured Streaming; and a class to
drive it.

It uses `from_json` with the events' schema, `SUBSTRING`, `to_avro` with Confluent's five-byte prefix, Kafka
in and out, and Spark's defaults for everything not mentioned here: the trigger, the checkpoints, the consumer
and the producer. It has as many task slots as cores (`local[*]`) and the heap that the platform gives its
Spark. Records that cannot be read become nulls: no dead letters, no coordinates.

Each command is a line of JSON in, each answer a line out:

    {"start": NAME, "source": TOPIC, "sink": TOPIC, "starting": "earliest", "only": ""}   {"started": NAME}
    {"start": NAME, "source": TOPIC, "table": FOLDER}            {"started": NAME}
    {"stop": NAME}                                               {"progress": [...]}

With a table, it is hand-written Avro to Delta: `from_avro` with the schema, partitioned by type and date.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Any, Final, Self

from headrace.core.settings import Settings
from headrace.java.artifacts import Artifacts
from headrace.java.runtime import find_java
from side_by_side.processes import CpuTime
from side_by_side.whole_platform import cpu_of_family

STOCK: Final = "stock Spark"
SCHEMA_ID: Final = 1
FIELDS: Final = ("Event_Type", "Event_Version", "User_ID", "Listing_ID", "Server_Time", "Device_Type")
AVRO_FIELDS: Final = (*(name.upper() for name in FIELDS), "SERVER_DATE")
AVRO_SCHEMA: Final = json.dumps(
    {
        "type": "record",
        "name": "Event",
        "fields": [{"name": name, "type": ["null", "string"], "default": None} for name in AVRO_FIELDS],
    }
)


class StockSpark:
    """The program as a process: stock Spark in its own JVM, on the platform's broker."""

    name = STOCK

    def __init__(self, settings: Settings, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, settings.bootstrap, str(folder), settings.spark_memory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / "stock-spark.log").open("wb"),
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
        )
        self._answer()

    def start(self, name: str, *, source: str, sink: str, starting: str, only: str = "") -> None:
        """`only`: the one event type to select."""
        self._ask({"start": name, "source": source, "sink": sink, "starting": starting, "only": only})

    def start_table(self, name: str, *, source: str, table: Path) -> None:
        """From an Avro topic into a Delta table."""
        self._ask({"start": name, "source": source, "table": str(table)})

    def stop(self, name: str) -> list[dict[str, Any]]:
        """Stop a query; returns what Spark reports about its last batches."""
        progress: list[dict[str, Any]] = self._ask({"stop": name})["progress"]
        return progress

    def pid(self) -> int:
        return self._process.pid

    def cpu(self) -> CpuTime:
        return cpu_of_family(self._process.pid)

    def close(self) -> None:
        self._stream(self._process.stdin).close()
        self._process.wait(60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        stream = self._stream(self._process.stdin)
        stream.write(json.dumps(command) + "\n")
        stream.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        line = self._stream(self._process.stdout).readline()
        if not line:
            raise RuntimeError("stock Spark exited; its output is in stock-spark.log in its folder")
        answer: dict[str, Any] = json.loads(line)
        return answer

    @staticmethod
    def _stream(stream: IO[str] | None) -> IO[str]:
        assert stream is not None
        return stream


def main(bootstrap: str, folder: str, memory: str) -> None:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only the program needs Spark
    from pyspark.sql import functions as F  # noqa: N812, PLC0415
    from pyspark.sql.avro.functions import from_avro, to_avro  # noqa: PLC0415

    settings = Settings()
    os.environ["JAVA_HOME"] = str(find_java(settings.java_home).home)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    jars = Artifacts(settings.cache_dir.expanduser()).jars("spark")
    spark = (
        SparkSession.builder.appName("stock")
        .master("local[*]")
        .config("spark.driver.memory", memory)
        .config("spark.driver.extraClassPath", os.pathsep.join(str(jar) for jar in jars))
        .config("spark.local.dir", f"{folder}/scratch")
        .config("spark.ui.enabled", "false")
        # Delta does not work without these.
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .getOrCreate()
    )
    schema = ", ".join(f"{name} STRING" for name in FIELDS)
    queries = {}

    def start(command: dict[str, Any]) -> dict[str, Any]:
        records = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", command["source"])
            .option("startingOffsets", command["starting"])
            .load()
        )
        events = records.select("key", F.from_json(F.col("value").cast("string"), schema).alias("event"))
        if command["only"]:
            events = events.filter(F.col("event.Event_Type") == command["only"])
        columns = [F.col(f"event.{name}").alias(name.upper()) for name in FIELDS]
        date = F.substring(F.col("event.Server_Time"), 1, 10).alias("SERVER_DATE")
        header = F.unhex(F.lit(f"00{SCHEMA_ID:08x}"))
        value = F.concat(header, to_avro(F.struct(*columns, date), AVRO_SCHEMA))
        name = command["start"]
        queries[name] = (
            events.select("key", value.alias("value"))
            .writeStream.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", command["sink"])
            .option("checkpointLocation", f"{folder}/checkpoints/{name}")
            .start()
        )
        return {"started": name}

    def start_table(command: dict[str, Any]) -> dict[str, Any]:
        records = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("subscribe", command["source"])
            .option("startingOffsets", "earliest")
            .load()
        )
        event = from_avro(F.expr("substring(value, 6)"), AVRO_SCHEMA).alias("event")
        name = command["start"]
        queries[name] = (
            records.select(event)
            .select("event.*")
            .writeStream.format("delta")
            .partitionBy("EVENT_TYPE", "SERVER_DATE")
            .option("checkpointLocation", f"{folder}/checkpoints/{name}")
            .start(command["table"])
        )
        return {"started": name}

    def stop(command: dict[str, Any]) -> dict[str, Any]:
        # Without `processAllAvailable` first, which never returns while records keep arriving.
        query = queries.pop(command["stop"])
        query.stop()
        return {"progress": [json.loads(each.json) for each in query.recentProgress]}

    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        if "start" in command:
            answer = start_table(command) if "table" in command else start(command)
        else:
            answer = stop(command)
        print(json.dumps(answer), flush=True)
    for query in queries.values():
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
