"""What the API files of groups have in common: refusals of the coordinator, replies that wait, who asks.

Never knows a version or a field of a message.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from kio.schema.errors import ErrorCode

from headrace.broker.api import Context
from headrace.broker.broker import Broker
from headrace.broker.errors import ApiError

_MILLISECOND: Final = datetime.timedelta(milliseconds=1)
_Reply = TypeVar("_Reply")


def asked(
    ask: Callable[[], _Reply | asyncio.Future[_Reply]], refused: Callable[[ErrorCode], _Reply]
) -> _Reply | asyncio.Future[_Reply]:
    """What the coordinator answers, or the same kind of answer where it cannot say anything yet."""
    try:
        return ask()
    except ApiError as refusal:
        return refused(refusal.code)


def when_all_done(
    replies: Sequence[_Reply | asyncio.Future[_Reply]], convert: Callable[[Sequence[_Reply]], Any]
) -> Any:
    """One message made of several replies: now, or once the last of them is there."""
    now = [reply for reply in replies if not isinstance(reply, asyncio.Future)]
    if len(now) == len(replies):
        return convert(now)

    async def later() -> Any:
        return convert([await reply if isinstance(reply, asyncio.Future) else reply for reply in replies])

    return later()


def milliseconds(duration: datetime.timedelta) -> int:
    return duration // _MILLISECOND


def duration(milliseconds: int) -> datetime.timedelta:
    return milliseconds * _MILLISECOND


def client_host(context: Context) -> str:
    """As Java writes an address of which it knows no name: Kafka's tools show it that way."""
    return f"/{context.connection.address}"


def serves_consumer_protocol(broker: Broker) -> bool:
    """Whether `group.coordinator.rebalance.protocols` has the newer protocol (KIP-848)."""
    protocols = broker.configs.broker("group.coordinator.rebalance.protocols")
    return isinstance(protocols, tuple) and "consumer" in protocols
