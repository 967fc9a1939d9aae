"""A log without faults, and clients that write down a history of it: what the checker must find nothing in.

It does what real ones do: writes in flight that are never answered, plain producers that repeat,
transactions that commit, abort, are abandoned or end nobody knows how, consumers of both isolation levels
that seek and are assigned anew, committed offsets inside and outside of transactions. `random` decides; the
first steps are always the same, so that every kind of event is there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from headrace.testing import history
from headrace.testing.history import Event

PARTITIONS = ("orders/0", "orders/1")
GROUP = "readers"


@dataclass
class Record:
    value: str | None  # None: a control record
    transaction: str | None = None


@dataclass
class SimulatedRun:
    random: Random
    events: list[Event] = field(default_factory=list)
    logs: dict[str, list[Record]] = field(default_factory=lambda: {each: [] for each in PARTITIONS})
    fates: dict[str, str] = field(default_factory=dict)  # of transactions: open, committed, aborted
    positions: dict[tuple[str, str], int] = field(default_factory=dict)
    committed_offsets: dict[str, int | None] = field(default_factory=lambda: dict.fromkeys(PARTITIONS))
    clock: int = 0
    numbers: int = 0

    def time(self) -> int:
        self.clock += 1
        return self.clock

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    # Producers

    def send(self, client: str, partition: str, *values: str, transaction: str | None = None) -> None:
        for value in values:
            self.events.append(
                history.SendInvoked(
                    client=client,
                    value=value,
                    partition=partition,
                    transaction=transaction,
                    time=self.time(),
                )
            )

    def append(self, partition: str, value: str, transaction: str | None = None) -> int:
        self.logs[partition].append(Record(value, transaction))
        return len(self.logs[partition]) - 1

    def acknowledge(self, client: str, partition: str, value: str, offset: int | None) -> None:
        self.events.append(
            history.SendAcknowledged(
                client=client, value=value, partition=partition, offset=offset, time=self.time()
            )
        )

    def write(
        self, client: str, count: int = 1, *, transaction: str | None = None, sure: bool = False
    ) -> None:
        """Several in flight at once, then their answers, or none."""
        partition = self.random.choice(PARTITIONS) if not sure else PARTITIONS[0]
        values = [f"{client}:{self.number()}" for _ in range(count)]
        self.send(client, partition, *values, transaction=transaction)
        for value in values:
            answer = (
                "acknowledged" if sure else self.random.choice(["acknowledged"] * 4 + ["lost", "refused"])
            )
            if transaction is not None and answer != "acknowledged":
                answer = "acknowledged"  # a commit would not succeed otherwise
            if answer == "refused":
                self.events.append(history.SendRefused(client=client, value=value, time=self.time()))
                continue
            if answer == "lost" and self.random.random() < 0.5:
                continue
            offset = self.append(partition, value, transaction)
            if client == "plain" and self.random.random() < 0.3:
                offset = self.append(partition, value)
            if answer == "acknowledged":
                told = None if not sure and self.random.random() < 0.1 else offset
                self.acknowledge(client, partition, value, told)
            else:
                self.events.append(history.SendUnknown(client=client, value=value, time=self.time()))

    def begin(self) -> str:
        name = f"transaction-{self.number()}"
        self.fates[name] = "open"
        self.events.append(
            history.TransactionBegun(client="transactional", transaction=name, time=self.time())
        )
        return name

    def end(self, name: str, *, commit: bool, told: bool = True, effect: bool = True) -> None:
        self.events.append(
            history.TransactionEnding(
                client="transactional", transaction=name, commit=commit, time=self.time()
            )
        )
        self.finish(name, commit=commit and effect)
        if told:
            outcome = "committed" if commit else "aborted"
            self.events.append(
                history.TransactionEnded(
                    client="transactional", transaction=name, outcome=outcome, time=self.time()
                )
            )

    def finish(self, name: str, *, commit: bool) -> None:
        """What the coordinator does: markers in every partition of the transaction."""
        self.fates[name] = "committed" if commit else "aborted"
        for log in self.logs.values():
            if any(each.transaction == name for each in log):
                log.append(Record(None))

    def transact(self) -> None:
        name = self.begin()
        for _ in range(self.random.randint(1, 3)):
            self.write("transactional", self.random.randint(1, 3), transaction=name)
        if self.random.random() < 0.5:
            self.write("plain")
            self.poll_all()
        how = self.random.choice(["commit", "commit", "abort", "abandon", "lost commit", "untold commit"])
        if how == "abandon":
            self.finish(name, commit=False)
        elif how in ("lost commit", "untold commit"):
            self.end(name, commit=True, told=False, effect=how == "untold commit")
        else:
            self.end(name, commit=how == "commit")

    # Consumers

    def visible(self, partition: str, *, read_committed: bool) -> list[tuple[int, str]]:
        log = self.logs[partition]
        found = []
        for offset, record in enumerate(log[: self.stable_end(partition) if read_committed else len(log)]):
            aborted = record.transaction is not None and self.fates[record.transaction] == "aborted"
            if record.value is not None and not (read_committed and aborted):
                found.append((offset, record.value))
        return found

    def stable_end(self, partition: str) -> int:
        log = self.logs[partition]
        for offset, record in enumerate(log):
            if record.transaction is not None and self.fates[record.transaction] == "open":
                return offset
        return len(log)

    def place(self, client: str, partition: str, offset: int, *, seek: bool) -> None:
        event = history.Sought if seek else history.Assigned
        self.positions[client, partition] = offset
        self.events.append(event(client=client, partition=partition, offset=offset, time=self.time()))

    def poll(self, client: str, partition: str, count: int) -> None:
        position = self.positions[client, partition]
        visible = self.visible(partition, read_committed=client == "committed")
        records = tuple(each for each in visible if each[0] >= position)[:count]
        if records:
            self.positions[client, partition] = records[-1][0] + 1
            self.events.append(
                history.Polled(client=client, partition=partition, records=records, time=self.time())
            )

    def poll_all(self) -> None:
        for client, partition in list(self.positions):
            self.poll(client, partition, 1000)

    # Committed offsets

    def commit(self, offset: int, *, how: str = "committed", transaction: str | None = None) -> None:
        partition = PARTITIONS[0]
        name = f"commit-{self.number()}"
        self.events.append(
            history.OffsetCommitInvoked(
                client="committed",
                group=GROUP,
                commit=name,
                offsets={partition: offset},
                transaction=transaction,
                time=self.time(),
            )
        )
        if transaction is None and (how == "committed" or (how == "unknown" and self.random.random() < 0.5)):
            self.committed_offsets[partition] = offset
        self.events.append(
            history.OffsetCommitEnded(client="committed", commit=name, outcome=how, time=self.time())
        )

    def commit_in_transaction(self, offset: int, *, commit: bool) -> None:
        name = self.begin()
        self.commit(offset, transaction=name)
        self.read_offsets()
        self.end(name, commit=commit)
        if commit:
            self.committed_offsets[PARTITIONS[0]] = offset
        self.read_offsets()

    def read_offsets(self) -> None:
        asked = self.time()
        self.events.append(
            history.CommittedOffsetsRead(
                client="committed",
                group=GROUP,
                offsets=dict(self.committed_offsets),
                asked=asked,
                time=self.time(),
            )
        )

    # The run

    def start(self) -> None:
        for client, idempotent in (("idempotent", True), ("plain", False), ("transactional", True)):
            self.events.append(
                history.ProducerStarted(client=client, idempotent=idempotent, time=self.time())
            )
        for client in ("committed", "uncommitted"):
            self.events.append(
                history.ConsumerStarted(client=client, read_committed=client == "committed", time=self.time())
            )
            for partition in PARTITIONS:
                self.place(client, partition, 0, seek=False)
        self.read_offsets()
        self.write("idempotent", 4, sure=True)
        name = self.begin()
        self.write("transactional", 3, transaction=name, sure=True)
        self.end(name, commit=True)
        name = self.begin()
        self.write("transactional", 2, transaction=name, sure=True)
        self.end(name, commit=False)
        self.poll_all()
        self.commit(1)
        self.commit(2)
        self.read_offsets()
        self.commit_in_transaction(3, commit=True)

    def step(self) -> None:
        choice = self.random.choice(
            ["write", "transact", "poll", "poll", "seek", "assign", "commit", "offsets"]
        )
        client = self.random.choice(["committed", "uncommitted"])
        partition = self.random.choice(PARTITIONS)
        if choice == "write":
            self.write(self.random.choice(["idempotent", "plain"]), self.random.randint(1, 4))
        elif choice == "transact":
            self.transact()
        elif choice == "poll":
            self.poll(client, partition, self.random.randint(1, 8))
        elif choice in ("seek", "assign"):
            offset = self.random.randint(0, len(self.logs[partition]))
            self.place(client, partition, offset, seek=choice == "seek")
        elif choice == "commit":
            if self.random.random() < 0.3:
                self.commit_in_transaction(self.random.randint(0, 9), commit=self.random.random() < 0.5)
            else:
                how = self.random.choice(["committed", "committed", "refused", "unknown"])
                self.commit(self.random.randint(0, 9), how=how)
        else:
            self.read_offsets()

    def final_reads(self) -> None:
        for read_committed in (False, True):
            for partition, log in self.logs.items():
                self.events.append(
                    history.FinalRead(
                        client="final",
                        partition=partition,
                        read_committed=read_committed,
                        start=0,
                        end=self.stable_end(partition) if read_committed else len(log),
                        records=tuple(self.visible(partition, read_committed=read_committed)),
                        time=self.time(),
                    )
                )


def simulate(random: Random, steps: int) -> list[Event]:
    """The history of one run."""
    run = SimulatedRun(random)
    run.start()
    for _ in range(steps):
        run.step()
    run.poll_all()
    run.final_reads()
    return run.events
