"""Answers that may have to wait: for other members of a group, or for the disk.

Never knows what is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar

_Said = TypeVar("_Said")
_Made = TypeVar("_Made")

# What a coordinator gives.
Answer: TypeAlias = _Said | asyncio.Future[_Said]
# What a handler gives.
Later: TypeAlias = _Said | Awaitable[_Said]


def when_done(answer: Answer[_Said], convert: Callable[[_Said], _Made]) -> Later[_Made]:
    """What `convert` makes of an answer: now, or, of a future, a coroutine that gives it later."""
    if not isinstance(answer, asyncio.Future):
        return convert(answer)
    return convert_later(answer, convert)


async def convert_later(answer: Awaitable[_Said], convert: Callable[[_Said], _Made]) -> _Made:
    return convert(await answer)


def when_all_done(
    answers: Sequence[Answer[_Said]], convert: Callable[[Sequence[_Said]], _Made]
) -> Later[_Made]:
    """One message made of several answers: now, or once the last of them is there."""
    now = [answer for answer in answers if not isinstance(answer, asyncio.Future)]
    if len(now) == len(answers):
        return convert(now)

    async def later() -> _Made:
        return convert([await answer if isinstance(answer, asyncio.Future) else answer for answer in answers])

    return later()
