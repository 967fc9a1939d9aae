"""The status topic: its newest record is complete, and no latency is in it twice."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest

from headrace.client.writing import Outgoing
from headrace.pipeline.catalogue import status as status_module
from headrace.pipeline.catalogue.status import Gap, QueryProgress, QueryStatus, StatusLog

PROGRESS = QueryProgress(positions={"in": {0: 7}}, behind_records=3, behind_ms=900, advanced_at=5)
RUNNING = QueryStatus(query="q", state="RUNNING", mode="micro-batch", message="", at=1, mode_reason="why")


class Writer:
    def __init__(self, *_: Any, **__: Any) -> None:
        self.records: list[Outgoing] = []

    def write_later(self, record: Outgoing) -> None:
        self.records.append(record)

    def newest(self) -> QueryStatus:
        value = self.records[-1].value
        assert value is not None
        return msgspec.json.decode(value, type=QueryStatus)


class NoCluster:
    bootstrap = ""

    def create_topic(self, *_: Any, **__: Any) -> bool:
        return True


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> tuple[StatusLog, Writer]:
    writer, cluster = Writer(), NoCluster()
    monkeypatch.setattr(status_module, "RecordWriter", lambda *_, **__: writer)
    made: Any = cluster
    return StatusLog(made), writer


def test_each_record_repeats_what_still_holds(log: tuple[StatusLog, Writer]) -> None:
    statuses, writer = log
    gap = Gap(topic="in", topic_id="i", partition=0, first=3, end=9, at=2)
    statuses.write(_with(RUNNING, gaps=(gap,)))
    statuses.write_progress("q", PROGRESS, at=2)
    assert writer.newest() == _with(RUNNING, gaps=(gap,), progress=PROGRESS, at=2)
    statuses.write_batch("q", batch=4, rows=10, latency_quantiles_ms=(1.0, 2.0), at=3)
    found = writer.newest()
    assert (found.batch, found.rows, found.latency_quantiles_ms) == (4, 10, (1.0, 2.0))
    assert (found.mode_reason, found.progress, found.gaps) == ("why", PROGRESS, (gap,))
    statuses.write_progress("q", PROGRESS, at=4)
    assert writer.newest().latency_quantiles_ms == (), "readers would count the latencies twice"
    assert writer.newest().rows == 10


def test_a_query_that_does_not_run_has_no_progress(log: tuple[StatusLog, Writer]) -> None:
    statuses, writer = log
    statuses.write(RUNNING)
    statuses.write_progress("q", PROGRESS, at=2)
    statuses.write(_with(RUNNING, state="FAILED", message="no"))
    assert writer.newest().progress is None
    statuses.write(RUNNING)
    assert writer.newest().progress is None


def test_nothing_is_written_of_a_query_that_is_gone(log: tuple[StatusLog, Writer]) -> None:
    statuses, writer = log
    statuses.write(RUNNING)
    statuses.forget("q")
    count = len(writer.records)
    statuses.write_progress("q", PROGRESS, at=2)
    statuses.write_batch("q", batch=1, rows=1, latency_quantiles_ms=(), at=3)
    assert len(writer.records) == count, "a tombstone must stay the newest record"


def test_records_of_an_earlier_version_can_be_read() -> None:
    old = b'{"query": "q", "state": "RUNNING", "mode": "", "message": "", "at": 1}'
    found = msgspec.json.decode(old, type=QueryStatus)
    assert (found.progress, found.gaps, found.failures) == (None, (), 0)


def _with(status: QueryStatus, **changes: Any) -> QueryStatus:
    return dataclasses.replace(status, **changes)
