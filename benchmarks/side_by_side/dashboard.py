"""Twelve questions that dashboards ask of a month of marketplace events, in DuckDB's SQL and in Spark's.

Invariant: where both texts differ, they mean the same; `events` is the table. The answers have an order
that does not depend on the engine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from side_by_side.month_of_events import TODAY

_DAY = {f"day_{number}": f"'{TODAY - timedelta(days=number)}'" for number in range(32)}
# What an engine's count of distinct values may be wrong by, where the question allows it.
_APPROXIMATE: Final = 0.1
_EXACT: Final = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardQuestion:
    """`spark` is the text for Spark where it has to be another. Columns in `approximate` may differ."""

    name: str
    text: str
    spark_text: str = ""
    approximate: tuple[int, ...] = ()

    @property
    def sql(self) -> str:
        return self.text.format_map(_DAY)

    @property
    def spark(self) -> str:
        return (self.spark_text or self.text).format_map(_DAY)

    def differ(self, one: Sequence[Sequence[object]], other: Sequence[Sequence[object]]) -> str:
        """The first difference of two answers; empty if they are the same."""
        if len(one) != len(other):
            return f"{len(one)} rows and {len(other)}"
        for left, right in zip(one, other, strict=True):
            for column, (value, peer) in enumerate(zip(left, right, strict=True)):
                if not _same(value, peer, _APPROXIMATE if column in self.approximate else _EXACT):
                    return f"{list(left)} and {list(right)}"
        return ""


def _same(one: object, other: object, tolerance: float) -> bool:
    if isinstance(one, str) or isinstance(other, str) or one is None or other is None:
        return one == other
    return math.isclose(float(str(one)), float(str(other)), rel_tol=tolerance, abs_tol=tolerance)


TYPE_AND_DAY: Final = "one type, one day"

QUESTIONS: Final = (
    DashboardQuestion(
        name="today and yesterday",
        text="""SELECT EVENT_TYPE, count(*) FILTER (WHERE SERVER_DATE = {day_0}) AS today,
            count(*) FILTER (WHERE SERVER_DATE = {day_1}) AS yesterday
            FROM events WHERE SERVER_DATE >= {day_1} GROUP BY EVENT_TYPE ORDER BY EVENT_TYPE""",
    ),
    DashboardQuestion(
        name="hours of a day",
        text="""SELECT substring(SERVER_TIME, 12, 2) AS hour, count(*) AS events FROM events
            WHERE SERVER_DATE = {day_1} GROUP BY 1 ORDER BY 1""",
    ),
    DashboardQuestion(
        name="top listings",
        text="""SELECT LISTING_ID, count(*) AS views FROM events
            WHERE EVENT_TYPE = 'ListingView' AND SERVER_DATE >= {day_6}
            GROUP BY LISTING_ID ORDER BY views DESC, LISTING_ID LIMIT 10""",
    ),
    DashboardQuestion(
        name="distinct users",
        text="""SELECT SERVER_DATE, count(DISTINCT USER_ID) AS users,
            approx_count_distinct(LISTING_ID) AS listings FROM events
            WHERE SERVER_DATE >= {day_6} GROUP BY SERVER_DATE ORDER BY SERVER_DATE""",
        approximate=(2,),
    ),
    DashboardQuestion(
        name="funnel",
        text="""SELECT count(*) AS users, sum(viewed) AS viewed, sum(viewed * added) AS added,
            sum(viewed * added * bought) AS bought FROM (
              SELECT USER_ID, max(CASE WHEN EVENT_TYPE = 'ListingView' THEN 1 ELSE 0 END) AS viewed,
                max(CASE WHEN EVENT_TYPE = 'AddToCart' THEN 1 ELSE 0 END) AS added,
                max(CASE WHEN EVENT_TYPE = 'Purchase' THEN 1 ELSE 0 END) AS bought
              FROM events WHERE SERVER_DATE = {day_1} GROUP BY USER_ID)""",
    ),
    DashboardQuestion(
        name="devices of a month",
        text="""SELECT DEVICE_TYPE, count(*) AS events FROM events
            GROUP BY DEVICE_TYPE ORDER BY DEVICE_TYPE""",
    ),
    DashboardQuestion(
        name="latest events",
        text="""SELECT SERVER_TIME, EVENT_TYPE, USER_ID, LISTING_ID, _TOPIC_PARTITION, _TOPIC_OFFSET
            FROM events WHERE SERVER_DATE = {day_0}
            ORDER BY _POSTED_AT DESC, _TOPIC_PARTITION, _TOPIC_OFFSET DESC LIMIT 50""",
    ),
    DashboardQuestion(
        name="delay of purchases",
        text="""SELECT SERVER_DATE, quantile_cont(delay, 0.5) AS half,
              quantile_cont(delay, 0.95) AS most FROM (
              SELECT SERVER_DATE, epoch_ms(_POSTED_AT) - epoch_ms(CAST(SERVER_TIME AS TIMESTAMPTZ)) AS delay
              FROM events WHERE EVENT_TYPE = 'Purchase' AND SERVER_DATE >= {day_6})
            GROUP BY SERVER_DATE ORDER BY SERVER_DATE""",
        spark_text="""SELECT SERVER_DATE, percentile(delay, 0.5) AS half,
              percentile(delay, 0.95) AS most FROM (
              SELECT SERVER_DATE,
                unix_millis(_POSTED_AT) - unix_millis(CAST(SERVER_TIME AS TIMESTAMP)) AS delay
              FROM events WHERE EVENT_TYPE = 'Purchase' AND SERVER_DATE >= {day_6})
            GROUP BY SERVER_DATE ORDER BY SERVER_DATE""",
    ),
    DashboardQuestion(
        name="week over week",
        text="""WITH weeks AS (
              SELECT EVENT_TYPE, CASE WHEN SERVER_DATE >= {day_7} THEN 'this' ELSE 'last' END AS week
              FROM events WHERE SERVER_DATE >= {day_14} AND SERVER_DATE < {day_0})
            SELECT EVENT_TYPE, count(*) FILTER (WHERE week = 'this') AS this,
              count(*) FILTER (WHERE week = 'this') * 1.0 / count(*) FILTER (WHERE week = 'last') AS ratio
            FROM weeks GROUP BY EVENT_TYPE ORDER BY EVENT_TYPE""",
    ),
    DashboardQuestion(
        name="views and purchases",
        text="""WITH views AS (
              SELECT LISTING_ID, count(*) AS views FROM events
              WHERE EVENT_TYPE = 'ListingView' AND SERVER_DATE >= {day_1} GROUP BY LISTING_ID),
            purchases AS (
              SELECT LISTING_ID, count(*) AS purchases FROM events
              WHERE EVENT_TYPE = 'Purchase' AND SERVER_DATE >= {day_1} GROUP BY LISTING_ID)
            SELECT LISTING_ID, views, purchases FROM views JOIN purchases USING (LISTING_ID)
            ORDER BY purchases DESC, views DESC, LISTING_ID LIMIT 10""",
    ),
    DashboardQuestion(
        name=TYPE_AND_DAY,
        text="""SELECT DEVICE_TYPE, count(*) AS views FROM events
            WHERE EVENT_TYPE = 'ListingView' AND SERVER_DATE = {day_1}
            GROUP BY DEVICE_TYPE ORDER BY DEVICE_TYPE""",
    ),
    DashboardQuestion(
        name="one user",
        text="""SELECT SERVER_TIME, EVENT_TYPE, LISTING_ID FROM events
            WHERE USER_ID = 'user-0399001' AND SERVER_DATE >= {day_6}
            ORDER BY SERVER_TIME, EVENT_TYPE, LISTING_ID LIMIT 100""",
    ),
)

BY_NAME: Final[Mapping[str, DashboardQuestion]] = {each.name: each for each in QUESTIONS}
