"""The dates of partitions, and when they have passed."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from headrace.lake.partition_dates import Expiry, expiry_of, partition_date
from headrace.lake.sink import Partitioning, TimePartitions

_DAY = (("date", "yyyy-MM-dd"),)
_MONTHS = (("year", "yyyy"), ("month", "MM"))


@pytest.mark.parametrize(
    ("columns", "partition", "expected"),
    [
        (_DAY, {"date": "2026-03-14"}, date(2026, 3, 14)),
        (_DAY, {"DATE": "2026-03-14", "k": "x"}, date(2026, 3, 14)),
        (_DAY, {"date": "2026-02-30"}, None),
        (_DAY, {"date": "soon"}, None),
        (_DAY, {"date": None}, None),
        (_DAY, {}, None),
        (_MONTHS, {"year": "2026", "month": "02"}, date(2026, 2, 28)),
        (_MONTHS, {"year": "2026", "month": "12"}, date(2026, 12, 31)),
        (_MONTHS, {"year": "2026", "month": "2"}, date(2026, 2, 28)),
        (_MONTHS, {"year": "2026", "month": "13"}, None),
        ((("month", "yyyyMM"),), {"month": "202602"}, date(2026, 2, 28)),
        ((("year", "yyyy"),), {"year": "2026"}, date(2026, 12, 31)),
        ((("date", "yyyy-MM-dd"), ("hour", "HH")), {"date": "2026-03-14", "hour": "15"}, date(2026, 3, 14)),
        ((("hour", "HH"),), {"hour": "15"}, None),
        ((("d", "'on 'yyyy-MM-dd"),), {"d": "on 2026-03-14"}, date(2026, 3, 14)),
    ],
)
def test_the_last_day_of_a_partition(
    columns: tuple[tuple[str, str], ...], partition: dict[str, str | None], expected: date | None
) -> None:
    assert partition_date(partition, columns) == expected


def _ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def test_a_partition_expires_when_its_last_day_is_over_for_so_long() -> None:
    expiry = Expiry(columns=_DAY, days=7)
    assert not expiry.has_passed({"date": "2026-03-14"}, now_ms=_ms("2026-03-21T23:59:59"))
    assert expiry.has_passed({"date": "2026-03-14"}, now_ms=_ms("2026-03-22T00:00:00"))
    assert not expiry.has_passed({"date": "soon"}, now_ms=_ms("2036-03-22T00:00:00"))


def test_the_day_is_that_of_the_time_zone() -> None:
    expiry = Expiry(columns=_DAY, days=7, timezone="Asia/Tokyo")
    assert expiry.has_passed({"date": "2026-03-14"}, now_ms=_ms("2026-03-21T15:00:00"))
    assert not expiry.has_passed({"date": "2026-03-14"}, now_ms=_ms("2026-03-21T14:59:59"))


def test_only_partitions_by_date_expire() -> None:
    time = TimePartitions(columns=_MONTHS, duration_ms=1, timezone="Asia/Tokyo")
    assert expiry_of(Partitioning(fields=("k",)), 7) is None
    assert expiry_of(Partitioning(time=time), 0) is None
    assert expiry_of(Partitioning(time=time), 7) == Expiry(columns=_MONTHS, days=7, timezone="Asia/Tokyo")
    by_field = Partitioning(fields=("k", "day"), date_fields=("day",))
    assert expiry_of(by_field, 7) == Expiry(columns=(("day", "yyyy-MM-dd"),), days=7)
