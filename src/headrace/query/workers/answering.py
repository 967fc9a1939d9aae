"""Answers questions in a worker: checks the statement, asks for its tables, runs it, and encodes the answer.

Invariants: only a permitted statement reaches DuckDB (`permitted.py`); each table is seen at the version of
the plan, and its tail behind it; an answer that grows beyond its limits ends with an error; the connection is
free again whatever happened. Knows nothing of processes or time: whoever calls may interrupt the connection.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb
import pyarrow.ipc

from headrace.core.errors import HeadraceError
from headrace.query.lake_database import LakeDatabase, same_shape
from headrace.query.permitted import Permitted, check_permitted
from headrace.query.questions import AnswerSummary, NamedTables, Question, QuestionLimits, TablePlan
from headrace.query.result_formats import ARROW, ENCODERS, Encoder
from headrace.query.sources import TailView
from headrace.query.table_snapshot import TableSnapshot, quoted
from headrace.query.workers.bucket_files import BucketFiles, BucketFileSystem, FileGoneError
from headrace.query.workers.bucket_views import BucketView, BucketViews
from headrace.query.workers.limits import DUCKDB_SHARE
from headrace.query.workers.parts import (
    MOST_ROWS,
    PART_BYTES,
    Counter,
    Explained,
    FrameSink,
    Output,
    Rows,
    bound,
)
from headrace.query.workers.tail_rows import ChunkGoneError, TailRows


@dataclass(slots=True, kw_only=True)
class _Shown:
    """A view as it is now."""

    number: int
    snapshot: TableSnapshot
    widened: bool
    tail: TailView | None = None


class AskAgainError(Exception):
    """The plan does not fit the files. Those in `widen` must be read with all columns of all files. If it
    `is_outdated`, what is known of tables in buckets is too old.
    """

    def __init__(self, reason: str, *, widen: tuple[str, ...] = (), is_outdated: bool = False) -> None:
        super().__init__(reason)
        self.widen = widen
        self.is_outdated = is_outdated


class Answering:
    """The database of one worker. One question at a time."""

    def __init__(self, lake_dir: Path, limits: QuestionLimits, temporary: Path) -> None:
        self._limits = limits
        megabytes = max(1, int(limits.memory_megabytes * DUCKDB_SHARE))
        self.bucket_files = BucketFiles()
        self._database = LakeDatabase(
            lake_dir,
            memory_limit=f"{megabytes}MiB",
            threads=limits.threads,
            temporary=temporary,
            bucket_files=BucketFileSystem(self.bucket_files),
        )
        self.connection = self._database.connect([], widened=())
        self._bucket_views = BucketViews(self._database, self.connection, self.bucket_files)
        self._shown: dict[str, _Shown] = {}
        self._views = 0
        self._snapshots: dict[str, TableSnapshot] = {}
        self._tail_rows = TailRows()

    def warm_up(self) -> None:
        """Start DuckDB's threads, and load what the first question would load."""
        self.connection.sql("SELECT count(*), sum(hash(range)) FROM range(500000)").to_arrow_reader(
            1
        ).read_all()
        self.connection.execute("SELECT json_serialize_sql('SELECT 1')").fetchall()

    def answer(
        self,
        question: Question,
        known: Collection[str],
        tables_of: Callable[[NamedTables], Sequence[TablePlan]],
        output: Output,
    ) -> AnswerSummary:
        """Raises HeadraceError, DuckDB's and Arrow's errors, MemoryError, and AskAgainError.

        `known` are the names of all tables.
        """
        permitted = check_permitted(self.connection, question.sql, {name.casefold() for name in known})
        plans = tables_of(NamedTables(names=tuple(sorted(permitted.tables)), catalogue=permitted.catalogue))
        self._take(plans, forget_others=permitted.catalogue)
        named = [plan for plan in plans if plan.name.casefold() in permitted.tables]
        for plan in named:
            _check_readable(self._snapshots[plan.name])
        try:
            return self._run(question, permitted, plans, named, output)
        except ChunkGoneError as error:
            raise AskAgainError(f"The tail was read anew meanwhile: {error} is gone.") from error
        except duckdb.Error as error:
            if (failure := self.bucket_files.failure) is not None:
                raise _bucket_failure(failure) from error
            narrow = tuple(plan.name for plan in named if not plan.widened)
            if "union_by_name" in str(error) and narrow:
                raise AskAgainError("Older files lack columns.", widen=narrow) from error
            raise

    def failed(self, error: Exception) -> HeadraceError:
        """The error for whoever asked. That a question was interrupted, and why, its interrupter says."""
        if isinstance(error, (duckdb.OutOfMemoryException, MemoryError)) or _is_memory(error):
            return HeadraceError(
                "query_failed",
                f"The query needs more than the {self._limits.memory_megabytes} MB of memory allowed.",
                remedy="Narrow it, or aggregate in steps.",
            )
        if isinstance(error, duckdb.CatalogException) and not self._snapshots:
            return HeadraceError(
                "no_such_table",
                "The lake has no tables yet.",
                remedy="No event has reached the lake yet: post one to /events; /flow shows its progress.",
            )
        return HeadraceError("query_failed", str(error).strip(), remedy=_described(self._snapshots))

    def close(self) -> None:
        """For whoever does not end with its process."""
        self.connection.close()
        self._database.close()

    def free(self) -> None:
        """Let go of an unfinished result."""
        self.connection.abort()
        self._bucket_views.end()

    def _take(self, plans: Sequence[TablePlan], *, forget_others: bool) -> None:
        for plan in plans:
            if plan.snapshot is not None:
                self._snapshots[plan.name] = plan.snapshot
        if forget_others:
            gone = self._snapshots.keys() - {plan.name for plan in plans}
            for name in gone:
                del self._snapshots[name]
                self._tail_rows.forget(name)
                if self._shown.pop(name, None) is not None:
                    self.connection.execute(f"DROP VIEW IF EXISTS {quoted(name)}")

    def _show(self, plan: TablePlan) -> None:
        """Make the view of the table read what the plan says."""
        snapshot = self._snapshots[plan.name]
        if snapshot.unreadable:
            return
        rows = self._tail_rows.rows(snapshot, plan.tail) if plan.tail is not None else None
        shown = self._shown.get(plan.name)
        if shown is None:
            self._views += 1
        number = shown.number if shown is not None else self._views
        if snapshot.stored is not None:
            # `_list_bucket_files` lists them; for the columns it takes none.
            self._database.list_files(self.connection, snapshot, number, kept=())
        elif shown is None or shown.snapshot != snapshot:
            self._database.list_files(self.connection, snapshot, number)
        name = f"tail of table {number}"
        if rows is not None:
            self.connection.register(name, rows)
        tail = plan.tail if rows is not None else None
        if (
            shown is None
            or not same_shape(shown.snapshot, snapshot)
            or (shown.widened, shown.tail is None) != (plan.widened, tail is None)
        ):
            self._database.create_view(
                self.connection, snapshot, number, widened=plan.widened, tail=name if rows is not None else ""
            )
        if rows is None and shown is not None and shown.tail is not None:
            self.connection.unregister(name)
        self._shown[plan.name] = _Shown(number=number, snapshot=snapshot, widened=plan.widened, tail=tail)

    def _list_bucket_files(
        self, question: Question, permitted: Permitted, named: Sequence[TablePlan]
    ) -> None:
        shown = [self._shown[plan.name] for plan in named if plan.name in self._shown]
        views = [
            BucketView(number=each.number, snapshot=each.snapshot, restore=partial(self._restore, each))
            for each in shown
            if each.snapshot.stored is not None
        ]
        self._bucket_views.list_files(views, permitted.text, question.parameters)

    def _restore(self, shown: _Shown) -> None:
        tail = f"tail of table {shown.number}" if shown.tail is not None else ""
        self._database.create_view(
            self.connection, shown.snapshot, shown.number, widened=shown.widened, tail=tail
        )

    def _run(
        self,
        question: Question,
        permitted: Permitted,
        plans: Sequence[TablePlan],
        named: Sequence[TablePlan],
        output: Output,
    ) -> AnswerSummary:
        self._bucket_views.begin()
        for plan in plans:
            self._show(plan)
        self._list_bucket_files(question, permitted, named)
        if question.answer_format == ARROW:
            return self._run_for_arrow(question, named, output)
        answer: Rows | Explained
        if permitted.kind == "EXPLAIN":
            note = json.dumps([_summary(plan, self._snapshots[plan.name]) for plan in named])
            answer = Explained(self.connection, question, note)
        else:
            answer = Rows(self.connection, question)
        wanted = question.answer_format
        made = ENCODERS[wanted] if isinstance(wanted, str) else wanted
        encoder: Encoder = made(answer.columns, answer.types)
        output.columns(answer.columns, answer.types)
        counter = Counter(self._limits)
        part = bytearray(encoder.begin())
        for rows in answer.parts():
            counter.add_rows(len(rows))
            content = encoder.rows(rows)
            answer.last_part_bytes = len(content)
            counter.add_bytes(len(content))
            part += content
            if len(part) >= PART_BYTES:
                output.data(part)
                part = bytearray()
        summary = self._summary(counter.rows, named)
        part += encoder.end(summary)
        output.data(part)
        return summary

    def _run_for_arrow(self, question: Question, named: Sequence[TablePlan], output: Output) -> AnswerSummary:
        relation = bound(self.connection, question)
        output.columns(relation.columns, [str(kind) for kind in relation.types])
        counter = Counter(self._limits)
        sink = FrameSink(output, counter)
        reader = relation.to_arrow_reader(MOST_ROWS)
        try:
            with pyarrow.ipc.new_stream(sink, reader.schema) as writer:
                for batch in reader:
                    counter.add_rows(batch.num_rows)
                    writer.write_batch(batch)
        finally:
            reader.close()
        sink.flush()
        return self._summary(counter.rows, named)

    def _summary(self, rows: int, named: Sequence[TablePlan]) -> AnswerSummary:
        return AnswerSummary(
            rows=rows, tables=tuple(_summary(plan, self._snapshots[plan.name]) for plan in named)
        )


