"""Names of plain files: unique, sorted as their contents, and Confluent's where a file has one partition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lake.file_names import (
    FileNames,
    Stretch,
    Written,
    escaped,
    folder_of,
    partition_values,
    written,
)
from headrace.lake.sink import PlainStyle

ID = "0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"


def file(folder: str, *, task: int = 0, number: int = 0, ending: str = ".json") -> Written:
    return written(f"__FOLDER_0={folder}/part-{task:05d}-{ID}.c{number:03d}{ending}", 7)


def test_spark_s_names_are_understood() -> None:
    found = file("a%2Fb", task=12, number=3, ending=".snappy.parquet")
    assert (found.folders, found.task, found.number, found.ending, found.size) == (
        ("a%2Fb",),
        12,
        3,
        ".snappy.parquet",
        7,
    )
    assert written(f"part-00001-{ID}-c002.json.gz", 1).number == 2
    with pytest.raises(ValueError, match="_SUCCESS is not"):
        written("_SUCCESS", 0)


def test_folders_are_named_by_their_columns() -> None:
    values = ("a%2Fb", "__HIVE_DEFAULT_PARTITION__")
    assert folder_of(("kind", "a/b"), values) == "kind=a%2Fb/a%2Fb=__HIVE_DEFAULT_PARTITION__"
    assert partition_values(("kind", "day"), values) == {"kind": "a/b", "day": None}
    assert escaped("a=b\x01") == "a%3Db%01"


def test_a_file_of_one_partition_has_confluent_s_name() -> None:
    names = FileNames("orders", PlainStyle(), largest=100)
    (named,) = names.of_partitions([file("3")], {3: Stretch(first=18254, last=18300, records=40)}).values()
    assert named == ("orders+3+0000018254.json", 40)


def test_of_several_files_of_a_partition_each_has_its_first_offset() -> None:
    names = FileNames("orders", PlainStyle(delimiter="_", offset_digits=0), largest=100)
    files = [file("3", number=number) for number in (2, 0, 1)]
    found = names.of_partitions(files, {3: Stretch(first=50, last=299, records=250)})
    assert [found[each] for each in sorted(files, key=lambda each: each.number)] == [
        ("orders_3_50.json", 100),
        ("orders_3_150.json", 100),
        ("orders_3_250.json", 50),
    ]
    several = [file("3", task=task) for task in (0, 1)]
    found = names.of_partitions(several, {3: Stretch(first=50, last=51, records=2)})
    assert list(found.values()) == [("orders_3_50.json", None), ("orders_3_50_00001.json", None)]


def test_offsets_that_come_again_have_the_version_beside_them() -> None:
    names = FileNames("t", PlainStyle(), largest=100)
    files = [file("3", task=task) for task in (0, 1)]
    found = names.of_partitions(files, {3: Stretch(first=0, last=1, records=2)}, version=12)
    assert [name for name, _ in found.values()] == [
        "t+3+0000000000_v0000000012.json",
        "t+3+0000000000_v0000000012_00001.json",
    ]


def test_files_of_bytes_have_their_own_ending() -> None:
    names = FileNames("t", PlainStyle(), largest=100, ending=".bin")
    stretches = {0: Stretch(first=0, last=0, records=1)}
    plain, zipped = file("0", ending=".txt"), file("0", ending=".txt.gz")
    assert names.of_partitions([plain], stretches)[plain][0] == "t+0+0000000000.bin"
    bare = FileNames("t", PlainStyle(), largest=100, ending="")
    assert bare.of_partitions([zipped], stretches)[zipped][0] == "t+0+0000000000.gz"
    assert names.of_partitions([zipped], stretches)[zipped][0] == "t+0+0000000000.bin.gz"


def test_mixed_files_are_numbered_within_their_version() -> None:
    names = FileNames("orders", PlainStyle(), largest=100)
    files = [file("b"), file("a", task=1), file("a")]
    found = names.of_version(files, 12, first=3)
    assert [found[each][0] for each in files] == [
        "orders+v0000000012+00005.json",
        "orders+v0000000012+00004.json",
        "orders+v0000000012+00003.json",
    ]


@given(
    st.lists(st.tuples(st.integers(1, 400), st.integers(0, 3), st.integers(1, 2)), min_size=1, max_size=8),
)
def test_names_of_a_partition_are_unique_and_in_the_order_of_the_topic(
    batches: list[tuple[int, int, int]],
) -> None:
    names = FileNames("t", PlainStyle(), largest=100)
    given_names, first = [], 0
    for records, holes, tasks in batches:
        count = -(-records // 100)
        files = [file("0", task=task, number=number) for task in range(tasks) for number in range(count)]
        stretch = Stretch(first=first, last=first + records + holes - 1, records=records)
        found = names.of_partitions(files, {0: stretch})
        given_names += [found[each][0] for each in files]
        first = stretch.last + 1
    assert given_names == sorted(set(given_names))


def test_long_topics_have_room_for_the_rest() -> None:
    names = FileNames("t" * 249, PlainStyle(), largest=100)
    one = file("0", ending=".snappy.parquet")
    (named,) = names.of_partitions([one], {0: Stretch(first=2**62, last=2**62, records=1)}).values()
    assert len(named[0]) <= 255
