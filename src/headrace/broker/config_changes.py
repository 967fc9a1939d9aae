"""Altering configs of topics and of the broker: the logic shared by AlterConfigs and IncrementalAlterConfigs.

Invariants: resources are independent of each other, but one that is named twice is refused both times. All
configs of a resource are altered, or none. Codes and messages are Apache Kafka's. A topic that gets
flush.messages=1 is synced before the answer: from then on it never comes back shorter. (Kafka syncs the older
records with the next one.)
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from kio.schema.errors import ErrorCode

from headrace.broker.answers import Answer
from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError, kafka_code
from headrace.broker.topic_names import check_name
from headrace.log.errors import LogError
from headrace.log.partition.partition_log import PartitionLog

TOPIC: Final = 2
BROKER: Final = 4

Texts = Mapping[str, str]


class _Config(Protocol):
    @property
    def name(self) -> str: ...


class _Resource(Protocol):
    @property
    def resource_type(self) -> int: ...
    @property
    def resource_name(self) -> str: ...
    @property
    def configs(self) -> Iterable[_Config]: ...


_SomeResource = TypeVar("_SomeResource", bound=_Resource)
_Result_co = TypeVar("_Result_co", covariant=True)


class Change(NamedTuple):
    """The configs that a resource is to have. Both functions check them and raise ApiError."""

    # From the topic's current overrides.
    of_topic: Callable[[Texts], Texts]
    # For this node (true), or for all nodes.
    of_broker: Callable[[bool], Texts]


class _MakeResult(Protocol[_Result_co]):
    def __call__(
        self, *, error_code: ErrorCode, error_message: str | None, resource_type: int, resource_name: str
    ) -> _Result_co: ...


def alter_all(
    broker: Broker,
    resources: Sequence[_SomeResource],
    change_of: Callable[[Broker, _SomeResource], Change],
    make_result: _MakeResult[_Result_co],
    *,
    validate_only: bool,
) -> Answer[tuple[_Result_co, ...]]:
    """Alter each resource, or only check that it could be altered. `change_of` raises ApiError."""
    named = Counter((each.resource_type, each.resource_name) for each in resources)
    outcomes: list[tuple[ErrorCode, str | None]] = []
    syncs: list[tuple[int, asyncio.Future[None]]] = []
    for number, each in enumerate(resources):
        error: ErrorCode = ErrorCode.none
        message: str | None = None
        try:
            if named[each.resource_type, each.resource_name] > 1:
                raise ApiError(ErrorCode.invalid_request, "Each resource must appear at most once.")
            if any(count > 1 for count in Counter(config.name for config in each.configs).values()):
                raise ApiError(ErrorCode.invalid_request, "Error due to duplicate config keys")
            altered = _alter(broker, each, change_of(broker, each), validate_only=validate_only)
            syncs += [
                (number, sync) for log in altered if (sync := broker.group_commit.sync(log)) is not None
            ]
        except ApiError as refusal:
            error, message = refusal.code, refusal.message
        except LogError as failure:
            error, message = kafka_code(failure), str(failure)
        outcomes.append((error, message))

    def results() -> tuple[_Result_co, ...]:
        return tuple(
            make_result(
                error_code=error,
                error_message=message,
                resource_type=each.resource_type,
                resource_name=each.resource_name,
            )
            for each, (error, message) in zip(resources, outcomes, strict=True)
        )

    async def after_syncs() -> tuple[_Result_co, ...]:
        for number, sync in syncs:
            try:
                await sync
            except LogError as failure:
                outcomes[number] = kafka_code(failure), str(failure)
        return results()

    return asyncio.get_running_loop().create_task(after_syncs()) if syncs else results()


def _alter(broker: Broker, resource: _Resource, change: Change, *, validate_only: bool) -> list[PartitionLog]:
    """The logs that show synced records only from now on. Raises ApiError, LogError."""
    name = resource.resource_name
    logs: list[PartitionLog] = []
    if resource.resource_type == TOPIC:
        _check_topic_resource(name)
        topic = broker.logs.topics.get(name)
        altered = change.of_topic({} if topic is None else topic.overrides)
        if topic is None:
            raise ApiError(ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist.")
        if not validate_only:
            broker.configs.set_topic(name, altered)
            logs += topic.partitions
    elif resource.resource_type == BROKER:
        of_this_node = name != ""
        if of_this_node:
            check_is_this_node(broker, name)
        altered = change.of_broker(of_this_node)
        if not validate_only:
            broker.configs.set_broker(altered, of_this_node=of_this_node)
            logs += [log for each in broker.logs.topics.values() for log in each.partitions]
    else:
        raise ApiError(ErrorCode.invalid_request, f"Unknown resource type {resource.resource_type}")
    return [log for log in logs if log.shows_synced_only]


def check_not_null(names: Sequence[str]) -> None:
    """Raises ApiError (INVALID_REQUEST) if `names`, the configs without a value, is not empty."""
    if names:
        raise ApiError(ErrorCode.invalid_request, f"Null value not supported for : {', '.join(names)}")


def check_is_this_node(broker: Broker, name: str, *, called: str = "Node", alternative: str = "") -> None:
    """Raises ApiError (INVALID_REQUEST). Kafka's APIs differ in `called`, and in what else may be named."""
    node_id = _node_number(name)
    if node_id is None:
        raise ApiError(ErrorCode.invalid_request, f"{called} id must be an integer, but it is: {name}")
    if node_id != broker.node_id:
        message = f"Unexpected broker id, expected {broker.node_id}{alternative}, but received {name}"
        raise ApiError(ErrorCode.invalid_request, message)


def _check_topic_resource(name: str) -> None:
    if not name:
        raise ApiError(ErrorCode.invalid_request, "Default topic resources are not allowed.")
    check_name(name)


def _node_number(name: str) -> int | None:
    """The number in the name of a broker resource, parsed as Java does."""
    digits = name[1:] if name[:1] in {"+", "-"} else name
    return int(name) if digits.isdecimal() and len(digits) <= 10 else None
