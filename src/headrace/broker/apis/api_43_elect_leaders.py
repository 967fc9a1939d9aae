"""ElectLeaders (key 43), versions 0 to 2: trigger an election of leaders, preferred or unclean.

Behaviour: this node leads every partition and is its only replica, so each named partition gets
ELECTION_NOT_NEEDED. If all partitions are requested, those that need no election are left out, as in Apache
Kafka, so topics without partitions remain. An unknown election type is refused with INVALID_REQUEST.

Version notes: 1 has the election type and a top-level error (KIP-460), 2 is flexible.
"""

from __future__ import annotations

from typing import Final

from kio.schema.elect_leaders.v2 import request as requests
from kio.schema.elect_leaders.v2 import response as responses
from kio.schema.errors import ErrorCode

from headrace.broker.api import Context, Typed
from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError
from headrace.wire.messages import NO_THROTTLE

PREFERRED: Final = 0
UNCLEAN: Final = 1
_NOT_NEEDED: Final = "Leader election not needed for topic partition."


def handle(
    broker: Broker, request: requests.ElectLeadersRequest, _context: Context
) -> responses.ElectLeadersResponse:
    """One result for each named partition."""
    kind = request.election_type
    if kind not in (PREFERRED, UNCLEAN) and request.topic_partitions != ():
        refusal = ApiError(ErrorCode.invalid_request, f"Unknown election type {kind}")
        results = [_topic(each, refusal) for each in request.topic_partitions or ()]
        return responses.ElectLeadersResponse(
            throttle_time=NO_THROTTLE, error_code=refusal.code, replica_election_results=tuple(results)
        )
    if request.topic_partitions is None:
        results = [
            responses.ReplicaElectionResult(topic=name, partition_result=()) for name in broker.logs.topics
        ]
    else:
        results = [_topic(each, broker) for each in request.topic_partitions]
    return responses.ElectLeadersResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, replica_election_results=tuple(results)
    )


def _topic(asked: requests.TopicPartitions, judge: Broker | ApiError) -> responses.ReplicaElectionResult:
    """The results of a topic's partitions: an election for each, or one refusal for all."""
    answers = (
        (index, judge if isinstance(judge, ApiError) else _elect(judge, asked.topic, index))
        for index in asked.partitions
    )
    return responses.ReplicaElectionResult(
        topic=asked.topic,
        partition_result=tuple(
            responses.PartitionResult(
                partition_id=index, error_code=answer.code, error_message=answer.message
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


HANDLER = Typed(requests.ElectLeadersRequest, responses.ElectLeadersResponse, handle)
