"""A receipt: the place of one event in the log, as the events API gives it. Values, and how they are read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from headrace.core.errors import HeadraceError

# As many as one question can wait for.
MOST_RECEIPTS: Final = 1_000
# How long a question waits for the events that it must see, unless it says so itself.
AFTER_SECONDS: Final = 10.0
MOST_SECONDS: Final = 600.0
# A list of answers of the events API, in the list of what was given where.
_DEEPEST: Final = 4
_TEXT: Final = re.compile(r"([A-Za-z0-9._-]{1,249})/([0-9]{1,9})/([0-9]{1,18})")
_REMEDY: Final = (
    "A receipt is `topic/partition/offset`, such as `events/0/17`, or one of those in the answer of "
    'POST /events: {"topic": "events", "partition": 0, "offset": 17}.'
)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Receipt:
    """The event at this place."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class After:
    """The events that a question is to see, and how long it waits for them. `in_lake`: their rows in a tail
    are not enough, since the question uses what only the lake knows of them.
    """

    receipts: tuple[Receipt, ...] = ()
    seconds: float = AFTER_SECONDS
    in_lake: bool = False


NOTHING: Final = After()


def parse_receipt(text: str) -> Receipt:
    """The inverse of `str`. Raises bad_request."""
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise HeadraceError("bad_request", f"`{text[:300]}` is no receipt.", remedy=_REMEDY)
    return Receipt(topic=found[1], partition=int(found[2]), offset=int(found[3]))


def receipts_of(given: object) -> tuple[Receipt, ...]:
    """One receipt or several, as texts or as the events API gives them, or its whole answer.

    A text may have several, with commas between them. Raises bad_request.
    """
    found: dict[Receipt, None] = {}
    for receipt in _receipts(given, _DEEPEST):
        found[receipt] = None
        if len(found) > MOST_RECEIPTS:
            raise HeadraceError(
                "bad_request",
                f"These are more than {MOST_RECEIPTS} receipts.",
                remedy="Name the last event of each partition only, or ask several times.",
            )
    return tuple(found)


def seconds_of(given: object, name: str) -> float:
    """A time to wait; the default if none is given. Raises bad_request."""
    if given is None:
        return AFTER_SECONDS
    try:
        seconds = float(str(given))
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MOST_SECONDS:
        raise HeadraceError(
            "bad_request",
            f"`{name}` is {str(given)[:60]}, but must be a number of seconds from 0 to {MOST_SECONDS:g}.",
        )
    return seconds


def _receipts(given: object, depth: int) -> Iterator[Receipt]:
    match given:
        case None | "":
            return
        case str():
            yield from (parse_receipt(each) for each in given.split(","))
        case list() | tuple() if depth:
            for each in given:
                yield from _receipts(each, depth - 1)
        case {"accepted": list() as accepted} if depth:
            yield from _receipts(accepted, depth - 1)
        case {"topic": str() as topic, "partition": partition, "offset": offset}:
            yield parse_receipt(f"{topic}/{_number(partition)}/{_number(offset)}")
        case list() | tuple():
            raise HeadraceError("bad_request", "A list of receipts is nested too deeply.", remedy=_REMEDY)
        case _:
            raise HeadraceError("bad_request", f"{str(given)[:300]} is no receipt.", remedy=_REMEDY)


def _number(given: object) -> str:
    """What is no whole number is no part of a receipt."""
    return str(given) if isinstance(given, int) and not isinstance(given, bool) else "?"
