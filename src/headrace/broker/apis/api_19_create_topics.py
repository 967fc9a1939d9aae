"""CreateTopics (key 19), versions 2 to 7: create topics, or only check that they could be created.

Behaviour: topics are independent of each other. Names, configs, counts and assignments are checked in the
order and with the messages of Apache Kafka's controller. More than one replica is refused with a message that
points to the Apache Kafka engine. Topics are on disk before the reply is sent, so the timeout never expires.

Version notes: 4 accepts -1 for the default number of partitions and replicas (KIP-464), which all versions
accept here. 5 returns the topic's configs (KIP-525), 7 its id (KIP-516).
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Sequence

from kio.schema.create_topics.v7 import request as requests
from kio.schema.create_topics.v7 import response as responses
from kio.schema.errors import ErrorCode

from headrace.broker.api import Context, Typed
from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError, kafka_code
from headrace.broker.new_topics import (
    BY_DEFAULT,
    MOST_PARTITIONS,
    check_replicas,
    check_replication_factor,
)
from headrace.broker.topic_names import CLUSTER_METADATA, check_name, colliding
from headrace.log.errors import LogError
from headrace.wire.messages import NO_THROTTLE


def handle(
    broker: Broker, request: requests.CreateTopicsRequest, _context: Context
) -> responses.CreateTopicsResponse:
    """One result for each name."""
    named = Counter(topic.name for topic in request.topics)
    if sum(_wanted(broker, topic) for topic in request.topics) > MOST_PARTITIONS:
        message = "Excessively large number of partitions per request."
        refusal = ApiError(ErrorCode.policy_violation, message)
        return responses.CreateTopicsResponse(
            throttle_time=NO_THROTTLE,
            topics=tuple(_refused(topic.name, refusal) for topic in request.topics),
        )
    # Topics before the request: two new topics of one request do not collide.
    others = tuple(broker.logs.topics)
    results = []
    for topic in request.topics:
        if named[topic.name] == 1 and topic.name != CLUSTER_METADATA:
            results.append(_create(broker, topic, others, validate_only=request.validate_only))
    for name, count in named.items():
        if count > 1:
            results.append(_refused(name, _invalid_request("Duplicate topic name.")))
        elif name == CLUSTER_METADATA:
            message = f"Creation of internal topic {CLUSTER_METADATA} is prohibited."
            results.append(_refused(name, _invalid_request(message)))
    return responses.CreateTopicsResponse(throttle_time=NO_THROTTLE, topics=tuple(results))


def _create(
    broker: Broker, topic: requests.CreatableTopic, others: Iterable[str], *, validate_only: bool
) -> responses.CreatableTopicResult:
    try:
        _check_free(broker, topic.name, others)
        overrides = _overrides(broker, topic.configs)
        partitions = _partitions(broker, topic)
        topic_id = uuid.uuid4()
        if not validate_only:
            made = broker.create_topic(topic.name, partitions, overrides)
            topic_id = made.id
    except ApiError as refusal:
        return _refused(topic.name, refusal)
    except LogError as failure:
        return _refused(topic.name, ApiError(kafka_code(failure), str(failure)))
    configs = tuple(
        responses.CreatableTopicConfigs(
            name=each.name,
            value=each.value,
            read_only=each.read_only,
            config_source=each.source,
            is_sensitive=each.sensitive,
        )
        for each in broker.configs.describe_new_topic(overrides)
    )
    return responses.CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_code=ErrorCode.none,
        error_message=None,
        topic_config_error_code=0,
        num_partitions=partitions,
        replication_factor=1,
        configs=configs,
    )


def _check_free(broker: Broker, name: str, others: Iterable[str]) -> None:
    if name in broker.logs.topics:
        raise ApiError(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
    check_name(name)
    if (other := colliding(name, others)) is not None:
        message = f"Topic '{name}' collides with existing topic: {other}"
        raise ApiError(ErrorCode.invalid_topic_exception, message)


def _overrides(broker: Broker, configs: Sequence[requests.CreatableTopicConfig]) -> dict[str, str]:
    overrides = {each.name: each.value for each in configs if each.value is not None}
    if without_value := [each.name for each in configs if each.value is None]:
        message = f"Null value not supported for topic configs: {','.join(without_value)}"
        raise ApiError(ErrorCode.invalid_config, message)
    broker.configs.check_topic(overrides)
    return overrides


def _partitions(broker: Broker, topic: requests.CreatableTopic) -> int:
    """The number of partitions. Raises ApiError for invalid counts and assignments."""
    if topic.assignments:
        return _assigned(broker, topic)
    check_replication_factor(topic.replication_factor)
    if topic.num_partitions < BY_DEFAULT or topic.num_partitions == 0:
        message = "Number of partitions was set to an invalid non-positive value."
        raise ApiError(ErrorCode.invalid_partitions, message)
    return _wanted(broker, topic)


def _wanted(broker: Broker, topic: requests.CreatableTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    if topic.num_partitions == BY_DEFAULT:
        return broker.configs.number("num.partitions")
    return max(0, int(topic.num_partitions))


def _assigned(broker: Broker, topic: requests.CreatableTopic) -> int:
    said = "A manual partition assignment was specified, but"
    if topic.replication_factor != BY_DEFAULT:
        raise _invalid_request(f"{said} replication factor was not set to -1.")
    if topic.num_partitions != BY_DEFAULT:
        raise _invalid_request(f"{said} numPartitions was not set to -1.")
    seen: set[int] = set()
    for assignment in topic.assignments:
        if assignment.partition_index in seen:
            raise ApiError(
                ErrorCode.invalid_replica_assignment,
                f"Found multiple manual partition assignments for partition {assignment.partition_index}",
            )
        check_replicas(broker.node_id, assignment.broker_ids)
        seen.add(assignment.partition_index)
    if seen != set(range(len(seen))):
        message = "partitions should be a consecutive 0-based integer sequence"
        raise ApiError(ErrorCode.invalid_replica_assignment, message)
    return len(seen)


def _invalid_request(message: str) -> ApiError:
    return ApiError(ErrorCode.invalid_request, message)


def _refused(name: str, refusal: ApiError) -> responses.CreatableTopicResult:
    return responses.CreatableTopicResult(
        name=name,
        topic_id=None,
        error_code=refusal.code,
        error_message=refusal.message,
        num_partitions=-1,
        replication_factor=-1,
        configs=(),
    )


HANDLER = Typed(requests.CreateTopicsRequest, responses.CreateTopicsResponse, handle)
