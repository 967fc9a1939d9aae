"""Answers questions in a worker: checks the statement, asks for its tables, runs it, and encodes the answer.

Invariants: only a permitted statement reaches DuckDB (`permitted.py`); each table is seen at the version of
the plan, and its tail behind it; an answer that grows beyond its limits ends with an error; the connection is
free again whatever happened. Knows nothing of processes or time: whoever calls may interrupt the connection.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.ipc

from headrace.core.errors import HeadraceError
from headrace.query.lake_database import LakeDatabase, same_shape
from headrace.query.permitted import Permitted, check_permitted
from headrace.query.questions import (
    CLOSE,
    AnswerSummary,
    NamedTables,
    Question,
    QuestionLimits,
    StoredAnswer,
    TablePlan,
    check_freshness,
)
from headrace.query.references.spelling import respelled
from headrace.query.result_formats import ARROW, ENCODERS, SPARK_STATEMENT, Encoder
from headrace.query.rollups.using import RollupTail, RollupUse
from headrace.query.statement_tables.views import StatementTableViews
from headrace.query.table_snapshot import TableSnapshot, quoted
from headrace.query.topic_tables.views import TopicViews
from headrace.query.workers.bucket_files import BucketFiles, BucketFileSystem, FileGoneError
from headrace.query.workers.bucket_views import BucketView, BucketViews
from headrace.query.workers.explaining import Explained, Explaining, Tables
from headrace.query.workers.limits import DUCKDB_SHARE
from headrace.query.workers.parts import (
    PART_BYTES,
    Counter,
    FrameSink,
    Output,
    Rows,
    Shape,
    arrow_reader,
    shape_of,
)
from headrace.query.workers.spark_steps import reading, translated
from headrace.query.workers.tail_rows import ChunkGoneError, Tail, TailRows
from headrace.query.workers.unknown_columns import (
    marked_names,
    rows_behind,
    uses_unknown,
    without_rows,
)

# Of the time of a question: then reading a topic says how far it got, which its interruption could not.
_READING_SHARE: Final = 0.9


@dataclass(slots=True, kw_only=True)
class _Shown:
    """A view as it is now."""

    number: int
    snapshot: TableSnapshot
    widened: bool
    tail: Tail | None
    # Of the relation with the tail's Arrow; empty if the view has none.
    name: str
    has_begun: bool
    marked: bool = False


class AskAgainError(Exception):
    """The plan does not fit the files. Those in `widen` must be read with all columns of all files."""

    def __init__(
        self,
        reason: str,
        *,
        widen: tuple[str, ...] = (),
        plainly: bool = False,
        is_outdated: bool = False,
        in_lake: bool = False,
    ) -> None:
        """`plainly`: without rollups. `is_outdated`: what is known of tables in buckets is too old.
        `in_lake`: once the events that it is to see are in the lake.
        """
        super().__init__(reason)
        self.widen = widen
        self.plainly = plainly
        self.is_outdated = is_outdated
        self.in_lake = in_lake


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
        self._tail_rows = TailRows(temporary / "tails")
        self._temporary = temporary
        self._topics = TopicViews(
            self.connection, megabytes=limits.topic_megabytes, seconds=limits.seconds * _READING_SHARE
        )
        self._statement_tables = StatementTableViews(self.connection, self._topics.schema_at)
        # What is to be forgotten before the next question.
        self._once: list[str] = []
        self._rollups = RollupUse(self._database, self.connection)
        # Of the question at hand: what of each table is read by the rollups that answer it.
        self._used: Mapping[str, Sequence[Mapping[str, object]]] = {}

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
        self._used = {}
        self._rollups.forget()
        if question.stored is not None:
            return self._answer_stored(question, question.stored, tables_of, output)
        # Not at the end of the question before: that may have been interrupted.
        self._forget(self._once)
        self._topics.forget()
        self._statement_tables.forget()
        self._database.show_rows(self.connection)
        statement = respelled(question.sql)
        if statement.freshness:
            check_freshness(statement.freshness)
        question = dataclasses.replace(question, sql=statement.sql)
        permitted = check_permitted(self.connection, question.sql, {name.casefold() for name in known})
        plans = tables_of(
            NamedTables(
                names=tuple(sorted(permitted.tables)),
                catalogue=permitted.catalogue,
                moments=tuple(sorted(permitted.moments)),
                topics=tuple(sorted(permitted.topics)),
                statement_tables=tuple(sorted(permitted.statement_tables)),
                unknown=tuple(sorted(permitted.unknown)),
                freshness=statement.freshness,
            )
        )
        topics = [plan.topic for plan in plans if plan.topic is not None]
        statement_tables = [plan.statement_table for plan in plans if plan.statement_table is not None]
        plans = [plan for plan in plans if plan.topic is None and plan.statement_table is None]
        self._take(plans, forget_others=permitted.catalogue)
        self._once = [plan.name for plan in plans if plan.once]
        named = [plan for plan in plans if plan.once or plan.name.casefold() in permitted.tables]
        for plan in named:
            _check_readable(self._snapshots[plan.name])
        self._topics.show(topics)
        self._statement_tables.show(statement_tables, self._topics.allowance)
        try:
            return self._run(question, permitted, plans, named, output)
        except ChunkGoneError as error:
            raise AskAgainError(f"The tail was read anew meanwhile: {error} is gone.") from error
        except (duckdb.Error, pa.ArrowException) as error:
            if self._topics.failure is not None:
                raise self._topics.failure from error
            if (failure := self.bucket_files.failure) is not None:
                raise _bucket_failure(failure) from error
            narrow = tuple(plan.name for plan in named if not plan.widened)
            if "union_by_name" in str(error) and narrow:
                raise AskAgainError("Older files lack columns.", widen=narrow) from error
            if self._used and not isinstance(error, (duckdb.InterruptException, duckdb.OutOfMemoryException)):
                # Files of a rollup that are gone or damaged: the table has all rows.
                raise AskAgainError(f"A rollup cannot be read: {error}", plainly=True) from error
            raise

    def failed(self, error: Exception) -> HeadraceError:
        """The error for whoever asked. That a question was interrupted, and why, its interrupter says."""
        if isinstance(error, (duckdb.OutOfMemoryException, MemoryError)) or _is_memory(error):
            return HeadraceError(
                "query_out_of_memory",
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

    def free(self) -> None:
        """Let go of an unfinished result."""
        self.connection.abort()
        self._rollups.end()
        self._bucket_views.end()

    def close(self) -> None:
        """For whoever does not end with its process."""
        self.connection.close()
        self._database.close()

    def _take(self, plans: Sequence[TablePlan], *, forget_others: bool) -> None:
        for plan in plans:
            if plan.snapshot is not None:
                self._snapshots[plan.name] = plan.snapshot
        if forget_others:
            self._forget(self._snapshots.keys() - {plan.name for plan in plans})

    def _forget(self, names: Iterable[str]) -> None:
        for name in names:
            self._snapshots.pop(name, None)
            self._tail_rows.forget(name)
            self._database.forget(name)
            if (shown := self._shown.pop(name, None)) is not None:
                self.connection.execute(f"DROP VIEW IF EXISTS {quoted(name)}")
                self._database.forget_lists(self.connection, shown.number)

    def _show(self, plan: TablePlan, *, marked: bool = False) -> None:
        """Make the view of the table read what the plan says. `marked` is for a plan that is looked at."""
        snapshot = self._snapshots[plan.name]
        if snapshot.unreadable:
            return
        tail = self._tail_rows.tail(snapshot, plan.tail) if plan.tail is not None else None
        shown = self._shown.get(plan.name)
        if shown is None:
            self._views += 1
        number = shown.number if shown is not None else self._views
        if snapshot.stored is not None:
            if not marked:
                # `_list_bucket_files` lists them; for the columns it takes none.
                self._database.list_files(self.connection, snapshot, number, kept=())
        elif shown is None or shown.snapshot != snapshot:
            self._database.list_files(self.connection, snapshot, number)
        is_other = shown is None or not same_shape(shown.snapshot, snapshot)
        if shown is None or is_other or tail is not shown.tail:
            self._show_tail(snapshot, number, tail)
        name = _tail_name(number) if tail is not None and tail.rows is not None else ""
        has_begun = tail is not None and bool(tail.begun)
        new = _Shown(
            number=number,
            snapshot=snapshot,
            widened=plan.widened,
            tail=tail,
            name=name,
            has_begun=has_begun,
            marked=marked,
        )
        if (
            shown is None
            or is_other
            or (shown.widened, shown.name, shown.has_begun, shown.marked, _unknown(shown.tail))
            != (plan.widened, name, has_begun, marked, _unknown(tail))
        ):
            self._create_view(new)
        if not name and shown is not None and shown.name:
            self.connection.unregister(shown.name)
        self._shown[plan.name] = new

    def _show_tail(self, snapshot: TableSnapshot, number: int, tail: Tail | None) -> None:
        """What is behind the names that the view uses."""
        if tail is None:
            self._database.list_tail(self.connection, snapshot, number)
            return
        self._database.list_tail(
            self.connection, snapshot, number, files=tail.files, begun=tail.begun, starts=tail.starts
        )
        if tail.rows is not None:
            self.connection.register(_tail_name(number), tail.rows)

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
        if question.answer_format == SPARK_STATEMENT:
            return self._translated(question, permitted, named, output)
        named = self._without_unknown(question, permitted, named)
        has_buckets = self._list_bucket_files(question, permitted, named)
        # Rollups are of tables in the lake's folder, and may need a transaction of their own.
        if not permitted.catalogue and not has_buckets:
            question = self._with_rollups(question, permitted, named)
        if permitted.kind == "EXPLAIN":
            explaining = Explaining(self.connection, question, permitted)
            explaining.run_unmarked()
            for plan in named:
                self._show(plan, marked=True)
            # A table may be named at two versions.
            paths = [self._database.definition(self.connection, self._snapshots[plan.name]) for plan in named]
            answer, tables = explaining.explained(lambda: self._what_was_read(named), paths)
            return self._encoded(question, answer, lambda: tables, output)
        return self._answered(question, lambda: self._what_was_read(named), output)

    def _translated(
        self, question: Question, permitted: Permitted, named: Sequence[TablePlan], output: Output
    ) -> AnswerSummary:
        """The statement for Spark."""
        if permitted.kind == "EXPLAIN":
            raise HeadraceError(
                "query_failed", "EXPLAIN shows what DuckDB does.", remedy="Leave `engine` out."
            )
        if any(self._snapshots[plan.name].stored is not None for plan in named):
            raise HeadraceError(
                "query_failed",
                "Spark answers questions on tables in the lake's folder, not in buckets.",
                remedy="Leave `engine` out.",
            )
        # By the names that they have in the statement: a table may be named at two versions.
        snapshots = {plan.name: self._snapshots[plan.name] for plan in named}
        tables = self._what_was_read(named)
        output.data(translated(question, self._shape(question), snapshots, tables))
        return AnswerSummary(rows=0, tables=tables)

    def _answer_stored(
        self,
        question: Question,
        stored: StoredAnswer,
        tables_of: Callable[[NamedTables], Sequence[TablePlan]],
        output: Output,
    ) -> AnswerSummary:
        """The answer of another engine, as if it was DuckDB's."""
        tables_of(NamedTables(names=(), catalogue=False))
        folder = self._temporary / "stored"
        try:
            question = dataclasses.replace(question, sql=reading(stored, folder), stored=None)
            return self._answered(question, lambda: stored.tables, output)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _answered(self, question: Question, read: Callable[[], Tables], output: Output) -> AnswerSummary:
        """`read` is asked for the tables at the end."""
        if question.answer_format == ARROW:
            return self._run_for_arrow(question, read, output)
        return self._encoded(question, Rows(self.connection, question, self._shape(question)), read, output)

    def _encoded(
        self,
        question: Question,
        answer: Rows | Explained,
        read: Callable[[], Tables],
        output: Output,
    ) -> AnswerSummary:
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
        summary = AnswerSummary(rows=counter.rows, tables=read())
        part += encoder.end(summary)
        output.data(part)
        return summary

    def _list_bucket_files(
        self, question: Question, permitted: Permitted, named: Sequence[TablePlan]
    ) -> bool:
        """Whether there are any."""
        shown = [self._shown[plan.name] for plan in named if plan.name in self._shown]
        views = [
            BucketView(number=each.number, snapshot=each.snapshot, restore=partial(self._restore, each))
            for each in shown
            if each.snapshot.stored is not None
        ]
        if views:
            self._bucket_views.list_files(views, permitted.text, question.parameters)
        if permitted.kind == "EXPLAIN":
            # It makes views of its own, which must stay.
            self._bucket_views.end()
        return bool(views)

    def _restore(self, shown: _Shown) -> None:
        # A view over files with different columns opens all that it lists.
        with self._database.described(self.connection):
            self._create_view(shown)

    def _create_view(self, shown: _Shown) -> None:
        self._database.create_view(
            self.connection,
            shown.snapshot,
            shown.number,
            widened=shown.widened,
            tail=shown.name,
            names_in_tail=marked_names(_unknown(shown.tail)),
            has_begun=shown.has_begun,
            marked=shown.marked,
        )

    def _shape(self, question: Question) -> Shape:
        with self._database.described(self.connection):
            return shape_of(self.connection, question)

    def _without_unknown(
        self, question: Question, permitted: Permitted, named: Sequence[TablePlan]
    ) -> Sequence[TablePlan]:
        """Without the tails that have columns which the question uses and only the lake knows."""
        if not any(plan.tail is not None and plan.tail.unknown and plan.tail.chunks for plan in named):
            return named
        if not uses_unknown(self.connection, permitted.text, list(question.parameters) or None):
            return named
        if question.after.receipts and not question.after.in_lake:
            raise AskAgainError("The question uses what only the lake knows of its events.", in_lake=True)
        changed = [
            without_rows(plan) if plan.tail is not None and plan.tail.unknown else plan for plan in named
        ]
        for plan in changed:
            self._show(plan)
        return changed

    def _run_for_arrow(self, question: Question, read: Callable[[], Tables], output: Output) -> AnswerSummary:
        shape = self._shape(question)
        output.columns(shape.columns, shape.types)
        counter = Counter(self._limits)
        sink = FrameSink(output, counter)
        reader = arrow_reader(self.connection, question)
        try:
            with pyarrow.ipc.new_stream(sink, reader.schema) as writer:
                for batch in reader:
                    counter.add_rows(batch.num_rows)
                    writer.write_batch(batch)
        finally:
            reader.close()
        sink.flush()
        return AnswerSummary(rows=counter.rows, tables=read())

    def _what_was_read(self, named: Sequence[TablePlan]) -> Tables:
        tables = [
            _summary(plan, self._snapshots[plan.name])
            | self._left_out(plan)
            | ({"rollups": self._used[plan.name.casefold()]} if plan.name.casefold() in self._used else {})
            for plan in named
        ]
        return (*tables, *self._topics.summaries(), *self._statement_tables.summaries)

    def _left_out(self, plan: TablePlan) -> dict[str, object]:
        """Of a table in a bucket: how many files were ruled out before DuckDB saw them."""
        shown = self._shown.get(plan.name)
        if shown is None or shown.snapshot.stored is None:
            return {}
        return {"files_skipped_by_log": self._bucket_views.skipped.get(shown.number, 0)}

    def _with_rollups(self, question: Question, permitted: Permitted, named: Sequence[TablePlan]) -> Question:
        """The question as rollups answer it, if they do."""
        tails = {
            name: RollupTail(tail=shown.tail, relation=shown.name)
            for name, shown in self._shown.items()
            if shown.tail is not None
        }
        found = self._rollups.rewritten(
            permitted.text,
            question.parameters,
            named,
            self._snapshots,
            tails,
            is_close=question.rollups == CLOSE,
        )
        if found is None:
            return question
        self._used = {
            table: [
                {
                    "rollup": offer.definition.name,
                    "version": offer.stands_for,
                    "groups": offer.rows,
                    "files": len(offer.files),
                    "recent_files": len(offer.recent),
                }
                for offer in offers
            ]
            for table, offers in found.used.items()
        }
        statement = self.connection.extract_statements(question.sql)[0].query
        explain = statement.removesuffix(permitted.text) if permitted.kind == "EXPLAIN" else ""
        return dataclasses.replace(question, sql=explain + found.sql)


def _unknown(tail: Tail | None) -> tuple[str, ...]:
    return () if tail is None else tail.unknown


def _tail_name(number: int) -> str:
    """No table has such a name, and no question may: `permitted.py`."""
    return f"tail/{number}"


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
        "table": plan.name.rpartition("@")[0] if plan.as_of else plan.name,
        "version": snapshot.version,
        "files": len(snapshot.files),
    }
    if plan.as_of:
        found["as_of"] = plan.as_of
    if plan.tail is not None:
        starts = plan.tail.starts
        found |= {
            "tail_rows": rows_behind(plan.tail),
            "positions": {str(partition): offset for partition, offset in starts.items()},
            "reached": {str(partition): offset for partition, offset in plan.tail.reached.items()},
            "behind": plan.tail.behind,
            "reason": plan.tail.reason,
            "upstream": [dataclasses.asdict(each) for each in plan.upstream],
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
