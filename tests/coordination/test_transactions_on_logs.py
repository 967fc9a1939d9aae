"""Coordinator and logs together, under random requests, timeouts, stops and everything that comes late.

The model knows of each value which transaction it is in and how that was decided. Markers are written one
by one, in any order, and again after a stop. Whatever happens: readers of committed records see what was
committed and nothing else, and when all is decided nothing holds them back.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from kio.schema.errors import ErrorCode

from headrace.coordination.decision import TimerKey
from headrace.coordination.transactions.requests import EndTransaction, Markers
from headrace.coordination.transactions.states import State
from headrace.log.config import LogConfig
from headrace.log.errors import InvalidProducerEpochError, ProducerError
from headrace.log.partition.partition_log import PartitionLog
from headrace.testing.faulty_filesystem import FaultyFileSystem
from tests.coordination.transaction_runtime import P0, P1, TIMEOUT_MS, Runtime
from tests.log.batches import NOW, open_folder
from tests.log.transactional import committed_records, end, transactional_batch

NONE = ErrorCode.none
CONFIG = LogConfig(segment_bytes=600)
IDS = ("a", "b")
PLACES = (P0, P1)
CLIENTS = st.integers(0, 5)


@dataclass(slots=True)
class Client:
    """A producer as it sees itself. A fenced one continues until it is told."""

    transactional_id: str
    version: int
    producer: tuple[int, int]
    sequences: dict[int, int] = field(default_factory=dict)
    added: set[int] = field(default_factory=set)
    alive: bool = True

    def follows(self, producer: tuple[int, int]) -> None:
        if producer != self.producer:
            self.producer = producer
            self.sequences.clear()
        self.added.clear()


class TransactionsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp())
        self.disk = FaultyFileSystem()
        self.folder = open_folder(self.path, CONFIG, filesystem=self.disk)
        self.folder.create_topic("events", 2, {}, CONFIG)
        self.runtime = Runtime()
        self.coordinator_epoch = 0
        self.clients: list[Client] = []
        # Values by partition in the order of the log; values by id in the transaction that is open.
        self.written: list[list[tuple[int, bytes]]] = [[], []]
        self.open: dict[str, set[bytes]] = {name: set() for name in IDS}
        self.committed: set[bytes] = set()
        self.decided: dict[str, bool] = {}
        self.marked: dict[str, set[int]] = {name: set() for name in IDS}
        self.old_ends: list[EndTransaction] = []
        self.old_markers: list[Markers] = []
        self.count = 0

    def logs(self) -> list[PartitionLog]:
        return self.folder.topics["events"].partitions

    def teardown(self) -> None:
        self.runtime.advance(2 * TIMEOUT_MS)
        self.note_decisions()
        for name in IDS:
            for number in range(2):
                self.write_marker(name, number)
        for number, log in enumerate(self.logs()):
            assert log.last_stable_offset == log.end_offset
            values = [value for _, value in self.written[number] if value in self.committed]
            assert [value for _, value in committed_records(log)] == values
        self.folder.close()
        shutil.rmtree(self.path)

    def note_decisions(self) -> None:
        """Apply decisions since the last step to the open values."""
        for name in IDS:
            transaction = self.runtime.machine.get(name)
            if transaction is not None and transaction.state in (State.PREPARE_COMMIT, State.PREPARE_ABORT):
                if name not in self.decided:
                    self.decided[name] = transaction.state is State.PREPARE_COMMIT
                if self.decided[name]:
                    self.committed |= self.open[name]
                self.open[name].clear()

    @initialize()
    def first(self) -> None:
        self.init("a", 2)
        self.init("b", 1)

    # Producers

    @rule(name=st.sampled_from(IDS), version=st.sampled_from([1, 2]))
    def init(self, name: str, version: int) -> None:
        reply = self.runtime.init(name)
        self.note_decisions()
        if reply.error is NONE:
            self.clients.append(Client(name, version, (reply.producer_id, reply.producer_epoch)))
        else:
            assert reply.error is ErrorCode.concurrent_transactions

    @rule(number=CLIENTS)
    def go_on(self, number: int) -> None:
        """KIP-360: after an error the producer asks for a new epoch."""
        client = self.client(number)
        if client is None:
            return
        before = self.runtime.machine.get(client.transactional_id)
        reply = self.runtime.init(client.transactional_id, producer=client.producer)
        if reply.error is NONE:
            client.follows((reply.producer_id, reply.producer_epoch))
        elif reply.error is ErrorCode.producer_fenced:
            client.alive = False
            assert self.runtime.machine.get(client.transactional_id) == before
        self.note_decisions()

    def client(self, number: int) -> Client | None:
        alive = [client for client in self.clients if client.alive]
        return alive[-1 - number] if number < len(alive) else None

    @rule(number=CLIENTS, place=st.integers(0, 1))
    def produce(self, number: int, place: int) -> None:
        client = self.client(number)
        if client is None:
            return
        log = self.logs()[place]
        sequence = client.sequences.get(place, 0)
        producer_id, epoch = client.producer
        bump = client.version == 2
        if not bump and place not in client.added:
            if not self.add(client, place):
                return
            client.added.add(place)
        try:
            guard = log.begin_verification(
                producer_id, sequence, epoch, epoch_bump=bump, now_ms=self.runtime.now_ms
            )
            if guard is not None and not self.add(client, place, verify_only=not bump):
                return
            self.count += 1
            value = b"%d" % self.count
            batch = transactional_batch(value, producer=producer_id, epoch=epoch, sequence=sequence)
            offset = log.append(batch, now_ms=NOW, permission=guard).base_offset
        except InvalidProducerEpochError:
            client.alive = False
            return
        client.sequences[place] = sequence + 1
        self.written[place].append((offset, value))
        transaction = self.runtime.machine.get(client.transactional_id)
        assert transaction is not None
        assert transaction.state in (State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT)
        assert PLACES[place] in transaction.partitions
        self.open[client.transactional_id].add(value)
        self.note_decisions()

    def add(self, client: Client, place: int, *, verify_only: bool = False) -> bool:
        reply = self.runtime.add(
            client.producer,
            [PLACES[place]],
            transactional_id=client.transactional_id,
            verify_only=verify_only,
            version=client.version if client.version == 2 else 0,
        )
        if reply.error in (ErrorCode.producer_fenced, ErrorCode.invalid_producer_id_mapping):
            client.alive = False
        return reply.error is NONE

    @rule(number=CLIENTS, committed=st.booleans())
    def end_transaction(self, number: int, committed: bool) -> None:
        client = self.client(number)
        if client is None:
            return
        version = client.version if client.version == 2 else 0
        asked = EndTransaction(
            transactional_id=client.transactional_id,
            producer_id=client.producer[0],
            producer_epoch=client.producer[1],
            committed=committed,
            client_version=version,
        )
        reply = self.runtime.end(
            client.producer, committed=committed, transactional_id=client.transactional_id, version=version
        )
        self.note_decisions()
        if reply.error is NONE:
            if version == 2:
                self.old_ends.append(asked)
                client.follows((reply.producer_id, reply.producer_epoch))
            else:
                client.follows(client.producer)
        elif reply.error is not ErrorCode.concurrent_transactions:
            client.alive = reply.error is ErrorCode.invalid_txn_state

    # Markers

    @rule(name=st.sampled_from(IDS), place=st.integers(0, 1))
    def write_marker(self, name: str, place: int) -> None:
        owed = self.runtime.machine.markers(name)
        if owed is None:
            return
        if PLACES[place] in owed.partitions:
            end(
                self.logs()[place],
                committed=owed.committed,
                producer=owed.producer_id,
                epoch=owed.producer_epoch,
                version=owed.client_version,
                coordinator_epoch=self.coordinator_epoch,
            )
        self.marked[name].add(place)
        if {PLACES.index(each) for each in owed.partitions} <= self.marked[name]:
            self.runtime.apply(self.runtime.machine.decide_complete(owed, now_ms=self.runtime.now_ms))
            self.marked[name].clear()
            del self.decided[name]
            if owed.client_version == 2:
                self.old_markers.append(owed)

    # What comes late

    @rule(data=st.data())
    def repeat_an_end(self, data: st.DataObject) -> None:
        if self.old_ends:
            asked = data.draw(st.sampled_from(self.old_ends))
            before = self.runtime.machine.get(asked.transactional_id)
            written = len(self.runtime.log)
            assert not self.runtime.machine.end_needs_producer_id(asked)
            self.runtime.apply(self.runtime.machine.decide_end(asked, now_ms=self.runtime.now_ms))
            assert (self.runtime.machine.get(asked.transactional_id), len(self.runtime.log)) == (
                before,
                written,
            )

    @rule(data=st.data(), place=st.integers(0, 1))
    def repeat_a_marker(self, data: st.DataObject, place: int) -> None:
        if self.old_markers:
            old = data.draw(st.sampled_from(self.old_markers))
            log = self.logs()[place]
            before = (dict(log.parts.producers.ongoing), committed_records(log))
            stable = log.last_stable_offset == log.end_offset
            with contextlib.suppress(ProducerError):
                end(
                    log,
                    committed=old.committed,
                    producer=old.producer_id,
                    epoch=old.producer_epoch,
                    version=2,
                    coordinator_epoch=self.coordinator_epoch,
                )
            assert (log.parts.producers.ongoing, committed_records(log)) == before
            assert (log.last_stable_offset == log.end_offset) == stable

    # Time and stops

    @rule(milliseconds=st.sampled_from([1, TIMEOUT_MS // 2, TIMEOUT_MS]))
    def pass_time(self, milliseconds: int) -> None:
        self.runtime.advance(milliseconds)
        self.note_decisions()

    @rule()
    def timer_that_is_late(self) -> None:
        for name in IDS:
            key: TimerKey = ("transactions", "timeout", name)
            self.runtime.apply(self.runtime.machine.timed_out(key, self.runtime.now_ms))
        self.note_decisions()

    @rule(how=st.sampled_from(["clean", "kill", "checkpoint and kill"]))
    def restart(self, how: str) -> None:
        if how == "clean":
            self.folder.close()
        else:
            if how != "kill":
                self.folder.checkpoint(NOW)
            self.disk = self.disk.kill()
        self.folder = open_folder(self.path, CONFIG, filesystem=self.disk)
        self.runtime.reload()
        self.coordinator_epoch += 1
        for marked in self.marked.values():
            marked.clear()

    # What must be true

    @invariant()
    def nothing_undecided_is_seen(self) -> None:
        for number, log in enumerate(self.logs()):
            stable = log.last_stable_offset
            undecided = set().union(*self.open.values())
            assert all(offset >= stable for offset, value in self.written[number] if value in undecided)
            visible = [
                (offset, value)
                for offset, value in self.written[number]
                if offset < stable and value in self.committed
            ]
            assert committed_records(log) == visible


TransactionsMachine.TestCase.settings = settings(
    max_examples=80, stateful_step_count=50, deadline=None, report_multiple_bugs=False
)
TestTransactionsOnLogs = TransactionsMachine.TestCase
