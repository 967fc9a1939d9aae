"""CreatePartitions (key 37), versions 0 to 3: add partitions to topics, or only check that it is possible.

Behaviour: partitions can be added but not removed. Existing records stay where they are, but keys may belong
to other partitions from then on: if a topic has records with keys, the broker logs a warning. Refusals have
the codes and messages of Apache Kafka's controller.

Version notes: 2 is flexible; 3 is about quotas (KIP-599), which do not exist here.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Final

from kio.schema.create_partitions.v3 import request as requests
from kio.schema.create_partitions.v3 import response as responses
from kio.schema.errors import ErrorCode

from headrace.broker.api import Context, Typed
from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError, kafka_code
from headrace.broker.new_topics import MOST_PARTITIONS, check_replicas
from headrace.log.errors import LogError
from headrace.log.folder.data_folder import Topic
from headrace.log.partition.partition_log import PartitionLog
from headrace.wire.errors import WireError
from headrace.wire.messages import NO_THROTTLE
from headrace.wire.record_batch import read_header
from headrace.wire.records import read_records

SAMPLE_BYTES: Final = 64 * 1024
_log: Final = logging.getLogger(__name__)


def handle(
    broker: Broker, request: requests.CreatePartitionsRequest, _context: Context
) -> responses.CreatePartitionsResponse:
    """One result for each name."""
    named = Counter(topic.name for topic in request.topics)
    results = []
    for topic in {each.name: each for each in request.topics}.values():
        error: ErrorCode = ErrorCode.none
        message: str | None = None
        try:
            if named[topic.name] > 1:
                raise ApiError(ErrorCode.invalid_request, "Duplicate topic name.")
            _add(broker, topic, validate_only=request.validate_only)
        except ApiError as refusal:
            error, message = refusal.code, refusal.message or None
        except LogError as failure:
            error, message = kafka_code(failure), str(failure)
        results.append(
            responses.CreatePartitionsTopicResult(name=topic.name, error_code=error, error_message=message)
        )
    return responses.CreatePartitionsResponse(throttle_time=NO_THROTTLE, results=tuple(results))


def _add(broker: Broker, asked: requests.CreatePartitionsTopic, *, validate_only: bool) -> None:
    topic = broker.logs.topics.get(asked.name)
    if topic is None:
        raise ApiError(ErrorCode.unknown_topic_or_partition)
    before = len(topic.partitions)
    if asked.count == before:
        raise ApiError(ErrorCode.invalid_partitions, f"Topic already has {before} partition(s).")
    if asked.count < before:
        raise ApiError(
            ErrorCode.invalid_partitions,
            f"The topic {asked.name} currently has {before} partition(s); "
            f"{asked.count} would not be an increase.",
        )
    if asked.count - before > MOST_PARTITIONS:
        raise ApiError(ErrorCode.policy_violation, "Excessively large number of partitions per request.")
    if asked.assignments is not None:
        _check_assignments(broker, asked.assignments, asked.count - before)
    if validate_only:
        return
    if _has_keys(topic):
        _log.warning(
            "topic %s grows from %d to %d partitions: new records may go to another partition than earlier "
            "ones with the same key, so their order is not kept",
            asked.name,
            before,
            asked.count,
        )
    broker.add_partitions(asked.name, asked.count)


def _check_assignments(
    broker: Broker, assignments: Sequence[requests.CreatePartitionsAssignment], additional: int
) -> None:
    if len(assignments) != additional:
        raise ApiError(
            ErrorCode.invalid_replica_assignment,
            f"Attempted to add {additional} additional partition(s), but only {len(assignments)} "
            "assignment(s) were specified.",
        )
    for each in assignments:
        check_replicas(broker.node_id, each.broker_ids)


def _has_keys(topic: Topic) -> bool:
    """Whether the first batch of any partition has a record with a key."""
    return any(_begins_with_keys(log) for log in topic.partitions if log.end_offset > log.start_offset)


def _begins_with_keys(log: PartitionLog) -> bool:
    try:
        found = log.read(log.start_offset, SAMPLE_BYTES, at_least_one=True).ranges
        if found is None:
            return False
        data = found.file.pread(found.size, found.position)
        return any(record.key is not None for record in read_records(data, read_header(data)))
    except (LogError, WireError, OSError):
        _log.exception("cannot read a record of %s to see whether it has a key", log)
        return False


HANDLER = Typed(requests.CreatePartitionsRequest, responses.CreatePartitionsResponse, handle)
