"""Runs the load: broker and clients are killed and started again; in the end everything is read.

Invariants: everything is on the loopback and below one folder; `run` leaves no process behind, however it
ends; what happens when is decided by the seed, though not how fast the machine is. Bounded: in time by the
plan, in records by the clients' rates. Never judges: it gives a history.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import msgspec
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing.history import ClientFailed, Event, HistoryWriter, now
from tests.broker.broker_process import BrokerProcess
from tests.load.client import ClientPlan
from tests.load.final_reads import read_everything

ROOT = Path(__file__).parents[2]
TOPIC = "mixed"
WORK_SECONDS = 180.0
STOP_SECONDS = 120.0
# What a client's history must hold before it counts as working.
WORK = {
    "producing": (b'"send acknowledged"',),
    "transacting": (b'"outcome":"committed"', b'"transaction ended"'),
    "consuming": (b'"polled"',),
}
Range = tuple[float, float]

# What ends a client in the course of things. A successor has shut it out, or the timeout of its
# transaction. Or the broker died before it knew of the transaction, which librdkafka aborts all the same:
# Kafka has the same answer.
EXPECTED_ENDS = ("transacting: _FENCED", "transacting: INVALID_TXN_STATE")


def unexpected_ends(history: Iterable[Event]) -> list[ClientFailed]:
    """Clients that gave up although a broker that comes back, and never forgets, gave them no reason to."""
    return [
        each
        for each in history
        if isinstance(each, ClientFailed) and each.fatal and not each.error.startswith(EXPECTED_ENDS)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A client that is succeeded when it dies."""

    name: str
    kind: str
    idempotent: bool = True
    read_committed: bool = True
    group: str | None = None
    protocol: str = "assigned"


