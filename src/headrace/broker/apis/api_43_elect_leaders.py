"""ElectLeaders (key 43), versions 0 to 2: elect leaders anew, the preferred replicas or whoever is left.

Behaviour: this node leads every partition and is its only replica, so each partition that is named is
answered with ELECTION_NOT_NEEDED. When all partitions are asked for, those that need no election are left
out, as Apache Kafka does: topics without partitions remain. A type of election that does not exist is
refused with INVALID_REQUEST.

Version notes: 1 has the type and an error of its own (KIP-460), 2 is flexible.
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode

from headrace.broker.api import Api, Context
from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError

PREFERRED: Final = 0
UNCLEAN: Final = 1
_NOT_NEEDED: Final = "Leader election not needed for topic partition."


def handle(broker: Broker, request: Any, context: Context) -> Any:
    """One result for each partition that was named."""
    kind = getattr(request, "election_type", PREFERRED)
    if kind not in (PREFERRED, UNCLEAN) and request.topic_partitions != ():
        refusal = ApiError(ErrorCode.invalid_request, f"Unknown election type {kind}")
        results = [_topic(context, each, refusal) for each in request.topic_partitions or ()]
        return context.reply(error_code=refusal.code, replica_election_results=tuple(results))
    if request.topic_partitions is None:
        results = [
            context.make("ReplicaElectionResult", topic=name, partition_result=())
            for name in broker.logs.topics
        ]
    else:
        results = [_topic(context, each, broker) for each in request.topic_partitions]
    return context.reply(error_code=ErrorCode.none, replica_election_results=tuple(results))


def _topic(context: Context, asked: Any, judge: Broker | ApiError) -> Any:
    """What becomes of the partitions: what the broker says of each, or one refusal for all."""
    answers = (
        (index, judge if isinstance(judge, ApiError) else _elect(judge, asked.topic, index))
        for index in asked.partitions
    )
    return context.make(
        "ReplicaElectionResult",
        topic=asked.topic,
        partition_result=tuple(
            context.make(
                "PartitionResult", partition_id=index, error_code=answer.code, error_message=answer.message
            )
            for index, answer in answers
        ),
    )


def _elect(broker: Broker, name: str, index: int) -> ApiError:
    topic = broker.logs.topics.get(name)
    if topic is None:
        return ApiError(ErrorCode.unknown_topic_or_partition, f"No such topic as {name}")
    if broker.partition(topic, index) is None:
        return ApiError(ErrorCode.unknown_topic_or_partition, f"No such partition as {name}-{index}")
    return ApiError(ErrorCode.election_not_needed, _NOT_NEEDED)


API = Api(key=43, name="ElectLeaders", versions=(0, 2), handle=handle)