def _bucket_failure(failure: Exception) -> Exception:
    if isinstance(failure, FileGoneError):
        return AskAgainError(f"A file of it is not in its bucket any more: {failure}.", is_outdated=True)
    return HeadraceError(
        "bucket_unavailable",
        f"The bucket of a table cannot be read now: {str(failure).rstrip('.')}.",
        remedy="Check that the bucket and its server can be reached from here; then ask again.",
    )


def _check_readable(table: TableSnapshot) -> None:
    if table.unreadable:
        raise HeadraceError(
            "query_failed",
            f"The table {table.name} cannot be read here: {table.unreadable}.",
            remedy="Read it with Spark, or rewrite it.",
        )


def _summary(plan: TablePlan, snapshot: TableSnapshot) -> dict[str, object]:
    """What was read of a table: for whoever asked."""
    found: dict[str, object] = {
        "table": plan.name,
        "version": snapshot.version,
        "files": len(snapshot.files),
    }
    if plan.tail is not None:
        starts = plan.tail.starts
        found |= {
            # Rows of chunks; one that begins before the start counts from there, by its offsets.
            "tail_rows": sum(
                min(chunk.rows, max(0, chunk.end - starts.get(chunk.partition, 0)))
                for chunk in plan.tail.chunks
            ),
            "positions": {str(partition): offset for partition, offset in starts.items()},
            "reached": {str(partition): offset for partition, offset in plan.tail.reached.items()},
            "behind": plan.tail.behind,
            "reason": plan.tail.reason,
        }
    return found


def _described(tables: dict[str, TableSnapshot]) -> str:
    if not tables:
        return "The lake has no tables yet."
    described = (
        f"{table.name} ({', '.join(column.name for column in table.columns)})"
        for _, table in sorted(tables.items())
    )
    return f"Tables and their columns: {'; '.join(described)}."


def _is_memory(error: BaseException) -> bool:
    """Whether memory was refused below DuckDB, which then reports another kind of error."""
    text = str(error)
    return "Allocation failure" in text or "bad_alloc" in text or "Cannot allocate memory" in text
