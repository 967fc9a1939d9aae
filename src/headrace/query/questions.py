"""A question, what it may use, and what is known of its answer. Values."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.core.errors import HeadraceError
from headrace.query.receipts.receipt import NOTHING, After
from headrace.query.rollups.offers import RollupOffer
from headrace.query.sources import TailView, Waiting
from headrace.query.statement_tables.plan import StatementTablePlan
from headrace.query.table_snapshot import TableSnapshot
from headrace.query.topic_tables.plan import TopicPlan

LIVE: Final = "live"
LAKE: Final = "lake"
# Who answers.
DUCKDB: Final = "duckdb"
SPARK: Final = "spark"
ON: Final = "on"
OFF: Final = "off"
CLOSE: Final = "close"
_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionLimits:
    """What one question may use. The memory is what it takes beyond that of an idle worker."""

    seconds: float = 30.0
    memory_megabytes: int = 512
    rows: int = 100_000
    answer_megabytes: int = 256
    # Of records as they are stored, in all scans of topics together.
    topic_megabytes: int = 1024
    threads: int = 2


def new_question_id() -> str:
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswer:
    """An answer that another engine has left in Parquet files: its rows in their order, columns c0, c1 …

    `columns`, `types` and `tables` are those that the answer has for whoever asked.
    """

    files: tuple[str, ...]
    columns: tuple[str, ...]
    types: tuple[str, ...]
    tables: tuple[Mapping[str, object], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One statement, with values for its parameters.

    `answer_format` is a name in `result_formats.py`, or makes an encoder like those there from columns and
    types, and can be pickled. With `freshness` LAKE the tails of topics are left out. With `rollups` OFF the
    answer comes from the rows of tables alone; with CLOSE the last digit of averages may differ from theirs.
    It is answered once the
    events of `after` can be seen in the tables that it reads, or never will be. With `stored`, only that
    answer is read.
    """

    sql: str
    parameters: tuple[object, ...] = ()
    answer_format: str | Callable[[Sequence[str], Sequence[str]], Any]
    freshness: str = LIVE
    rollups: str = ON
    after: After = NOTHING
    question_id: str = field(default_factory=new_question_id)
    stored: StoredAnswer | None = None

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.question_id):
            raise HeadraceError(
                "bad_request",
                "The id of a question is 1 to 128 letters, digits, `.`, `_`, `:` or `-`.",
                remedy="Choose another, or leave it out.",
            )
        check_freshness(self.freshness)
        if self.rollups not in (ON, OFF, CLOSE):
            raise HeadraceError(
                "bad_request",
                f"Rollups are not `{self.rollups[:100]}`.",
                remedy=f"Use `{ON}` (they answer what they can), `{CLOSE}` (also averages, whose last digit "
                f"may differ) or `{OFF}`.",
            )


def check_freshness(freshness: str) -> None:
    """Raises bad_request."""
    if freshness not in (LIVE, LAKE):
        raise HeadraceError(
            "bad_request",
            f"There is no freshness `{freshness[:100]}`.",
            remedy=f"Use `{LIVE}` (the lake and what is on its way there) or `{LAKE}` (the lake only).",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlan:
    """One table for one question. `snapshot` is None if the worker has it already; `tail`, if none is read.
    `upstream` is what waits before the topic of the tail.

    A `widened` table has files that lack some of its columns. The worker forgets what is read only `once`: a
    table at an old version, of which `as_of` says which one, as it is named in the statement; or a `topic`,
    or a `statement_table`. `rollups` can stand for it.
    """

    name: str
    snapshot: TableSnapshot | None
    tail: TailView | None = None
    upstream: tuple[Waiting, ...] = ()
    widened: bool = False
    rollups: tuple[RollupOffer, ...] = ()
    once: bool = False
    as_of: str = ""
    topic: TopicPlan | None = None
    statement_table: StatementTablePlan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTables:
    """The tables that a statement reads. With `catalogue`, it also needs to know which tables there are.

    `moments` are names of tables at versions (`references/moments.py`), `topics` those of topics,
    `statement_tables` those of tables of the statement language, and `unknown` names may be such ones, too.
    `freshness` is empty if the statement does not say any.
    """

    names: tuple[str, ...]
    catalogue: bool
    moments: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    statement_tables: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    freshness: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSummary:
    """What is known at the end of an answer: its rows, and what was read of each table."""

    rows: int
    tables: tuple[Mapping[str, object], ...]
