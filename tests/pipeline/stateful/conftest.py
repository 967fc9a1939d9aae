"""What tests of stateful queries share."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.testing import EmbeddedBroker
from tests.pipeline.plans.harness import Plans


@pytest.fixture
def plans(spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path) -> Plans:
    return Plans(spark=spark, bootstrap=broker.bootstrap, folder=tmp_path)
