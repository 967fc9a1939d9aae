"""Metadata (key 3), versions 0 to 13: the nodes of the cluster and the partitions of topics.

Behaviour: one node leads every partition. A missing topic is created if the request and
`auto.create.topics.enable` allow it, and the reply already contains it: there is no election to wait for, so
unlike Apache Kafka the first answer is neither LEADER_NOT_AVAILABLE nor UNKNOWN_TOPIC_OR_PARTITION.

Version notes: in 0 an empty list means all topics; from 1 on null does. 4 says whether topics may be created.
7 has leader epochs (KIP-320). 8 can ask for authorized operations (KIP-430), until 10 also for those of the
cluster. 10 returns topic ids and 12 accepts them (KIP-516); if a request has ids, its names are ignored. 13
has an error that makes clients bootstrap again (KIP-1102), which never happens here.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13 import request as requests
from kio.schema.metadata.v13 import response as responses

from headrace.broker.api import Context, Typed
from headrace.broker.authorized_operations import NOT_ASKED_FOR, ON_CLUSTER, ON_TOPIC
from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError, kafka_code
from headrace.broker.new_topics import create_automatically
from headrace.broker.topic_names import is_internal, is_valid
from headrace.log.errors import LogError
from headrace.log.folder.data_folder import Topic
from headrace.wire.messages import NO_THROTTLE

IDS_FROM: Final = 12
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRequest(requests.MetadataRequest):
    """Adds the field of versions 8 to 10."""

    include_cluster_authorized_operations: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataResponse(responses.MetadataResponse):
    """Adds the field of versions 8 to 10, which DescribeCluster replaced (KIP-700)."""

    cluster_authorized_operations: int = NOT_ASKED_FOR


def handle(broker: Broker, request: MetadataRequest, context: Context) -> MetadataResponse:
    """The node and the requested topics."""
    asked = request.topics
    operations = ON_TOPIC if request.include_topic_authorized_operations else NOT_ASKED_FOR
    if asked is None or (context.version == 0 and not asked):
        topics = [_known(broker, topic, operations) for topic in broker.logs.topics.values()]
    elif (refusal := _refusal(asked, context)) is not None:
        return refusal
    elif ids := dict.fromkeys(each.topic_id for each in asked if each.topic_id is not None):
        topics = [_by_id(broker, topic_id, operations) for topic_id in ids]
    else:
        may_create = request.allow_auto_topic_creation
        may_create = may_create and broker.configs.flag("auto.create.topics.enable")
        names = dict.fromkeys(each.name or "" for each in asked)
        topics = [_by_name(broker, name, operations, may_create=may_create) for name in names]
    node = responses.MetadataResponseBroker(
        node_id=broker.node_id, host=broker.host, port=broker.port, rack=None
    )
    with_cluster = request.include_cluster_authorized_operations
    return MetadataResponse(
        throttle_time=NO_THROTTLE,
        brokers=(node,),
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
        topics=tuple(topics),
        cluster_authorized_operations=ON_CLUSTER if with_cluster else NOT_ASKED_FOR,
        error_code=ErrorCode.none,
    )


def _by_id(broker: Broker, topic_id: uuid.UUID, operations: int) -> responses.MetadataResponseTopic:
    topic = broker.logs.topics_by_id.get(topic_id)
    if topic is None:
        return _topic(ErrorCode.unknown_topic_id, None, topic_id, NOT_ASKED_FOR)
    return _known(broker, topic, operations)


def _by_name(
    broker: Broker, name: str, operations: int, *, may_create: bool
) -> responses.MetadataResponseTopic:
    topic = broker.logs.topics.get(name)
    if topic is not None:
        return _known(broker, topic, operations)
    if not is_valid(name):
        return _topic(ErrorCode.invalid_topic_exception, name, None, operations)
    if not may_create:
        return _topic(ErrorCode.unknown_topic_or_partition, name, None, operations)
    try:
        topic = create_automatically(broker, name)
    except ApiError as refusal:
        # Clients get only this code, as from Kafka; the broker's log has the reason.
        _log.warning("topic %s is not created: %s", name, refusal.message)
        return _topic(ErrorCode.unknown_topic_or_partition, name, None, operations)
    except LogError as failure:
        _log.warning("topic %s could not be created: %s", name, failure)
        return _topic(kafka_code(failure), name, None, operations)
    return _known(broker, topic, operations)


def _known(broker: Broker, topic: Topic, operations: int) -> responses.MetadataResponseTopic:
    here = (broker.node_id,)
    partitions = tuple(
        responses.MetadataResponsePartition(
            error_code=ErrorCode.none,
            partition_index=index,
            leader_id=broker.node_id,
            leader_epoch=log.leader_epoch,
            replica_nodes=here,
            isr_nodes=here,
            offline_replicas=(),
        )
        for index, log in enumerate(topic.partitions)
    )
    return _topic(ErrorCode.none, topic.name, topic.id, operations, partitions=partitions)


def _topic(
    error: ErrorCode,
    name: str | None,
    topic_id: uuid.UUID | None,
    operations: int,
    *,
    partitions: tuple[responses.MetadataResponsePartition, ...] = (),
) -> responses.MetadataResponseTopic:
    """`name` may be None only for topics requested by id: versions before 12 have no null for it."""
    return responses.MetadataResponseTopic(
        error_code=error,
        name=name,
        topic_id=topic_id,
        is_internal=name is not None and is_internal(name),
        partitions=partitions,
        topic_authorized_operations=operations,
    )


def _refusal(asked: Sequence[requests.MetadataRequestTopic], context: Context) -> MetadataResponse | None:
    """The refusal of a request with nulls or ids that its version does not allow; None if it is valid."""
    if context.version >= IDS_FROM:
        wrong = any(each.name is None and each.topic_id is None for each in asked)
    else:
        wrong = any(each.name is None or each.topic_id is not None for each in asked)
    if not wrong:
        return None
    return MetadataResponse(
        throttle_time=NO_THROTTLE,
        brokers=(),
        cluster_id=None,
        controller_id=-1,
        topics=tuple(
            _topic(ErrorCode.invalid_request, each.name or "", each.topic_id, NOT_ASKED_FOR) for each in asked
        ),
        error_code=ErrorCode.invalid_request,
    )


HANDLER = Typed(MetadataRequest, MetadataResponse, handle)
