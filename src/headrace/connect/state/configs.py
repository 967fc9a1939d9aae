"""What connectors are wanted: configurations, target states, task configurations, requests to restart.

The state is the fold of the compacted topic `_connect_configs`, whose records have the keys and values of
Kafka Connect's own configuration topic:

    connector-<name>           {"properties": {…}}                      null: the connector is deleted
    target-state-<name>        {"state": "PAUSED", "state.v2": "STOPPED"}
    task-<name>-<number>       {"properties": {…}}
    commit-<name>              {"tasks": 2}                             the tasks before it are complete
    restart-connector-<name>   {"include-tasks": true, "only-failed": false}

Invariants: the state changes only by folding; tasks become visible together, with their commit record; a
connector that is deleted takes its tasks and its target state with it. A call that returns has been written
to the disk of the log and read back. Any number of processes may follow; the one that runs a connector writes
its tasks.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from headrace.connect.state.logs import LogFactory
from headrace.core.errors import HeadraceError

TOPIC: Final = "_connect_configs"
Target = Literal["STARTED", "PAUSED", "STOPPED"]
TARGETS: Final[tuple[Target, ...]] = ("STARTED", "PAUSED", "STOPPED")
# Kafka's limit for a message is 1 MB; the tasks repeat the configuration.
_LARGEST: Final = 500_000
_CONNECTOR: Final = "connector-"
_TARGET: Final = "target-state-"
_TASK: Final = "task-"
_COMMIT: Final = "commit-"
_RESTART: Final = "restart-connector-"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """Somebody asked for a restart. `version` tells requests apart; 0 if there was none."""

    version: int = 0
    include_tasks: bool = False
    only_failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorWish:
    """One connector as it is wanted. Versions only grow."""

    name: str
    config: Mapping[str, str]
    config_version: int
    target: Target = "STARTED"
    tasks: tuple[Mapping[str, str], ...] = ()
    restart: Restart = field(default_factory=Restart)


class ConfigLog:
    """All methods may be called from any thread; all may block."""

    def __init__(self, make_log: LogFactory) -> None:
        self._wishes: dict[str, ConnectorWish] = {}
        # In a compacted topic the newest configuration may come after what belongs to it.
        self._targets: dict[str, Target] = {}
        self._tasks: dict[str, tuple[Mapping[str, str], ...]] = {}
        # Tasks, with or without their commit record.
        self._new_tasks: dict[str, dict[int, Mapping[str, str]]] = {}
        self._log = make_log("connector configurations", self._fold)
        # Notified whenever something was read.
        self.progress = self._log.progress

    def start(self) -> None:
        """Read everything. Raises log_unavailable, invalid_setting."""
        self._log.start()

    @property
    def is_alive(self) -> bool:
        return self._log.is_alive

    def stop(self) -> None:
        self._log.stop()

    def refresh(self) -> None:
        """Read what others have written. Raises log_unavailable."""
        self._log.read_to_end()

    def wishes(self) -> dict[str, ConnectorWish]:
        with self.progress:
            return dict(self._wishes)

    def wish(self, name: str) -> ConnectorWish | None:
        with self.progress:
            return self._wishes.get(name)

    def put(self, name: str, config: Mapping[str, str], target: Target | None = None) -> None:
        """Write a configuration; the target state first, so that a new connector never starts in another."""
        content = _encoded({"properties": dict(config)})
        if len(content) > _LARGEST:
            raise HeadraceError(
                "connector_invalid", f"The configuration of {name} is larger than {_LARGEST} bytes."
            )
        if target is not None:
            self.set_target(name, target)
        self._append(_CONNECTOR + name, content)

    def set_target(self, name: str, target: Target) -> None:
        # Workers older than STOPPED take it for PAUSED.
        older = "PAUSED" if target == "STOPPED" else target
        self._append(_TARGET + name, _encoded({"state": older, "state.v2": target}))

    def set_tasks(self, name: str, tasks: Sequence[Mapping[str, str]]) -> None:
        for number, config in enumerate(tasks):
            self._append(f"{_TASK}{name}-{number}", _encoded({"properties": dict(config)}))
        before = self.wish(name)
        self._append(_COMMIT + name, _encoded({"tasks": len(tasks)}))
        for number in range(len(tasks), len(before.tasks) if before is not None else 0):
            self._append(f"{_TASK}{name}-{number}", None)

    def request_restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> None:
        request = {"include-tasks": include_tasks, "only-failed": only_failed}
        self._append(_RESTART + name, _encoded(request))

    def delete(self, name: str) -> None:
        """The configuration first: what is left of the rest means nothing without it."""
        found = self.wish(name)
        self._append(_CONNECTOR + name, None)
        for prefix in (_TARGET, _COMMIT, _RESTART):
            self._append(prefix + name, None)
        for number in range(len(found.tasks) if found is not None else 0):
            self._append(f"{_TASK}{name}-{number}", None)

    def _append(self, key: str, value: bytes | None) -> None:
        if not self._log.append(key.encode(), value):
            raise HeadraceError(
                "log_unavailable",
                f"The log did not acknowledge the change of {key!r}, which may be in effect or not.",
                remedy="Check that the log is running (`headrace status`), then try again.",
            )

    def _fold(self, key: bytes, value: bytes | None, place: int) -> None:
        try:
            name = key.decode()
            content: Any = None if value is None else json.loads(value)
            self._apply(name, content, place + 1)
        # Whatever it is, such as JSON that is nested deeply: no record may end the thread that reads.
        except Exception:
            _log.warning("ignoring a record of %s that nobody understands: %r", TOPIC, key[:200])

    def _apply(self, key: str, content: Any, version: int) -> None:
        if key.startswith(_CONNECTOR):
            self._apply_config(key.removeprefix(_CONNECTOR), content, version)
        elif key.startswith(_TARGET):
            self._apply_target(key.removeprefix(_TARGET), content)
        elif key.startswith(_TASK):
            name, _, number = key.removeprefix(_TASK).rpartition("-")
            known = self._new_tasks.setdefault(name, {})
            if content is None:
                known.pop(int(number), None)
            else:
                known[int(number)] = _texts(content["properties"])
        elif key.startswith(_COMMIT):
            self._apply_commit(key.removeprefix(_COMMIT), content)
        elif key.startswith(_RESTART):
            self._change(
                key.removeprefix(_RESTART),
                restart=Restart(
                    version=version,
                    include_tasks=bool(content["include-tasks"]),
                    only_failed=bool(content["only-failed"]),
                )
                if content is not None
                else Restart(),
            )

    def _apply_config(self, name: str, content: Any, version: int) -> None:
        if content is None:
            self._wishes.pop(name, None)
            for kept in (self._targets, self._tasks, self._new_tasks):
                kept.pop(name, None)
            return
        config = _texts(content["properties"])
        if name in self._wishes:
            self._change(name, config=config, config_version=version)
            return
        self._wishes[name] = ConnectorWish(
            name=name,
            config=config,
            config_version=version,
            target=self._targets.get(name, "STARTED"),
            tasks=self._tasks.get(name, ()),
        )

    def _apply_target(self, name: str, content: Any) -> None:
        if content is None:
            self._targets.pop(name, None)
            return
        target = content.get("state.v2") or content["state"]
        if target not in TARGETS:
            raise ValueError(target)
        self._targets[name] = target
        self._change(name, target=target)

    def _apply_commit(self, name: str, content: Any) -> None:
        if content is None:
            self._tasks.pop(name, None)
            self._new_tasks.pop(name, None)
            return
        known = self._new_tasks.get(name, {})
        wanted = range(int(content["tasks"]))
        if all(number in known for number in wanted):
            self._tasks[name] = tuple(known[number] for number in wanted)
            self._change(name, tasks=self._tasks[name])

    def _change(self, name: str, **changes: Any) -> None:
        if name in self._wishes:
            self._wishes[name] = replace(self._wishes[name], **changes)


def _encoded(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=False).encode()


def _texts(properties: Any) -> dict[str, str]:
    return {str(name): str(value) for name, value in properties.items()}
