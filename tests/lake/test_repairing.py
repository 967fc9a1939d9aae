"""Putting a damaged commit aside: the table is as it was before, and nothing is deleted."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.app import app
from headrace.core.errors import HeadraceError
from headrace.lake.delta_log import LAST_CHECKPOINT, LOG_FOLDER
from headrace.lake.location import Location
from headrace.lake.repairing import SET_ASIDE, carry_out, carry_out_all, plan_repair, unreadable
from tests.lake.stored_tables import StoredTable, commit_name
from tests.lake.test_delta_log import DAMAGES, Harm


@pytest.mark.parametrize("harm", DAMAGES)
def test_after_the_repair_the_log_can_be_read(table: StoredTable, harm: Harm) -> None:
    log = table.fill(4)
    files = table.names()
    harmed = harm(table)
    if harmed.parent == log.folder:
        files |= {harmed.name}
    if not table.has(harmed):
        files.discard(harmed.name)
    plan = plan_repair("t", table.location)
    assert plan is not None
    carry_out(plan, table.location)
    assert log.damage() is None
    assert log.newest_version() == plan.version
    assert table.names(SET_ASIDE) | table.names() == files, "nothing was deleted"
    assert plan_repair("t", table.location) is None


def test_an_interrupted_repair_can_be_repeated(table: StoredTable) -> None:
    log = table.fill(5)
    table.put(commit_name(2), b"")
    table.put(f"{LOG_FOLDER}/{LAST_CHECKPOINT}", b'{"version": 3}')
    plan = plan_repair("t", table.location)
    assert plan is not None
    for done in range(len(plan.files)):
        carry_out(dataclasses.replace(plan, files=plan.files[done : done + 1]), table.location)
        if done + 1 < len(plan.files):
            assert log.damage() is not None, "until the end, nobody takes the table for whole"
    assert (log.damage(), log.newest_version()) == (None, 1)
    assert LAST_CHECKPOINT not in table.names()


def test_what_a_running_pipeline_commits_after_the_plan_goes_aside_too(table: StoredTable) -> None:
    log = table.fill(4)
    table.put(commit_name(2), b"")
    plan = plan_repair("t", table.location)
    assert plan is not None
    log.add_commit(4, {"operation": "WRITE"}, [])
    carry_out_all(plan, "t", table.location)
    assert (log.damage(), log.versions()) == (None, [0, 1])


def test_a_second_damage_finds_the_first_one_aside(table: StoredTable) -> None:
    table.fill(2)
    for _ in range(2):
        table.put(commit_name(1), b"")
        plan = plan_repair("t", table.location)
        assert plan is not None
        carry_out(plan, table.location)
    assert len(table.names(SET_ASIDE)) == 2


def test_a_table_without_a_whole_version_says_what_to_do(table: StoredTable) -> None:
    table.fill(1)
    table.put(commit_name(0), b"")
    with pytest.raises(HeadraceError, match="move the folder away") as error:
        plan_repair("t", table.location)
    assert error.value.code == "lake_damaged"


def test_the_error_names_file_reason_and_command(table: StoredTable) -> None:
    log = table.fill(2)
    table.put(commit_name(1), b"")
    damage = log.damage()
    assert damage is not None
    error = str(unreadable("events", damage, data_dir=Path("/data")))
    assert f"{log.commit_file(1)}: the file is empty" in error
    assert "headrace lake repair events --data-dir /data" in error


def test_the_command_asks_and_then_repairs(tmp_path: Path) -> None:
    table = StoredTable(Location.local(tmp_path / "lake" / "events"))
    log = table.fill(2)
    table.put(commit_name(1), b"")
    command = ["lake", "repair", "events", "--data-dir", str(tmp_path)]
    refused = CliRunner().invoke(app, command, input="n\n")
    assert refused.exit_code != 0
    assert log.damage() is not None
    assert "version 0" in refused.output
    assert CliRunner().invoke(app, [*command, "--yes"]).exit_code == 0
    assert log.damage() is None
    assert "nothing to repair" in CliRunner().invoke(app, command).output


def test_no_such_table(table: StoredTable) -> None:
    with pytest.raises(HeadraceError, match="no table"):
        plan_repair("t", table.location)
