"""IncrementalAlterConfigs (key 44), versions 0 and 1: set, delete, append to, or subtract from configs.

Behaviour: only the named configs change (KIP-339). The resulting configs of a resource are checked together;
if one value is bad, the resource stays unchanged. A change is on disk and in force when the reply is sent. If
a broker config is the default of a topic config, it applies to all topics without their own value.

Version notes: 1 is flexible.
"""

from __future__ import annotations

from collections.abc import Sequence

from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1 import request as requests
from kio.schema.incremental_alter_configs.v1 import response as responses

from headrace.broker.answers import Later, when_done
from headrace.broker.api import Context, Typed
from headrace.broker.broker import Broker
from headrace.broker.config_changes import Change, alter_all, check_not_null
from headrace.broker.configs import Kind, Operation
from headrace.broker.errors import ApiError
from headrace.wire.messages import NO_THROTTLE


def handle(
    broker: Broker, request: requests.IncrementalAlterConfigsRequest, _context: Context
) -> Later[responses.IncrementalAlterConfigsResponse]:
    """One result for each resource."""
    results = alter_all(
        broker,
        request.resources,
        _change,
        responses.AlterConfigsResourceResponse,
        validate_only=request.validate_only,
    )
    return when_done(
        results,
        lambda done: responses.IncrementalAlterConfigsResponse(throttle_time=NO_THROTTLE, responses=done),
    )


def _change(broker: Broker, resource: requests.AlterConfigsResource) -> Change:
    """Raises ApiError."""
    configs, store = resource.configs, broker.configs
    without_value = [each for each in configs if each.value is None]
    check_not_null([each.name for each in without_value if each.config_operation != Kind.DELETE])
    return Change(
        lambda overrides: store.altered_topic(overrides, _operations(configs)),
        lambda of_this_node: store.altered_broker(_operations(configs), of_this_node=of_this_node),
    )


def _operations(configs: Sequence[requests.AlterableConfig]) -> list[Operation]:
    operations = []
    for each in configs:
        if each.config_operation not in set(Kind):
            message = f"Unknown operations type {each.config_operation}"
            raise ApiError(ErrorCode.invalid_request, message)
        operations.append(Operation(name=each.name, kind=Kind(each.config_operation), value=each.value))
    return operations


HANDLER = Typed(requests.IncrementalAlterConfigsRequest, responses.IncrementalAlterConfigsResponse, handle)
