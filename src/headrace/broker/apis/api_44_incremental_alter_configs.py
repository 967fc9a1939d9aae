"""IncrementalAlterConfigs (key 44), versions 0 and 1: set, delete, append to, subtract from configs.

Behaviour: only what is named changes (KIP-339). The whole of what the resource would have is checked; one
bad value and it stays as it was. A change is on disk, and in force, when the reply leaves; one of a broker
config that is the default of a topic config acts on all topics that do not say it themselves.

Version notes: 1 is flexible.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from headrace.broker.api import Api, Context
from headrace.broker.broker import Broker
from headrace.broker.config_changes import (
    BROKER,
    TOPIC,
    answer,
    check_each_named_once,
    check_is_this_node,
    check_not_null,
    check_topic_is_there,
    check_topic_resource,
    unknown_type,
)
from headrace.broker.configs import Kind, Operation
from headrace.broker.errors import ApiError


def handle(broker: Broker, request: Any, context: Context) -> Any:
    """One result for each resource."""

    def alter(resource: Any) -> None:
        check_each_named_once(resource.configs)
        without_value = [each for each in resource.configs if each.value is None]
        check_not_null([each.name for each in without_value if each.config_operation != Kind.DELETE])
        if resource.resource_type == TOPIC:
            _alter_topic(broker, resource, validate_only=request.validate_only)
        elif resource.resource_type == BROKER:
            _alter_broker(broker, resource, validate_only=request.validate_only)
        else:
            raise unknown_type(resource.resource_type)

    return answer(request.resources, context, alter)


def _alter_topic(broker: Broker, resource: Any, *, validate_only: bool) -> None:
    name = resource.resource_name
    check_topic_resource(name)
    topic = broker.logs.topics.get(name)
    overrides = {} if topic is None else topic.overrides
    altered = broker.configs.altered_topic(overrides, _operations(resource.configs))
    check_topic_is_there(broker, name)
    if not validate_only:
        broker.configs.set_topic(name, altered)


def _alter_broker(broker: Broker, resource: Any, *, validate_only: bool) -> None:
    of_this_node = resource.resource_name != ""
    if of_this_node:
        check_is_this_node(broker, resource.resource_name)
    altered = broker.configs.altered_broker(_operations(resource.configs), of_this_node=of_this_node)
    if not validate_only:
        broker.configs.set_broker(altered, of_this_node=of_this_node)


def _operations(configs: Sequence[Any]) -> list[Operation]:
    operations = []
    for each in configs:
        if each.config_operation not in set(Kind):
            message = f"Unknown operations type {each.config_operation}"
            raise ApiError(ErrorCode.invalid_request, message)
        operations.append(Operation(name=each.name, kind=Kind(each.config_operation), value=each.value))
    return operations


API = Api(key=44, name="IncrementalAlterConfigs", versions=(0, 1), handle=handle)
