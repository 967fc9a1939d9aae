"""One Spark session for all tests of the pipeline: the same session that the pipeline process makes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from headrace.java.artifacts import Artifacts
from headrace.java.runtime import JavaRuntime
from tests.spark_session import running_spark


@pytest.fixture(scope="session")
def spark(
    java: JavaRuntime, artifacts: Artifacts, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    with running_spark(tmp_path_factory.mktemp("spark"), java, artifacts) as session:
        yield session
