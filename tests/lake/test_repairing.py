"""Putting a damaged commit aside: the table is as it was before, and nothing is deleted."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.app import app
from headrace.core.errors import HeadraceError
from headrace.lake.delta_log import LAST_CHECKPOINT
from headrace.lake.repairing import SET_ASIDE, carry_out, carry_out_all, plan_repair, unreadable
from tests.lake.delta_folders import written_table
from tests.lake.test_delta_log import DAMAGES


@pytest.mark.parametrize("harm", DAMAGES)
def test_after_the_repair_the_log_can_be_read(tmp_path: Path, harm: object) -> None:
    log = written_table(tmp_path, 4)
    files = {file.name for file in log.folder.iterdir()}
    assert callable(harm)
    harmed = harm(log)
    files |= {harmed.name} if harmed.parent == log.folder else set()
    if not harmed.exists():
        files.discard(harmed.name)
    plan = plan_repair("t", tmp_path)
    assert plan is not None
    carry_out(plan, tmp_path)
    assert log.damage() is None
    assert log.newest_version() == plan.version
    aside = {file.name for file in (tmp_path / SET_ASIDE).iterdir()}
    assert aside | {file.name for file in log.folder.iterdir()} == files, "nothing was deleted"
    assert plan_repair("t", tmp_path) is None


def test_an_interrupted_repair_can_be_repeated(tmp_path: Path) -> None:
    log = written_table(tmp_path, 5)
    log.commit_file(2).write_bytes(b"")
    (log.folder / LAST_CHECKPOINT).write_text('{"version": 3}')
    plan = plan_repair("t", tmp_path)
    assert plan is not None
    for done in range(len(plan.files)):
        carry_out(dataclasses.replace(plan, files=plan.files[done : done + 1]), tmp_path)
        if done + 1 < len(plan.files):
            assert log.damage() is not None, "until the end, nobody takes the table for whole"
    assert (log.damage(), log.newest_version()) == (None, 1)
    assert not (log.folder / LAST_CHECKPOINT).exists()


def test_what_a_running_pipeline_commits_after_the_plan_goes_aside_too(tmp_path: Path) -> None:
    log = written_table(tmp_path, 4)
    log.commit_file(2).write_bytes(b"")
    plan = plan_repair("t", tmp_path)
    assert plan is not None
    log.add_commit(4, {"operation": "WRITE"}, [])
    carry_out_all(plan, "t", tmp_path)
    assert (log.damage(), log.versions()) == (None, [0, 1])


def test_a_second_damage_finds_the_first_one_aside(tmp_path: Path) -> None:
    log = written_table(tmp_path, 2)
    for _ in range(2):
        log.commit_file(1).write_bytes(b"")
        plan = plan_repair("t", tmp_path)
        assert plan is not None
        carry_out(plan, tmp_path)
    assert len(list((tmp_path / SET_ASIDE).iterdir())) == 2


def test_a_table_without_a_whole_version_says_what_to_do(tmp_path: Path) -> None:
    log = written_table(tmp_path, 1)
    log.commit_file(0).write_bytes(b"")
    with pytest.raises(HeadraceError, match="move the folder away") as error:
        plan_repair("t", tmp_path)
    assert error.value.code == "lake_damaged"


def test_the_error_names_file_reason_and_command(tmp_path: Path) -> None:
    log = written_table(tmp_path, 2)
    log.commit_file(1).write_bytes(b"")
    damage = log.damage()
    assert damage is not None
    error = str(unreadable("events", damage, data_dir=Path("/data")))
    assert f"{log.commit_file(1)}: the file is empty" in error
    assert "headrace lake repair events --data-dir /data" in error


def test_the_command_asks_and_then_repairs(tmp_path: Path) -> None:
    log = written_table(tmp_path / "lake" / "events", 2)
    log.commit_file(1).write_bytes(b"")
    command = ["lake", "repair", "events", "--data-dir", str(tmp_path)]
    refused = CliRunner().invoke(app, command, input="n\n")
    assert refused.exit_code != 0
    assert log.damage() is not None
    assert "version 0" in refused.output
    assert CliRunner().invoke(app, [*command, "--yes"]).exit_code == 0
    assert log.damage() is None
    assert "nothing to repair" in CliRunner().invoke(app, command).output


def test_no_such_table(tmp_path: Path) -> None:
    with pytest.raises(HeadraceError, match="no table"):
        plan_repair("t", tmp_path)
