"""What the lake requires of its writer, `pipeline/spark/lake/writer.py`, and what that reports.

Contract: rows and positions are committed together or not at all; a commit is the very next version of the
table that the writer knows, so of two writers at most one commits; a row that the table has, or that is
repeated among suspects of one batch, is not written.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBatch:
    """The result of writing one batch. `in_columns`: whole record batches became files (`columns/`)."""

    rows: int
    repeated: int
    dead_letters: int
    latency_quantiles_ms: tuple[float, ...]
    in_columns: bool = False
