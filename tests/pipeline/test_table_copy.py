"""The copy of a table is made anew where whoever made it was killed half-way."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.pipeline.spark.steps.table_copy import TableCopy


@pytest.mark.long
@pytest.mark.parametrize(
    "left_behind", ["_delta_log", "part-00000-0.snappy.parquet", "_delta_log/.0.json.tmp"]
)
def test_a_half_made_copy_is_made(spark: SparkSession, tmp_path: Path, left_behind: str) -> None:
    copy = TableCopy(tmp_path / "copy", readable=lambda records: records)
    left = tmp_path / "copy" / left_behind
    left.parent.mkdir(parents=True)
    if left.suffix:
        left.write_bytes(b"PAR1")
    else:
        left.mkdir()
    copy.make(spark)
    assert copy.records(spark).collect() == []
    copy.make(spark)
