"""Metadata (key 3), versions 0 to 13: the nodes of the cluster, and where the partitions of topics are.

Behaviour: one node leads every partition. A topic that is not there is made if the request and
`auto.create.topics.enable` allow it, and answered at once: there is no election to wait for, so no
LEADER_NOT_AVAILABLE first, and no UNKNOWN_TOPIC_OR_PARTITION first as from Apache Kafka's controller.

Version notes: 0 has no way to ask for no topics, so none are all; from 1 on null is all. 4 says whether
topics may be made. 7 has leader epochs (KIP-320). 8 can ask for authorized operations (KIP-430), of the
cluster only until 10. 10 gives topic ids and 12 takes them (KIP-516); with ids in the request, names in it
are ignored. 13 has an error for clients that ought to start over (KIP-1102), which never happens here.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, Final

from kio.schema.errors import ErrorCode

from headrace.broker.api import Api, Context
from headrace.broker.authorized_operations import NOT_ASKED_FOR, ON_CLUSTER, ON_TOPIC
from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError, kafka_code
from headrace.broker.new_topics import create_automatically
from headrace.broker.topic_names import is_internal, is_valid
from headrace.log.errors import LogError
from headrace.log.folder.data_folder import Topic

IDS_FROM: Final = 12
_log: Final = logging.getLogger(__name__)


def handle(broker: Broker, request: Any, context: Context) -> Any:
    """The node, and the topics that are asked for."""
    asked = request.topics
    everything = asked is None or (context.version == 0 and not asked)
    if not everything and (refusal := _refusal(asked, context)) is not None:
        return refusal
    with_operations = getattr(request, "include_topic_authorized_operations", False)
    operations = ON_TOPIC if with_operations else NOT_ASKED_FOR
    ids = {} if everything else {_id_of(each): None for each in asked if _id_of(each) is not None}
    if everything:
        topics = [_known(broker, topic, context, operations) for topic in broker.logs.topics.values()]
    elif ids:
        topics = list(_by_id(broker, ids, context, operations))
    else:
        may_create = getattr(request, "allow_auto_topic_creation", True)
        may_create = may_create and broker.configs.flag("auto.create.topics.enable")
        names = dict.fromkeys(each.name for each in asked)
        topics = [_by_name(broker, name, context, operations, may_create=may_create) for name in names]
    with_cluster_operations = getattr(request, "include_cluster_authorized_operations", False)
    node = context.make(
        "MetadataResponseBroker", node_id=broker.node_id, host=broker.host, port=broker.port, rack=None
    )
    return context.reply(
        brokers=(node,),
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
        topics=tuple(topics),
        **_cluster_operations(context, ON_CLUSTER if with_cluster_operations else NOT_ASKED_FOR),
        error_code=ErrorCode.none,
    )


def _id_of(asked: Any) -> uuid.UUID | None:
    topic_id: uuid.UUID | None = getattr(asked, "topic_id", None)
    return topic_id


def _by_id(
    broker: Broker, ids: Iterable[uuid.UUID | None], context: Context, operations: int
) -> Iterator[Any]:
    for topic_id in ids:
        assert topic_id is not None
        topic = broker.logs.topics_by_id.get(topic_id)
        if topic is None:
            yield _topic(context, ErrorCode.unknown_topic_id, None, topic_id, NOT_ASKED_FOR)
        else:
            yield _known(broker, topic, context, operations)


def _by_name(broker: Broker, name: str, context: Context, operations: int, *, may_create: bool) -> Any:
    topic = broker.logs.topics.get(name)
    if topic is not None:
        return _known(broker, topic, context, operations)
    if not is_valid(name):
        return _topic(context, ErrorCode.invalid_topic_exception, name, None, operations)
    if not may_create:
        return _topic(context, ErrorCode.unknown_topic_or_partition, name, None, operations)
    try:
        topic = create_automatically(broker, name)
    except ApiError as refusal:
        # Kafka's clients get no more than this; the reason is for whoever reads the broker's log.
        _log.warning("topic %s is not made: %s", name, refusal.message)
        return _topic(context, ErrorCode.unknown_topic_or_partition, name, None, operations)
    except LogError as failure:
        _log.warning("topic %s could not be made: %s", name, failure)
        return _topic(context, kafka_code(failure), name, None, operations)
    return _known(broker, topic, context, operations)


def _known(broker: Broker, topic: Topic, context: Context, operations: int) -> Any:
    here = (broker.node_id,)
    partitions = tuple(
        context.make(
            "MetadataResponsePartition",
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
    return _topic(context, ErrorCode.none, topic.name, topic.id, operations, partitions=partitions)


def _topic(
    context: Context,
    error: ErrorCode,
    name: str | None,
    topic_id: uuid.UUID | None,
    operations: int,
    *,
    partitions: tuple[Any, ...] = (),
) -> Any:
    return context.make(
        "MetadataResponseTopic",
        error_code=error,
        # The field is not nullable before 12.
        name=name if context.version >= IDS_FROM else name or "",
        topic_id=topic_id,
        is_internal=name is not None and is_internal(name),
        partitions=partitions,
        topic_authorized_operations=operations,
    )


def _refusal(asked: Iterable[Any], context: Context) -> Any | None:
    """The reply to a request that asks with what its version does not have; None where all is well."""
    if context.version >= IDS_FROM:
        wrong = [each for each in asked if each.name is None and _id_of(each) is None]
    else:
        wrong = [each for each in asked if each.name is None or _id_of(each) is not None]
    if not wrong:
        return None
    topics = tuple(
        _topic(context, ErrorCode.invalid_request, each.name or "", _id_of(each), NOT_ASKED_FOR)
        for each in asked
    )
    return context.reply(
        brokers=(),
        cluster_id=None,
        controller_id=-1,
        topics=topics,
        **_cluster_operations(context, NOT_ASKED_FOR),
        error_code=ErrorCode.invalid_request,
    )


def _cluster_operations(context: Context, operations: int) -> dict[str, int]:
    """Only these versions have them; DescribeCluster took over (KIP-700)."""
    return {"cluster_authorized_operations": operations} if 8 <= context.version <= 10 else {}


API = Api(key=3, name="Metadata", versions=(0, 13), handle=handle)
