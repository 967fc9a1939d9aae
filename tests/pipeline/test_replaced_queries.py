"""CREATE OR REPLACE of a running query, a restart after ALTER, and EXPLAIN of what runs: on a real Spark."""

from __future__ import annotations

import dataclasses
import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.testing import EmbeddedBroker
from tests.pipeline.plans.harness import Plans, latest
from tests.pipeline.running_statements import running_statements

SOURCE = """
CREATE STREAM s (id VARCHAR KEY, v BIGINT, w VARCHAR)
  WITH (KAFKA_TOPIC='{p}s', VALUE_FORMAT='JSON', PARTITIONS=2);
"""


@pytest.fixture
def plans(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path) -> Plans:
    return Plans(spark=spark, bootstrap=broker.bootstrap, folder=tmp_path)


@pytest.fixture
def prefix() -> str:
    return f"r{uuid.uuid4().hex[:8]}_"


def records(first: int, count: int) -> list[tuple[str, Any]]:
    return [(f"k{number % 5}", {"v": number, "w": f"w{number}"}) for number in range(first, first + count)]


@pytest.mark.long
@pytest.mark.parametrize("mode", ["real-time", "micro-batch"])
def test_a_replaced_query_goes_on_where_it_was(plans: Plans, prefix: str, mode: str) -> None:
    with running_statements(plans, f"_{prefix}statements", mode=mode, prefix=prefix) as running:
        running.execute(SOURCE)
        running.execute("CREATE STREAM o WITH (KAFKA_TOPIC='{p}o') AS SELECT id, v FROM s WHERE v > 0;")
        plans.produce(f"{prefix}s", *records(1, 50))
        running.read("o", 50)
        running.until(lambda: running.committed("O") == 50)
        assert running.explain("O")[0].startswith(f"mode: {mode}, as ")

        running.execute(
            "CREATE OR REPLACE STREAM o WITH (KAFKA_TOPIC='{p}o') AS "
            "SELECT id, v * 10 AS v, w FROM s WHERE v > 60 OR v % 2 = 0;"
        )
        # The former query is stopped and the new one not yet started: what comes now is read by the new one.
        running.reconcile()
        plans.produce(f"{prefix}s", *records(51, 20))
        found = running.read("o", 50 + 5 + 10)
        rows = [out.json for out in found]
        old = [row["V"] for row in rows if "W" not in row]
        new = [(row["V"], row["W"]) for row in rows if "W" in row]
        assert sorted(old) == list(range(1, 51)), "nothing is read again"
        assert sorted(new) == sorted(
            (number * 10, f"w{number}") for number in range(51, 71) if number > 60 or number % 2 == 0
        )
        running.until(lambda: "Physical Plan" in running.explain("O")[1])
        plan, spark_plan = running.explain("O")
        assert "W VARCHAR" in plan
        assert "kafka" in spark_plan.lower()


@pytest.mark.long
def test_a_query_that_is_replaced_before_its_first_commit_loses_nothing(plans: Plans, prefix: str) -> None:
    """It began at the end of its source, and must not look for the end again."""
    plans.settings = dataclasses.replace(plans.settings, real_time_batch_seconds=600)
    with running_statements(plans, f"_{prefix}statements", mode="real-time", prefix=prefix) as running:
        running.execute(SOURCE)
        running.execute("CREATE STREAM o WITH (KAFKA_TOPIC='{p}o') AS SELECT id, v FROM s;", begin="latest")
        running.until(lambda: "Physical Plan" in running.explain("O")[1])
        plans.produce(f"{prefix}s", *records(1, 5))
        running.read("o", 5)
        assert running.committed("O") == 0
        running.execute(
            "CREATE OR REPLACE STREAM o WITH (KAFKA_TOPIC='{p}o') AS SELECT id, v, w FROM s;", begin="latest"
        )
        running.reconcile()
        plans.produce(f"{prefix}s", *records(6, 5))
        seen: set[int] = set()

        def all_there() -> bool:
            seen.update(out.json["V"] for out in running.read("o", 10))
            return seen >= set(range(1, 11))

        running.until(all_there)


@pytest.mark.long
def test_a_replaced_look_up_goes_on_where_it_was(plans: Plans, prefix: str) -> None:
    with running_statements(plans, f"_{prefix}statements", prefix=prefix) as running:
        running.execute(SOURCE)
        running.execute(
            "CREATE TABLE t (id VARCHAR PRIMARY KEY, name VARCHAR, place VARCHAR) "
            "WITH (KAFKA_TOPIC='{p}t', VALUE_FORMAT='JSON', PARTITIONS=1);"
        )
        plans.produce(f"{prefix}t", *((f"k{number}", {"name": "n", "place": "p"}) for number in range(5)))
        running.execute(
            "CREATE STREAM o WITH (KAFKA_TOPIC='{p}o') AS "
            "SELECT s.id AS id, v, name FROM s JOIN t ON s.id = t.id;"
        )
        plans.produce(f"{prefix}s", *records(1, 10))
        running.read("o", 10)
        running.until(lambda: running.committed("O") == 10)
        running.execute(
            "CREATE OR REPLACE STREAM o WITH (KAFKA_TOPIC='{p}o') AS "
            "SELECT s.id AS id, v, name, place FROM s JOIN t ON s.id = t.id WHERE v > 15;"
        )
        running.reconcile()
        plans.produce(f"{prefix}s", *records(11, 10))
        rows = [out.json for out in running.read("o", 15)]
        assert sorted(row["V"] for row in rows) == [*range(1, 11), *range(16, 21)]
        assert {row["PLACE"] for row in rows if row["V"] > 15} == {"p"}


