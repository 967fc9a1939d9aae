"""Copies of tables: made anew where they are damaged, and as they were before a batch."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace.pipeline.spark.steps.table_copy import TableCopy, copied_positions, has_batch


@pytest.mark.long
@pytest.mark.parametrize(
    "left_behind", ["_delta_log", "part-00000-0.snappy.parquet", "_delta_log/.0.json.tmp"]
)
def test_a_half_made_copy_is_made(spark: SparkSession, tmp_path: Path, left_behind: str) -> None:
    copy = TableCopy(spark, tmp_path / "copy", readable=lambda records: records)
    left = tmp_path / "copy" / left_behind
    left.parent.mkdir(parents=True)
    if left.suffix:
        left.write_bytes(b"PAR1")
    else:
        left.mkdir()
    copy.make()
    assert copy.records().collect() == []
    copy.make()


def batch(spark: SparkSession, key: str, value: str, offset: int) -> DataFrame:
    """One record of a table's topic."""
    return spark.sql(
        f"SELECT CAST('{key}' AS BINARY) AS key, CAST('{value}' AS BINARY) AS value, 't' AS topic, "
        f"0 AS partition, {offset}L AS offset, current_timestamp() AS timestamp, "
        "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers"
    )


def values(records: DataFrame) -> dict[str, str]:
    return {bytes(row["key"]).decode(): bytes(row["value"]).decode() for row in records.collect()}


@pytest.mark.long
def test_a_repeated_batch_finds_the_table_as_it_was_before(spark: SparkSession, tmp_path: Path) -> None:
    def opened() -> TableCopy:
        copy = TableCopy(spark, tmp_path / "copy", readable=lambda records: records)
        copy.make()
        return copy

    copy = opened()
    for number in range(3):
        before = copy.records_before(number)
        copy.replace(copy.with_batch(before, batch(spark, "k", f"v{number}", number)), number)
    # Of another run, which repeats batch 2, or goes back to batch 1.
    assert values(opened().records_before(2)) == {"k": "v1"}
    copy = opened()
    copy.replace(copy.with_batch(copy.records_before(1), batch(spark, "k", "other", 9)), 1)
    assert values(copy.records_before(2)) == {"k": "other"}
    assert values(opened().records_before(2)) == {"k": "other"}
    assert values(opened().records_before(0)) == {}
    assert [has_batch(tmp_path / "copy", number) for number in range(-1, 4)] == [True] * 4 + [False]
    for path in (tmp_path / "copy").glob("*.parquet"):
        path.write_bytes(b"")
    assert not has_batch(tmp_path / "copy", 2)


@pytest.mark.long
@pytest.mark.parametrize("damage", ["no data", "empty commit"])
def test_a_damaged_copy_has_no_positions(spark: SparkSession, tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "copy"
    assert copied_positions(folder) is None
    copy = TableCopy(spark, folder, readable=lambda records: records)
    copy.make()
    assert copied_positions(folder) == {}
    copy.refresh(batch(spark, "k", "v", 0), {0: 1, 1: 0})
    assert copied_positions(folder) == {0: 1, 1: 0}
    if damage == "no data":
        for path in folder.glob("*.parquet"):
            path.write_bytes(b"PAR1")
    else:
        max((folder / "_delta_log").glob("0*.json")).write_bytes(b"")
    assert copied_positions(folder) is None
    copy.make_anew()
    assert copied_positions(folder) == {}
    assert values(copy.records()) == {}
