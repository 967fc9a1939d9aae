"""Errors of the log: what Kafka's error codes mean, and the one error that users see when the log fails them.

Owns every list of Kafka error codes. Never decides what happens next: callers do.
"""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaError, KafkaException

from headrace.core.errors import HeadraceError

__all__ = [
    "KafkaError",
    "KafkaException",
    "NotAcknowledgedError",
    "NotAllowedError",
    "is_absent",
    "is_absent_or_away",
    "is_end",
    "is_not_allowed",
    "is_refused_record",
    "is_without_leader",
    "log_late",
    "log_refused",
    "log_unavailable",
]

_REMEDY: Final = "Check that the log is running (`headrace status`), then try again."
# The topic or partition does not exist.
_ABSENT: Final = frozenset(
    {
        KafkaError.TOPIC_EXCEPTION,  # a name that no topic can have
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
    }
)
# A new topic has no leader for a moment, and neither has a partition that moves to another broker.
_WITHOUT_LEADER: Final = frozenset({KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION})
_NOT_ALLOWED: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.POLICY_VIOLATION,
    }
)
# The log will never take this record: sending it again cannot help.
_REFUSED_RECORD: Final = frozenset(
    {
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError._INVALID_ARG,
        KafkaError._UNKNOWN_PARTITION,
        *_NOT_ALLOWED,
    }
)


class NotAcknowledgedError(Exception):
    """The log did not acknowledge a record. Unless `error` is a refusal, the record may have been written."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(error.str())
        self.error = error


class NotAllowedError(HeadraceError):
    """The log does not allow this client to do that."""


def is_end(error: KafkaError) -> bool:
    """Whether this "error" only says that a partition was read to its end."""
    return error.code() == KafkaError._PARTITION_EOF


def is_absent(error: KafkaError) -> bool:
    return error.code() in _ABSENT


def is_absent_or_away(error: KafkaError) -> bool:
    """Whether librdkafka found no leader to ask: there is no such topic, or the log is away."""
    return error.code() == KafkaError._NOENT


def is_without_leader(error: KafkaError) -> bool:
    return error.code() in _WITHOUT_LEADER


def is_refused_record(error: KafkaError) -> bool:
    return error.code() in _REFUSED_RECORD


def is_not_allowed(error: KafkaError) -> bool:
    return error.code() in _NOT_ALLOWED


def log_unavailable(bootstrap: str, action: str, reason: KafkaError | KafkaException | str) -> HeadraceError:
    """The log could not do `action` ("list its topics"), because of `reason`."""
    return HeadraceError("log_unavailable", _sentence(bootstrap, action, reason), remedy=_REMEDY)


def log_late(bootstrap: str, action: str, seconds: float) -> HeadraceError:
    """The log did not do `action` in time."""
    return log_unavailable(bootstrap, action, f"it took longer than {seconds:g} s")


def log_refused(bootstrap: str, action: str, error: KafkaError) -> HeadraceError:
    """`log_unavailable` if trying again can help; otherwise `query_failed`, since the request was wrong."""
    if error.retriable() or error.code() == KafkaError._TIMED_OUT:
        return log_unavailable(bootstrap, action, error)
    kind = NotAllowedError if is_not_allowed(error) else HeadraceError
    return kind("query_failed", _sentence(bootstrap, action, error))


def _sentence(bootstrap: str, action: str, reason: KafkaError | KafkaException | str) -> str:
    error = reason.args[0] if isinstance(reason, KafkaException) else reason
    text = error if isinstance(error, str) else error.str()
    return f"The log at {bootstrap} could not {action}: {text.rstrip('.')}."