PRODUCERS = (
    Slot(name="idempotent-1", kind="producing"),
    Slot(name="idempotent-2", kind="producing"),
    Slot(name="plain-1", kind="producing", idempotent=False),
)
READERS = (
    Slot(name="reader-committed", kind="consuming"),
    Slot(name="reader-uncommitted", kind="consuming", read_committed=False),
)
TRANSACTIONS = tuple(
    Slot(name=f"transactional-{number}", kind="transacting", group=f"bookkeeping-{number}")
    for number in (1, 2, 3)
)
GROUPS = (
    *(Slot(name=f"classic-{n}", kind="consuming", group="classic", protocol="classic") for n in (1, 2)),
    *(
        Slot(
            name=f"cooperative-{n}",
            kind="consuming",
            group="cooperative",
            protocol="cooperative",
            read_committed=False,
        )
        for n in (1, 2)
    ),
    *(Slot(name=f"consumer-{n}", kind="consuming", group="consumer", protocol="consumer") for n in (1, 2)),
)
EVERYBODY = (*PRODUCERS, *TRANSACTIONS, *READERS, *GROUPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """How long, how much, and how often something is killed."""

    seconds: float
    seed: int
    # It goes on for longer if the broker, or clients, were killed less often than this.
    fewest_kills: int = 0
    slots: tuple[Slot, ...] = EVERYBODY
    partitions: int = 4
    rate: float = 60.0
    # Often again before it has come to itself, often so late that sessions of dead members end in between:
    # a broker that starts gives every member that it knows a whole session again, as Kafka does.
    kill_broker_every: tuple[Range, ...] = ((0.5, 3.0), (5.0, 10.0))
    kill_client_every: Range = (2.0, 8.0)
    freeze_client_every: Range = (4.0, 12.0)
    freeze_seconds: Range = (1.0, 14.0)
    transaction_timeout_ms: int = 10_000
    fsync: str = "os"

    @property
    def groups(self) -> list[str]:
        return sorted({each.group for each in self.slots if each.group is not None})


@dataclass(slots=True)
class Seat:
    """A slot and the process that has it."""

    slot: Slot
    process: subprocess.Popen[bytes] | None = None
    lives: int = 0


@dataclass(slots=True)
class Zombie:
    """A client that was frozen and succeeded. When it thaws it does not know; later it is told to stop."""

    process: subprocess.Popen[bytes]
    thaws: float
    stops: float
    frozen: bool = True


@dataclass
class MixedLoad:
    folder: Path
    plan: LoadPlan
    broker_kills: int = 0
    client_kills: int = 0
    client_freezes: int = 0
    _zombies: list[Zombie] = field(default_factory=list)
    _seats: list[Seat] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = Random(self.plan.seed)
        self._histories = self.folder / "history"
        self._histories.mkdir(parents=True)
        self._history = HistoryWriter(self._histories / "run.jsonl")
        # Small segments, so that kills meet rolls, indexes and snapshots; few partitions of internal topics
        # and short timeouts, so that a run of seconds meets what takes an hour otherwise.
        self._broker = BrokerProcess(
            self.folder / "broker",
            arguments=[
                *("--fsync", self.plan.fsync),
                *("--set", "log.segment.bytes=1048576"),
                *("--set", "offsets.topic.num.partitions=4"),
                *("--set", "transaction.state.log.num.partitions=4"),
                *("--set", "group.initial.rebalance.delay.ms=100"),
                *("--set", "group.min.session.timeout.ms=1000"),
                *("--set", "group.consumer.min.session.timeout.ms=1000"),
                *("--set", "group.consumer.session.timeout.ms=3000"),
                *("--set", "group.consumer.min.heartbeat.interval.ms=200"),
                *("--set", "group.consumer.heartbeat.interval.ms=300"),
                *("--set", "transaction.abort.timed.out.transaction.cleanup.interval.ms=1000"),
            ],
        )

    @property
    def history_files(self) -> list[Path]:
        return sorted(self._histories.glob("*.jsonl"))

    def run(self) -> None:
        try:
            self._broker.start()
            self._create_topic()
            self._seats = [Seat(slot) for slot in self.plan.slots]
            self._seat_everybody()
            self._wait_for_everybody()
            self._make_trouble(time.monotonic() + self.plan.seconds)
            self._end_zombies()
            self._wait_for_everybody()
            self._stop_clients()
            for _ in range(2):
                self._read_everything()
                # What the log says must not depend on the process that says it.
                self._broker.kill()
                self._broker.start()
        finally:
            self._kill_everything()
            self._history.close()

    def _wait_for_everybody(self) -> None:
        """Until every client has done what it is there for: nothing is killed meanwhile, so it must come."""
        deadline = time.monotonic() + WORK_SECONDS
        marks = {seat.slot.name: self._written(seat) for seat in self._seats}
        while idle := [seat for seat in self._seats if not self._works(seat, marks[seat.slot.name])]:
            if time.monotonic() > deadline:
                for seat in idle:
                    name = f"{seat.slot.name}.{seat.lives}"
                    error = f"{seat.slot.kind}: nothing done in {WORK_SECONDS:g} s without any trouble"
                    self._history.write(ClientFailed(client=name, error=error))
                return
            self._seat_everybody()
            time.sleep(0.1)

    def _written(self, seat: Seat) -> tuple[int, int]:
        """The life that has this seat, and how much it has written down."""
        path = self._history_of(seat)
        return seat.lives, path.stat().st_size if path.exists() else 0

    def _works(self, seat: Seat, mark: tuple[int, int]) -> bool:
        """Whether it has done all its work since the mark."""
        path = self._history_of(seat)
        if not path.exists():
            return False
        needed = WORK[seat.slot.kind]
        if seat.slot.kind == "consuming" and seat.slot.group is not None:
            needed = (*needed, b'"offset commit ended"')
        with path.open("rb") as file:
            file.seek(mark[1] if mark[0] == seat.lives else 0)
            written = file.read()
        return all(each in written for each in needed)

    def _history_of(self, seat: Seat) -> Path:
        return self._histories / f"{seat.slot.name}.{seat.lives}.jsonl"

    def _make_trouble(self, end: float) -> None:
        next_freeze = self._soon(self.plan.freeze_client_every)
        next_broker = self._soon(*self.plan.kill_broker_every)
        next_client = self._soon(self.plan.kill_client_every)
        while time.monotonic() < end or min(self.broker_kills, self.client_kills) < self.plan.fewest_kills:
            self._seat_everybody()
            time.sleep(0.05)
            if time.monotonic() >= next_broker:
                self._broker.kill()
                self.broker_kills += 1
                self._note("the broker was killed")
                time.sleep(self._random.choice([0.0, 0.0, 0.5, 1.5]))
                self._broker.start()
                self._note("the broker serves again")
                next_broker = self._soon(*self.plan.kill_broker_every)
            if time.monotonic() >= next_client:
                self._kill_a_client()
                next_client = self._soon(self.plan.kill_client_every)
            if time.monotonic() >= next_freeze:
                self._freeze_a_client()
                next_freeze = self._soon(self.plan.freeze_client_every)
            self._wake_zombies()
        # Who died last has a successor, who ends what was left open.
        self._seat_everybody()

    def _seat_everybody(self) -> None:
        for seat in self._seats:
            if seat.process is None or seat.process.poll() is not None:
                seat.lives += 1
                seat.process = self._start(seat)

    def _start(self, seat: Seat) -> subprocess.Popen[bytes]:
        slot = seat.slot
        name = f"{slot.name}.{seat.lives}"
        plan = ClientPlan(
            kind=slot.kind,
            slot=slot.name,
            name=name,
            bootstrap=self._broker.bootstrap,
            topic=TOPIC,
            partitions=self.plan.partitions,
            history=str(self._history_of(seat)),
            seed=self._random.randrange(2**32),
            rate=self.plan.rate,
            parent=os.getpid(),
            idempotent=slot.idempotent,
            read_committed=slot.read_committed,
            group=slot.group,
            protocol=slot.protocol,
            transaction_timeout_ms=self.plan.transaction_timeout_ms,
        )
        command = [sys.executable, "-m", f"tests.load.{slot.kind}", msgspec.json.encode(plan).decode()]
        return subprocess.Popen(command, cwd=ROOT)

    def _kill_a_client(self) -> None:
        seat = self._random.choice(self._seats)
        if seat.process is not None and seat.process.poll() is None:
            seat.process.kill()
            seat.process.wait()
            self.client_kills += 1
            self._note(f"{seat.slot.name}.{seat.lives} was killed")

    def _freeze_a_client(self) -> None:
        seat = self._random.choice(self._seats)
        if seat.process is None or seat.process.poll() is not None:
            return
        seat.process.send_signal(signal.SIGSTOP)
        thaws = self._soon(self.plan.freeze_seconds)
        self._zombies.append(Zombie(seat.process, thaws, thaws + self._random.uniform(0.5, 5.0)))
        seat.process = None
        self.client_freezes += 1
        self._note(f"{seat.slot.name}.{seat.lives} was frozen")

    def _wake_zombies(self) -> None:
        for zombie in self._zombies:
            if zombie.frozen and time.monotonic() >= zombie.thaws:
                zombie.process.send_signal(signal.SIGCONT)
                zombie.frozen = False
            if time.monotonic() >= zombie.stops:
                zombie.process.send_signal(signal.SIGTERM)

    def _note(self, what: str) -> None:
        """For who looks for the reason of an anomaly: in the history's time."""
        with (self.folder / "trouble.txt").open("a") as file:
            file.write(f"{now()} {what}\n")

    def _end_zombies(self) -> None:
        self._stop({f"a frozen client, {number}": each.process for number, each in enumerate(self._zombies)})
        self._zombies = []

    def _stop_clients(self) -> None:
        self._stop({f"{seat.slot.name}.{seat.lives}": seat.process for seat in self._seats if seat.process})

    def _stop(self, processes: dict[str, subprocess.Popen[bytes]]) -> None:
        """In good order, those that are frozen too; who does not stop is killed, and that is written down."""
        for process in processes.values():
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        for name, process in processes.items():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self._history.write(ClientFailed(client=name, error="did not stop"))
                process.kill()
                process.wait()

    def _create_topic(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._broker.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, self.plan.partitions, 1)])[TOPIC].result(120)

    def _read_everything(self) -> None:
        read_everything(
            self._history,
            self._broker.bootstrap,
            TOPIC,
            self.plan.partitions,
            self.plan.groups,
            settle_seconds=self.plan.transaction_timeout_ms / 1000 + 20,
        )

    def _kill_everything(self) -> None:
        zombies = [each.process for each in self._zombies]
        for process in (*zombies, *(seat.process for seat in self._seats)):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        self._broker.end()

    def _soon(self, *ranges: Range) -> float:
        return time.monotonic() + self._random.uniform(*self._random.choice(ranges))
