"""Which new partitions a table gets: those with many rows, and a limited number of others."""

from __future__ import annotations

from headrace.lake.new_partitions import NewPartitions, partitions_in
from tests.lake.stored_tables import StoredTable


def _made_up(count: int, rows: int = 1) -> list[tuple[tuple[str, ...], int]]:
    return [((f"v{number}", "2026-03-14"), rows) for number in range(count)]


def test_a_flood_is_limited() -> None:
    partitions = NewPartitions([], per_hour=10)
    assert len(partitions.refused(_made_up(3000), now=0.0)) == 2990
    assert len(partitions.known) == 10
    assert len(partitions.refused(_made_up(3000), now=1800.0)) == 2990, "the limit is for an hour"
    assert len(partitions.refused(_made_up(3000), now=3600.0)) == 2980


def test_those_with_most_rows_come_first_and_many_rows_are_worth_a_folder() -> None:
    partitions = NewPartitions([], per_hour=1)
    found = [*_made_up(5), (("real", "2026-03-14"), 3), (("busy", "2026-03-14"), 5000)]
    refused = partitions.refused(found, now=0.0)
    assert partitions.known == {("real", "2026-03-14"), ("busy", "2026-03-14")}
    assert len(refused) == 5


def test_only_large_ones_are_admitted_ahead_of_their_batch() -> None:
    partitions = NewPartitions([], per_hour=1)
    partitions.admit_large([*_made_up(5), (("real", "2026-03-14"), 3), (("busy", "2026-03-14"), 5000)])
    assert partitions.known == {("busy", "2026-03-14")}
    assert len(partitions.refused(_made_up(5), now=0.0)) == 4, "the limit is not used up"


def test_what_the_table_has_is_never_refused() -> None:
    partitions = NewPartitions([("v0", "2026-03-14")], per_hour=1)
    assert partitions.refused(_made_up(2), now=0.0) == set()
    assert partitions.refused(_made_up(2), now=1.0) == set()


def test_without_a_limit_nothing_is_refused() -> None:
    assert NewPartitions([], per_hour=0).refused(_made_up(3000), now=0.0) == set()


def test_partitions_are_read_from_folders(table: StoredTable) -> None:
    for name in ("a=x%2Fy/b=1", "a=x%2Fy/b=2", "a=ü/b=__HIVE_DEFAULT_PARTITION__", "_delta_log", "a=z/other"):
        table.put(f"{name}/file", b"")
    found = set(partitions_in(table.location, ("a", "b")))
    assert found == {("x/y", "1"), ("x/y", "2"), ("ü", "__HIVE_DEFAULT_PARTITION__")}
    assert list(partitions_in(table.location / "absent", ("a",))) == []
