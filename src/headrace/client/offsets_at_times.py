"""Where the records of a time begin in a partition (ListOffsets, key 2, version 7, read_committed)."""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v7.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.list_offsets.v7.response import ListOffsetsResponse
from kio.schema.types import BrokerId, TopicName
from kio.serial.errors import SerialError
from kio.static.primitive import i8, i32, i64

from headrace.client.broker_connection import BrokerConnection
from headrace.client.errors import log_unavailable

_READ_COMMITTED: Final = 1
# Instead of a time: the first offset that is still there.
EARLIEST: Final = -2


def offset_at_time(
    leader: tuple[str, int], topic: str, number: int, at_ms: int, *, timeout_seconds: float
) -> int | None:
    """The first offset whose record is not older than that; all records before it are. None if there is none.

    Raises log_unavailable.
    """
    request = ListOffsetsRequest(
        replica_id=BrokerId(-1),
        isolation_level=i8(_READ_COMMITTED),
        topics=(
            ListOffsetsTopic(
                name=TopicName(topic),
                partitions=(
                    ListOffsetsPartition(
                        partition_index=i32(number), current_leader_epoch=i32(-1), timestamp=i64(at_ms)
                    ),
                ),
            ),
        ),
    )
    action = f"tell where a time begins in partition {number} of topic `{topic}`"
    address = f"{leader[0]}:{leader[1]}"
    try:
        connection = BrokerConnection(*leader, timeout_seconds=timeout_seconds)
        try:
            connection.send(request)
            reply = connection.receive(ListOffsetsResponse)
        finally:
            connection.close()
    except (OSError, SerialError, ValueError) as error:
        raise log_unavailable(address, action, str(error)) from error
    found = reply.topics[0].partitions[0]
    if found.error_code != ErrorCode.none:
        raise log_unavailable(address, action, found.error_code.name)
    return int(found.offset) if found.offset >= 0 else None
