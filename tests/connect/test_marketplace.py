"""The example events: reproducible, spread over days, types and devices."""

from __future__ import annotations

from datetime import date
from itertools import islice

from headrace.connect.generator.marketplace import DEVICES, EVENT_TYPES, Marketplace

_TODAY = date(2026, 3, 14)


def test_the_same_seed_gives_the_same_events() -> None:
    first = list(islice(Marketplace(seed=3).events(_TODAY), 200))
    assert first == list(islice(Marketplace(seed=3).events(_TODAY), 200))
    assert first != list(islice(Marketplace(seed=4).events(_TODAY), 200))


def test_events_cover_types_devices_and_days() -> None:
    events = list(islice(Marketplace().events(_TODAY), 3_000))
    assert {event["Event_Type"] for event in events} == set(EVENT_TYPES)
    assert {event["Device_Type"] for event in events} == set(DEVICES)
    assert {event["Server_Time"][:10] for event in events} == {
        "2026-03-14",
        "2026-03-13",
        "2026-03-12",
        "2026-03-11",
    }
    assert any("Listing_ID" not in event for event in events)
