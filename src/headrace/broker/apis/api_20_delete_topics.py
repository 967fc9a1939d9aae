"""DeleteTopics (key 20), versions 1 to 6: delete topics by name or by id.

Behaviour: topics are independent of each other. A deleted topic is gone for all clients when the reply is
sent; its files are removed a little later. If `delete.topic.enable` is false, all deletions are refused.
Results are in the order of the request; Apache Kafka shuffles them, so that topics without authorization look
like missing ones.

Version notes: 5 returns messages with errors; 6 accepts topic ids (KIP-516). Naming a topic twice, by name or
by id, is refused, so that a client with an outdated id does not delete more than it meant to.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from kio.schema.delete_topics.v6 import request as requests
from kio.schema.delete_topics.v6 import response as responses
from kio.schema.errors import ErrorCode

from headrace.broker.api import Context, Typed
from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError, kafka_code
from headrace.log.errors import LogError
from headrace.wire.messages import NO_THROTTLE

UNKNOWN_NAME: Final = "This server does not host this topic-partition."
UNKNOWN_ID: Final = "This server does not host this topic ID."
DISABLED: Final = "Topic deletion is disabled."


class _Asked(NamedTuple):
    name: str | None
    topic_id: uuid.UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsRequest(requests.DeleteTopicsRequest):
    """Adds the names of versions 1 to 5."""

    topic_names: tuple[str, ...] = ()


def handle(broker: Broker, request: DeleteTopicsRequest, context: Context) -> responses.DeleteTopicsResponse:
    """One result for each requested topic."""
    if context.version >= 6:
        asked = [_Asked(each.name, each.topic_id) for each in request.topics]
    else:
        asked = [_Asked(name, None) for name in request.topic_names]
    if not broker.configs.flag("delete.topic.enable"):
        code = ErrorCode.invalid_request if context.version < 3 else ErrorCode.topic_deletion_disabled
        refusal = ApiError(code, DISABLED)
        return responses.DeleteTopicsResponse(
            throttle_time=NO_THROTTLE, responses=tuple(_result(each, refusal) for each in asked)
        )
    return responses.DeleteTopicsResponse(throttle_time=NO_THROTTLE, responses=tuple(_delete(broker, asked)))


def _delete(broker: Broker, asked: list[_Asked]) -> Iterator[responses.DeletableTopicResult]:
    times = Counter(asked)
    by_id = {each.topic_id for each in asked if each.name is None}
    doubled = {
        each.id for each in broker.logs.topics.values() if each.id in by_id and times[_Asked(each.name, None)]
    }
    for each in times:
        topic_id = each.topic_id
        try:
            if each.name is None:
                if topic_id in doubled:
                    continue  # its name has the result
                name = _name_of(broker, each, times[each])
            else:
                topic_id, name = _by_name(broker, each, times[each], doubled)
            broker.delete_topic(name)
        except ApiError as refusal:
            failed = _Asked(each.name, _shown_id(broker, each, doubled))
            yield _result(failed, refusal)
        except LogError as failure:
            yield _result(each, ApiError(kafka_code(failure), str(failure)))
        else:
            yield _result(_Asked(name, topic_id), None)


def _name_of(broker: Broker, asked: _Asked, times: int) -> str:
    if asked.topic_id is None:
        raise ApiError(ErrorCode.invalid_request, "Neither topic name nor id were specified.")
    if times > 1:
        raise ApiError(ErrorCode.invalid_request, "Duplicate topic id.")
    topic = broker.logs.topics_by_id.get(asked.topic_id)
    if topic is None:
        raise ApiError(ErrorCode.unknown_topic_id, UNKNOWN_ID)
    return topic.name


def _by_name(broker: Broker, asked: _Asked, times: int, doubled: set[uuid.UUID]) -> tuple[uuid.UUID, str]:
    assert asked.name is not None
    if asked.topic_id is not None:
        raise ApiError(ErrorCode.invalid_request, "You may not specify both topic name and topic id.")
    if times > 1:
        raise ApiError(ErrorCode.invalid_request, "Duplicate topic name.")
    topic = broker.logs.topics.get(asked.name)
    if topic is None:
        raise ApiError(ErrorCode.unknown_topic_or_partition, UNKNOWN_NAME)
    if topic.id in doubled:
        message = "The provided topic name maps to an ID that was already supplied."
        raise ApiError(ErrorCode.invalid_request, message)
    return topic.id, topic.name


def _shown_id(broker: Broker, asked: _Asked, doubled: set[uuid.UUID]) -> uuid.UUID | None:
    topic = broker.logs.topics.get(asked.name or "")
    return topic.id if topic is not None and topic.id in doubled else asked.topic_id


def _result(asked: _Asked, refusal: ApiError | None) -> responses.DeletableTopicResult:
    return responses.DeletableTopicResult(
        name=asked.name,
        topic_id=asked.topic_id,
        error_code=ErrorCode.none if refusal is None else refusal.code,
        error_message=None if refusal is None else refusal.message,
    )


HANDLER = Typed(DeleteTopicsRequest, responses.DeleteTopicsResponse, handle)
