"""One Spark session for all tests of the pipeline: the same session that the pipeline process makes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import py4j.java_gateway
import py4j.protocol
import pytest
from pyspark.sql import SparkSession

from headrace.core.settings import Settings
from headrace.java.artifacts import Artifacts
from headrace.java.runtime import JavaRuntime
from headrace.pipeline.spark.session import create_session


@pytest.fixture(scope="session")
def spark(
    java: JavaRuntime, artifacts: Artifacts, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    folder: Path = tmp_path_factory.mktemp("spark")
    settings = dataclasses.replace(Settings(), data_dir=folder, spark_ui_port=0)
    session = create_session(settings, java_home=java.home, jars=artifacts.jars("spark"))
    _leave_other_gateways_alone(session)
    yield session
    gateway = session.sparkContext._gateway
    session.stop()
    assert gateway is not None
    gateway.shutdown()
    # The JVM ends when its standard input closes; wait, so that no process stays behind.
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=120)


def _leave_other_gateways_alone(session: SparkSession) -> None:
    """Have PySpark translate only the exceptions of its own JVM.

    It patches py4j for the whole process, and would ask Spark's JVM about exceptions of the one in which the
    tests of Kafka's tools run.
    """
    of_spark = py4j.java_gateway.get_return_value
    gateway = session.sparkContext._gateway
    assert gateway is not None

    def by_gateway(answer: Any, client: Any, *target: Any) -> Any:
        is_sparks = client is gateway._gateway_client
        return (of_spark if is_sparks else py4j.protocol.get_return_value)(answer, client, *target)

    py4j.java_gateway.get_return_value = by_gateway
