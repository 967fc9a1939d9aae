"""The response of `POST /events`: one format for every outcome, and the status that follows from it.

Invariants: every event of a request is in exactly one of `accepted` (in the log, with its place), `rejected`
(certainly not in the log, with the reason) and `unknown` (the log did not answer in time: it may be there).
A response other than 200 also has `error`, `message` and `remedy`, like every error of the platform. Never
decides what becomes of an event.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from headrace.core.errors import HTTP_STATUS, HeadraceError


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """The place of one event in the log."""

    index: int
    topic: str
    partition: int
    offset: int


class Problem(msgspec.Struct, frozen=True, gc=False):
    """Why one event has no receipt."""

    index: int
    error: str
    message: str
    remedy: str


@dataclass(slots=True, kw_only=True)
class Reply:
    """The response to one request, while it is being assembled."""

    accepted: list[Receipt] = field(default_factory=list)
    rejected: list[Problem] = field(default_factory=list)
    unknown: list[Problem] = field(default_factory=list)

    def reject(self, index: int, error: HeadraceError) -> None:
        self.rejected.append(problem(index, error))

    @property
    def status(self) -> int:
        code = self._code()
        return HTTP_STATUS[code] if code else 200

    def encode(self) -> bytes:
        body: dict[str, Any] = {}
        code = self._code()
        if code:
            body["error"] = code
            body["message"] = self._message()
            body["remedy"] = "`rejected` and `unknown` say for each event what happened and what to do."
        body["accepted"] = self.accepted
        body["rejected"] = self.rejected
        body["unknown"] = self.unknown
        return msgspec.json.encode(body)

    def _code(self) -> str:
        """The most severe code: a failure of the log, then bad events, then large ones; else empty."""
        if self.unknown:
            return "log_unavailable"
        codes = {each.error for each in self.rejected}
        return next(
            (code for code in ("log_unavailable", "bad_event", "event_too_large") if code in codes), ""
        )

    def _message(self) -> str:
        total = len(self.accepted) + len(self.rejected) + len(self.unknown)
        parts = [f"{len(self.accepted)} of {total} events accepted", f"{len(self.rejected)} rejected"]
        if self.unknown:
            parts.append(f"{len(self.unknown)} unknown")
        return ", ".join(parts) + "."


def problem(index: int, error: HeadraceError) -> Problem:
    return Problem(index, error.code, error.message, error.remedy)
