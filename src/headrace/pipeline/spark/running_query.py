"""Started queries as their keeper sees them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, cast

from pyspark.sql.streaming.query import StreamingQuery

# Spark's words where a query has had no batch yet.
_NO_PLAN: Final = "No physical plan"


class RunningQuery:
    """A started query: Spark's handle, the mode it runs in and why, and a way to stop between batches.

    By default there is no moment between batches to wait for: a batch that is cut short is repeated.
    """

    def __init__(
        self,
        handle: StreamingQuery,
        mode: str,
        between_batches: AbstractContextManager[object] | None = None,
        *,
        mode_reason: str = "",
    ) -> None:
        self.handle = handle
        self.mode = mode
        self.mode_reason = mode_reason
        # Why it should be started anew although it runs; nothing where it should not.
        self.outdated: Callable[[], str] = lambda: ""
        self._between_batches = between_batches or nullcontext()

    def spark_plan(self) -> str:
        """How Spark runs its newest batch; nothing before the first."""
        # What `StreamingQuery.explain` prints; PySpark has no way to get it as text.
        text = str(self.handle._jsq.explainInternal(False)).strip()
        return "" if text.startswith(_NO_PLAN) else text

    def stop(self) -> None:
        with self._between_batches:
            self.handle.stop()


def together(handles: Sequence[StreamingQuery]) -> StreamingQuery:
    """Several of Spark's queries as one."""
    return handles[0] if len(handles) == 1 else cast(StreamingQuery, _Together(handles))


class _Together:
    """Runs while all do, and fails with the first that fails.

    Whatever else is asked of it, the first one answers.
    """

    def __init__(self, handles: Sequence[StreamingQuery]) -> None:
        self._handles = handles

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handles[0], name)

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        if all(handle.isActive for handle in self._handles):
            return True
        self.stop()
        return False

    def exception(self) -> Exception | None:
        return next((error for handle in self._handles if (error := handle.exception()) is not None), None)

    def stop(self) -> None:
        for handle in self._handles:
            handle.stop()
