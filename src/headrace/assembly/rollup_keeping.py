"""Keeps the rollups that are wanted: a thread of the pipeline process, one rollup after the other.

Each rollup is brought up to date every few seconds, and rests several times as long as that took. A rollup
that fails says why, and is tried again after a minute, later up to an hour; the others go on. What was
dropped is removed, and so is what a killed process has left. Only this process writes rollups: it has the
lock of the data folder.

Crash behaviour: nothing is kept here. The log says which rollups are wanted, and each rollup says how far it
is (`lake/rollups/stored.py`). A stop waits some seconds for the step that is going on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, Self

import msgspec

from headrace.core.errors import HeadraceError
from headrace.lake.rollups.definition import RollupDefinition
from headrace.lake.rollups.stored import FOLDER, rollup_folder
from headrace.pipeline.catalogue.rollups import RollupLog, RollupStatus, State

logger = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 1.0
_REST: Final = 4.0
# Longer each time, up to an hour: what fails may have read the whole table.
_BACK_OFF_SECONDS: Final = 60.0
_LONGEST_BACK_OFF_SECONDS: Final = 3600.0
# A table that does not exist yet may soon.
_WAITING_SECONDS: Final = 5.0
# So long a step waits for a moment in which no batch of the lake is late.
_PATIENCE_SECONDS: Final = 20.0
_STATUS_SECONDS: Final = 5.0
_STOP_SECONDS: Final = 5.0
_NO_TABLE: Final = "no_such_table"


class Calm(Protocol):
    """`Turns.wait_for_calm`."""

    def __call__(self, seconds: float, is_given_up: Callable[[], bool]) -> object: ...


class RollupKeeping:
    """Runs within its block. Stops the log at its end."""

    def __init__(
        self,
        log: RollupLog,
        lake_dir: Path,
        *,
        seconds: float,
        wait_for_calm: Calm = lambda seconds, is_given_up: None,  # noqa: ARG005
    ) -> None:
        """A rollup is brought up to date every so many `seconds`."""
        self._log = log
        self._lake_dir = lake_dir
        self._seconds = seconds
        self._wait_for_calm = wait_for_calm
        self._kept: dict[str, _Kept] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rollups", daemon=True)

    def __enter__(self) -> Self:
        self._log.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        # What is not committed by then is not part of any rollup.
        self._thread.join(_STOP_SECONDS)
        if not self._thread.is_alive():
            for kept in self._kept.values():
                kept.close()
        self._log.stop()

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_SECONDS):
            try:
                self.look()
            except Exception:
                # Whatever it is, it must not end the rollups for good.
                logger.exception("Rollups were not looked after.")
                self._stopping.wait(_BACK_OFF_SECONDS)

    def look(self) -> None:
        """Look at each rollup once."""
        wanted = {wish.definition.id: wish.definition for wish in self._log.wishes().values()}
        for gone in self._kept.keys() - wanted.keys():
            self._kept.pop(gone).close()
        self._remove_others(wanted)
        for rollup_id, definition in wanted.items():
            if self._stopping.is_set():
                return
            kept = self._kept.get(rollup_id)
            if kept is None:
                kept = self._kept[rollup_id] = _Kept(definition, self._lake_dir)
            self._keep(kept)

    def _keep(self, kept: _Kept) -> None:
        now = time.monotonic()
        if now < kept.not_before:
            return
        self._wait_for_calm(_PATIENCE_SECONDS, self._stopping.is_set)
        began = time.monotonic()
        status, pause = kept.step()
        took = time.monotonic() - began
        kept.not_before = began + took + max(pause or self._seconds, took * _REST)
        if kept.is_news(status, time.monotonic()):
            self._log.put_status(kept.definition.id, status)

    def _remove_others(self, wanted: dict[str, RollupDefinition]) -> None:
        folder = self._lake_dir / FOLDER
        names = {rollup_folder(self._lake_dir, each).name for each in wanted.values()}
        try:
            found = [child for child in folder.iterdir() if child.name not in names]
        except FileNotFoundError:
            return
        if not found and self._log.statuses().keys() <= wanted.keys():
            return
        # Imported here, as in `_Kept`: without rollups there is no need of DuckDB.
        from headrace.lake.rollups.maintaining import remove_rollup  # noqa: PLC0415

        for child in found:
            logger.info("rollup %s is removed", child.name)
            remove_rollup(child)
        for gone in self._log.statuses().keys() - wanted.keys():
            self._log.put_status(gone, None)


class _Kept:
    """A rollup that is wanted. `not_before` is monotonic."""

    def __init__(self, definition: RollupDefinition, lake_dir: Path) -> None:
        from headrace.lake.rollups.maintaining import RollupMaintainer  # noqa: PLC0415

        self.definition = definition
        self.not_before = 0.0
        self._maintainer = RollupMaintainer(lake_dir, definition)
        self._told: RollupStatus | None = None
        self._told_at = 0.0
        self._failures = 0

    def close(self) -> None:
        self._maintainer.close()

    def step(self) -> tuple[RollupStatus, float]:
        """What became of it, and when to look again; 0 if as usual."""
        import duckdb  # noqa: PLC0415

        name, table = self.definition.name, self.definition.table
        try:
            step = self._maintainer.step()
        except HeadraceError as error:
            if error.code == _NO_TABLE:
                return self._failed(str(error), "WAITING"), _WAITING_SECONDS
            return self._failed(str(error), "FAILED"), self._back_off()
        except (OSError, ValueError, duckdb.Error, MemoryError) as error:
            reason = f"Table {table} could not be rolled up: {error}"
            return self._failed(reason, "FAILED"), self._back_off()
        self._failures = 0
        if step.did in ("built", "changed"):
            reason = f" ({step.reason})" if step.reason else ""
            logger.info(
                "rollup %s: %s at version %d of table %s, %d groups%s",
                name, step.did, step.version, table, step.rows, reason,
            )  # fmt: skip
        return RollupStatus(state="RUNNING", version=step.version, groups=step.rows), 0.0

    def _back_off(self) -> float:
        self._failures += 1
        return min(_BACK_OFF_SECONDS * 2.0 ** (self._failures - 1), _LONGEST_BACK_OFF_SECONDS)

    def is_news(self, status: RollupStatus, now: float) -> bool:
        """Whether it is to be told: at once if the state is another, otherwise now and then."""
        told = self._told
        is_same = told is not None and (told.state, told.message) == (status.state, status.message)
        if told == status or (is_same and now < self._told_at + _STATUS_SECONDS):
            return False
        self._told, self._told_at = status, now
        return True

    def _failed(self, message: str, state: State) -> RollupStatus:
        before = self._told or RollupStatus(state="CREATED")
        if (before.state, before.message) != (state, message):
            logger.warning("Rollup %s: %s", self.definition.name, message)
        return msgspec.structs.replace(before, state=state, message=message)
