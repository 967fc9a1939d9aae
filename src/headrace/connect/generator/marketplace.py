"""Events of an imaginary marketplace: people view listings, click, search and write messages, over several
days and on several devices.

A pure sequence: the same seed and the same day give the same events in the same order. Never sends anything.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, TypeVar

_Choice = TypeVar("_Choice")

# The relative frequency of each type: views are the most common, purchases rare.
EVENT_TYPES: Final[dict[str, int]] = {
    "ListingView": 40,
    "ListingClick": 18,
    "Search": 20,
    "Message": 8,
    "Favorite": 6,
    "Share": 4,
    "Purchase": 2,
    "Signup": 2,
}
DEVICES: Final[dict[str, int]] = {"ios": 40, "android": 38, "web": 20, "tablet": 2}
# Today first: most events are fresh, a few arrive late.
DAYS: Final[dict[int, int]] = {0: 60, 1: 30, 2: 7, 3: 3}
# These have no listing.
_WITHOUT_LISTING: Final = frozenset({"Search", "Signup"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Marketplace:
    """The size of the marketplace, and the seed of its events."""

    seed: int = 7
    users: int = 2_000
    listings: int = 5_000

    def events(self, today: date) -> Iterator[dict[str, str]]:
        """An endless sequence of events, as they are posted."""
        choose = random.Random(self.seed)
        while True:
            yield self._event(choose, today)

    def _event(self, choose: random.Random, today: date) -> dict[str, str]:
        event_type = _pick(choose, EVENT_TYPES)
        day = today - timedelta(days=_pick(choose, DAYS))
        moment = datetime.combine(day, time(), UTC) + timedelta(milliseconds=choose.randrange(86_400_000))
        # Squaring makes low numbers more frequent: a few people and listings are much busier than the rest.
        event = {
            "Event_Type": event_type,
            "Event_Version": choose.choice(("1", "1", "1", "2")),
            "User_ID": f"user-{int(self.users * choose.random() ** 2):05d}",
            "Server_Time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "Device_Type": _pick(choose, DEVICES),
        }
        if event_type not in _WITHOUT_LISTING:
            event["Listing_ID"] = f"listing-{int(self.listings * choose.random() ** 2):06d}"
        return event


def _pick(choose: random.Random, weights: dict[_Choice, int]) -> _Choice:
    return choose.choices(list(weights), weights=list(weights.values()))[0]
