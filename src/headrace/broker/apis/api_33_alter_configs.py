"""AlterConfigs (key 33), versions 0 to 2: replace all configs of topics, of this node, or of all nodes.

Behaviour: configs that are not named return to their defaults. That is why it is deprecated in favour of
IncrementalAlterConfigs (KIP-339); old tools still use it. The configs of a resource are checked together; if
one value is bad, the resource stays unchanged.

Version notes: 2 is flexible.
"""

from __future__ import annotations

from kio.schema.alter_configs.v2 import request as requests
from kio.schema.alter_configs.v2 import response as responses

from headrace.broker.answers import Later, when_done
from headrace.broker.api import Context, Typed
from headrace.broker.broker import Broker
from headrace.broker.config_changes import Change, Texts, alter_all, check_not_null
from headrace.wire.messages import NO_THROTTLE


def handle(
    broker: Broker, request: requests.AlterConfigsRequest, _context: Context
) -> Later[responses.AlterConfigsResponse]:
    """One result for each resource."""
    results = alter_all(
        broker,
        request.resources,
        _change,
        responses.AlterConfigsResourceResponse,
        validate_only=request.validate_only,
    )
    return when_done(
        results, lambda done: responses.AlterConfigsResponse(throttle_time=NO_THROTTLE, responses=done)
    )


def _change(broker: Broker, resource: requests.AlterConfigsResource) -> Change:
    """Raises ApiError."""
    check_not_null([each.name for each in resource.configs if each.value is None])
    texts = {each.name: each.value for each in resource.configs if each.value is not None}

    def of_topic(_overrides: Texts) -> Texts:
        broker.configs.check_topic(texts)
        return texts

    def of_broker(of_this_node: bool) -> Texts:
        broker.configs.check_broker(texts, of_this_node=of_this_node)
        return texts

    return Change(of_topic, of_broker)


HANDLER = Typed(requests.AlterConfigsRequest, responses.AlterConfigsResponse, handle)
