"""When somebody who waits for an event has what they wait for. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headrace.query.receipts.traces import Seen, Trace

# How long "now" may take: the log and the tails have to be asked.
LOOK_SECONDS: Final = 3.0

IsDone = Callable[[Trace], bool]


def in_sql(trace: Trace) -> bool:
    """Whether it is settled if the event can be seen in SQL."""
    return _is_settled(trace, trace.sql)


def in_lake(trace: Trace) -> bool:
    """Whether it is settled if the event is in the lake."""
    return _is_settled(trace, trace.lake)


def now(trace: Trace) -> bool:
    """Whether everything is known that is the case now."""
    return not trace.is_looking


def _is_settled(trace: Trace, seen: Seen) -> bool:
    return seen is not Seen.PENDING and not trace.is_looking
