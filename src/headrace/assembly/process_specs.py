"""The processes of the platform, as data: the only list of them.

Invariants: `needs` names what must be ready before a process starts, `drains_after` what must be gone before
it is asked to end; neither has cycles. Never starts anything: that is the supervisor's job.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.core.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """One process: what it needs, the settings that hold its ports, how long it may take."""

    name: str
    # `run_process` imports it and calls its `run(settings) -> int`.
    module: str
    needs: tuple[str, ...] = ()
    drains_after: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    # From the start of the process until it announces `ready`; after that it counts as failed.
    start_seconds: float = 120.0
    # From SIGTERM until SIGKILL of its whole family, and the setting (in milliseconds) that extends it.
    grace_seconds: float = 15.0
    grace_setting: str = ""
    # Without it the platform is of no use: if it cannot start, the start is abandoned.
    essential: bool = False
    # It gives a sign of life every second; without one for this long it does not answer. 0: it gives none.
    silent_seconds: float = 0.0
    # Longest pause before a restart.
    longest_delay: float = 10.0

    def grace(self, settings: Settings) -> float:
        """How many seconds it may take to drain."""
        longer: int = getattr(settings, self.grace_setting) if self.grace_setting else 0
        return self.grace_seconds + longer / 1000


# Longer than a busy machine or a full garbage collection delays a sign of life.
_SILENT_SECONDS: Final = 15.0

PROCESSES: Final[tuple[ProcessSpec, ...]] = (
    ProcessSpec(
        name="log",
        module="headrace.assembly.processes.log",
        drains_after=("ingest", "pipeline", "connect", "query", "gateway"),
        ports=("kafka_port",),
        # The first start may download Java artifacts; a stop closes the logs of all brokers.
        start_seconds=600.0,
        grace_seconds=60.0,
        essential=True,
        silent_seconds=_SILENT_SECONDS,
    ),
    ProcessSpec(
        name="ingest",
        module="headrace.assembly.processes.ingest",
        needs=("log",),
        ports=("ingest_port",),
        # Requests in progress wait for the log this long.
        grace_setting="ingest_timeout_ms",
        silent_seconds=_SILENT_SECONDS,
    ),
    ProcessSpec(
        name="gateway",
        module="headrace.assembly.processes.gateway",
        needs=("log",),
        # The pipeline uses the registry until its last record is written.
        drains_after=("ingest", "pipeline"),
        ports=("registry_port", "statements_port", "console_port"),
        silent_seconds=_SILENT_SECONDS,
    ),
    ProcessSpec(
        # Apart from the gateway: whatever a question does, registry, statements and console answer.
        name="query",
        module="headrace.assembly.processes.query",
        needs=("log",),
        drains_after=("ingest",),
        ports=("query_port", "postgres_port"),
        silent_seconds=_SILENT_SECONDS,
    ),
    ProcessSpec(
        # Apart from the gateway: a connector that takes all memory or all threads takes nothing else with it.
        name="connect",
        module="headrace.assembly.processes.connect",
        needs=("log",),
        ports=("connect_port", "connect_second_port"),
        # Tasks have some seconds for stopping, and the answers in progress some more.
        grace_seconds=20.0,
        silent_seconds=_SILENT_SECONDS,
    ),
    ProcessSpec(
        name="pipeline",
        module="headrace.assembly.processes.pipeline",
        # Not ingest: what is in the log is processed while nothing new arrives.
        needs=("log", "gateway"),
        drains_after=("ingest",),
        start_seconds=600.0,
        grace_seconds=60.0,
        # Starting it takes most of a small machine for some seconds.
        longest_delay=60.0,
        silent_seconds=_SILENT_SECONDS,
    ),
)
