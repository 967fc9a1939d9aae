"""What an error of the log means for an event.

Invariants: a failure is `certain` only if the log cannot have written the event; every error has a remedy to
match. Never decides whether an event is sent again: that is `delivery`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.client.errors import KafkaError, is_not_allowed, log_unavailable
from headrace.core.errors import HeadraceError

# The topic did not exist, so nothing was written: sending again cannot create a second copy.
TOPIC_GONE: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)
# The log rejected the batch, so it is certainly not written. Any other error leaves that open.
_REFUSED: Final = frozenset(
    {
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.TOPIC_EXCEPTION,
    }
)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an event has no place; `certain` if it is certainly not in the log."""

    error: HeadraceError
    certain: bool


def failure_of(error: KafkaError, *, topic: str, bootstrap: str) -> Failure:
    """What an error of the log means for an event that was sent."""
    if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
        return Failure(_too_large_for_the_log(topic), certain=True)
    return Failure(
        log_unavailable(bootstrap, "acknowledge the event", error),
        certain=error.code() in _REFUSED or is_not_allowed(error),
    )


def _too_large_for_the_log(topic: str) -> HeadraceError:
    return HeadraceError(
        "event_too_large",
        f"The topic {topic} does not accept messages of this size.",
        remedy="Send a smaller event, or raise `max.message.bytes` of the topic.",
    )


def queue_full() -> HeadraceError:
    return HeadraceError(
        "log_unavailable",
        "The event was not sent: events arrive faster than the log accepts them.",
        remedy="Send it again later.",
    )


def no_offset() -> HeadraceError:
    return HeadraceError(
        "log_unavailable",
        "The log did not say where it wrote the event.",
        remedy="Look for it in the topic before you send it again.",
    )


def no_topic(topic: str) -> HeadraceError:
    return HeadraceError(
        "log_unavailable",
        f"The topic {topic} does not exist and could not be created.",
        remedy="Create it, or give this client permission to create it.",
    )
