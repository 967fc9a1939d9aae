"""The polls of every consumer, record by record, with its position before each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from headrace.testing.history.events import Assigned, Entry, Event, Polled, Revoked, Sought
from headrace.testing.history.facts import Facts

# What set a consumer's position: an event, or a record of one.
Reason = tuple[Assigned | Sought, None] | tuple[Polled, Entry]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One record returned to a consumer whose position was `expected`, or None if it was not told."""

    event: Polled
    offset: int
    value: str
    expected: int | None
    reason: Reason | None

    @property
    def client(self) -> str:
        return self.event.client

    @property
    def partition(self) -> str:
        return self.event.partition

    @property
    def shown(self) -> tuple[Event, ...]:
        """What set the consumer's position, and the poll reduced to this record."""
        step = replace(self.event, records=((self.offset, self.value),))
        if self.reason is None:
            return (step,)
        event, entry = self.reason
        if isinstance(event, Polled) and entry is not None:
            return (replace(event, records=(entry,)), step)
        return (event, step)


def steps(facts: Facts) -> Iterator[Step]:
    """All steps, in the order of the history."""
    position: dict[tuple[str, str], int | None] = {}
    reason: dict[tuple[str, str], Reason] = {}
    for event in facts.events:
        if isinstance(event, Assigned | Sought):
            position[event.client, event.partition] = event.offset
            reason[event.client, event.partition] = (event, None)
        elif isinstance(event, Revoked):
            position.pop((event.client, event.partition), None)
            reason.pop((event.client, event.partition), None)
        elif isinstance(event, Polled):
            key = (event.client, event.partition)
            for offset, value in event.records:
                yield Step(
                    event=event,
                    offset=offset,
                    value=value,
                    expected=position.get(key),
                    reason=reason.get(key),
                )
                position[key] = offset + 1
                reason[key] = (event, (offset, value))
