"""AlterConfigs (key 33), versions 0 to 2: replace all configs of topics, of this node, or of all nodes.

Behaviour: what is not named goes back to its default, which is why IncrementalAlterConfigs exists (KIP-339)
and why this one is deprecated; old tools still use it. Checked as a whole; one bad value and the resource
stays as it was.

Version notes: 2 is flexible.
"""

from __future__ import annotations

from typing import Any

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


def handle(broker: Broker, request: Any, context: Context) -> Any:
    """One result for each resource."""

    def alter(resource: Any) -> None:
        check_each_named_once(resource.configs)
        check_not_null([each.name for each in resource.configs if each.value is None])
        texts = {each.name: each.value for each in resource.configs}
        if resource.resource_type == TOPIC:
            _alter_topic(broker, resource.resource_name, texts, validate_only=request.validate_only)
        elif resource.resource_type == BROKER:
            _alter_broker(broker, resource.resource_name, texts, validate_only=request.validate_only)
        else:
            raise unknown_type(resource.resource_type)

    return answer(request.resources, context, alter)


def _alter_topic(broker: Broker, name: str, texts: dict[str, str], *, validate_only: bool) -> None:
    check_topic_resource(name)
    broker.configs.check_topic(texts)
    check_topic_is_there(broker, name)
    if not validate_only:
        broker.configs.set_topic(name, texts)


def _alter_broker(broker: Broker, name: str, texts: dict[str, str], *, validate_only: bool) -> None:
    of_this_node = name != ""
    if of_this_node:
        check_is_this_node(broker, name)
    broker.configs.check_broker(texts, of_this_node=of_this_node)
    if not validate_only:
        broker.configs.set_broker(texts, of_this_node=of_this_node)


API = Api(key=33, name="AlterConfigs", versions=(0, 2), handle=handle)
