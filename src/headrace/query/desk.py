"""Takes questions, lets each run in a worker within its limits, and hands its answer on part by part.

How a question goes: it waits for its turn (`slots.py`), gets a worker, and its tables are planned. What it
gives is held until it is complete or larger than `HELD_BYTES`; so most errors come instead of an answer, and
a question that has to be put back can begin again. Then parts flow as fast as whoever asked takes them.

Invariants: a question that has had its time is interrupted, and half a second later its worker is killed,
whatever DuckDB does and whether anybody takes the answer; the same goes for a question that is cancelled, and
for one that nobody waits for any more. Whatever happens to a question, its slot and its worker are free
again. Belongs to one event loop, and does nothing there that takes long. Never parses SQL.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import shutil
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headrace.core.errors import HeadraceError
from headrace.query.buckets.log_snapshot import unavailable
from headrace.query.buckets.serving import Buckets
from headrace.query.log_sources import LogSources
from headrace.query.planning import Planner, Tails, needs_bucket
from headrace.query.questions import OFF, NamedTables, Question, QuestionLimits, TablePlan
from headrace.query.running import Run, Stop, cancelled
from headrace.query.slots import Seat, Slots
from headrace.query.sources import Waiting
from headrace.query.table_snapshot import TableSnapshot
from headrace.query.workers.frames import Kind
from headrace.query.workers.pool import WorkerPool
from headrace.query.workers.process import WorkerEndedError

if TYPE_CHECKING:
    # It reads files of tails, and with it come Arrow and numpy, which the gateway does without.
    from headrace.query.receipts.after import AfterReceipts

HELD_BYTES: Final = 1024 * 1024
LONGEST_WAIT_SECONDS: Final = 60.0
# How long a question waits for the logs of tables in buckets that it names, or that it only lists; the first
# moment of that in its worker.
BUCKET_SECONDS: Final = 5.0
CATALOGUE_SECONDS: Final = 1.0
BUCKET_SLOT_SECONDS: Final = 0.1
BUCKET_THREADS: Final = 16
# A plan can be out of date twice in a row, but not for ever.
_MOST_RUNS_ANEW: Final = 3

_Value = TypeVar("_Value")


class _TooEarlyError(Exception):
    """The plan does not show all events that it must."""

    def __init__(self, named: NamedTables) -> None:
        super().__init__()
        self.named = named


class _NotLookedAtError(Exception):
    """Logs of tables in buckets are still being read."""

    def __init__(self, looks: Sequence[Future[None]], seconds: float) -> None:
        super().__init__()
        self.looks = looks
        self.seconds = seconds


class Answer:
    """The answer to a question that runs or has run. Close it."""

    def __init__(self, question: Question) -> None:
        self.question_id = question.question_id
        self.columns: tuple[str, ...] = ()
        self.types: tuple[str, ...] = ()
        # At the end: number of rows, and what was read of each table.
        self.summary: dict[str, Any] | None = None
        self._held: list[bytes] = []
        self._run: Run | None = None
        self._on_close: Callable[[], None] = lambda: None

    async def parts(self) -> AsyncIterator[bytes]:
        """The bytes. Raises HeadraceError if the question fails on the way."""
        held, self._held = self._held, []
        for part in held:
            yield part
        while self.summary is None:
            part = await self._next()
            if part:
                yield part

    def on_close(self, also: Callable[[], None]) -> None:
        """Do this as well when the answer is closed."""
        before = self._on_close

        def both() -> None:
            before()
            self._on_close = lambda: None
            also()

        self._on_close = both

    def close(self) -> None:
        """Stops the question if it still runs."""
        self._on_close()
        if self._run is not None:
            self._run.abandon()

    async def _next(self) -> bytes:
        """The next part; empty for a frame without one."""
        if self._run is None:
            raise RuntimeError("the question was not asked")
        kind, payload = await self._run.receive()
        if kind is Kind.COLUMNS:
            content = json.loads(payload)
            self.columns, self.types = tuple(content["columns"]), tuple(content["types"])
        elif kind is Kind.DATA:
            return payload
        elif kind is Kind.END:
            self.summary = json.loads(payload)
        return b""


class Desk:
    """Answers the questions of one process."""

    def __init__(
        self,
        lake_dir: Path,
        *,
        limits: QuestionLimits,
        slots: int,
        most_waiting: int,
        folder: Path,
        tails: Tails | None = None,
        sources: LogSources | None = None,
        buckets: Buckets | None = None,
    ) -> None:
        """`folder` is for the workers: it is created, and deleted in the end. Without `buckets`, there are
        only the tables in the lake's folder.
        """
        self._limits = limits
        self._folder = folder
        self.slots = Slots(slots, most_waiting=most_waiting)
        self._buckets = buckets
        self.pool = WorkerPool(
            lake_dir,
            limits,
            folder,
            most=self.slots.slots + 1,
            bucket_reader=buckets.reader if buckets is not None else None,
        )
        self._planner = Planner(lake_dir, tails, sources, buckets.tables if buckets is not None else None)
        self._threads = ThreadPoolExecutor(self.slots.slots, thread_name_prefix="planning")
        # A bucket that does not answer must not keep a thread that other questions need.
        self._bucket_threads = ThreadPoolExecutor(BUCKET_THREADS, thread_name_prefix="planning for buckets")
        self._asked: dict[str, _Asked] = {}
        self._widened: frozenset[str] = frozenset()
        # For questions that must see certain events; None where there is no log.
        self.receipts: AfterReceipts | None = None

    def tell_waiting(self, waiting: Callable[[TableSnapshot], tuple[Waiting, ...]]) -> None:
        """Let answers say what waits before the topics of their tables."""
        self._planner.waiting = waiting

    async def start(self) -> None:
        """Have a worker ready for the first question."""
        await asyncio.to_thread(self._make_folder)
        if self._buckets is not None:
            await self._buckets.reader.start()
        self.pool.warm_up()

    async def stop(self) -> None:
        for asked in list(self._asked.values()):
            asked.cancel()
        await self.pool.close()
        if self._buckets is not None:
            self._buckets.tables.close()
            await self._buckets.reader.stop()
        for threads in (self._threads, self._bucket_threads):
            threads.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def ask(self, question: Question) -> Answer:
        """Returns once the answer is complete or flows. Raises HeadraceError. Close the answer."""
        if question.question_id in self._asked:
            raise HeadraceError(
                "bad_request",
                f"A question with the id {question.question_id} is being answered.",
                remedy="Choose another id, or leave it out.",
            )
        asked = _Asked(self.slots.arrive())
        self._asked[question.question_id] = asked
        answer = Answer(question)
        answer._on_close = lambda: self._forget(question, asked)
        try:
            await self._answer(question, asked, answer)
        except BaseException:
            answer.close()
            raise
        return answer

    async def tables(self) -> Mapping[str, TableSnapshot]:
        """All tables of the lake by name, now."""
        return await self._in_thread(self._planner.snapshots)

    def snapshots(self) -> Mapping[str, TableSnapshot]:
        """The same as `tables`; blocks, and may be called from any thread."""
        return self._planner.snapshots()

    async def tables_at(self, moments: Sequence[str]) -> Mapping[str, TableSnapshot]:
        """Tables at versions, by the names that statements have for them (`references/moments.py`). Raises
        version_not_found, bad_request.
        """
        return await self._in_thread(lambda: self._planner.tables_at(moments))

    def cancel(self, question_id: str) -> bool:
        """Stop a question that waits or runs. False if there is none with this id."""
        asked = self._asked.get(question_id)
        if asked is None:
            return False
        asked.cancel()
        return True

    def state(self, question_id: str) -> str | None:
        """In words; None if there is no question with this id."""
        asked = self._asked.get(question_id)
        if asked is None:
            return None
        return "running" if asked.seat.is_running else "waiting for its turn"

    def _forget(self, question: Question, asked: _Asked) -> None:
        if self._asked.get(question.question_id) is asked:
            del self._asked[question.question_id]

    async def _answer(self, question: Question, asked: _Asked, answer: Answer) -> None:
        """Run the question until its answer may be passed on."""
        failures = 0
        deadline = time.monotonic() + question.after.seconds
        while True:
            run = await self._begin(asked)
            answer._run = run
            try:
                await self._run(question, asked, run, answer)
                return
            except _NotLookedAtError as waiting:
                # As above: and a server that hangs would keep all turns.
                await run.until_over()
                looked_at = _looked_at(waiting.looks, seconds=waiting.seconds)
                await asked.unless_cancelled(looked_at)
                asked.has_waited = True
            except _TooEarlyError as early:
                # It must not keep its turn from others while it waits.
                await run.until_over()
                await self._wait_for_events(question, early.named, asked, deadline)
            except HeadraceError as error:
                run.abandon()
                answer._held.clear()
                if run.stop is Stop.PUT_BACK and not asked.is_cancelled:
                    asked.seat.is_heavy = True
                    continue
                if run.ask_again and failures < _MOST_RUNS_ANEW:
                    failures += 1
                    if run.is_outdated:
                        self._planner.doubt_buckets()
                        asked.has_waited = False
                    self._widened |= run.widen
                    if run.plainly:
                        question = dataclasses.replace(question, rollups=OFF)
                    if run.in_lake:
                        question = dataclasses.replace(
                            question, after=dataclasses.replace(question.after, in_lake=True)
                        )
                    continue
                raise error

    async def _begin(self, asked: _Asked) -> Run:
        """Wait for a turn and a worker."""
        try:
            await asked.unless_cancelled(self.slots.wait(asked.seat))
            worker = await asked.unless_cancelled(
                self.pool.take(), undo=lambda taken: self.pool.give_back(taken, is_usable=True)
            )
        except TimeoutError:
            self.slots.leave(asked.seat)
            raise HeadraceError(
                "too_many_questions",
                f"It was not the question's turn within {LONGEST_WAIT_SECONDS:g} s.",
                remedy="Ask again later: other questions take all the time there is.",
            ) from None
        except BaseException:
            self.slots.leave(asked.seat)
            raise
        run = Run(worker, asked.seat, self.slots, self.pool, self._limits)
        asked.run = run
        if asked.is_cancelled:
            run.end(Stop.CANCELLED)
        return run

    async def _run(self, question: Question, asked: _Asked, run: Run, answer: Answer) -> None:
        snapshots = await self._in_thread(self._planner.snapshots)
        run.worker.ask(question, tuple(snapshots))
        kind, payload = await run.receive()
        if kind is not Kind.TABLES:
            raise WorkerEndedError(f"A worker sent {kind.name} before it asked for tables.")
        named = _named(payload)
        if self._buckets is None or not any(needs_bucket(each, named) for each in snapshots.values()):
            plans = await self._in_thread(
                lambda: self._planner.plan(question, snapshots, named, self._widened), run
            )
        else:
            plans = await self._plan_with_buckets(question, asked, snapshots, named, run)
        if question.after.receipts and await run.unless_stopped(
            asyncio.ensure_future(self._after(question).lacking(question, named, plans))
        ):
            raise _TooEarlyError(named)
        run.worker.plan(plans)
        held = 0
        while answer.summary is None:
            part = await answer._next()
            if part:
                answer._held.append(part)
                held += len(part)
            if held > HELD_BYTES and answer.summary is None and run.may_flow():
                return

    async def _plan_with_buckets(
        self,
        question: Question,
        asked: _Asked,
        snapshots: Mapping[str, TableSnapshot],
        named: NamedTables,
        run: Run,
    ) -> list[TablePlan]:
        """As soon as the tables in buckets have been looked at. Raises bucket_unavailable, and
        _NotLookedAtError if that takes long.
        """
        looks = self._planner.look(snapshots, named) if not asked.has_waited else []
        if looks:
            await run.unless_stopped(asyncio.ensure_future(_looked_at(looks, seconds=BUCKET_SLOT_SECONDS)))
        if not all(look.done() for look in looks):
            raise _NotLookedAtError(looks, BUCKET_SECONDS if named.names else CATALOGUE_SECONDS)
        self._planner.check(snapshots, named)
        current = await self._in_thread(self._planner.snapshots, run)
        work = asyncio.get_running_loop().run_in_executor(
            self._bucket_threads, lambda: self._planner.plan(question, current, named, self._widened)
        )
        # A tail reads the log of its table, too.
        in_time = asyncio.ensure_future(asyncio.wait_for(asyncio.shield(work), BUCKET_SECONDS))
        try:
            return await run.unless_stopped(in_time)
        except TimeoutError:
            names = ", ".join(sorted((*named.names, *named.moments)))
            raise unavailable(names, f"its log was not read within {BUCKET_SECONDS:g} s") from None

    async def _wait_for_events(
        self, question: Question, named: NamedTables, asked: _Asked, deadline: float
    ) -> None:
        waiting = self._after(question).wait(question, named, deadline=deadline)
        await asked.unless_cancelled(waiting, seconds=question.after.seconds + LONGEST_WAIT_SECONDS)

    def _after(self, question: Question) -> AfterReceipts:
        if self.receipts is None:
            raise HeadraceError(
                "bad_request",
                f"The question is to see the event {question.after.receipts[0]}, but there is no log here.",
                remedy="Ask the query process of the running platform.",
            )
        return self.receipts

    async def _in_thread(self, work: Callable[[], _Value], run: Run | None = None) -> _Value:
        """In a thread; not any longer than the run may take."""
        future = asyncio.get_running_loop().run_in_executor(self._threads, work)
        return await (future if run is None else run.unless_stopped(future))

    def _make_folder(self) -> None:
        # What a killed process has left behind.
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)


class _Asked:
    """A question between its arrival and its end."""

    def __init__(self, seat: Seat) -> None:
        self.seat = seat
        self.run: Run | None = None
        # For the logs of tables in buckets.
        self.has_waited = False
        self._cancelled = asyncio.Event()

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled.is_set()

    def cancel(self) -> None:
        self._cancelled.set()
        if self.run is not None:
            self.run.end(Stop.CANCELLED)

    async def unless_cancelled(
        self,
        work: Coroutine[Any, Any, _Value],
        undo: Callable[[_Value], None] = lambda _: None,
        seconds: float = LONGEST_WAIT_SECONDS,
    ) -> _Value:
        """The outcome of the work. Raises query_cancelled and TimeoutError.

        `undo` gets an outcome that nobody else gets.
        """
        task = asyncio.ensure_future(work)
        cancelled_ = asyncio.ensure_future(self._cancelled.wait())
        try:
            await asyncio.wait({task, cancelled_}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if self.is_cancelled:
                raise cancelled()
            if not task.done():
                raise TimeoutError
        except BaseException:
            if not task.cancel() and not task.cancelled() and task.exception() is None:
                undo(task.result())
            raise
        finally:
            cancelled_.cancel()
        return task.result()


async def _looked_at(looks: Sequence[Future[None]], *, seconds: float) -> None:
    await asyncio.wait(map(asyncio.wrap_future, looks), timeout=seconds)


def _named(payload: bytes) -> NamedTables:
    content = json.loads(payload)
    return NamedTables(
        names=tuple(content["names"]),
        catalogue=bool(content["catalogue"]),
        moments=tuple(content["moments"]),
        topics=tuple(content["topics"]),
        statement_tables=tuple(content["statement_tables"]),
        unknown=tuple(content["unknown"]),
        freshness=str(content["freshness"]),
    )
