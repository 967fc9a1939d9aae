"""Druid's result formats as workers use encoders. A module of its own, so that workers load no more."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.query.druid.results import AnswerEncoder, Row, Wanted
from headrace.query.questions import AnswerSummary


class DruidEncoder:
    """Runs in a worker: `AnswerEncoder` as workers use encoders."""

    def __init__(self, wanted: Wanted, columns: Sequence[str], types: Sequence[str]) -> None:
        self._encoder = AnswerEncoder(columns, types, wanted)

    def begin(self) -> bytes:
        return self._encoder.begin()

    def rows(self, rows: Sequence[Row]) -> bytes:
        return self._encoder.rows(rows)

    def end(self, summary: AnswerSummary) -> bytes:  # noqa: ARG002  the formats have no place for it
        return self._encoder.end()
