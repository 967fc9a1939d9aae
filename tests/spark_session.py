"""The session that the pipeline process makes, for tests."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.core.settings import Settings
from headrace.java.artifacts import Artifacts
from headrace.java.runtime import JavaRuntime
from headrace.pipeline.spark.session import create_session


@contextmanager
def running_spark(folder: Path, java: JavaRuntime, artifacts: Artifacts) -> Iterator[SparkSession]:
    """Its JVM has ended with the block."""
    settings = dataclasses.replace(Settings(), data_dir=folder, spark_ui_port=0)
    # As on machines with a Spark of their own: the tasks of ours need our packages.
    os.environ["PYSPARK_PYTHON"] = "/usr/bin/false"
    session = create_session(settings, java_home=java.home, jars=artifacts.spark_jars())
    yield session
    gateway = session.sparkContext._gateway
    session.stop()
    assert gateway is not None
    gateway.shutdown()
    # The JVM ends when its standard input closes; wait, so that no process stays behind.
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=120)
