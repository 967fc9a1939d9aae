"""Statements and exactly once: `latest` is the moment of the answer; pausing, replacing, and dropping and
creating again repeat nothing.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.testing import EmbeddedBroker
from tests.pipeline.plans.harness import Plans
from tests.pipeline.running_statements import RunningStatements, running_statements


@pytest.fixture
def plans(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path) -> Plans:
    return Plans(spark=spark, bootstrap=broker.bootstrap, folder=tmp_path)


def test_latest_is_the_answer_and_later_statements_repeat_nothing(plans: Plans) -> None:
    prefix = f"l{uuid.uuid4().hex[:8]}_"
    # No batch of this test ends, so nothing is ever committed.
    plans.settings = dataclasses.replace(plans.settings, real_time_batch_seconds=600)
    with running_statements(plans, f"_{prefix}statements", mode="real-time", prefix=prefix) as running:
        running.execute(
            "CREATE STREAM s (v INT) WITH (KAFKA_TOPIC='{p}s', VALUE_FORMAT='JSON', PARTITIONS=2);"
        )
        _produce(plans, prefix, 0)
        create = "STREAM o WITH (KAFKA_TOPIC='{p}o', PARTITIONS=2) AS SELECT v FROM s"
        running.execute(f"CREATE {create};", begin="latest")
        # The pipeline has not even seen the statement yet.
        _produce(plans, prefix, 1)
        _expect(running, 1)
        (keeper,) = running.reconcile()
        assert keeper.running is not None
        assert not keeper.running.has_proved_itself(), "no batch has ended"
        query = running.query_id("O")
        running.execute(f"PAUSE {query};")
        running.turn()
        _produce(plans, prefix, 2)
        running.execute(f"RESUME {query};")
        _expect(running, 2)
        running.execute(f"CREATE OR REPLACE {create} WHERE v >= 0;", begin="latest")
        running.turn()
        _produce(plans, prefix, 3)
        _expect(running, 3)
        # Nobody turns the pipeline until the records are there: the former query must have stopped before.
        running.execute(f"DROP STREAM o; CREATE {create};", begin="latest")
        _produce(plans, prefix, 4)
        running.turn()
        # Only the new query derives these, behind whatever it has derived of those before.
        _produce(plans, prefix, 5)
        _expect(running, 5)


def _produce(plans: Plans, prefix: str, part: int) -> None:
    for number in range(part * 20, part * 20 + 20):
        plans.produce(f"{prefix}s", (None, {"v": number}), partition=number % 2)


def _expect(running: RunningStatements, parts: int) -> None:
    """Each number since the statement was answered, once."""
    found = Counter(record.json["V"] for record in running.read("o", parts * 20))
    assert found == Counter(range(20, 20 + parts * 20))
