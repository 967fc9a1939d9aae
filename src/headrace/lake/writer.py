"""What the lake requires of its writer, `pipeline/spark/lake_writer.py`, and what that reports.

Contract: rows and marks are committed together or not at all; of two writers that started from the same state
at most one commits; a row at or below its mark, or repeated within a batch, is not written.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBatch:
    """The result of writing one batch."""

    rows: int
    repeated: int
    dead_letters: int
    latency_quantiles_ms: tuple[float, ...]
