"""A process that keeps a rollup is killed between any two steps: what is there is right for what it says, and
the next process goes on."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from headrace.lake.rollups.stored import StoredRollup
from tests.lake.rollups.test_maintaining import Kept, rows
from tests.query.rollups.asking import Asker, same
from tests.query.rollups.lakes import TABLE, append

QUESTION = "SELECT kind, date_trunc('hour', ts) AS hour, count(*), sum(x), max(x) FROM events GROUP BY ALL"


def append_more(lake: Path) -> None:
    append(lake, rows("a", "c", day="2026-01-06"))


def delete_some(lake: Path) -> None:
    DeltaTable(lake / TABLE).delete("kind = 'a'")


def begin_anew(lake: Path) -> None:
    shutil.rmtree(lake / TABLE)
    append(lake, rows("n", "m"), partition_by=["day"])


def damage_the_rollup(lake: Path) -> None:
    for log in (lake / "@rollups").glob("*/_delta_log/*.json"):
        log.write_text("{")


def killed_at(moment: str, kept: Kept) -> None:
    module = "tests.lake.rollups.keeping_process"
    ended = subprocess.run(
        [sys.executable, "-m", module, str(kept.lake), kept.definition.as_json(), moment],
        check=False,
        timeout=60,
    )
    assert ended.returncode == -signal.SIGKILL


SHORT = [
    ("commit", append_more),
    ("write", delete_some),
    ("tidy", delete_some),
    ("commit", begin_anew),
    ("aside", damage_the_rollup),
    ("commit", damage_the_rollup),
]
OTHERS = [
    (moment, change)
    for moment in ("write", "commit", "tidy")
    for change in (append_more, delete_some, begin_anew, damage_the_rollup)
    if (moment, change) not in SHORT
]


@pytest.mark.parametrize(
    ("moment", "change"), [*SHORT, *(pytest.param(*each, marks=pytest.mark.long) for each in OTHERS)]
)
def test_a_kill_between_steps(tmp_path: Path, moment: str, change: Callable[[Path], None]) -> None:
    lake, temporary = tmp_path / "lake", tmp_path / "temporary"
    temporary.mkdir()
    append(lake, rows("a", "b", "a"), partition_by=["day"])
    kept = Kept(lake)
    kept.step()
    kept.maintainer.close()
    change(lake)
    killed_at(moment, kept)
    # Whatever is there: no answer is wrong.
    same(Asker(lake, temporary), QUESTION)
    append_more(lake)
    same(Asker(lake, temporary), QUESTION)
    again = Kept(lake, kept.definition)
    again.step()
    again.maintainer.close()
    assert same(Asker(lake, temporary), QUESTION).rollups == [kept.definition.name]


@pytest.mark.parametrize("moment", ["write", "commit", "tidy"])
def test_a_kill_while_it_is_made(tmp_path: Path, moment: str) -> None:
    lake, temporary = tmp_path / "lake", tmp_path / "temporary"
    temporary.mkdir()
    append(lake, rows("a", "b", "a"), partition_by=["day"])
    kept = Kept(lake)
    killed_at(moment, kept)
    assert (StoredRollup(kept.folder).follow() is not None) == (moment == "tidy")
    same(Asker(lake, temporary), QUESTION)
    kept.step()
    kept.maintainer.close()
    assert same(Asker(lake, temporary), QUESTION).rollups == [kept.definition.name]
