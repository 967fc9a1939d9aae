"""The demo: the whole platform with traffic on it, and an account of what became of every event.

The figures cover this run: what the data folder contained before is subtracted. `accepted` is what the log
accepted during the run, from the demo and anybody else; the figures for Avro, dead letters and the lake count
records and rows. At the end everything is reconciled, including what the data folder contained before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

import httpx

from headrace.assembly.demo_traffic import Traffic, marketplace_traffic
from headrace.assembly.reconciliation import Reconciliation
from headrace.client.cluster import Cluster
from headrace.client.message_sizes import event_topic_config
from headrace.core.errors import HeadraceError
from headrace.core.settings import Settings
from headrace.pipeline import marketplace
from headrace.query.sql import LakeQuery, QueryResult
from headrace.reconcile.findings import Finding

PARTITIONS: Final = 4
TODAY_AGAINST_YESTERDAY: Final = """
SELECT SERVER_DATE AS day, count(*) AS views FROM events
WHERE EVENT_TYPE = 'ListingView'
  AND SERVER_DATE IN (CAST(current_date AS VARCHAR), CAST(current_date - 1 AS VARCHAR))
GROUP BY SERVER_DATE ORDER BY SERVER_DATE DESC
"""
_LOOK_SECONDS: Final = 0.5
# The first rows reach the lake once the JVM has compiled its way through a batch, which takes a while on a
# slow machine.
_DRAIN_SECONDS: Final = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """How far events have got, and how fast."""

    accepted: int
    avro: int
    dead_letters: int
    lake: int
    # Over the last minute; `overall` covers the whole run. None if nothing has been measured yet.
    latency_ms: dict[str, float | None]
    avro_latency_ms: dict[str, float | None]
    overall_latency_ms: dict[str, float | None]

    def since(self, earlier: Flow) -> Flow:
        return Flow(
            accepted=self.accepted - earlier.accepted,
            avro=self.avro - earlier.avro,
            dead_letters=self.dead_letters - earlier.dead_letters,
            lake=self.lake - earlier.lake,
            latency_ms=self.latency_ms,
            avro_latency_ms=self.avro_latency_ms,
            overall_latency_ms=self.overall_latency_ms,
        )

    @property
    def is_drained(self) -> bool:
        return self.accepted == self.avro + self.dead_letters and self.avro == self.lake


FlowListener = Callable[[Flow], None]


def make_pipeline(settings: Settings) -> None:
    """Create the topic with its partitions, run the example's statements and create its connector; whatever
    exists is kept.
    """
    config = event_topic_config(settings.max_event_bytes)
    Cluster(settings.bootstrap).create_topic(settings.events_topic, partitions=PARTITIONS, config=config)
    answer = httpx.post(
        f"http://{settings.host}:{settings.statements_port}/ksql",
        json={"ksql": marketplace.statements(settings.events_topic)},
        timeout=60,
        trust_env=False,
    )
    if answer.status_code != httpx.codes.OK:
        raise HeadraceError("process_failed", f"The example's statements failed: {answer.text}")
    make_connector(settings)


def make_connector(settings: Settings) -> None:
    """Create the example's connector, or change it to what it should be."""
    connector = marketplace.connector(settings.events_topic)
    answer = httpx.put(
        f"http://{settings.host}:{settings.connect_port}/connectors/{connector['name']}/config",
        json=connector["config"],
        timeout=60,
        trust_env=False,
    )
    if answer.status_code not in (httpx.codes.OK, httpx.codes.CREATED):
        raise HeadraceError("process_failed", f"The example's connector was refused: {answer.text}")


class Demo:
    """One run of the demo on a platform that is up."""

    def __init__(self, settings: Settings, *, events_per_second: int, on_flow: FlowListener) -> None:
        self._settings = settings
        self._on_flow = on_flow
        self._client = httpx.Client(
            base_url=f"http://{settings.host}:{settings.console_port}", timeout=30, trust_env=False
        )
        self._before: Flow | None = None
        self.traffic: Traffic = marketplace_traffic(
            host=settings.host, port=settings.ingest_port, events_per_second=events_per_second
        )

    def begin(self) -> None:
        """Create topic and queries, wait until all that existed before is counted, start the traffic."""
        make_pipeline(self._settings)
        before = self._wait_drained(lambda flow: flow)
        self._before = before
        self.traffic.start()

    def run(self, *, seconds: float | None, stopping: Callable[[], bool]) -> None:
        """Watch until the time is up or somebody says stop."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while not stopping() and (deadline is None or time.monotonic() < deadline):
            self._on_flow(self._flow())
            time.sleep(_LOOK_SECONDS)

    def finish(self) -> Flow:
        """Stop the traffic, wait until every event has arrived, and return the final count."""
        self.traffic.stop()
        final = self._wait_drained(self._since_begin)
        if final.accepted < self.traffic.posted:
            raise HeadraceError(
                "process_failed",
                f"{self.traffic.posted} events have receipts but the log took {final.accepted} in this run.",
            )
        return final

    def reconcile(self) -> list[Finding]:
        """What every query and the lake made of the events."""
        return list(Reconciliation(self._settings).run(is_full=False))

    def answer(self) -> QueryResult:
        """Clicks on ListingView, today against yesterday."""
        with closing(LakeQuery(self._settings.lake_dir)) as lake:
            return lake.run(TODAY_AGAINST_YESTERDAY)

    def close(self) -> None:
        self._client.close()

    def _wait_drained(self, view: Callable[[Flow], Flow]) -> Flow:
        """The flow once nothing is in progress. It must look the same twice, because the counts are not taken
        at the same moment.
        """
        deadline = time.monotonic() + _DRAIN_SECONDS
        last: Flow | None = None
        while True:
            flow = view(self._read())
            self._on_flow(flow)
            if flow.is_drained and last is not None and last.is_drained and last.accepted == flow.accepted:
                return flow
            if time.monotonic() > deadline:
                raise HeadraceError(
                    "process_failed",
                    f"Not all events are in the lake after {_DRAIN_SECONDS:.0f} s: "
                    f"{flow.accepted} accepted, {flow.avro} in Avro, {flow.dead_letters} dead letters, "
                    f"{flow.lake} in the lake.",
                    remedy=f"See {self._settings.log_dir}/pipeline.log.",
                )
            last = flow
            time.sleep(_LOOK_SECONDS)

    def _flow(self) -> Flow:
        return self._since_begin(self._read())

    def _since_begin(self, flow: Flow) -> Flow:
        return flow if self._before is None else flow.since(self._before)

    def _read(self) -> Flow:
        response = self._client.get("/flow")
        response.raise_for_status()
        content: dict[str, Any] = response.json()
        return Flow(
            accepted=content["accepted"],
            avro=content["avro"],
            dead_letters=content["dead_letters"],
            lake=content["lake"],
            latency_ms=content["latency_ms"],
            avro_latency_ms=content["avro_latency_ms"],
            overall_latency_ms=content["overall_latency_ms"],
        )
