"""What each page shows, as HTML parts: they make up a page when it is opened and update it while it is open.

Invariants: a part is a template in `templates/parts/` that sees only the view it belongs to; a failure with a
remedy becomes the part `notice` of an open page instead of ending the stream. Reads only through the services
it is given.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Final

from headrace.console.live import UNKNOWN_RATES, FlowSample, LiveFlow
from headrace.console.rendering import Renderer
from headrace.core.errors import HeadraceError
from headrace.http.query.app import QueryServices
from headrace.query.flow import FlowSnapshot
from headrace.query.topics import Message, TopicDescription

NEWEST_MESSAGES: Final = 50

OVERVIEW_PARTS: Final = (
    "notice",
    "stage_http", "channel_log", "stage_log", "channel_avro", "stage_avro", "channel_lake", "stage_lake",
    "stage_dead_letters", "latency", "queries",
)  # fmt: skip


def total_bytes(topic: TopicDescription) -> int | None:
    """The total size of the partitions; None if none is known."""
    known = [partition.size_bytes for partition in topic.partitions if partition.size_bytes is not None]
    return sum(known) if known else None


class View(ABC):
    """One open page: renders its parts repeatedly, and caches what it needs to do so cheaply."""

    page: str
    section: str

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer

    def open(self) -> str:
        """The whole page."""
        context = {"notice": None, **self.context()}
        return self._renderer.render(self.page, section=self.section, **context)

    @abstractmethod
    def context(self) -> dict[str, object]:
        """What the page's templates see. Raises HeadraceError."""

    @abstractmethod
    def parts(self) -> dict[str, str]:
        """The current parts, by name. Raises HeadraceError."""

    def parts_or_notice(self) -> dict[str, str]:
        """The current parts, or, if they are not available, the reason as the part `notice`."""
        try:
            return {"notice": "", **self.parts()}
        except HeadraceError as error:
            return {"notice": self._renderer.render("parts/notice.html", notice=error)}


class OverviewView(View):
    """The flow from HTTP to the lake, its latencies and its queries."""

    page = "overview.html"
    section = "overview"

    def __init__(self, renderer: Renderer, services: QueryServices, live: LiveFlow) -> None:
        super().__init__(renderer)
        self._services = services
        self._live = live
        self._topics: dict[str, TopicDescription] = {}
        self._charted_until = 0.0

    def context(self) -> dict[str, object]:
        sample = self._live.latest()
        flow = sample.snapshot
        return {
            # Shown above the last known counts: why they are not up to date.
            "notice": self._read_topics() or self._live.trouble or _problem(flow),
            "flow": flow,
            "rates": sample.rates,
            "topics": self._topics,
            "names": self._services.flow.names,
            "waiting_for_avro": max(0, flow.accepted - flow.avro - flow.dead_letters),
            "waiting_for_lake": max(0, flow.avro - flow.lake),
        }

    def parts(self) -> dict[str, str]:
        context = self.context()
        parts = {name: self._renderer.render(f"parts/{name}.html", **context) for name in OVERVIEW_PARTS}
        return {**parts, "chart": self._chart()}

    def _read_topics(self) -> HeadraceError | None:
        try:
            self._topics = {topic.name: topic for topic in self._services.topics.topics()}
        except HeadraceError as error:
            return error
        return None

    def _chart(self) -> str:
        """All samples for a page that has none yet, later only new ones."""
        samples = [sample for sample in self._live.history.samples if sample.at > self._charted_until]
        reset = self._charted_until == 0.0
        if samples:
            self._charted_until = samples[-1].at
        rates = self._live.latest().rates
        moving = {
            "log": rates.accepted,
            "avro": rates.avro,
            "dead_letters": rates.dead_letters,
            "lake": rates.lake,
        }
        return json.dumps(
            {"reset": reset, "points": [_chart_point(sample) for sample in samples], "moving": moving}
        )


def _problem(flow: FlowSnapshot) -> HeadraceError | None:
    return HeadraceError("log_unavailable", flow.problem) if flow.problem else None


def _chart_point(sample: FlowSample) -> list[float | None]:
    latency = sample.snapshot.avro_latency
    known = sample.rates is not UNKNOWN_RATES
    accepted, avro = (sample.rates.accepted, sample.rates.avro) if known else (None, None)
    return [sample.at, accepted, avro, latency.p50, latency.p99]


class TopicsView(View):
    """All topics with their partitions and offsets; internal ones last."""

    page = "topics.html"
    section = "topics"

    def __init__(self, renderer: Renderer, services: QueryServices) -> None:
        super().__init__(renderer)
        self._services = services

    def context(self) -> dict[str, object]:
        topics = sorted(
            self._services.topics.topics(), key=lambda topic: (topic.name.startswith("_"), topic.name)
        )
        return {"topics": topics}

    def parts(self) -> dict[str, str]:
        return {"topics": self._renderer.render("parts/topics.html", **self.context())}


class TopicView(View):
    """One topic: its partitions, and its newest messages, decoded."""

    page = "topic.html"
    section = "topics"

    def __init__(self, renderer: Renderer, services: QueryServices, name: str) -> None:
        super().__init__(renderer)
        self._services = services
        self._name = name
        self._seen: TopicDescription | None = None
        self._messages: list[Message] = []

    def context(self) -> dict[str, object]:
        topic = next((topic for topic in self._services.topics.topics() if topic.name == self._name), None)
        if topic is None:
            raise HeadraceError(
                "no_such_topic",
                f"There is no topic `{self._name}`.",
                remedy="See the list of topics; a topic is created by its first event.",
            )
        if topic != self._seen:  # reading messages costs far more than getting offsets
            self._messages = self._services.topics.newest(self._name, NEWEST_MESSAGES)
            self._seen = topic
        return {
            "topic": topic,
            "total_bytes": total_bytes(topic),
            "messages": self._messages,
            "limit": NEWEST_MESSAGES,
        }

    def parts(self) -> dict[str, str]:
        context = self.context()
        return {
            name: self._renderer.render(f"parts/{name}.html", **context)
            for name in ("partitions", "messages")
        }
