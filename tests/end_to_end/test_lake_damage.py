"""A table that lost or tore its newest commit, and a flood of made-up partitions: on the whole platform."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.app import app
from headrace.client.cluster import Cluster
from headrace.lake.delta_log import DeltaLog
from tests.running_platform import Platform, event, new_prefix, wait_for


def _log(platform: Platform) -> DeltaLog:
    return DeltaLog(platform.settings.lake_dir / platform.settings.events_topic)


def _problem(platform: Platform) -> str:
    answer = platform.http.get(f"{platform.console_url}/health").json()
    return " ".join(f"{each['problem']} {each['remedy']}" for each in answer["problems"])


def _post(platform: Platform, prefix: str, *numbers: int) -> None:
    assert platform.post([event(f"{prefix}-{number}") for number in numbers]).status_code == 200


def _newest_commit(platform: Platform) -> Path:
    log = _log(platform)
    return Path(log.commit_file(log.newest_version()))


def _post_twice(platform: Platform) -> str:
    """Four rows in at least two commits of the table; the prefix of their users."""
    prefix = new_prefix()
    _post(platform, prefix, 1, 2)
    platform.wait_in_lake(prefix, 2)
    _post(platform, prefix, 3, 4)
    platform.wait_in_lake(prefix, 4)
    return prefix


@pytest.mark.long
def test_a_lost_commit_is_read_again(platform: Platform) -> None:
    """The table catches up by itself, although every other file is as it was."""
    prefix = _post_twice(platform)
    _newest_commit(platform).unlink()
    killed = platform.kill("pipeline")
    platform.wait_restarted("pipeline", after=killed)
    platform.wait_in_lake(prefix, 4)
    assert platform.rows(prefix) == {f"{prefix}-{number}": 1 for number in range(1, 5)}


@pytest.mark.long
def test_a_torn_commit_is_read_again_when_it_is_repaired(platform: Platform) -> None:
    """Only the table stops, and says what to do."""
    prefix = _post_twice(platform)
    torn = _newest_commit(platform)
    torn.write_bytes(b"")
    killed = platform.kill("pipeline")
    platform.wait_restarted("pipeline", after=killed)
    command = f"headrace lake repair events --data-dir {platform.settings.data_dir}"
    wait_for(
        lambda: command in _problem(platform), "/health has the command", explain=lambda: _problem(platform)
    )
    assert str(torn) in _problem(platform)
    pipeline = platform.pid("pipeline")
    _post(platform, prefix, 5)

    words = ["lake", "repair", "events", "--yes", "--data-dir", str(platform.settings.data_dir)]
    repaired = CliRunner().invoke(app, words)
    assert repaired.exit_code == 0, repaired.output
    platform.wait_in_lake(prefix, 5)
    assert platform.rows(prefix) == {f"{prefix}-{number}": 1 for number in range(1, 6)}
    assert platform.pid("pipeline") == pipeline, "the pipeline never ended"


@pytest.mark.long
def test_a_flood_of_made_up_partitions_makes_dead_letters(platform: Platform) -> None:
    prefix = new_prefix()
    _post(platform, prefix, 1)
    platform.wait_in_lake(prefix, 1)
    letters_before = _dead_letters(platform)
    flood = [
        event(f"{prefix}x-{number}", Event_Type=f"{prefix} {number}", Server_Time=f"{1000 + number}-01-01")
        for number in range(3000)
    ]
    flood += [event(f"{prefix}x-bad", Server_Time="99/99/9999")]
    assert platform.post(flood).status_code == 200
    _post(platform, prefix, 2)
    platform.wait_in_lake(prefix, 2)
    most = platform.settings.lake_new_partitions_per_hour
    question = f"SELECT count(*) FROM events WHERE USER_ID LIKE '{prefix}x-%'"
    wait_for(
        lambda: platform.sql(question)[0][0] + _dead_letters(platform) - letters_before == len(flood),
        "every event is a row or a dead letter",
    )
    folders = list((platform.settings.lake_dir / "events").glob(f"EVENT_TYPE={prefix}*"))
    assert len(folders) <= most


def _dead_letters(platform: Platform) -> int:
    return sum(Cluster(platform.settings.bootstrap).end_offsets("events_avro_dlq").values())
