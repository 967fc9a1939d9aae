"""Runs one question in Spark, and leaves its answer as Parquet files in a folder.

The question has a session of its own, in which its tables are views at their versions, and a job group, by
which `cancel` ends it. Invariants: only a query is run, never a command, and it reads nothing but its views;
its jobs come after those of the platform's queries (`fair_turns.py`), with as few tasks at once as half of
the cores; no part of the answer is collected in this process while Spark runs on this machine, and none of
its joins is broadcast, because Java ends here when its memory is full. Whatever happens, the views are gone
afterwards. The folder is the caller's.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import NullType

from headrace.core.errors import HeadraceError
from headrace.pipeline.catalogue.spark_questions import SparkQuestion, TableAt
from headrace.pipeline.spark.fair_turns import QUESTIONS_POOL, half_of_the_cores, in_pool
from headrace.pipeline.spark.short_errors import first_line

_log = logging.getLogger(__name__)

# How an error begins that a translated statement raises by itself.
_REFUSED: Final = "headrace: "
_GROUP_ROWS: Final = 16_384
_MEGABYTE: Final = 1024 * 1024
_LOCAL: Final = "local"


def _session_settings(tasks: int) -> Mapping[str, str]:
    return {
        # What the translation is made for.
        "spark.sql.ansi.enabled": "true",
        "spark.sql.caseSensitive": "false",
        "spark.sql.decimalOperations.allowPrecisionLoss": "false",
        "spark.sql.session.timeZone": "UTC",
        # A name is a table's, never a file's.
        "spark.sql.runSQLOnFiles": "false",
        # Tasks hold their slots to their ends, so there are few of them, whatever the table's size.
        "spark.sql.files.maxPartitionNum": str(tasks),
        "spark.sql.shuffle.partitions": str(tasks),
        # A table may be a hundred times as large in memory as on disk.
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.maxBroadcastTableSize": "64m",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.compression.codec": "snappy",
    }


class QuestionRunning:
    """One question at a time runs in `run`; `cancel` and `progress` are for other threads."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._session = spark.newSession()
        for name, value in _session_settings(half_of_the_cores()).items():
            self._session.conf.set(name, value)

    def run(self, question: SparkQuestion, folder: Path) -> tuple[list[Path], int]:
        """The files of the answer, in the order of its rows, and how many rows there are.

        Raises HeadraceError.
        """
        context = self._spark.sparkContext
        try:
            with in_pool(self._spark, QUESTIONS_POOL), self._views(question):
                context.setJobGroup(question.id, f"question {question.id}", interruptOnCancel=True)
                answer = self._query(question.sql)
                if str(context.master).startswith(_LOCAL):
                    answer.write.parquet(folder.as_uri())
                    return _written(folder, question)
                return _collected(answer, folder, question)
        except (PySparkException, Py4JError) as error:
            raise _failure(error) from error
        finally:
            for name in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
                # None removes it; the stubs do not know.
                context.setLocalProperty(name, None)  # type: ignore[arg-type]

    def cancel(self, question_id: str) -> None:
        """Its jobs. More may follow, so repeat it until `run` has ended."""
        self._spark.sparkContext.cancelJobGroup(question_id)

    def progress(self, question_id: str) -> str:
        """How far its jobs are, for people."""
        tracker = self._spark.sparkContext.statusTracker()
        jobs = tracker.getJobIdsForGroup(question_id)
        done = total = 0
        for number in jobs:
            job = tracker.getJobInfo(number)
            for stage in (tracker.getStageInfo(each) for each in (job.stageIds if job is not None else ())):
                if stage is not None:
                    done, total = done + stage.numCompletedTasks, total + stage.numTasks
        return f"{done} of {total} tasks are done" if total else "Spark plans it"

    @contextmanager
    def _views(self, question: SparkQuestion) -> Iterator[None]:
        made: list[str] = []
        try:
            for table in question.tables:
                self._rows(table).createOrReplaceTempView(_quoted(table.name))
                made.append(table.name)
            yield
        finally:
            for name in made:
                self._session.catalog.dropTempView(name)

    def _rows(self, table: TableAt) -> DataFrame:
        reader = self._session.read.format("delta").option("versionAsOf", str(table.version))
        rows = reader.load(table.location)
        detail = self._spark.sql(f"DESCRIBE DETAIL delta.{_quoted(table.location)}").first()
        if detail is None or detail["id"] != table.table_id:
            raise HeadraceError(
                "query_failed", f"Table {table.name} was recreated meanwhile.", remedy="Ask again."
            )
        return rows

    def _query(self, text: str) -> DataFrame:
        """The query with its columns named c0, c1 … A command is a syntax error here."""
        session: Any = self._session._jsparkSession
        plan = session.sessionState().sqlParser().parseQuery(text)
        jvm: Any = self._spark._jvm
        rows = DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, plan), self._session)
        named = rows.toDF(*(f"c{number}" for number in range(len(rows.columns))))
        # Parquet has no type for a column that is always null.
        empty = [field.name for field in named.schema.fields if isinstance(field.dataType, NullType)]
        return named.withColumns({name: named[name].cast("string") for name in empty}) if empty else named


def _written(folder: Path, question: SparkQuestion) -> tuple[list[Path], int]:
    """Spark names files by the numbers of their partitions, which are in the order of the rows."""
    files = sorted(each for each in folder.iterdir() if each.suffix == ".parquet")
    rows = sum(pyarrow.parquet.read_metadata(each).num_rows for each in files)
    _check_rows(rows, question)
    return files, rows


def _collected(answer: DataFrame, folder: Path, question: SparkQuestion) -> tuple[list[Path], int]:
    """From a cluster, whose executors have other disks. One row more than allowed shows that there are more.

    What a task may send is limited by `spark.driver.maxResultSize`.
    """
    content: pa.Table = answer.limit(question.most_rows + 1).toArrow()
    _check_rows(content.num_rows, question)
    if content.nbytes > question.most_megabytes * _MEGABYTE:
        raise too_large(question)
    folder.mkdir(parents=True)
    file = folder / "part-0.parquet"
    pyarrow.parquet.write_table(content, file, row_group_size=_GROUP_ROWS)
    return [file], content.num_rows


def _check_rows(rows: int, question: SparkQuestion) -> None:
    if rows > question.most_rows:
        raise HeadraceError(
            "answer_too_large",
            f"The answer has more than {question.most_rows} rows.",
            remedy="Add a LIMIT, narrow the WHERE, or aggregate.",
        )


def too_large(question: SparkQuestion) -> HeadraceError:
    return HeadraceError(
        "answer_too_large",
        f"The answer has more than {question.most_megabytes} MB.",
        remedy="Add a LIMIT, narrow the WHERE, or aggregate.",
    )


def _failure(error: Exception) -> HeadraceError:
    if isinstance(error, Py4JJavaError):
        said = str(error.java_exception)
    elif isinstance(error, PySparkException):
        said = str(error.getMessage() or error)
    else:
        said = str(error)
    if _REFUSED in said:
        reason = said.partition(_REFUSED)[2].splitlines()[0].partition(" SQLSTATE")[0].rstrip()
        return HeadraceError(
            "query_failed",
            f"The question cannot be answered by Spark as DuckDB would: {reason.rstrip('.')}.",
            remedy="Leave `engine` out: then DuckDB answers.",
        )
    return HeadraceError("query_failed", f"Spark: {first_line(said)}")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
