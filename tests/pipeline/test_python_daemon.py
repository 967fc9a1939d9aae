"""Spark's Python workers come from a process that has imported what they need, and can be forked safely."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def test_workers_have_their_modules_and_a_parent_without_threads(spark: SparkSession) -> None:
    def look(_: int) -> tuple[str, int, bool]:
        import os  # noqa: PLC0415  (in the worker)
        import subprocess  # noqa: PLC0415
        import sys  # noqa: PLC0415
        from pathlib import Path  # noqa: PLC0415

        parent = Path(f"/proc/{os.getppid()}")
        # This worker may have imported it for another task; one forked from the same module has not.
        code = "import headrace.pipeline.spark.python_daemon, sys; print('pyarrow.parquet' in sys.modules)"
        fresh = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        command = (parent / "cmdline").read_text().replace("\0", " ")
        return command, len(list((parent / "task").iterdir())), fresh.stdout.strip() == "True"

    looked: list[Any] = spark.sparkContext.parallelize([0], 1).map(look).collect()
    ((command, threads, has_modules),) = looked

    assert "headrace.pipeline.spark.python_daemon" in command
    assert threads == 1, "a thread of the parent does not exist in the workers forked from it"
    assert has_modules
