"""Everybody who waits for events, and the thread that looks for all of them.

The thread traces what is waited for, round by round: when a derived topic was read on, when a look at a table
has ended, and every few moments. It rests as long as a round took, so that many who wait do not take the
process from its questions.

Invariants: a bounded number of receipts is waited for; who goes away frees its places at once; an error of
one receipt is that of its waiter alone. The asynchronous methods belong to event loops, everything else to
any thread.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.client.cluster import Cluster
from headrace.core.errors import HeadraceError
from headrace.query.planning import Tails
from headrace.query.receipts.facts import Asked, Facts
from headrace.query.receipts.followed_origins import FollowedOrigins
from headrace.query.receipts.receipt import Receipt
from headrace.query.receipts.settling import LOOK_SECONDS, IsDone, now
from headrace.query.receipts.source_records import SourceRecords
from headrace.query.receipts.tables import Tables
from headrace.query.receipts.traces import Trace
from headrace.query.receipts.tracing import trace
from headrace.query.receipts.ways import Ways
from headrace.query.table_snapshot import TableSnapshot

_log = logging.getLogger(__name__)

MOST_WAITED_FOR: Final = 2_000
# Between rounds in which nothing is known to have changed: commits and statements are not told of.
_ROUND_SECONDS: Final = 0.25
_SHORTEST_REST_SECONDS: Final = 0.005


@dataclass(slots=True, eq=False, kw_only=True)
class _Waiter:
    """`traces` has the newest of each receipt, `open` those that are not done. `error` ends all of it."""

    asked: Asked
    is_done: IsDone
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[None]
    traced: asyncio.Future[None]
    open: set[Receipt]
    traces: dict[Receipt, Trace] = field(default_factory=dict)
    error: HeadraceError | None = None
    # Whether each receipt has a trace.
    is_traced: bool = False


class Receipts:
    """Of one platform. `snapshots` gives the tables that SQL has now. Close it."""

    def __init__(
        self,
        cluster: Cluster,
        ways: Ways,
        snapshots: Callable[[], Mapping[str, TableSnapshot]],
        tails: Tails | None,
        *,
        patience_seconds: float = 3.0,
    ) -> None:
        self._changed = threading.Condition()
        self._has_changed = False
        self._waiters: list[_Waiter] = []
        self._is_stopping = False
        self._origins = FollowedOrigins(
            cluster, on_change=self._note_change, patience_seconds=patience_seconds
        )
        self._records = SourceRecords(cluster, patience_seconds=patience_seconds)
        self._tables = Tables(snapshots, tails, on_change=self._note_change)
        self._facts = Facts(cluster, ways, self._origins, self._records, self._tables)
        self._thread = threading.Thread(target=self._work, name="receipts", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Nobody may wait any more."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        self._thread.join()
        self._tables.close()
        self._origins.close()
        self._records.close()

    @property
    def waited_for(self) -> int:
        """How many receipts are waited for."""
        with self._changed:
            return sum(len(waiter.open) for waiter in self._waiters)

    async def traces(
        self,
        receipts: Collection[Receipt],
        is_done: IsDone,
        *,
        seconds: float,
        tables: frozenset[str] | None = None,
    ) -> Sequence[Trace]:
        """The traces when all are done, or as they are when the time is over; in the order of the receipts.

        `tables` are names in small letters: only ways to these count. Raises no_such_topic, event_not_found,
        event_expired, too_many_waiting, and log_unavailable if nothing can be told.
        """
        loop = asyncio.get_running_loop()
        waiter = _Waiter(
            asked=Asked(tables=tables, at=time.monotonic()),
            is_done=is_done,
            loop=loop,
            done=loop.create_future(),
            traced=loop.create_future(),
            open=set(receipts),
        )
        self._add(waiter)
        try:
            await asyncio.wait([waiter.done], timeout=seconds)
            if not waiter.done.done() and seconds < LOOK_SECONDS:
                # However short the time is, the answer says how things are.
                await asyncio.wait(
                    [waiter.done, waiter.traced],
                    timeout=LOOK_SECONDS - seconds,
                    return_when=asyncio.FIRST_COMPLETED,
                )
        finally:
            with self._changed:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        if waiter.error is not None:
            raise waiter.error
        missing = [str(receipt) for receipt in receipts if receipt not in waiter.traces]
        if missing:
            raise HeadraceError(
                "log_unavailable",
                f"Nothing could be told of {missing[0]} within {seconds:g} s.",
                remedy="Ask again. `headrace status` shows what is wrong.",
            )
        return [waiter.traces[receipt] for receipt in receipts]

    def _add(self, waiter: _Waiter) -> None:
        with self._changed:
            waited_for = sum(len(each.open) for each in self._waiters)
            if self._is_stopping or waited_for + len(waiter.open) > MOST_WAITED_FOR:
                raise HeadraceError(
                    "too_many_waiting",
                    f"{waited_for} receipts are waited for; {MOST_WAITED_FOR} are allowed.",
                    remedy="Ask again later, or wait for the last event of each partition only.",
                )
            self._waiters.append(waiter)
            self._has_changed = True
            self._changed.notify_all()

    def _note_change(self) -> None:
        with self._changed:
            self._has_changed = True
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                # Without waiters, now and then to let go of what nobody asks for.
                self._changed.wait_for(lambda: self._is_stopping or self._waiters, 1.0)
                if self._is_stopping:
                    return
                self._has_changed = False
                waiters = list(self._waiters)
            took = self._round(waiters)
            next_round = time.monotonic() + _ROUND_SECONDS
            with self._changed:
                self._changed.wait_for(lambda: self._is_stopping, max(took, _SHORTEST_REST_SECONDS))
            while self._waits(until=next_round):
                pass

    def _round(self, waiters: Sequence[_Waiter]) -> float:
        """Look for everything that is waited for. Returns how long it took."""
        began = time.monotonic()
        self._facts.forget_old(began)
        for waiter in waiters:
            self._look_for(waiter)
        self._origins.tend(began)
        return time.monotonic() - began

    def _waits(self, *, until: float) -> bool:
        """Wait for a change, or until a table is to be looked at. False when it is time for a round."""
        seconds = self._tables.look_on(time.monotonic())
        left = until - time.monotonic()
        with self._changed:
            if not self._waiters or left <= 0:
                return False
            self._changed.wait_for(lambda: self._is_stopping or self._has_changed, min(left, seconds))
            return not (self._is_stopping or self._has_changed)

    def _look_for(self, waiter: _Waiter) -> None:
        for receipt in list(waiter.open):
            try:
                found = trace(self._facts, receipt, waiter.asked)
            except HeadraceError as error:
                if error.code != "log_unavailable" or waiter.is_done is now:
                    waiter.error = error
                    self._finish(waiter)
                # Otherwise the log may come back while somebody waits.
                return
            except Exception as error:
                _log.error("The event %s cannot be traced.", receipt, exc_info=error)
                waiter.error = HeadraceError(
                    "process_failed",
                    f"Looking for the event {receipt} failed.",
                    remedy="See the log file of the query process.",
                )
                self._finish(waiter)
                return
            waiter.traces[receipt] = found
            if waiter.is_done(found):
                waiter.open.discard(receipt)
        if not waiter.open:
            self._finish(waiter)
        elif not waiter.is_traced:
            waiter.is_traced = True
            _call(waiter.loop, waiter.traced)

    def _finish(self, waiter: _Waiter) -> None:
        with self._changed:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
        _call(waiter.loop, waiter.done)


def _call(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
    try:
        loop.call_soon_threadsafe(_set, future)
    except RuntimeError:
        # The loop is closed: nobody waits there.
        return


def _set(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
