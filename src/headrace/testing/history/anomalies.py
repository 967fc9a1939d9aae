"""What a rule is, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headrace.testing.history.events import Event
from headrace.testing.history.facts import Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """Something that should not happen, with the events that show it. `allowed`: nobody promised that it does
    not."""

    summary: str
    events: tuple[Event, ...]
    allowed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One kind of anomaly. `find` is a pure function of the facts."""

    name: str
    meaning: str
    find: Callable[[Facts], Iterator[Anomaly]]
