"""Runs a stateful statement, kills it within a batch, damages its checkpoint, and looks at its sink."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headrace.pipeline.runs.commits import Commit
from headrace.pipeline.spark.plan_query import PlanQuery
from headrace.pipeline.spark.running_query import RunningQuery
from headrace.pipeline.spark.stateful.batch_writer import BatchWriter
from headrace.pipeline.spark.stateful.checkpoint_files import batches_in, positions_after
from headrace.pipeline.spark.stateful.generations import Generation, Generations
from headrace.pipeline.spark.stateful.stateful_run import StatefulRun
from tests.pipeline.plans.harness import SECONDS, Out, Plans
from tests.pipeline.plans.test_statements_run import Script

KILLED = "killed before the batch was committed"


class Stateful:
    """One stateful query, with topics of its own."""

    def __init__(self, plans: Plans, text: str, **partitions: int) -> None:
        self.plans = plans
        self.script = Script(plans, text, **partitions)
        self.query: PlanQuery = plans.query(self.script.plan)
        self.topics = plans.cluster.lookup((*self.query.source_topics, *self.query.written_topics))

    def produce(self, name: str, *records: Any) -> None:
        self.script.produce(name, *records)

    @property
    def generation(self) -> Generation:
        found = Generations(self.query.query.checkpoint(self.topics)).current
        assert found is not None
        return found

    @property
    def folder(self) -> Path:
        return self.generation.folder

    @contextmanager
    def running(self) -> Iterator[RunningQuery]:
        started = self.query.start(self.topics)
        try:
            yield started
        finally:
            started.stop()

    def run(self, *, more_batches: int = 0) -> str:
        """Run until everything is read and committed, and so many batches follow; the remark of the start."""
        with self.running() as running:
            self.settle(running, more_batches=more_batches)
            return running.remark

    def settle(self, running: RunningQuery, *, more_batches: int = 0) -> None:
        ends = {
            name: self.plans.cluster.end_offsets(topic.name)
            for name, topic in self.topics.items()
            if name in self.query.source_topics
        }
        wanted: int | None = None
        deadline = time.monotonic() + SECONDS
        while True:
            assert running.handle.isActive, running.handle.exception()
            assert time.monotonic() < deadline, "it does not come to rest"
            committed = batches_in(self.folder / "commits")
            if committed and wanted is None and positions_after(self.folder, committed[-1]) == ends:
                wanted = committed[-1] + more_batches
            if wanted is not None and committed and committed[-1] >= wanted:
                running.record(time.monotonic())
                return
            time.sleep(0.02)

    def die_within_a_batch(self, monkeypatch: pytest.MonkeyPatch, *, dies_after: str = "") -> None:
        """Write about half of the rows of the next batch that has any for this topic, the sink by default,
        and then fail.
        """
        new, standing = BatchWriter._new, StatefulRun._standing
        sink = self.topics[dies_after or self.script.sink]
        before = self.plans.cluster.latest([sink])

        def half(writer: BatchWriter, rows: DataFrame, number: int) -> DataFrame:
            found = new(writer, rows, number)
            return found.filter(F.crc32(F.concat(F.col("key"), F.col("value"))) % 2 == 0)

        def killed(run: StatefulRun, batch: int) -> Commit:
            if self.plans.cluster.latest([sink]) != before:
                raise RuntimeError(KILLED)
            return standing(run, batch)

        with monkeypatch.context() as patched:
            patched.setattr(BatchWriter, "_new", half)
            patched.setattr(StatefulRun, "_standing", killed)
            with self.running() as running:
                self.plans.wait_until_ended(running)
                assert KILLED in str(running.handle.exception())

    def sink(self) -> list[Out]:
        return self.plans.until(self.script.sink, lambda _: True)

    def rows(self) -> Counter[tuple[bytes | None, str]]:
        """Key and value of each record of the sink."""
        return Counter((out.key, _text(out.json)) for out in self.sink())

    def origins(self) -> Counter[tuple[str, bytes | None]]:
        """Header and key of each record."""
        return Counter((out.headers["headrace-source"], out.key) for out in self.sink())


def _text(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    return ", ".join(f"{name}={value[name]}" for name in sorted(value))