@pytest.mark.long
def test_a_replaced_aggregation_goes_on_with_what_it_has_counted(plans: Plans, prefix: str) -> None:
    with running_statements(plans, f"_{prefix}statements", prefix=prefix) as running:
        running.execute(SOURCE)
        running.execute(
            "CREATE TABLE o WITH (KAFKA_TOPIC='{p}o') AS "
            "SELECT id, COUNT(*) AS n, SUM(v) AS total FROM s GROUP BY id;"
        )
        plans.produce(f"{prefix}s", ("a", {"v": 1}), ("a", {"v": 2}), ("b", {"v": 3}))
        running.until(
            lambda: latest(running.read("o", 2)) == {b"a": {"N": 2, "TOTAL": 3}, b"b": {"N": 1, "TOTAL": 3}}
        )
        running.until(lambda: running.committed("O") == 3)
        running.execute(
            "CREATE OR REPLACE TABLE o WITH (KAFKA_TOPIC='{p}o') AS "
            "SELECT id, COUNT(*) AS n, SUM(v) AS total, SUM(v) / COUNT(*) AS mean FROM s WHERE v < 100 "
            "GROUP BY id HAVING COUNT(*) > 1;"
        )
        running.reconcile()
        plans.produce(f"{prefix}s", ("a", {"v": 100}), ("a", {"v": 6}), ("b", {"v": 5}), ("c", {"v": 7}))
        expected = {b"a": {"N": 3, "TOTAL": 9, "MEAN": 3}, b"b": {"N": 2, "TOTAL": 8, "MEAN": 4}}
        running.until(lambda: latest(running.read("o", 2)) == expected)


@pytest.mark.long
def test_a_star_stays_what_it_was_after_a_restart(plans: Plans, prefix: str) -> None:
    log = f"_{prefix}statements"
    with running_statements(plans, log, prefix=prefix) as running:
        running.execute(SOURCE)
        running.execute("CREATE STREAM o WITH (KAFKA_TOPIC='{p}o') AS SELECT * FROM s;")
        running.execute(
            "CREATE STREAM t (id VARCHAR KEY, v BIGINT, w VARCHAR) WITH (KAFKA_TOPIC='{p}t', "
            "VALUE_FORMAT='JSON', PARTITIONS=1);"
        )
        running.execute("INSERT INTO t SELECT * FROM s;")
        plans.produce(f"{prefix}s", ("a", {"v": 1, "w": "x", "z": 1}))
        running.read("o", 1)
        running.read("t", 1)
        running.until(lambda: running.committed("O") == running.committed("T") == 1)
        running.execute("ALTER STREAM s ADD COLUMN z INT;")
    with running_statements(plans, log, prefix=prefix) as running:
        plans.produce(f"{prefix}s", ("b", {"v": 2, "w": "y", "z": 2}))
        for sink in ("o", "t"):
            found = running.read(sink, 2)
            assert latest(found) == {b"a": {"V": 1, "W": "x"}, b"b": {"V": 2, "W": "y"}}
            assert len(found) == 2
        running.until(lambda: running.committed("O") == 2)
        running.execute("CREATE OR REPLACE STREAM o WITH (KAFKA_TOPIC='{p}o') AS SELECT * FROM s;")
        running.reconcile()
        plans.produce(f"{prefix}s", ("c", {"v": 3, "w": "z", "z": 3}))
        found = running.read("o", 3)
        assert latest(found)[b"c"] == {"V": 3, "W": "z", "Z": 3}
        assert len(found) == 3


@pytest.mark.long
def test_topics_of_three_and_five_partitions_are_joined_and_repartitioned(plans: Plans, prefix: str) -> None:
    with running_statements(plans, f"_{prefix}statements", prefix=prefix) as running:
        running.execute(
            """
            CREATE STREAM three (id VARCHAR KEY, v BIGINT)
              WITH (KAFKA_TOPIC='{p}three', VALUE_FORMAT='JSON', PARTITIONS=3);
            CREATE STREAM five (id VARCHAR KEY, w BIGINT)
              WITH (KAFKA_TOPIC='{p}five', VALUE_FORMAT='JSON', PARTITIONS=5);
            CREATE STREAM o WITH (KAFKA_TOPIC='{p}o') AS
              SELECT three.id AS id, v, w FROM three JOIN five WITHIN 1 MINUTE ON three.id = five.id;
            """
        )
        plans.produce(f"{prefix}three", *((f"k{number}", {"v": number}, 1_000) for number in range(40)))
        plans.produce(f"{prefix}five", *((f"k{number}", {"w": -number}, 2_000) for number in range(40)))
        found = running.read("o", 40)
        assert sorted((out.json["V"], out.json["W"]) for out in found) == [
            (each, -each) for each in range(40)
        ]
        running.until(lambda: "Physical Plan" in running.explain("O")[1])
        plan, spark_plan = running.explain("O")
        assert plan.startswith("mode: micro-batch, as a join of streams keeps state")
        assert "repartitions the left side: 3 and 5 partitions must become equal in number" in plan
        assert "Exchange hashpartitioning" in spark_plan
