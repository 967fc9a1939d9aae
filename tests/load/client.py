"""What all clients of the load share: their plan, their history, and how long they live.

A client is a process, so that it can be killed: `python -m tests.load.<kind> '<plan as JSON>'`. It ends in
good order at SIGTERM, and by itself when the process that started it is gone. Its history is on disk before
each call.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec
from confluent_kafka import KafkaError, KafkaException

from headrace.testing.history import ClientFailed, HistoryWriter

# A broker that was killed is back within seconds; whatever waits longer than this has found a fault.
PATIENCE_SECONDS = 60.0
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPlan:
    """Which client to be. `name` is new for every process, `slot` is what a successor takes over."""

    kind: str
    slot: str
    name: str
    bootstrap: str
    topic: str
    partitions: int
    history: str
    seed: int
    rate: float
    parent: int
    idempotent: bool = True
    read_committed: bool = True
    group: str | None = None
    protocol: str = "assigned"
    transaction_timeout_ms: int = 10_000


class GaveUp(Exception):  # noqa: N818 - not an error of the client's, but what it found
    """The client cannot go on; a successor takes its slot."""


class Life:
    """The plan of this process and its way of ending."""

    def __init__(self, plan: ClientPlan, history: HistoryWriter) -> None:
        self.plan = plan
        self.history = history
        self.random = Random(plan.seed)
        self._told_to_stop = False
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def goes_on(self) -> bool:
        return not self._told_to_stop and not self.orphaned()

    def orphaned(self) -> bool:
        return os.getppid() != self.plan.parent

    def settings(self, **more: Any) -> dict[str, Any]:
        """What every client of librdkafka is set to here: quick to come back."""
        return {
            "bootstrap.servers": self.plan.bootstrap,
            "client.id": self.plan.name,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 200,
            "log_level": 0,
            "allow.auto.create.topics": False,
        } | {name.replace("_", "."): value for name, value in more.items()}

    def complain(self, error: KafkaError | str, *, fatal: bool) -> None:
        text = error if isinstance(error, str) else f"{error.name()}: {error.str()}"
        self.history.write(
            ClientFailed(client=self.plan.name, error=f"{self.plan.kind}: {text}", fatal=fatal)
        )

    def _stop(self, *_arguments: object) -> None:
        self._told_to_stop = True


def error_of(exception: KafkaException) -> KafkaError:
    error: KafkaError = exception.args[0]
    return error


def main(run: Callable[[Life], None]) -> None:
    plan = msgspec.json.decode(sys.argv[1], type=ClientPlan)
    if sys.platform == "linux":
        # A frozen process cannot see that it is alone.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    with HistoryWriter(plan.history) as history:
        life = Life(plan, history)
        try:
            run(life)
        except GaveUp as reason:
            life.complain(str(reason), fatal=True)
            sys.exit(3)
        except KafkaException as exception:
            life.complain(error_of(exception), fatal=True)
            sys.exit(3)
