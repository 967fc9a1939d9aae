"""Gateway and pipeline process in one, without HTTP: statements in, and what they ask for runs on Spark.

Nothing moves unless a test turns it (`turn`, `until`), so a test decides what happens between two statements.
"""

from __future__ import annotations

import dataclasses
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.client.cluster import Cluster
from headrace.pipeline.catalogue.push_wishes import PushWish
from headrace.pipeline.catalogue.statement_log import StatementLog
from headrace.pipeline.catalogue.status import QueryStatus, StatusLog
from headrace.pipeline.serving.service import StatementService
from headrace.pipeline.serving.session import Session
from headrace.pipeline.spark.keeper import QueryKeeper
from headrace.pipeline.spark.statement_runner import StatementRunner
from tests.pipeline.plans.harness import SECONDS, Out, Plans

# Checkpoints of what Spark runs beside the query itself.
_BESIDE = re.compile(r"-(dead-letters|refresh)-\d+")


class NoWishes:
    def poll(self, _timeout: float) -> dict[str, PushWish]:
        return {}

    def end(self, wish: PushWish, reason: str) -> None:
        raise AssertionError((wish, reason))


class RunningStatements:
    def __init__(self, plans: Plans, log: StatementLog, *, mode: str, prefix: str) -> None:
        self.plans = plans
        self.prefix = prefix
        self.log = log
        self._cluster = Cluster(plans.bootstrap)
        settings = dataclasses.replace(plans.settings, pipeline_mode=mode)
        self._folder = settings.data_dir / "pipeline" / "checkpoints"
        self._statuses: dict[str, QueryStatus] = {}
        self._told = StatusLog(plans.cluster)
        schemas: Any = plans.registry
        self.service = StatementService(
            log=log,
            cluster=self._cluster,
            schemas=schemas,
            settings=settings,
            statuses=self._seen,
        )
        self._runner = StatementRunner(
            plans.spark,
            settings,
            statements=log,
            wishes=NoWishes(),
            registry=plans.registry,
            cluster=plans.cluster,
            commits=plans.commits,
            on_status=lambda status: self._statuses.update({status.query: status}),
            wall_clock_ms=lambda: 1,
            on_plan=self._told.write_plan,
            on_gone=self._forget,
        )

    def _forget(self, query: str) -> None:
        self._statuses.pop(query, None)

    def _seen(self) -> list[QueryStatus]:
        """The statuses. The pipeline notices what a statement has ended, for which the service waits."""
        if self._statuses.keys() - self.log.catalogue.queries.keys():
            self._runner.reconcile()
        return list(self._statuses.values())

    def execute(self, text: str, *, begin: str = "earliest") -> list[dict[str, Any]]:
        session = Session(properties={"auto.offset.reset": begin})
        return self.service.execute(text.replace("{p}", self.prefix), session)

    def query_id(self, sink: str) -> str:
        return self.log.catalogue.writers_of(sink)[0].id

    def explain(self, sink: str) -> tuple[str, str]:
        (answer,) = self.execute(f"EXPLAIN {self.query_id(sink)};")
        described = answer["queryDescription"]
        return described["executionPlan"], described["topology"]

    def reconcile(self) -> tuple[QueryKeeper, ...]:
        self._runner.reconcile()
        return self._runner.keepers

    def turn(self) -> None:
        keepers = self.reconcile()
        names = sorted({name for keeper in keepers for name in keeper.topic_names})
        topics = self.plans.cluster.lookup(names)
        for keeper in keepers:
            keeper.tick(topics, time.monotonic())
        for status in self._statuses.values():
            assert status.state != "FAILED", status.message

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, "in vain"
            self.turn()
            time.sleep(0.02)

    def read(self, topic: str, count: int) -> list[Out]:
        """All records of a topic, once there are so many."""
        found: list[Out] = []

        def enough() -> bool:
            found[:] = self.plans.until(f"{self.prefix}{topic}", lambda _: True)
            return len(found) >= count

        self.until(enough)
        return found

    def committed(self, sink: str) -> int:
        """How many records of its sources a query has read for good, as its checkpoint says."""
        commits = [
            path
            for path in (self._folder / self.query_id(sink)).glob("*/commits/*")
            if path.name.isdigit() and not _BESIDE.search(path.parent.parent.name)
        ]
        if not commits:
            return 0
        newest = max(commits, key=lambda path: int(path.name))
        return _offsets(newest.parent.parent / "offsets" / newest.name)

    def stop(self) -> None:
        self._runner.stop()
        self._told.close()
        self._cluster.close()


def _offsets(path: Path) -> int:
    """The sum of the offsets in an entry of Spark's offset log: a line for each source behind two others."""
    _version, _metadata, *sources = path.read_text().splitlines()
    return sum(
        offset
        for source in sources
        for partitions in json.loads(source).values()
        for offset in partitions.values()
    )


@contextmanager
def running_statements(
    plans: Plans, topic: str, *, mode: str = "micro-batch", prefix: str
) -> Iterator[RunningStatements]:
    """With the statement log `topic`: again with the same one is a restart."""
    log = StatementLog(plans.bootstrap, topic=topic)
    log.start()
    made = RunningStatements(plans, log, mode=mode, prefix=prefix)
    try:
        yield made
    finally:
        made.stop()
        log.stop()
