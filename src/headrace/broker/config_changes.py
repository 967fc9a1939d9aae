"""Altering configs of topics and of the broker: what AlterConfigs and IncrementalAlterConfigs have in common.

Invariants: resources are independent of each other, but one that is named twice is refused both times; all
configs of one resource are altered, or none. Codes and words are Apache Kafka's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from headrace.broker.errors import ApiError, kafka_code
from headrace.broker.topic_names import check_name
from headrace.log.errors import LogError

if TYPE_CHECKING:
    from headrace.broker.api import Context
    from headrace.broker.broker import Broker

TOPIC: Final = 2
BROKER: Final = 4

# Alters one resource, or only checks that it could be.
Alteration = Callable[[Any], None]


def answer(resources: Sequence[Any], context: Context, alter: Alteration) -> Any:
    """The reply of either API, after `alter` was called for each resource that can be looked at."""
    named = Counter((each.resource_type, each.resource_name) for each in resources)
    results = []
    for each in resources:
        error: ErrorCode = ErrorCode.none
        message: str | None = None
        try:
            if named[each.resource_type, each.resource_name] > 1:
                raise ApiError(ErrorCode.invalid_request, "Each resource must appear at most once.")
            alter(each)
        except ApiError as refusal:
            error, message = refusal.code, refusal.message
        except LogError as failure:
            error, message = kafka_code(failure), str(failure)
        results.append(
            context.make(
                "AlterConfigsResourceResponse",
                error_code=error,
                error_message=message,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
        )
    return context.reply(responses=tuple(results))


def check_each_named_once(configs: Iterable[Any]) -> None:
    """Raises ApiError (INVALID_REQUEST)."""
    if any(count > 1 for count in Counter(each.name for each in configs).values()):
        raise ApiError(ErrorCode.invalid_request, "Error due to duplicate config keys")


def check_not_null(names: Sequence[str]) -> None:
    """Raises ApiError (INVALID_REQUEST) if there are such configs."""
    if names:
        raise ApiError(ErrorCode.invalid_request, f"Null value not supported for : {', '.join(names)}")


def check_is_this_node(broker: Broker, name: str) -> None:
    """Raises ApiError (INVALID_REQUEST)."""
    node_id = node_number(name)
    if node_id is None:
        raise ApiError(ErrorCode.invalid_request, f"Node id must be an integer, but it is: {name}")
    if node_id != broker.node_id:
        raise ApiError(
            ErrorCode.invalid_request,
            f"Unexpected broker id, expected {broker.node_id}, but received {name}",
        )


def check_topic_resource(name: str) -> None:
    """Raises ApiError."""
    if not name:
        raise ApiError(ErrorCode.invalid_request, "Default topic resources are not allowed.")
    check_name(name)


def check_topic_is_there(broker: Broker, name: str) -> None:
    """Raises ApiError (UNKNOWN_TOPIC_OR_PARTITION)."""
    if name not in broker.logs.topics:
        raise ApiError(ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist.")


def unknown_type(kind: int) -> ApiError:
    return ApiError(ErrorCode.invalid_request, f"Unknown resource type {kind}")


def node_number(name: str) -> int | None:
    """The number that a resource of a broker is named by, read as Java reads it."""
    digits = name[1:] if name[:1] in {"+", "-"} else name
    return int(name) if digits.isdecimal() and len(digits) <= 10 else None
