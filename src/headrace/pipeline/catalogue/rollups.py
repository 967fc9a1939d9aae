"""Rollups as wishes and what became of them: the compacted topic `_rollups`.

    rollup-<NAME>      the definition as `lake/rollups/definition.py` writes it, and the statement
    status-<id>        what the pipeline process says of the rollup with this id

The gateway writes and removes wishes, the pipeline process writes statuses. Invariants: the state changes
only by folding; a call that returns has been written and read back. Any number of processes may follow.
"""

from __future__ import annotations

import logging
from typing import Final, Literal

import msgspec

from headrace.client.followed import CompactedLog
from headrace.client.reading import Record
from headrace.core.errors import HeadraceError
from headrace.lake.rollups.definition import RollupDefinition, rollup_from_json

TOPIC: Final = "_rollups"
_WISH: Final = "rollup-"
_STATUS: Final = "status-"
_TIMEOUT_SECONDS: Final = 15.0

_log = logging.getLogger(__name__)

State = Literal["CREATED", "WAITING", "RUNNING", "FAILED"]


class RollupStatus(msgspec.Struct, frozen=True, kw_only=True):
    """`version` is the one of the table that it stands for, -1 if it stands for none; `groups` its rows."""

    state: State
    message: str = ""
    version: int = -1
    groups: int = 0


class _Wish(msgspec.Struct, frozen=True, kw_only=True):
    definition: str
    statement: str


class RollupWish(msgspec.Struct, frozen=True, kw_only=True):
    """A rollup that is wanted, and the statement that created it."""

    definition: RollupDefinition
    statement: str


class RollupLog:
    """Both sides of the topic. All methods may be called from any thread; all may block."""

    def __init__(self, bootstrap: str, *, topic: str = TOPIC) -> None:
        self._wishes: dict[str, RollupWish] = {}
        self._statuses: dict[str, RollupStatus] = {}
        self._log = CompactedLog(bootstrap, topic, self._fold, holds="rollups", timeout=_TIMEOUT_SECONDS)

    def start(self) -> None:
        """Make the topic if it is missing and read all of it. Raises log_unavailable."""
        self._log.start()

    def stop(self) -> None:
        self._log.stop()

    def refresh(self) -> None:
        """Read what others have written. Raises log_unavailable."""
        self._log.read_to_end()

    def wishes(self) -> dict[str, RollupWish]:
        """By name."""
        with self._log.progress:
            return dict(sorted(self._wishes.items()))

    def status(self, rollup_id: str) -> RollupStatus:
        with self._log.progress:
            return self._statuses.get(rollup_id, RollupStatus(state="CREATED"))

    def statuses(self) -> dict[str, RollupStatus]:
        """By the ids of rollups, also of those that are gone."""
        with self._log.progress:
            return dict(self._statuses)

    def put(self, wish: RollupWish) -> None:
        """Raises log_unavailable."""
        content = _Wish(definition=wish.definition.as_json(), statement=wish.statement)
        self._append(_WISH + wish.definition.name, msgspec.json.encode(content))

    def remove(self, name: str) -> None:
        """Raises log_unavailable."""
        self._append(_WISH + name, None)

    def put_status(self, rollup_id: str, status: RollupStatus | None) -> None:
        """In the background: a newer one follows."""
        content = None if status is None else msgspec.json.encode(status)
        self._log.append_later((_STATUS + rollup_id).encode(), content)

    def _append(self, key: str, value: bytes | None) -> None:
        if not self._log.append(key.encode(), value):
            raise HeadraceError(
                "log_unavailable",
                f"The log has not acknowledged the statement, which is to be kept in the topic {TOPIC}.",
                remedy="SHOW ROLLUPS tells whether it counts; repeat it if it does not.",
            )

    def _fold(self, record: Record) -> None:
        key, value = (record.key() or b"").decode("utf-8", "replace"), record.value()
        try:
            if key.startswith(_WISH):
                self._fold_wish(key.removeprefix(_WISH), value)
            elif key.startswith(_STATUS):
                self._fold_status(key.removeprefix(_STATUS), value)
            else:
                raise ValueError(f"the key {key[:100]}")
        except (ValueError, msgspec.MsgspecError) as error:
            _log.warning("A record of %s makes no sense: %s", TOPIC, error)

    def _fold_wish(self, name: str, value: bytes | None) -> None:
        if value is None:
            self._wishes.pop(name, None)
            return
        content = msgspec.json.decode(value, type=_Wish)
        definition = rollup_from_json(content.definition)
        self._wishes[name] = RollupWish(definition=definition, statement=content.statement)

    def _fold_status(self, rollup_id: str, value: bytes | None) -> None:
        if value is None:
            self._statuses.pop(rollup_id, None)
        else:
            self._statuses[rollup_id] = msgspec.json.decode(value, type=RollupStatus)
