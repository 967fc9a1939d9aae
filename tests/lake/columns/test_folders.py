"""Rows by their folders: every row in one, in order, with the name that Spark would give."""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lake.columns.folders import MOST_FOLDERS, FolderColumn, folders_of
from headrace.lake.columns.unusual import UnusualRecordsError
from headrace.lake.types import Simple

A = FolderColumn(name="A", type=Simple.STRING)
DAY = FolderColumn(name="DAY", type=Simple.STRING, is_date=True)


def found(columns: dict[str, list[Any]], *folders: FolderColumn) -> dict[str, list[int]]:
    return {
        folder.path(folders): folder.rows.to_pylist() for folder in folders_of(pa.table(columns), folders)
    }


def test_without_partition_columns_all_rows_are_in_the_table_s_folder() -> None:
    assert found({"A": ["x", "y"]}) == {"": [0, 1]}


def test_rows_of_two_columns() -> None:
    columns = {"A": ["x", "y", "x", "x"], "DAY": ["2026-03-14", "2026-03-14", "2026-03-15", "2026-03-14"]}
    assert found(columns, A, DAY) == {
        "A=x/DAY=2026-03-14/": [0, 3],
        "A=x/DAY=2026-03-15/": [2],
        "A=y/DAY=2026-03-14/": [1],
    }


def test_null_and_the_empty_text_share_a_folder() -> None:
    assert found({"A": ["", "x", None, ""]}, A) == {"A=__HIVE_DEFAULT_PARTITION__/": [0, 2, 3], "A=x/": [1]}


def test_names_are_escaped_as_spark_does() -> None:
    names = list(found({"A": ["a/b ü", "50%", "x=y:z"]}, A))
    assert names == ["A=a%2Fb ü/", "A=50%25/", "A=x%3Dy%3Az/"]


@pytest.mark.parametrize(
    ("kind", "values", "names"),
    [
        (Simple.INT, pa.array([5, -1], pa.int32()), ["A=5/", "A=-1/"]),
        (Simple.BOOLEAN, pa.array([True, False]), ["A=true/", "A=false/"]),
        (Simple.DATE, pa.array([date(2026, 3, 14), date(1, 1, 1)]), ["A=2026-03-14/", "A=0001-01-01/"]),
    ],
)
def test_values_that_are_not_texts(kind: Simple, values: Any, names: list[str]) -> None:
    column = FolderColumn(name="A", type=kind)
    assert [folder.path([column]) for folder in folders_of(pa.table({"A": values}), [column])] == names


@pytest.mark.parametrize("value", ["", "2026-3-14", "2026-02-30", "20260314", "2026-03-14 ", "0000-01-01"])
def test_what_is_not_a_date_is_left_to_single_rows(value: str) -> None:
    with pytest.raises(UnusualRecordsError, match="DAY is not a date"):
        found({"DAY": ["2026-03-14", value]}, DAY)


@pytest.mark.parametrize("value", ["x" * 254, "/" * 85, "__HIVE_DEFAULT_PARTITION__"])
def test_names_that_no_folder_can_have_are_left_to_single_rows(value: str) -> None:
    with pytest.raises(UnusualRecordsError):
        found({"A": [value]}, A)


def test_a_flood_of_values_is_left_to_single_rows() -> None:
    numbers = [str(at) for at in range(MOST_FOLDERS)]
    assert len(found({"A": numbers}, A)) == MOST_FOLDERS
    with pytest.raises(UnusualRecordsError, match="more than 512 folders"):
        found({"A": [*numbers, "one more"]}, A)
    second = FolderColumn(name="B", type=Simple.STRING)
    halves = {"A": [str(at % 30) for at in range(900)], "B": [str(at // 30) for at in range(900)]}
    with pytest.raises(UnusualRecordsError, match="more than 512 folders"):
        found(halves, A, second)


values = st.none() | st.sampled_from(["", "a", "b", "ü", "%"])


@given(st.lists(st.tuples(values, values, values), min_size=1, max_size=60))
def test_every_row_is_in_its_folder_once(rows: list[tuple[str | None, ...]]) -> None:
    columns = [FolderColumn(name=name, type=Simple.STRING) for name in "XYZ"]
    table = pa.table(
        {name: pa.array([row[at] for row in rows], pa.string()) for at, name in enumerate("XYZ")}
    )
    folders = folders_of(table, columns)
    assert sorted(at for folder in folders for at in folder.rows.to_pylist()) == list(range(len(rows)))
    assert len({folder.values for folder in folders}) == len(folders)
    for folder in folders:
        places = folder.rows.to_pylist()
        assert places == sorted(places)
        assert all(tuple(each or None for each in rows[at]) == folder.values for at in places)
