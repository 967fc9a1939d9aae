"""Repairs a table whose Delta log cannot be read: puts what is damaged aside, so that the table is as it was
before.

The rows of a commit that is put aside are not lost: positions and rows are one commit, so the table goes on
from the positions of the last whole one, and reads the records again. Files are moved to `_set_aside/` in the
table's folder, never deleted. In a bucket they are copied there first. A damaged checkpoint is not needed if
the commits that it stands for are all there.

Crash behaviour: the damaged file is moved last. If the repair is interrupted, the log still cannot be read,
and the repair can be repeated. Never changes a log that can be read. A pipeline may run meanwhile: its writer
adds nothing to a version that was put aside, but ends its run, and the next one starts from what the table
has (`delta_log.py`). What it has committed between plan and repair goes aside, too (`carry_out_all`).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.core.errors import HeadraceError
from headrace.lake.delta_log import LAST_CHECKPOINT, LOG_FOLDER, Damage, DeltaLog
from headrace.lake.location import Location, located

SET_ASIDE: Final = "_set_aside"

# Commits, checkpoints and checksums begin with their version; unfinished files with a dot.
_VERSION: Final = re.compile(r"\.?(\d{20})\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """The damage, and the files to put aside, in this order. `version` is what remains of the table."""

    damage: Damage
    files: tuple[Location, ...]
    version: int


def unreadable(name: str, damage: Damage, *, data_dir: Path) -> HeadraceError:
    """The error for whoever needs the table."""
    return HeadraceError(
        "lake_damaged",
        f"Table {name} cannot be read: {damage.file}: {damage.reason}.",
        remedy=f"Run `headrace lake repair {name} --data-dir {data_dir}`.",
    )


def plan_repair(name: str, folder: Path | Location) -> Repair | None:
    """None if the table can be read. Raises no_such_table, lake_damaged if it cannot be repaired."""
    log = DeltaLog(folder)
    if not log.exists:
        raise HeadraceError(
            "no_such_table", f"There is no table {name}: {folder} contains no Delta log with commits."
        )
    damage = log.damage()
    if damage is None:
        return None
    kept = damage.version - 1
    commits = set(log.versions())
    if damage.file in log.checkpoints().get(damage.version, []):
        # The commits say the same, if they are all there.
        kept = damage.version
    older = max((version for version in log.checkpoints() if version <= damage.version - 1), default=-1)
    if kept < 0 or not commits.issuperset(range(older + 1, kept + 1)):
        raise HeadraceError(
            "lake_damaged",
            f"Table {name} cannot be repaired: {damage.file}: {damage.reason}. No older version is whole.",
            remedy=f"Replace {folder} by a copy. If there is none, move the folder away: the pipeline "
            "creates the table again from what its topic still has.",
        )
    return Repair(damage=damage, files=_to_put_aside(log, damage, kept), version=kept)


def carry_out(repair: Repair, folder: Path | Location) -> None:
    files = DeltaLog(located(folder)).files
    for file in repair.files:
        files.move(f"{LOG_FOLDER}/{file.name}", SET_ASIDE)


def carry_out_all(repair: Repair, name: str, folder: Path | Location) -> None:
    """Carry out the repair, and then those of what was committed since it was planned."""
    planned: Repair | None = repair
    while planned is not None:
        carry_out(planned, folder)
        planned = plan_repair(name, folder)


def _to_put_aside(log: DeltaLog, damage: Damage, kept: int) -> tuple[Location, ...]:
    newer: list[tuple[int, str]] = []
    names = log.files.names(LOG_FOLDER)
    for name in names:
        match = _VERSION.match(name)
        if match is None:
            continue
        version = int(match[1])
        is_checkpoint = ".checkpoint." in name
        if version > kept or (is_checkpoint and version >= damage.version):
            newer.append((version, name))
    # A damaged data file stays where it is: without its commit it is not part of the table.
    is_in_log = damage.file.parent == log.folder
    reason = damage.file.name if is_in_log else log.commit_file(damage.version).name
    files = [name for _, name in sorted(newer, reverse=True) if name != reason]
    if LAST_CHECKPOINT in names and not _is_older(log, damage.version):
        files.insert(0, LAST_CHECKPOINT)
    if reason in names:
        files.append(reason)
    return tuple(log.folder / name for name in files)


def _is_older(log: DeltaLog, version: int) -> bool:
    """Whether the newest checkpoint that the log names is older."""
    try:
        return int(json.loads(log.files.read(f"{LOG_FOLDER}/{LAST_CHECKPOINT}"))["version"]) < version
    except (ValueError, KeyError, TypeError):
        return False
