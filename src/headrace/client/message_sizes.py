"""The largest message each kind of topic accepts, derived from the largest event (`max_event_bytes`).

Every topic that we create says its limit itself (`max.message.bytes`), so the log's default does not matter.
The log process imports this module, so it must not import a Kafka client.
"""

from __future__ import annotations

from typing import Final

from headrace.core.settings import Settings

# What Kafka adds to a record: framing, and the header of a batch that holds only this record.
_FRAMING: Final = 4 * 1024
# Room for our headers in derived topics: coordinates, error texts, and the headers of the original record.
_HEADERS: Final = 1024 * 1024
_SMALLEST_BROKER_LIMIT: Final = 2 * 1024 * 1024
_RECORD_OVERHEAD: Final = 64 * 1024


def event_message_bytes(max_event_bytes: int) -> int:
    """For topics that take events: an event and its key, which may be nearly as long as the event."""
    return 2 * max_event_bytes + _FRAMING


def derived_message_bytes(settings: Settings) -> int:
    """For topics that queries write: a dead letter holds the whole event, its key and many headers."""
    return 2 * settings.max_event_bytes + _HEADERS


def broker_message_bytes(settings: Settings) -> int:
    """Default of a log that we start, for topics that others create: room for the largest event."""
    return max(_SMALLEST_BROKER_LIMIT, settings.max_event_bytes + _RECORD_OVERHEAD)


def event_topic_config(max_event_bytes: int) -> dict[str, str]:
    return {"max.message.bytes": str(event_message_bytes(max_event_bytes))}


def derived_topic_config(settings: Settings) -> dict[str, str]:
    return {"max.message.bytes": str(derived_message_bytes(settings))}
