"""The rows between steps: a frame with the plan's columns, and with hidden columns of our own.

Names of hidden columns begin with `__HEADRACE_`, in the table below written as `…`. The plan's expressions do
not use them. Two underscores alone are not enough: Debezium's columns begin with them.

| column | what | from which steps |
|---|---|---|
| `…ROWTIME` | the row's time, milliseconds | all |
| `…DELETED` | a table's row is deleted, or a stream's value is null | all |
| `…REASON` | why the record could not be read; null for good rows | those without state |
| `…SOURCE` | the source header without its ordinal | those without state |
| `…ORDINAL` | its number among the rows of its record, from 0 | those without state |
| `…POSTED_AT` | when the first record of the chain was posted, milliseconds | those without state |
| `…KEY`, `…VALUE` | the raw record, for the dead letters | those without state |
| `…HEADERS` | its headers; null where it has none | those without state |
| `…PARTITION`, `…OFFSET` | the position of the record | those without state |
| `…SEQUENCE` | orders records of different partitions; 0 if there is only one | those without state |
| `…EVENT_TIME` | the time for Spark's watermark | joins of streams |
| `…ORIGIN` | which records were joined: a hash of their positions | joins of streams |
| `…WINDOWSTART`, `…WINDOWEND` | the window in the key, milliseconds | after windows |

A row with a reason passes all steps of a plan without state, so that one sink gets all rows, good and bad.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.pipeline.expressions.computed import Computed
from headrace.pipeline.expressions.types_in_spark import spark_type

ROWTIME: Final = "__HEADRACE_ROWTIME"
DELETED: Final = "__HEADRACE_DELETED"
REASON: Final = "__HEADRACE_REASON"
SOURCE: Final = "__HEADRACE_SOURCE"
ORDINAL: Final = "__HEADRACE_ORDINAL"
POSTED_AT: Final = "__HEADRACE_POSTED_AT"
KEY: Final = "__HEADRACE_KEY"
VALUE: Final = "__HEADRACE_VALUE"
HEADERS: Final = "__HEADRACE_HEADERS"
PARTITION: Final = "__HEADRACE_PARTITION"
OFFSET: Final = "__HEADRACE_OFFSET"
SEQUENCE: Final = "__HEADRACE_SEQUENCE"
EVENT_TIME: Final = "__HEADRACE_EVENT_TIME"
ORIGIN: Final = "__HEADRACE_ORIGIN"
WINDOW_START: Final = "__HEADRACE_WINDOWSTART"
WINDOW_END: Final = "__HEADRACE_WINDOWEND"
# Within one step only: the order for aggregates such as LATEST_BY_OFFSET, and the time for watermarks.
ORDER: Final = "__ORDER"
TIME: Final = "__TIME"

_HIDDEN: Final = "__HEADRACE_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """`is_table`: rows are changes of a table, so filtered rows become deletions.

    `lead_ms`: after a join of streams, how far a row's time may be ahead of its event time.
    """

    frame: DataFrame
    is_table: bool
    lead_ms: int = 0

    @property
    def hidden(self) -> list[str]:
        return [name for name in self.frame.columns if name.startswith(_HIDDEN)]

    @property
    def visible(self) -> list[str]:
        return [name for name in self.frame.columns if not name.startswith(_HIDDEN)]

    @property
    def has_reasons(self) -> bool:
        return REASON in self.frame.columns


def column(name: str) -> Column:
    """A column by its exact name, which may contain dots."""
    return F.col("`" + name.replace("`", "``") + "`")


def columns(names: list[str]) -> list[Column]:
    return [column(name) for name in names]


def computed(value: Computed) -> Column:
    """An expression of the plan, with exactly the type that the plan says.

    Spark may find another one, such as DECIMAL(24,18) for the least of a DECIMAL(9,3) and a null. A cast to
    the type that a value already has costs nothing.
    """
    return F.expr(value.spark).try_cast(spark_type(value.type))


def good(rows: Rows) -> DataFrame:
    """The readable rows; another query handles the others (`sink.py`)."""
    if not rows.has_reasons:
        return rows.frame
    return rows.frame.filter(column(REASON).isNull())


def minus(frame: DataFrame, *names: str) -> DataFrame:
    return frame.drop(*(name for name in names if name in frame.columns))
