"""Statements that end before an engine has begun with them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from headrace.core.errors import HeadraceError
from headrace.http.druid.running import Parts, RunningStatements
from headrace.query.druid.asking import ThreadedEngine
from headrace.query.sql import QueryResult


def nothing(sql: str, parameters: object) -> QueryResult:
    raise AssertionError((sql, parameters))


async def never(*_: object) -> None:
    await asyncio.Event().wait()


def test_a_statement_that_is_still_being_prepared_can_be_cancelled() -> None:
    async def run() -> None:
        engine = ThreadedEngine(nothing, lambda: ())
        running = RunningStatements(engine)
        begun, ended = asyncio.Event(), asyncio.Event()

        async def prepare(_: str) -> Parts:
            begun.set()
            try:
                await never()
            finally:
                ended.set()
            raise AssertionError

        asked = asyncio.create_task(running.begin("mine", prepare, gone=never, timeout_seconds=60))
        await begun.wait()
        assert running.cancel("mine")
        with pytest.raises(HeadraceError) as caught:
            await asyncio.wait_for(asked, 60)
        assert caught.value.code == "query_cancelled"
        await asyncio.wait_for(ended.wait(), 60)
        assert not running.cancel("mine")
        engine.close()

    asyncio.run(run())


def test_an_answer_that_nobody_reads_is_forgotten() -> None:
    async def run() -> None:
        engine = ThreadedEngine(nothing, lambda: ())
        running = RunningStatements(engine)

        async def parts() -> AsyncIterator[bytes]:
            yield b"1"

        async def start(_: str) -> Parts:
            return parts()

        answer = await running.begin("mine", start, gone=never, timeout_seconds=None)
        assert running.cancel("mine")
        assert [part async for part in answer] == [b"1"]
        assert not running.cancel("mine")
        answer = await running.begin("mine", start, gone=never, timeout_seconds=None)
        del answer
        assert not running.cancel("mine")
        engine.close()

    asyncio.run(run())
