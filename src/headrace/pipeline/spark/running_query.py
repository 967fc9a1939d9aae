"""Started queries, for their keeper."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, cast

from pyspark.sql.streaming.query import StreamingQuery

from headrace.core.errors import HeadraceError
from headrace.pipeline.catalogue.status import Gap
from headrace.pipeline.runs.commits import Offsets
from headrace.pipeline.runs.recording import Finished
from headrace.pipeline.spark.batch_gate import BatchGate

# Spark's words before the first batch of a query.
_NO_PLAN: Final = "No physical plan"


class RecordsCommits(Protocol):
    """Writes what a run has finished to the commits of its query (`runs/recording.py`)."""

    def note(self, now: float) -> bool:
        """`now` is monotonic. Returns False if it is too early to ask again. Raises log_unavailable."""
        ...


class RunningQuery:
    """A started query: Spark's handle, its mode with the reason, and the gate of its batches.

    Without a gate, stopping does not wait for the end of a batch: an interrupted batch is repeated.
    """

    def __init__(
        self,
        handle: StreamingQuery,
        mode: str,
        gate: BatchGate | None = None,
        *,
        mode_reason: str = "",
        remark: str = "",
        recordings: Sequence[RecordsCommits] = (),
        gaps: tuple[Gap, ...] = (),
        began: Offsets | None = None,
    ) -> None:
        """`remark` says what the start had to heal, `gaps` what the query could not read, ever. `began` is
        where it began to read its sources; a partition that is missing there is read from its beginning.
        """
        self.handle = handle
        self.mode = mode
        self.mode_reason = mode_reason
        self.remark = remark
        self.gaps = gaps
        self.began: Offsets = began or {}
        self._recordings = recordings
        # Why recordings could not commit when they last tried, by number.
        self._problems: dict[int, str] = {}
        # Why it should be restarted although it runs; empty if it should not.
        self.outdated: Callable[[], str] = lambda: ""
        # Why commits that it has made are not in the log; empty if they are.
        self.unwritten: Callable[[], str] = lambda: ""
        self._gate = gate

    def spark_plan(self) -> str:
        """Spark's plan of the newest batch; empty before the first."""
        # What `StreamingQuery.explain` prints; PySpark has no way to get it as text.
        text = str(self.handle._jsq.explainInternal(False)).strip()
        return "" if text.startswith(_NO_PLAN) else text

    def has_proved_itself(self) -> bool:
        """Whether a batch of this run has ended, or there is nothing for it to do."""
        query = self.handle._jsq
        return query.lastProgress() is not None or not query.status().isTriggerActive()

    def record(self, now: float) -> str:
        """Commit the batches that have finished; `now` is monotonic. Returns why that fails, or nothing."""
        for number, recording in enumerate(self._recordings):
            try:
                if recording.note(now):
                    self._problems.pop(number, None)
            except HeadraceError as error:
                self._problems[number] = str(error)
        return next(iter(self._problems.values()), "") or self.unwritten()

    def stop(self) -> None:
        if self._gate is not None:
            self._gate.close()
        self.handle.stop()


def finished_batch(handle: StreamingQuery, ids: Mapping[str, str]) -> Finished | None:
    """The newest finished batch of a Spark query that reads Kafka; `ids` has the topic ids by name."""
    progress = handle._jsq.lastProgress()
    if progress is None:
        return None
    positions: dict[str, dict[int, int]] = {}
    content = json.loads(progress.json())
    for source in content["sources"]:
        ends = source.get("endOffset")
        for topic, offsets in (ends if isinstance(ends, dict) else json.loads(ends or "{}")).items():
            mine = positions.setdefault(ids[topic], {})
            for partition, offset in offsets.items():
                # A topic that is read twice is read up to the lower of the two.
                mine[int(partition)] = min(int(offset), mine.get(int(partition), int(offset)))
    return Finished(batch=int(content["batchId"]), positions=positions)


def together(handles: Sequence[StreamingQuery], gate: BatchGate | None = None) -> StreamingQuery:
    """Several Spark queries as one, whose batches pass the gate."""
    return handles[0] if len(handles) == 1 else cast(StreamingQuery, _Together(handles, gate))


class _Together:
    """Runs while all of them run, and fails with the first that fails.

    Everything else is delegated to the first one.
    """

    def __init__(self, handles: Sequence[StreamingQuery], gate: BatchGate | None) -> None:
        self._handles = handles
        self._gate = gate
        self._reason: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handles[0], name)

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        if all(handle.isActive for handle in self._handles):
            return True
        if self._reason is None:
            # Before the others are stopped: a batch that this interrupts fails, too.
            self._reason = self._failure()
        self.stop()
        return False

    def exception(self) -> Exception | None:
        return self._reason or self._failure()

    def stop(self) -> None:
        if self._gate is not None:
            self._gate.close()
        for handle in self._handles:
            handle.stop()

    def _failure(self) -> Exception | None:
        return next((error for handle in self._handles if (error := handle.exception()) is not None), None)
