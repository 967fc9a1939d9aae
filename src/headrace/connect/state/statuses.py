"""What became of connectors and tasks, and which topics they have used: the fold of `_connect_status`.

Keys and values are those of Kafka Connect's own status topic:

    status-connector-<name>                    {"state": "RUNNING", "trace": null, "worker_id": …,
    "generation": 0} status-task-<name>-<number>                the same status-topic-<topic>:connector-<name>
    {"topic": {"name": …, "connector": …, "task": 0, "discoverTimestamp": …}}

Invariants: the state changes only by folding; a null removes. A status that could not be written is lost: the
next change writes another. Never says what should be: that is `configs.py`.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass
from typing import Any, Final, Literal

from headrace.connect.state.logs import LogFactory

TOPIC: Final = "_connect_status"
State = Literal["UNASSIGNED", "RUNNING", "PAUSED", "STOPPED", "FAILED", "RESTARTING"]
_CONNECTOR: Final = "status-connector-"
_TASK: Final = "status-task-"
_TOPIC: Final = "status-topic-"
_OF: Final = ":connector-"
# A trace is for people, and a record has a limit.
_LONGEST_TRACE: Final = 50_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The state of a connector or of a task."""

    state: State
    worker_id: str
    trace: str | None = None
    version: str | None = None

    def as_json(self) -> dict[str, Any]:
        content: dict[str, Any] = {"state": self.state, "worker_id": self.worker_id}
        if self.version is not None:
            content["version"] = self.version
        if self.trace is not None:
            content["trace"] = self.trace
        return content


class StatusLog:
    """All methods may be called from any thread; all may block."""

    def __init__(self, make_log: LogFactory) -> None:
        self._connectors: dict[str, Status] = {}
        self._tasks: dict[str, dict[int, Status]] = {}
        self._topics: dict[str, set[str]] = {}
        self._log = make_log("connector statuses", self._fold)
        self.progress = self._log.progress

    def start(self) -> None:
        """Read everything. Raises log_unavailable, invalid_setting."""
        self._log.start()

    @property
    def is_alive(self) -> bool:
        return self._log.is_alive

    def stop(self) -> None:
        self._log.stop()

    def names(self) -> list[str]:
        """The connectors that have a status."""
        with self.progress:
            return sorted(self._connectors)

    def connector(self, name: str) -> Status | None:
        with self.progress:
            return self._connectors.get(name)

    def tasks(self, name: str) -> dict[int, Status]:
        with self.progress:
            return dict(sorted(self._tasks.get(name, {}).items()))

    def topics(self, name: str) -> list[str]:
        with self.progress:
            return sorted(self._topics.get(name, ()))

    def put_connector(self, name: str, status: Status) -> bool:
        """False if nobody knows whether it is written. Raises log_unavailable."""
        return self._log.append((_CONNECTOR + name).encode(), _encoded(status))

    def put_task(self, name: str, number: int, status: Status) -> bool:
        """Like `put_connector`."""
        return self._log.append(f"{_TASK}{name}-{number}".encode(), _encoded(status))

    def remove_task(self, name: str, number: int) -> None:
        self._log.append(f"{_TASK}{name}-{number}".encode(), None)

    def put_topic(self, name: str, number: int, topic: str) -> None:
        """Note that a connector has used a topic; once is enough."""
        with self.progress:
            if topic in self._topics.get(name, ()):
                return
        about = {
            "name": topic,
            "connector": name,
            "task": number,
            "discoverTimestamp": time.time_ns() // 1_000_000,
        }
        self._log.append_later(f"{_TOPIC}{topic}{_OF}{name}".encode(), json.dumps({"topic": about}).encode())

    def forget_topics(self, name: str) -> None:
        for topic in self.topics(name):
            self._log.append(f"{_TOPIC}{topic}{_OF}{name}".encode(), None)

    def remove(self, name: str) -> None:
        """Forget everything about a connector."""
        for number in self.tasks(name):
            self.remove_task(name, number)
        self.forget_topics(name)
        self._log.append((_CONNECTOR + name).encode(), None)

    def _fold(self, key: bytes, value: bytes | None, _: int) -> None:
        try:
            self._apply(key.decode(), None if value is None else json.loads(value))
        # Whatever it is, such as JSON that is nested deeply: no record may end the thread that reads.
        except Exception:
            _log.warning("ignoring a record of %s that nobody understands: %r", TOPIC, key[:200])

    def _apply(self, key: str, content: Any) -> None:
        if key.startswith(_CONNECTOR):
            name = key.removeprefix(_CONNECTOR)
            if content is None:
                self._connectors.pop(name, None)
            else:
                self._connectors[name] = _decoded(content)
        elif key.startswith(_TASK):
            name, _, number = key.removeprefix(_TASK).rpartition("-")
            if content is None:
                self._tasks.get(name, {}).pop(int(number), None)
            else:
                self._tasks.setdefault(name, {})[int(number)] = _decoded(content)
        elif key.startswith(_TOPIC):
            topic, _, name = key.removeprefix(_TOPIC).partition(_OF)
            if content is None:
                self._topics.get(name, set()).discard(topic)
            else:
                self._topics.setdefault(name, set()).add(topic)


def _encoded(status: Status) -> bytes:
    trace = status.trace if status.trace is None else status.trace[:_LONGEST_TRACE]
    content = {
        "state": status.state,
        "trace": trace,
        "worker_id": status.worker_id,
        "generation": 0,
        "version": status.version,
    }
    return json.dumps(content).encode()


def _decoded(content: Any) -> Status:
    return Status(
        state=content["state"],
        worker_id=content.get("worker_id") or "",
        trace=content.get("trace"),
        version=content.get("version"),
    )
