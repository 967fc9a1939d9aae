"""Server-sent events: the parts of an open page, sent when they have changed.

Invariants: a stream first sends every part once (so a browser that reconnects is up to date) and then only
what changed; it sends something at least every few seconds, so that a dead connection is noticed; it ends
when the console closes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from litestar.response import ServerSentEvent, ServerSentEventMessage

from headrace.console.live import LiveFlow

QUIET_BEATS: Final = 10


def part_stream(live: LiveFlow, read_parts: Callable[[], dict[str, str]]) -> ServerSentEvent:
    """Read the parts at every beat of `live` and send those that changed, each as an event with its name."""
    return ServerSentEvent(changed_parts(live, read_parts))


async def changed_parts(
    live: LiveFlow, read_parts: Callable[[], dict[str, str]]
) -> AsyncIterator[ServerSentEventMessage]:
    """The events of one stream."""
    sent: dict[str, str] = {}
    quiet_beats = 0
    async for _ in live.beats():
        parts = await asyncio.to_thread(read_parts)
        changed = {name: content for name, content in parts.items() if sent.get(name) != content}
        sent.update(changed)
        for name, content in changed.items():
            yield ServerSentEventMessage(event=name, data=content)
        quiet_beats = 0 if changed else quiet_beats + 1
        if quiet_beats == QUIET_BEATS:
            quiet_beats = 0
            yield ServerSentEventMessage(comment="still here", data=None)
