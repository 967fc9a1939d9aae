"""What a step of a rollup does after each kind of commit, and that its rows are those of the table."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest
from deltalake import CommitProperties, DeltaTable

from headrace.core.errors import HeadraceError
from headrace.lake.delta_log import DeltaLog
from headrace.lake.positions import Progress, Reached
from headrace.lake.replacing import replace_files
from headrace.lake.restoring import commit_restore, plan_restore
from headrace.lake.rollups import maintaining
from headrace.lake.rollups.definition import RollupDefinition
from headrace.lake.rollups.maintaining import MOST_FILES, RollupMaintainer, Step
from headrace.lake.rollups.stored import StoredRollup, rollup_folder
from headrace.lake.table_state import TableState
from tests.query.rollups.lakes import TABLE, Row, append, definition, row

_START = datetime(2026, 1, 5, tzinfo=UTC)
_seconds = itertools.count()


def rows(*kinds: str, day: str = "2026-01-05") -> list[Row]:
    return [
        row(kind, day, _START + timedelta(minutes=7 * number), x=number) for number, kind in enumerate(kinds)
    ]


class Kept:
    """A rollup, and what it should have."""

    def __init__(self, lake: Path, known: RollupDefinition | None = None) -> None:
        self.lake = lake
        self.definition = known or definition(
            lake, dimensions=["kind", ("ts", "hour")], measures=[("avg", "x"), ("max", "x")]
        )
        self.folder = rollup_folder(lake, self.definition)
        self.maintainer = RollupMaintainer(lake, self.definition)

    def step(self) -> Step:
        step = self.maintainer.step()
        self.check()
        return step

    def check(self) -> None:
        assert self.groups() == self.expected()

    def groups(self) -> list[tuple[object, ...]]:
        found = StoredRollup(self.folder).follow()
        assert found is not None
        files = list(found.files)
        if not files:
            return []
        return duckdb.connect().execute(
            "SELECT D0, epoch_us(D1), sum(N), sum(M0), sum(M1), max(M2) FROM read_parquet(?) GROUP BY ALL "
            "ORDER BY ALL",
            [files],
        ).fetchall()  # fmt: skip

    def expected(self) -> list[tuple[object, ...]]:
        table = DeltaTable(self.lake / TABLE)
        files = table.file_uris()
        if not files:
            return []
        return duckdb.connect().execute(
            "SELECT kind, epoch_us(date_trunc('hour', timezone('UTC', ts))), count(*), CAST(sum(x) AS "
            "DECIMAL(38,0)), "
            "count(x), max(x) FROM read_parquet(?, hive_partitioning=true, hive_types_autocast=false) "
            "GROUP BY ALL ORDER BY ALL",
            [files],
        ).fetchall()  # fmt: skip


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    append(tmp_path, rows("a", "b", "a"), partition_by=["day"])
    append(tmp_path, rows("a", day="2026-01-06"))
    made = Kept(tmp_path)
    assert made.step().did == "built"
    yield made
    made.maintainer.close()


def test_nothing_is_done_twice(kept: Kept) -> None:
    assert kept.step().did == "nothing"
    assert len(DeltaLog(kept.folder).versions()) == 1


def test_new_files_are_added_and_no_other_is_read(kept: Kept) -> None:
    before = set(DeltaTable(kept.lake / TABLE).file_uris())
    append(kept.lake, rows("a", "c"))
    hidden = [Path(file).rename(f"{file}.hidden") for file in before]
    assert kept.maintainer.step().did == "appended"
    for file in hidden:
        file.rename(str(file).removesuffix(".hidden"))
    kept.check()


def test_rows_that_are_only_moved_are_no_change(kept: Kept) -> None:
    append(kept.lake, rows("a", "c"))
    kept.step()
    DeltaTable(kept.lake / TABLE).optimize.compact()
    assert kept.step().did == "nothing"


def test_files_that_were_merged_before_they_were_seen(kept: Kept) -> None:
    append(kept.lake, rows("a", "c"))
    DeltaTable(kept.lake / TABLE).optimize.compact()
    assert kept.step().did == "appended"
    append(kept.lake, rows("d"))
    table = DeltaTable(kept.lake / TABLE)
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    # The added file is gone: its partition is read again.
    assert kept.step().did == "changed"


def test_an_expired_partition_leaves_and_others_are_not_read(kept: Kept) -> None:
    log = DeltaLog(kept.lake / TABLE)
    state = TableState(log)
    old = [file for file in state.files.values() if dict(file.partition)["day"] == "2026-01-05"]
    version = replace_files(
        log, state, old=old, definition=state.definition, operation="DELETE", parameters={}, changes_data=True
    )
    assert version is not None
    others = [Path(file) for file in DeltaTable(kept.lake / TABLE).file_uris()]
    hidden = [file.rename(f"{file}.hidden") for file in others]
    assert kept.maintainer.step().did == "changed"
    for file in hidden:
        file.rename(str(file).removesuffix(".hidden"))
    kept.check()


def test_deleted_rows(kept: Kept) -> None:
    DeltaTable(kept.lake / TABLE).delete("kind = 'a'")
    assert kept.step().did == "changed"


def test_one_with_too_many_groups_leaves_nothing(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintaining, "_MOST_ROWS", 3)
    append(kept.lake, rows("c", "d", "e"))
    before = sorted(kept.folder.iterdir())
    with pytest.raises(HeadraceError, match="more than 3"):
        kept.maintainer.step()
    assert sorted(kept.folder.iterdir()) == before
    for file in DeltaTable(kept.lake / TABLE).file_uris():
        Path(file).write_bytes(b"PAR1 damaged PAR1")
    with pytest.raises(HeadraceError, match="cannot be read"):
        kept.maintainer.step()
    assert sorted(kept.folder.iterdir()) == before


def test_a_partition_with_an_empty_text(tmp_path: Path) -> None:
    """In the log it is null, but its folder is read as an empty text."""
    append(tmp_path, [row("", x=1), row(None, x=2), row("a", x=3)], partition_by=["kind"])
    made = Kept(tmp_path)
    made.maintainer.step()
    DeltaTable(tmp_path / TABLE).delete("x = 1")
    assert made.maintainer.step().did == "changed"
    assert sum(int(str(group[2])) for group in made.groups()) == 2
    made.maintainer.close()


def test_groups_that_do_not_add_up_are_made_anew(kept: Kept) -> None:
    """Whatever the reason: here, rows in a file of the rollup that are not in the table."""
    found = StoredRollup(kept.folder).follow()
    assert found is not None
    (file,) = found.files
    duckdb.connect().execute(
        f"COPY (SELECT * REPLACE (N + 1 AS N) FROM '{file}') TO '{file}.1' (FORMAT parquet)"
    )
    Path(f"{file}.1").rename(file)
    append(kept.lake, rows("a"))
    step = kept.step()
    assert step.did == "built"
    assert "log says 5" in step.reason


def test_a_table_without_rows(kept: Kept) -> None:
    DeltaTable(kept.lake / TABLE).delete()
    assert kept.step().rows == 0
    append(kept.lake, rows("z"))
    assert kept.step().rows == 1


def test_a_restored_version(kept: Kept) -> None:
    append(kept.lake, rows("a", "c"))
    kept.step()
    log = DeltaLog(kept.lake / TABLE)
    DeltaTable(kept.lake / TABLE).restore(0)
    assert kept.step().did == "changed"
    assert log.newest_version() == 3


def test_a_restore_of_ours(tmp_path: Path) -> None:
    def noted(offset: int) -> CommitProperties:
        progress = Progress(positions=Reached(topic_id="t", offsets={0: offset}))
        return CommitProperties(custom_metadata={"userMetadata": progress.as_metadata()})

    append(tmp_path, rows("a", "b"), partition_by=["day"], commit_properties=noted(2))
    append(tmp_path, rows("c", day="2026-01-06"), commit_properties=noted(3))
    kept = Kept(tmp_path)
    kept.step()
    append(tmp_path, rows("d", "d"), commit_properties=noted(5))
    kept.step()
    for version in (0, 2):
        plan = plan_restore(DeltaLog(tmp_path / TABLE), version, name=TABLE)
        made = commit_restore(DeltaLog(tmp_path / TABLE), plan, progress=plan.progress, order=f"{version}")
        step = kept.step()
        # The first removes rows, the second brings them back, which are then new.
        assert (step.did, step.version) == ("appended" if version else "changed", made)
    kept.maintainer.close()


def test_a_recreated_table(kept: Kept) -> None:
    import shutil  # noqa: PLC0415

    shutil.rmtree(kept.lake / TABLE)
    with pytest.raises(HeadraceError, match="no table"):
        kept.maintainer.step()
    append(kept.lake, rows("q", "q"), partition_by=["day"])
    append(kept.lake, rows("r"))
    step = kept.step()
    assert (step.did, step.version) == ("built", 1)
    assert "another one" in step.reason


def test_a_version_that_was_written_anew(kept: Kept) -> None:
    """After a repair the table has other rows under the same version and id."""
    append(kept.lake, rows("a", "c"))
    kept.step()
    newest = kept.lake / TABLE / "_delta_log" / f"{2:020d}.json"
    newest.unlink()
    append(kept.lake, rows("x", "y", "z"))
    step = kept.step()
    assert (step.did, step.version) == ("built", 2)


def test_a_version_that_was_lost(kept: Kept) -> None:
    append(kept.lake, rows("a", "c"))
    kept.step()
    (kept.lake / TABLE / "_delta_log" / f"{2:020d}.json").unlink()
    assert kept.step().did == "built"


def test_commits_that_the_log_no_longer_has(kept: Kept) -> None:
    for _ in range(3):
        append(kept.lake, rows("a"))
    table = DeltaTable(kept.lake / TABLE)
    table.create_checkpoint()
    for version in range(4):
        (kept.lake / TABLE / "_delta_log" / f"{version:020d}.json").unlink()
    assert kept.step().did == "built"


def test_a_column_that_came_later_changes_nothing(kept: Kept) -> None:
    import pyarrow as pa  # noqa: PLC0415
    from deltalake import write_deltalake  # noqa: PLC0415

    table = pa.table({"kind": ["a"], "day": ["2026-01-05"], "new": [1]})
    write_deltalake(kept.lake / TABLE, table, mode="append", schema_mode="merge")
    assert kept.step().did == "appended"


def test_a_column_of_another_type_is_refused(kept: Kept) -> None:
    import pyarrow as pa  # noqa: PLC0415
    from deltalake import write_deltalake  # noqa: PLC0415

    table = pa.table({"kind": ["a"], "day": ["2026-01-05"], "x": ["text"], "ts": [_START]})
    write_deltalake(kept.lake / TABLE, table, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(HeadraceError, match="columns or partitions of the table are others"):
        kept.maintainer.step()


def test_small_files_become_one(kept: Kept) -> None:
    did = []
    for number in range(MOST_FILES + 2):
        append(kept.lake, rows("a", f"kind {number}"))
        did.append(kept.step().did)
    assert "merged" in did
    found = StoredRollup(kept.folder).follow()
    assert found is not None
    assert len(found.files) <= MOST_FILES


def test_many_commits_without_rows_are_followed(kept: Kept) -> None:
    log = DeltaLog(kept.lake / TABLE)
    state = TableState(log)
    for _ in range(60):
        info = {"timestamp": next(_seconds), "operation": "OPTIMIZE", "operationParameters": {}}
        log.add_commit(state.version.number + 1, info, [], after=state.version)
        state.follow()
    step = kept.step()
    assert (step.did, step.version) == ("followed", state.version.number)


def test_a_damaged_rollup_is_made_anew(kept: Kept) -> None:
    (kept.folder / "_delta_log" / f"{0:020d}.json").write_text("{")
    append(kept.lake, rows("c"))
    again = RollupMaintainer(kept.lake, kept.definition)
    assert again.step().did == "built"
    kept.check()
    found = StoredRollup(kept.folder).follow()
    assert found is not None
    for file in found.files:
        Path(file).unlink()
    DeltaTable(kept.lake / TABLE).delete("kind = 'c'")
    assert again.step().did == "built"
    kept.check()
    found = StoredRollup(kept.folder).follow()
    assert found is not None
    Path(found.files[0]).write_bytes(b"PAR1 no table PAR1")
    DeltaTable(kept.lake / TABLE).delete("kind = 'b'")
    assert again.step().did == "built"
    assert kept.maintainer.step().did == "nothing"
    kept.check()
    again.close()


def test_it_is_a_table_of_its_own_and_its_log_stays_short(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintaining, "_CHECKPOINT_EVERY", 12)
    late = RollupMaintainer(
        kept.lake, kept.definition, clock=lambda: datetime.now(tz=UTC).timestamp() + 10_000
    )
    for number in range(13):
        append(kept.lake, rows(f"kind {number % 3}"))
        late.step()
    late.close()
    kept.check()
    log = DeltaLog(kept.folder)
    assert log.checkpoints().keys() == {12}
    assert min(log.versions()) >= 12
    assert len(list(kept.folder.glob("*.parquet"))) <= MOST_FILES
    groups = DeltaTable(kept.folder)
    assert json.loads(groups.metadata().configuration["headrace.rollup"])["table"] == TABLE
    assert set(groups.file_uris()) == set(map(str, kept.folder.glob("*.parquet")))
