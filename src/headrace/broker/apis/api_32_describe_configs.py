"""DescribeConfigs (key 32), versions 1 to 4: the configs of topics, of this node, and of all nodes.

Behaviour: values, sources, synonyms and types are those of Apache Kafka (KIP-226); the documentation is our
own. A broker is named by its number, all nodes together by the empty name. Groups use the configs of this
node; loggers and client metrics have none. A resource of an unknown type fails the whole request, as in
Kafka.

Version notes: 3 has types and, on request, documentation (KIP-569); 4 is flexible.
"""

from __future__ import annotations

from typing import Final

from kio.schema.describe_configs.v4 import request as requests
from kio.schema.describe_configs.v4 import response as responses
from kio.schema.errors import ErrorCode

from headrace.broker.api import Context, Typed
from headrace.broker.broker import Broker
from headrace.broker.config_changes import BROKER, TOPIC, check_is_this_node
from headrace.broker.configs import ConfigEntry
from headrace.broker.errors import ApiError
from headrace.broker.topic_names import check_name
from headrace.wire.messages import NO_THROTTLE

# Kafka's types besides topics, brokers and groups.
WITHOUT_CONFIGS: Final = {8: "BROKER_LOGGER", 16: "CLIENT_METRICS"}
GROUP: Final = 32
MALFORMED: Final = (
    "This most likely occurs because of a request being malformed by the client library or the message was "
    "sent to an incompatible broker. See the broker logs for more details."
)


def handle(
    broker: Broker, request: requests.DescribeConfigsRequest, _context: Context
) -> responses.DescribeConfigsResponse:
    """One result for each resource."""
    resources = request.resources
    if any(each.resource_type not in {TOPIC, BROKER, GROUP, *WITHOUT_CONFIGS} for each in resources):
        refusal = ApiError(ErrorCode.invalid_request, MALFORMED)
        return responses.DescribeConfigsResponse(
            throttle_time=NO_THROTTLE, results=tuple(_refused(each, refusal) for each in resources)
        )
    with_documentation = request.include_documentation
    results = []
    for each in resources:
        try:
            entries = _entries(broker, each)
        except ApiError as refusal:
            results.append(_refused(each, refusal))
            continue
        configs = tuple(
            _config(entry, synonyms=request.include_synonyms, documentation=with_documentation)
            for entry in entries
        )
        results.append(
            responses.DescribeConfigsResult(
                error_code=ErrorCode.none,
                error_message="",
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                configs=configs,
            )
        )
    return responses.DescribeConfigsResponse(throttle_time=NO_THROTTLE, results=tuple(results))


def _entries(broker: Broker, resource: requests.DescribeConfigsResource) -> list[ConfigEntry]:
    name, names = resource.resource_name, resource.configuration_keys
    if resource.resource_type == TOPIC:
        check_name(name)
        topic = broker.logs.topics.get(name)
        if topic is None:
            raise ApiError(ErrorCode.unknown_topic_or_partition)
        return broker.configs.describe_topic(topic.overrides, names)
    if resource.resource_type == BROKER:
        if not name:
            return broker.configs.describe_all_nodes(names)
        check_is_this_node(broker, name, called="Broker", alternative=" or empty string")
        return broker.configs.describe_broker(names)
    if resource.resource_type == GROUP:
        return broker.configs.describe_group(names)
    kind = WITHOUT_CONFIGS[resource.resource_type]
    raise ApiError(ErrorCode.invalid_request, f"Unsupported resource type: {kind}")


def _config(
    entry: ConfigEntry, *, synonyms: bool, documentation: bool
) -> responses.DescribeConfigsResourceResult:
    shown = (
        responses.DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source)
        for each in (entry.synonyms if synonyms else ())
    )
    return responses.DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=tuple(shown),
        config_type=entry.type,
        documentation=entry.documentation if documentation else None,
    )


def _refused(
    resource: requests.DescribeConfigsResource, refusal: ApiError
) -> responses.DescribeConfigsResult:
    return responses.DescribeConfigsResult(
        error_code=refusal.code,
        error_message=refusal.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=(),
    )


HANDLER = Typed(requests.DescribeConfigsRequest, responses.DescribeConfigsResponse, handle)
