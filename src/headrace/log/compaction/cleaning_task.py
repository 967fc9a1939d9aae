"""The task of a round of cleaning and its results, as values that can be sent to another process.

Byte format: JSON. Invariant: the values contain only numbers and names. Crash behaviour: nothing is written.
Who may call: the cleaner, and the code that carries out a round.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from headrace.log.compaction.retained_records import LastBatch
from headrace.log.segments.transaction_index import AbortedTransaction


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningTask:
    """The task of a round, with nothing that cannot be serialized."""

    folder: str
    segments: tuple[tuple[int, int], ...]
    """Base offset and size of all segments before `end_offset`."""
    first_dirty: int
    end_offset: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    most_keys: int
    bytes_per_second: float
    last_batches: tuple[LastBatch, ...] = ()
    aborted: tuple[AbortedTransaction, ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> CleaningTask:
        fields: dict[str, Any] = json.loads(text)
        fields["segments"] = tuple((base, size) for base, size in fields["segments"])
        fields["last_batches"] = tuple(LastBatch(*each) for each in fields["last_batches"])
        fields["aborted"] = tuple(AbortedTransaction(*each) for each in fields["aborted"])
        return cls(**fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundDone:
    """The end of a round: the log is clean before `cleaned_offset` once all segments are in place."""

    cleaned_offset: int
    keys: int
    bytes_read: int
    bytes_written: int


class Pace:
    """Sleeps to keep below a number of bytes per second, and calls `give_way` between pieces of work."""

    def __init__(
        self,
        bytes_per_second: float,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        give_way: Callable[[], None] = lambda: None,
    ) -> None:
        self._give_way = give_way
        self._rate = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._began = clock()
        self._bytes = 0

    def passed(self, size: int) -> None:
        self._give_way()
        self._bytes += size
        early = self._began + self._bytes / self._rate - self._clock()
        if early > 0:
            self._sleep(early)
        elif early < -1:
            # Idle time must not be made up for with a burst.
            self._began, self._bytes = self._clock(), 0
