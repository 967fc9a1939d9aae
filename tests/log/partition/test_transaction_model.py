"""Transactions in a log against a model, a list of batches, under random use, stops, deletions and damage.

Two offsets bound the last stable one: a transaction all of whose records were deleted may be known to the log
or, after a stop, may not be; nothing of it can be read either way.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.log.config import LogConfig
from headrace.log.errors import InvalidProducerEpochError, OutOfOrderSequenceError
from headrace.testing.faulty_filesystem import FaultyFileSystem
from tests.log.batches import NOW, batch, contents, open_log
from tests.log.transactional import committed_records, end, write

PRODUCERS = st.integers(1, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A batch; `committed` is None for records, and the outcome of the transaction for a marker."""

    base_offset: int
    values: tuple[bytes, ...]
    producer: int = -1
    epoch: int = -1
    sequence: int = -1
    committed: bool | None = None

    @property
    def next_offset(self) -> int:
        return self.base_offset + (1 if self.committed is not None else len(self.values))


class TransactionLogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder_path = Path(tempfile.mkdtemp())
        self.history: list[Written] = []
        self.start = 0
        self.end = 0
        self.is_open = False

    @initialize(
        segment_bytes=st.sampled_from([300, 1000, 1 << 20]),
        interval=st.sampled_from([0, 4096]),
        durable=st.booleans(),
        seed=st.integers(0, 1000),
    )
    def begin(self, segment_bytes: int, interval: int, durable: bool, seed: int) -> None:
        self.random = random.Random(seed)
        self.durable = durable
        self.config = LogConfig(
            segment_bytes=segment_bytes, index_interval_bytes=interval, file_delete_delay_ms=0
        )
        self.filesystem = FaultyFileSystem(seed=seed)
        self.open()

    def open(self) -> None:
        self.folder, self.log = open_log(
            self.folder_path, self.config, filesystem=self.filesystem, durable=self.durable
        )
        self.is_open = True

    def teardown(self) -> None:
        if self.is_open:
            self.folder.close()
        shutil.rmtree(self.folder_path)

    # The model

    def transaction_of(self, producer: int) -> list[Written]:
        """The batches of the producer's open transaction."""
        found: list[Written] = []
        for written in self.history:
            if written.producer == producer:
                found = [] if written.committed is not None else [*found, written]
        return found

    def place_of(self, producer: int) -> tuple[int, int]:
        """The epoch of the producer and its next sequence number."""
        epoch, sequence = 0, 0
        for written in self.history:
            if written.producer == producer:
                if written.epoch != epoch:
                    epoch, sequence = written.epoch, 0
                if written.committed is None:
                    sequence = written.sequence + len(written.values)
        return epoch, sequence

    def stable_offsets(self) -> tuple[int, int]:
        """The lowest and the highest allowed last stable offset."""
        lowest = highest = self.end
        for producer in (1, 2, 3):
            opened = self.transaction_of(producer)
            if opened:
                lowest = min(lowest, max(opened[0].base_offset, self.start))
                visible = [
                    max(each.base_offset, self.start) for each in opened if each.next_offset > self.start
                ]
                highest = min([highest, *visible])
        return lowest, highest

    def visible(self, limit: int) -> list[tuple[int, bytes]]:
        aborted: set[int] = set()
        for producer in (1, 2, 3):
            opened: list[Written] = []
            for written in self.history:
                if written.producer != producer:
                    continue
                if written.committed is None:
                    opened.append(written)
                else:
                    if not written.committed:
                        aborted |= {each.base_offset for each in opened}
                    opened = []
        return [
            (written.base_offset + number, value)
            for written in self.history
            if written.committed is None and written.base_offset not in aborted
            for number, value in enumerate(written.values)
            if self.start <= written.base_offset + number < limit
        ]

    def append(self, written: Written) -> None:
        self.history.append(written)
        self.end = written.next_offset
        if self.durable:
            self.log.flush()

    # Writing

    @rule(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=3))
    def write_without_transaction(self, sizes: list[int]) -> None:
        values = tuple(b"p" * size for size in sizes)
        appended = self.log.append(batch(*values), now_ms=NOW)
        assert appended.base_offset == self.end
        self.append(Written(base_offset=self.end, values=values))

    @rule(producer=PRODUCERS, sizes=st.lists(st.integers(1, 60), min_size=1, max_size=3))
    def write_in_transaction(self, producer: int, sizes: list[int]) -> None:
        values = tuple(b"%d" % producer * size for size in sizes)
        epoch, sequence = self.place_of(producer)
        try:
            appended = write(self.log, *values, producer=producer, epoch=epoch, sequence=sequence, bump=False)
        except OutOfOrderSequenceError:
            # A marker made it known again after its records were deleted and forgotten, as in Kafka.
            records = [each for each in self.history if each.producer == producer and each.committed is None]
            assert all(each.base_offset < self.start for each in records)
            return
        assert (appended.base_offset, appended.duplicate) == (self.end, False)
        self.append(
            Written(base_offset=self.end, values=values, producer=producer, epoch=epoch, sequence=sequence)
        )

    @rule(producer=PRODUCERS, committed=st.booleans(), version=st.sampled_from([1, 2]))
    def end_transaction(self, producer: int, committed: bool, version: int) -> None:
        epoch = self.place_of(producer)[0] + (version == 2)
        appended = end(self.log, committed=committed, producer=producer, epoch=epoch, version=version)
        assert appended.base_offset == self.end
        self.append(
            Written(base_offset=self.end, values=(), producer=producer, epoch=epoch, committed=committed)
        )

    @precondition(lambda self: any(self.transaction_of(producer) for producer in (1, 2, 3)))
    @rule(producer=PRODUCERS, committed=st.booleans(), older=st.integers(0, 2))
    def late_marker(self, producer: int, committed: bool, older: int) -> None:
        opened = self.transaction_of(producer)
        if any(each.base_offset >= self.start for each in opened):
            with pytest.raises(InvalidProducerEpochError):
                end(self.log, committed=committed, producer=producer, epoch=max(0, opened[0].epoch - older))

    @rule(how=st.sampled_from(["roll", "flush", "checkpoint"]))
    def care(self, how: str) -> None:
        if how == "roll":
            self.log.roll(now_ms=NOW)
        elif how == "flush":
            self.log.flush()
        else:
            self.folder.checkpoint(NOW)

    # Forgetting

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        offset = self.start + round((self.end - self.start) * share)
        self.log.delete_records_before(offset)
        self.start = max(self.start, offset)

    # Stopping

    @rule(how=st.sampled_from(["clean", "kill", "power"]), damage=st.booleans(), torn=st.integers(0, 60))
    def reopen(self, how: str, damage: bool, torn: int) -> None:
        self.is_open = False
        if how == "clean":
            self.folder.close()
        elif how == "kill":
            self.filesystem = self.filesystem.kill()
        else:
            self.filesystem.power_loss("all")
            self.filesystem = FaultyFileSystem(seed=self.random.randrange(1000))
        if torn and how != "clean" and self.log.folder.exists():
            with (self.log.folder / f"{self.log.segments.bases[-1]:020d}.log").open("ab") as file:
                file.write(batch(b"torn")[:torn])
        if damage:
            for path in self.log.folder.glob("*.txnindex"):
                if path.stat().st_size:
                    path.write_bytes(self.random.choice([b"noise", path.read_bytes()[:-1], b"\xff" * 68]))
        self.open()

    # What must be true

    @invariant()
    def the_last_stable_offset_is_before_every_open_transaction(self) -> None:
        if hasattr(self, "log"):
            assert (self.log.start_offset, self.log.end_offset) == (self.start, self.end)
            lowest, highest = self.stable_offsets()
            assert lowest <= self.log.last_stable_offset <= highest
            assert committed_records(self.log) == self.visible(self.log.last_stable_offset)

    @rule(max_bytes=st.sampled_from([1, 200, 600]))
    def read_committed(self, max_bytes: int) -> None:
        assert committed_records(self.log, max_bytes) == self.visible(self.log.last_stable_offset)

    @rule()
    def read_everything(self) -> None:
        data = [
            (each.base_offset + number, value)
            for each in self.history
            if each.committed is None
            for number, value in enumerate(each.values)
            if each.base_offset + number >= self.start
        ]
        markers = {each.base_offset for each in self.history if each.committed is not None}
        read = [(offset, value) for offset, _, value in contents(self.log) if offset not in markers]
        assert read == data


TransactionLogMachine.TestCase.settings = settings(
    max_examples=80, stateful_step_count=40, deadline=None, report_multiple_bugs=False
)
TestTransactionLogModel = TransactionLogMachine.TestCase
