"""How far sources have read: the fold of `_connect_offsets`, whose records are those of Kafka Connect's own
offsets topic: the key `["<connector>", {partition}]`, the value `{offset}`, null for none.

Invariants: the state changes only by folding; an offset that `put` has written is on the disk of the log. It
outlives its connector, as in Kafka: a connector of the same name goes on where the last one ended.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, Final

from headrace.connect.state.logs import LogFactory
from headrace.core.errors import HeadraceError

TOPIC: Final = "_connect_offsets"

Partition = Mapping[str, Any]
Offset = Mapping[str, Any]

_log = logging.getLogger(__name__)


class OffsetLog:
    """All methods may be called from any thread; all may block."""

    def __init__(self, make_log: LogFactory) -> None:
        # By connector, then by the partition as JSON.
        self._offsets: dict[str, dict[str, tuple[Partition, Offset]]] = {}
        self._log = make_log("source offsets", self._fold)
        self.progress = self._log.progress

    def start(self) -> None:
        """Read everything. Raises log_unavailable, invalid_setting."""
        self._log.start()

    @property
    def is_alive(self) -> bool:
        return self._log.is_alive

    def stop(self) -> None:
        self._log.stop()

    def offset(self, connector: str, partition: Partition) -> Offset | None:
        with self.progress:
            found = self._offsets.get(connector, {}).get(_text(partition))
        return found[1] if found is not None else None

    def offsets(self, connector: str) -> list[tuple[Partition, Offset]]:
        with self.progress:
            return list(self._offsets.get(connector, {}).values())

    def put(self, connector: str, partition: Partition | None, offset: Offset | None) -> None:
        """Write an offset, or remove it. Raises log_unavailable."""
        key = json.dumps([connector, partition], sort_keys=True, ensure_ascii=False)
        value = None if offset is None else json.dumps(offset, ensure_ascii=False).encode()
        if not self._log.append(key.encode(), value):
            raise HeadraceError("log_unavailable", f"The log did not acknowledge an offset of {connector!r}.")

    def _fold(self, key: bytes, value: bytes | None, _: int) -> None:
        try:
            connector, partition = json.loads(key)
            offset = None if value is None else json.loads(value)
            known = self._offsets.setdefault(str(connector), {})
            if partition is None:
                return
            if offset is None:
                known.pop(_text(partition), None)
            else:
                known[_text(partition)] = (dict(partition), dict(offset))
        # Whatever it is, such as JSON that is nested deeply: no record may end the thread that reads.
        except Exception:
            _log.warning("ignoring a record of %s that nobody understands: %r", TOPIC, key[:200])


def _text(partition: Partition) -> str:
    return json.dumps(partition, sort_keys=True)
