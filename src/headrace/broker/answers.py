"""Answers that may have to wait: for other members of a group, or for the disk.

Never looks at the answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar

_Said = TypeVar("_Said")
_Made = TypeVar("_Made")

# What a coordinator returns.
Answer: TypeAlias = _Said | asyncio.Future[_Said]
# What a handler returns.
Later: TypeAlias = _Said | Awaitable[_Said]


def when_done(answer: Answer[_Said], convert: Callable[[_Said], _Made]) -> Later[_Made]:
    """Convert an answer: now, or in a coroutine if it is a future."""
    if not isinstance(answer, asyncio.Future):
        return convert(answer)
    return convert_later(answer, convert)


async def convert_later(answer: Awaitable[_Said], convert: Callable[[_Said], _Made]) -> _Made:
    return convert(await answer)


def when_all_done(
    answers: Sequence[Answer[_Said]], convert: Callable[[Sequence[_Said]], _Made]
) -> Later[_Made]:
    """Convert several answers into one: now, or in a coroutine once the last is there."""
    now = [answer for answer in answers if not isinstance(answer, asyncio.Future)]
    if len(now) == len(answers):
        return convert(now)

    async def later() -> _Made:
        return convert([await answer if isinstance(answer, asyncio.Future) else answer for answer in answers])

    return later()
