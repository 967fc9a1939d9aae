"""The pulse and the streams: rates from samples, one beat for all pages, only what changed is sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from litestar.response import ServerSentEventMessage

from headrace.console.live import UNKNOWN_RATES, FlowHistory, LiveFlow
from headrace.console.rendering import Renderer
from headrace.console.streams import QUIET_BEATS, changed_parts
from headrace.console.views import OverviewView, TopicView
from headrace.core.errors import HeadraceError
from headrace.query.flow import FlowSnapshot
from tests.console.fakes import SCRIPT, FakeServices, message, topic

TIMEOUT = 120.0
BEAT = 0.01


async def next_event(stream: AsyncIterator[ServerSentEventMessage], name: str) -> str:
    async with asyncio.timeout(TIMEOUT):
        async for event in stream:
            if event.event == name:
                return str(event.data)
    raise AssertionError(f"the stream ended without {name}")


def test_rates_are_over_the_last_seconds(fake: FakeServices) -> None:
    history = FlowHistory()
    assert history.add(100.0, replace(fake.flow, accepted=0, lake=500)).rates is UNKNOWN_RATES
    assert history.add(102.0, replace(fake.flow, accepted=50, lake=500)).rates.accepted == 25
    rates = history.add(104.0, replace(fake.flow, accepted=150, lake=520)).rates
    assert rates.accepted == 37.5
    assert rates.lake == 5
    assert history.add(106.0, replace(fake.flow, accepted=150)).rates.accepted == 25, "the oldest is too old"


def test_a_count_that_falls_is_not_a_negative_rate(fake: FakeServices) -> None:
    history = FlowHistory()
    history.add(100.0, replace(fake.flow, accepted=1000))
    assert history.add(101.0, replace(fake.flow, accepted=3)).rates.accepted == 0


def test_the_history_is_bounded(fake: FakeServices) -> None:
    history = FlowHistory(length=3)
    for second in range(10):
        history.add(float(second), fake.flow)
    assert [sample.at for sample in history.samples] == [7.0, 8.0, 9.0]


def test_a_stream_sends_everything_once_and_then_what_changed() -> None:
    parts = {"a": "1", "b": "1"}

    async def scenario() -> None:
        live = LiveFlow(FakeServices().services.flow.snapshot, beat_seconds=BEAT)
        async with live.running():
            stream = changed_parts(live, lambda: dict(parts))
            assert [(event.event, event.data) for event in [await anext(stream), await anext(stream)]] == [
                ("a", "1"),
                ("b", "1"),
            ]
            parts["b"] = "2\nand more"
            event = await anext(stream)
            assert event.encode() == b"event: b\r\ndata: 2\r\ndata: and more\r\n\r\n"

    asyncio.run(asyncio.wait_for(scenario(), TIMEOUT))


def test_a_quiet_stream_shows_that_it_is_alive() -> None:
    reads = 0

    def read() -> dict[str, str]:
        nonlocal reads
        reads += 1
        return {}

    async def scenario() -> None:
        live = LiveFlow(FakeServices().services.flow.snapshot, beat_seconds=BEAT)
        async with live.running():
            event = await anext(changed_parts(live, read))
            assert event.encode() == b": still here\r\n\r\n"
            assert reads == QUIET_BEATS

    asyncio.run(asyncio.wait_for(scenario(), TIMEOUT))


def test_closing_ends_every_stream_at_once() -> None:
    async def scenario() -> None:
        live = LiveFlow(FakeServices().services.flow.snapshot, beat_seconds=3600)
        async with live.running():
            streams = [changed_parts(live, lambda: {"a": "1"}) for _ in range(3)]
            for stream in streams:
                await anext(stream)
            ends = [asyncio.create_task(anext(stream, None)) for stream in streams]  # type: ignore[arg-type]
            await asyncio.sleep(0)
            live.close()
            assert await asyncio.gather(*ends) == [None, None, None]

    asyncio.run(asyncio.wait_for(scenario(), TIMEOUT))


def test_many_pages_cost_one_sample_a_beat() -> None:
    fake = FakeServices()
    taken = 0

    def snapshot() -> FlowSnapshot:
        nonlocal taken
        taken += 1
        return fake.flow

    async def scenario() -> None:
        live = LiveFlow(snapshot, beat_seconds=3600)
        async with live.running():
            beats = [live.beats() for _ in range(20)]
            for each in beats:
                await anext(each)
            await asyncio.gather(*(anext(each) for each in beats))
        assert taken == 1

    asyncio.run(asyncio.wait_for(scenario(), TIMEOUT))


def test_the_overview_streams_new_counts_and_points_for_the_chart(fake: FakeServices) -> None:
    async def scenario() -> None:
        live = LiveFlow(fake.services.flow.snapshot, beat_seconds=BEAT)
        async with live.running():
            stream = changed_parts(live, OverviewView(Renderer(), fake.services, live).parts_or_notice)
            assert "1,200" in await next_event(stream, "stage_log")
            first = json.loads(await next_event(stream, "chart"))
            assert first["reset"] is True
            fake.flow = replace(fake.flow, accepted=4321)
            assert "4,321" in await next_event(stream, "stage_log")
            later = json.loads(await next_event(stream, "chart"))
            assert later["reset"] is False
            at, accepted, _, p50, p99 = later["points"][-1]
            assert at > first["points"][-1][0]
            assert accepted > 0
            assert (p50, p99) == (3.2, 48.0)
            assert later["moving"]["log"] > 0

    asyncio.run(asyncio.wait_for(scenario(), TIMEOUT))


def test_a_topic_streams_messages_as_they_come_escaped_and_reads_them_only_then(fake: FakeServices) -> None:
    async def scenario() -> None:
        live = LiveFlow(fake.services.flow.snapshot, beat_seconds=BEAT)
        async with live.running():
            stream = changed_parts(live, TopicView(Renderer(), fake.services, "events").parts_or_notice)
            assert "No messages yet" in await next_event(stream, "messages")
            for _ in range(5):
                await anext(live.beats())
            assert fake.reads_of_messages == 1
            fake.messages["events"] = [message({"Event_Type": SCRIPT}, offset=700)]
            fake.topics[0] = topic("events", 701, 500)
            arrived = await next_event(stream, "messages")
            assert "gotcha" in arrived
            assert "<script" not in arrived

    asyncio.run(asyncio.wait_for(scenario(), TIMEOUT))


def test_trouble_becomes_a_notice_and_goes_when_it_is_over(fake: FakeServices) -> None:
    async def scenario() -> None:
        live = LiveFlow(fake.services.flow.snapshot, beat_seconds=BEAT)
        async with live.running():
            stream = changed_parts(live, TopicView(Renderer(), fake.services, "events").parts_or_notice)
            assert await next_event(stream, "notice") == ""
            fake.failure = HeadraceError("log_unavailable", "The log does not answer.", remedy="Start it.")
            assert "The log does not answer." in await next_event(stream, "notice")
            fake.failure = None
            assert await next_event(stream, "notice") == ""

    asyncio.run(asyncio.wait_for(scenario(), TIMEOUT))


@pytest.mark.parametrize(
    ("failure", "shown"),
    [
        (HeadraceError("log_unavailable", "The log is gone.", remedy="Start it."), "The log is gone."),
        (RuntimeError("odd"), "Cannot read the flow: odd."),
    ],
)
def test_a_flow_that_cannot_be_sampled_is_told_on_the_page(
    fake: FakeServices, failure: Exception, shown: str
) -> None:
    failing = True

    def snapshot() -> FlowSnapshot:
        if failing:
            raise failure
        return fake.flow

    async def scenario() -> None:
        nonlocal failing
        live = LiveFlow(snapshot, beat_seconds=BEAT)
        async with live.running():
            beats = live.beats()
            while live.trouble is None:
                await anext(beats)
            view = OverviewView(Renderer(), fake.services, live)
            assert shown in view.parts_or_notice()["notice"]
            failing = False
            while live.trouble is not None:
                await anext(beats)
            assert view.parts_or_notice()["notice"] == ""

    asyncio.run(asyncio.wait_for(scenario(), TIMEOUT))
