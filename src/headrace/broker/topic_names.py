"""Valid names of topics, and the names of the broker's internal topics.

Invariants: the rules and messages are Apache Kafka's. Never looks up topics: the check for collisions takes
the existing names as an argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from kio.schema.errors import ErrorCode

from headrace.broker.errors import ApiError

LONGEST_NAME: Final = 249
CLUSTER_METADATA: Final = "__cluster_metadata"
CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"
_INTERNAL: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]*")


def check_name(name: str) -> None:
    """Raises ApiError (INVALID_TOPIC_EXCEPTION)."""
    reason = _what_is_wrong_with(name)
    if reason is not None:
        raise ApiError(ErrorCode.invalid_topic_exception, f"Topic name is invalid: {reason}")


def is_valid(name: str) -> bool:
    return _what_is_wrong_with(name) is None


def is_internal(name: str) -> bool:
    return name in _INTERNAL


def colliding(name: str, others: Iterable[str]) -> str | None:
    """Another name that becomes the same when dots turn into underscores, as in names of metrics."""
    unified = name.replace(".", "_")
    if "_" not in unified:
        return None
    return next((each for each in others if each.replace(".", "_") == unified and each != name), None)


def _what_is_wrong_with(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in {".", ".."}:
        return f"'{name}' is not allowed"
    if len(name) > LONGEST_NAME:
        return f"the length of '{name}' is longer than the max allowed length {LONGEST_NAME}"
    if not _LEGAL.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None
