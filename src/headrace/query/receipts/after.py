"""Questions that see certain events: read your own write.

Invariant: the plan of such a question has the row of each event in each table that the question reads and the
event leads to, unless the event is known to be a dead letter, left out, or nowhere. The plan itself is
examined, not what was visible a moment before. Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from headrace.core.errors import HeadraceError
from headrace.query.questions import LIVE, NamedTables, Question, TablePlan
from headrace.query.receipts.receipt import Receipt
from headrace.query.receipts.settling import LOOK_SECONDS, in_lake, in_sql, now
from headrace.query.receipts.table_rows import offsets_in
from headrace.query.receipts.traces import RecordAt, Seen, TableTrace, Trace
from headrace.query.receipts.watching import Receipts
from headrace.query.sources import TailView

_SHORTEST_SECONDS: Final = 0.001


class AfterReceipts:
    """Waits for the events of questions."""

    def __init__(self, receipts: Receipts) -> None:
        self._receipts = receipts

    async def lacking(
        self, question: Question, named: NamedTables, plans: Sequence[TablePlan]
    ) -> tuple[Receipt, ...]:
        """The events that these plans do not show, although they may come. Raises HeadraceError."""
        traces = await self._receipts.traces(
            question.after.receipts, now, seconds=LOOK_SECONDS, tables=frozenset(named.names)
        )
        return await asyncio.to_thread(_lacking, traces, plans, is_live=_is_live(question, named))

    async def wait(self, question: Question, named: NamedTables, *, deadline: float) -> None:
        """Until the events can be seen in these tables, or never will be. `deadline` is monotonic.

        Raises after_timed_out and whatever is wrong with a receipt.
        """
        is_done = in_sql if _is_live(question, named) else in_lake
        traces = await self._receipts.traces(
            question.after.receipts,
            is_done,
            seconds=max(deadline - time.monotonic(), _SHORTEST_SECONDS),
            tables=frozenset(named.names),
        )
        late = [trace for trace in traces if not is_done(trace)]
        if late or time.monotonic() > deadline:
            raise _timed_out(question, late or traces)


def _is_live(question: Question, named: NamedTables) -> bool:
    """Whether rows in the tails of tables are enough."""
    return (named.freshness or question.freshness) == LIVE and not question.after.in_lake


def _lacking(traces: Sequence[Trace], plans: Sequence[TablePlan], *, is_live: bool) -> tuple[Receipt, ...]:
    by_name = {plan.name: plan for plan in plans}
    lacking: list[Receipt] = []
    for trace in traces:
        seen = trace.sql if is_live else trace.lake
        visible = [each for each in trace.tables if (each.sql if is_live else each.lake) is Seen.VISIBLE]
        if trace.is_looking or seen is Seen.PENDING or not all(_shows(by_name, each) for each in visible):
            lacking.append(trace.receipt)
    return tuple(lacking)


def _shows(plans: dict[str, TablePlan], table: TableTrace) -> bool:
    plan = plans.get(table.name)
    if plan is None:
        # Not of this question.
        return True
    if table.version is not None and plan.snapshot is not None and plan.snapshot.version >= table.version:
        return True
    tail, at = plan.tail, table.source
    if tail is None:
        return False
    if at.offset < tail.starts.get(at.partition, 0):
        return True
    return _has_row(tail, at)


def _has_row(tail: TailView, at: RecordAt) -> bool:
    try:
        return bool(offsets_in(tail.chunks, at.partition, [at.offset]))
    except OSError:
        # The tail was read anew: so will the plan be.
        return False


def _timed_out(question: Question, late: Sequence[Trace]) -> HeadraceError:
    first = late[0]
    others = f" (and {len(late) - 1} others)" if len(late) > 1 else ""
    return HeadraceError(
        "after_timed_out",
        f"The event {first.receipt}{others} could not be seen within {question.after.seconds:g} s: "
        f"{first.behind or 'the tables are being read'}.",
        remedy="Ask again with a longer `after_seconds`, or ask GET /receipts what it waits for.",
    )
