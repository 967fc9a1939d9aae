"""The rows between steps: a frame with the plan's columns, and with hidden columns of our own.

Hidden columns begin with two underscores; the plan's expressions do not use them:

| column | what | from which steps |
|---|---|---|
| `__ROWTIME` | the row's time, milliseconds | all |
| `__DELETED` | a table's row is deleted, or a stream's value is null | all |
| `__REASON` | why the record could not be read; null for good rows | those without state |
| `__SOURCE` | the source header without its ordinal | those without state |
| `__ORDINAL` | its number among the rows of its record, from 0 | those without state |
| `__POSTED_AT` | when the first record of the chain was posted, milliseconds | those without state |
| `__KEY`, `__VALUE` | the raw record, for the dead letters | those without state |
| `__HEADERS` | its headers; null where it has none | those without state |
| `__PARTITION`, `__OFFSET` | the position of the record | those without state |
| `__SEQUENCE` | orders records of different partitions; 0 if there is only one | those without state |
| `__EVENT_TIME` | the time for Spark's watermark | joins of streams |
| `__ORIGIN` | which records were joined: a hash of their positions | joins of streams |
| `__WINDOWSTART`, `__WINDOWEND` | the window in the key, milliseconds | after windows |

A row with a reason passes all steps of a plan without state, so that one sink gets all rows, good and bad.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

ROWTIME: Final = "__ROWTIME"
DELETED: Final = "__DELETED"
REASON: Final = "__REASON"
SOURCE: Final = "__SOURCE"
ORDINAL: Final = "__ORDINAL"
POSTED_AT: Final = "__POSTED_AT"
KEY: Final = "__KEY"
VALUE: Final = "__VALUE"
HEADERS: Final = "__HEADERS"
PARTITION: Final = "__PARTITION"
OFFSET: Final = "__OFFSET"
SEQUENCE: Final = "__SEQUENCE"
EVENT_TIME: Final = "__EVENT_TIME"
ORIGIN: Final = "__ORIGIN"
WINDOW_START: Final = "__WINDOWSTART"
WINDOW_END: Final = "__WINDOWEND"
# Within one step only: the order for aggregates such as LATEST_BY_OFFSET, and the time for watermarks.
ORDER: Final = "__ORDER"
TIME: Final = "__TIME"

_HIDDEN: Final = "__"


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


def good(rows: Rows) -> DataFrame:
    """The readable rows; another query handles the others (`sink.py`)."""
    if not rows.has_reasons:
        return rows.frame
    return rows.frame.filter(column(REASON).isNull())


def minus(frame: DataFrame, *names: str) -> DataFrame:
    return frame.drop(*(name for name in names if name in frame.columns))
