"""Which files may be deleted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.lake.storage.table_files import StoredFile
from headrace.lake.vacuuming import expired_files


def _expired(*files: tuple[str, int], present: set[str] = frozenset(), **removed: int) -> list[str]:  # type: ignore[assignment]
    stored = [StoredFile(name=name, size=1, modified_ms=modified) for name, modified in files]
    found = expired_files(
        stored, present=present, removed=removed, partition_columns=("_day", "k"), before_ms=100
    )
    return [file.name for file in found]


def test_files_of_the_table_and_young_ones_stay() -> None:
    assert _expired(("a", 1), ("b", 1), ("c", 100), present={"a"}) == ["b"]


def test_a_file_that_was_removed_lately_stays() -> None:
    assert _expired(("a", 1), ("b", 1), a=99, b=100) == ["a"]


def test_the_log_and_hidden_files_stay() -> None:
    names = [
        "_delta_log/0.json",
        "_set_aside/x.parquet",
        ".x.unfinished",
        "k=1/.x.crc",
        "k=1/_x",
        "_other=1/x",
    ]
    assert _expired(*((name, 1) for name in names)) == []
    assert _expired(("_day=1/x", 1)) == ["_day=1/x"], "a partition column may begin so"


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 200)),
    st.sets(st.sampled_from("abcdef")),
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 200)),
)
def test_what_a_version_within_the_retention_has_stays(
    stored: dict[str, int], present: set[str], removed: dict[str, int]
) -> None:
    expired = set(_expired(*stored.items(), present=present, **removed))
    assert not expired & present
    assert not expired & {name for name, at in removed.items() if at >= 100}
    assert not expired & {name for name, at in stored.items() if at >= 100}
