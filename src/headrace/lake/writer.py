"""What the lake requires of its writer; `pipeline/spark/lake_writer.py` implements it.

Contract: rows and marks are committed together or not at all; of two writers that started from the same state
at most one commits; a row at or below its mark, or repeated within a batch, is not written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBatch:
    """The result of writing one batch."""

    rows: int
    repeated: int
    dead_letters: int
    latency_quantiles_ms: tuple[float, ...]


class LakeWriter(Protocol):
    """Writes batches of one topic to one table."""

    def write(self, batch: Any) -> WrittenBatch:
        """Write one batch (a Spark DataFrame of Kafka records, opaque to the lake). Returns after the
        commit.
        """
        ...
