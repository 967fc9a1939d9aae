"""The log against a model, a list of batches, under random use, stops and damage."""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.log.config import LogConfig
from headrace.log.errors import OffsetOutOfRangeError
from headrace.testing.faulty_filesystem import FaultyFileSystem
from headrace.wire.record_batch import read_header
from tests.log.batches import NOW, batch, contents, open_log, whole_batches

RETENTION_MS = 1000


class Written(NamedTuple):
    base_offset: int
    records: list[tuple[int, bytes]]
    size: int
    producer: int
    sequence: int

    @property
    def next_offset(self) -> int:
        return self.base_offset + len(self.records)


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder_path = Path(tempfile.mkdtemp())
        self.batches: list[Written] = []
        self.start = 0
        self.end = 0
        self.sequences: dict[int, int] = {}
        self.is_open = False

    @initialize(
        segment_bytes=st.sampled_from([600, 3000, 1 << 20]),
        interval=st.sampled_from([0, 200, 4096]),
        durable=st.booleans(),
        seed=st.integers(0, 1000),
    )
    def begin(self, segment_bytes: int, interval: int, durable: bool, seed: int) -> None:
        self.random = random.Random(seed)
        self.durable = durable
        self.config = LogConfig(
            segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            retention_ms=-1,
            file_delete_delay_ms=0,
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

    def values(self) -> list[tuple[int, int, bytes]]:
        return [
            (written.base_offset + number, time, value)
            for written in self.batches
            for number, (time, value) in enumerate(written.records)
            if written.base_offset + number >= self.start
        ]

    # Writing

    @rule(
        sizes=st.lists(st.integers(0, 150), min_size=1, max_size=4),
        times=st.lists(st.integers(-3000, 0), min_size=4, max_size=4),
        producer=st.sampled_from([-1, -1, 7, 8]),
        compression=st.sampled_from([0, 0, 0, 4]),
    )
    def append(self, sizes: list[int], times: list[int], producer: int, compression: int) -> None:
        records = [(NOW + times[number], bytes([65 + number]) * size) for number, size in enumerate(sizes)]
        sequence = self.sequences.get(producer, 0) if producer >= 0 else -1
        data = batch(
            *[value for _, value in records],
            timestamps=[time for time, _ in records],
            compression=compression,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            sequence=sequence,
        )
        if len(data) > self.config.segment_bytes:
            return
        appended = self.log.append(data, now_ms=NOW)
        if self.durable:
            self.log.flush()
        assert (appended.base_offset, appended.duplicate) == (self.end, False)
        assert appended.last_offset == self.end + len(records) - 1
        self.batches.append(Written(self.end, records, len(data), producer, sequence))
        self.end += len(records)
        if producer >= 0:
            self.sequences[producer] = sequence + len(records)

    def repeatable(self) -> Written | None:
        """The last batch of a producer. A restart may forget those before the start."""
        kept = (written for written in reversed(self.batches) if written.next_offset > self.start)
        return next((written for written in kept if written.producer >= 0), None)

    @precondition(lambda self: self.repeatable() is not None)
    @rule()
    def append_again(self) -> None:
        written = self.repeatable()
        assert written is not None
        appended = self.log.append(
            batch(
                *[value for _, value in written.records],
                timestamps=[time for time, _ in written.records],
                producer_id=written.producer,
                producer_epoch=0,
                sequence=written.sequence,
            ),
            now_ms=NOW,
        )
        assert appended.duplicate
        assert (appended.base_offset, appended.last_offset) == (written.base_offset, written.next_offset - 1)

    @rule()
    def roll(self) -> None:
        self.log.roll(now_ms=NOW)

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.flushed_offset == self.end

    @rule()
    def checkpoint(self) -> None:
        self.folder.checkpoint(NOW)

    # Forgetting

    @rule(age=st.integers(0, 3000))
    def retention_by_time(self, age: int) -> None:
        groups = self.segments_of_model()
        self.bases = list(self.log.segments.bases)
        now = NOW - age + RETENTION_MS
        self.configure(retention_ms=RETENTION_MS)
        removed = self.log.apply_retention(now)
        self.configure(retention_ms=-1)
        count = self.segments_before_start(groups)
        for group in groups[count:]:
            newest = max((time for written in group for time, _ in written.records), default=None)
            if newest is None or now - newest <= RETENTION_MS:
                break
            count += 1
        assert removed == count
        self.forget(groups[:count])

    @rule(most=st.integers(0, 4000))
    def retention_by_size(self, most: int) -> None:
        groups = self.segments_of_model()
        self.bases = list(self.log.segments.bases)
        self.configure(retention_bytes=most)
        removed = self.log.apply_retention(NOW)
        self.configure(retention_bytes=-1)
        sizes = [sum(written.size for written in group) for group in groups]
        count = self.segments_before_start(groups)
        left = sum(sizes[count:])
        while count < len(sizes) and sizes[count] and left - sizes[count] >= most:
            left -= sizes[count]
            count += 1
        assert removed == count
        self.forget(groups[:count])

    def configure(self, **changes: int) -> None:
        values = {name: getattr(self.config, name) for name in LogConfig.__slots__}
        self.config = LogConfig(**{**values, **changes})
        self.log.configure(self.config)

    def segments_of_model(self) -> list[list[Written]]:
        bases = [*self.log.segments.bases, self.end + 1]
        return [
            [written for written in self.batches if bases[number] <= written.base_offset < bases[number + 1]]
            for number in range(len(bases) - 1)
        ]

    def segments_before_start(self, groups: list[list[Written]]) -> int:
        """Records were deleted, then a new segment began: segments before the start are removed first."""
        return sum(base <= self.start for base in self.bases[1 : len(groups)])

    def forget(self, groups: list[list[Written]]) -> None:
        gone = sum(len(group) for group in groups)
        if gone:
            self.start = max(self.start, self.batches[gone - 1].next_offset)
            del self.batches[:gone]

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        offset = self.start + round((self.end - self.start) * share)
        assert self.log.delete_records_before(offset) == max(offset, self.start)
        self.start = max(self.start, offset)
        first = self.log.segments.bases[0]
        assert first <= self.start
        while self.batches and self.batches[0].base_offset < first:
            assert self.batches.pop(0).next_offset <= self.start

    # Stopping

    @rule(damage=st.booleans())
    def reopen_after_clean_stop(self, damage: bool) -> None:
        self.folder.close()
        self.is_open = False
        if damage:
            self.damage_indexes()
        self.open()
        assert self.log.flushed_offset == self.end

    @rule(torn=st.integers(0, 80), damage=st.booleans())
    def reopen_after_kill(self, torn: int, damage: bool) -> None:
        self.is_open = False
        self.filesystem = self.filesystem.kill()
        self.tear(torn)
        if damage:
            self.damage_indexes()
        self.open()

    @rule(torn=st.integers(0, 80), damage=st.booleans())
    def reopen_after_power_loss_with_everything(self, torn: int, damage: bool) -> None:
        self.is_open = False
        self.filesystem.power_loss("all")
        self.filesystem = FaultyFileSystem(seed=self.random.randrange(1000))
        self.tear(torn)
        if damage:
            self.damage_indexes()
        self.open()

    def tear(self, size: int) -> None:
        """Leave the beginning of a batch at the end of the log, or bytes that are not a batch."""
        if size and self.log.folder.exists():
            last = f"{self.log.segments.bases[-1]:020d}.log"
            data = batch(b"torn", b"torn")
            if self.random.random() < 0.3:
                data = bytearray(self.random.randbytes(len(data)))
            with (self.log.folder / last).open("ab") as file:
                file.write(data[:size])

    def damage_indexes(self) -> None:
        for path in self.log.folder.glob("*index"):
            fate = self.random.choice(["nothing", "gone", "empty", "noise", "byte"])
            content = bytearray(path.read_bytes())
            if fate == "gone":
                path.unlink()
            elif fate == "empty" and path.suffix == ".index":
                path.write_bytes(b"")
            elif fate == "noise":
                path.write_bytes(self.random.randbytes(self.random.choice([3, 24, 48])))
            elif fate == "byte" and content:
                content[self.random.randrange(len(content))] ^= 1 << self.random.randrange(8)
                path.write_bytes(content)

    # What must be true

    @invariant()
    def offsets_agree(self) -> None:
        if hasattr(self, "log"):
            assert (self.log.start_offset, self.log.end_offset) == (self.start, self.end)
            assert self.log.high_water_mark == self.end
            assert self.log.size_bytes == sum(written.size for written in self.batches)

    @rule(max_bytes=st.sampled_from([1, 300, 1 << 20]))
    def read_all(self, max_bytes: int) -> None:
        assert contents(self.log, max_bytes) == self.values()

    @rule(share=st.floats(0, 1), max_bytes=st.integers(0, 1000), at_least_one=st.booleans())
    def read_somewhere(self, share: float, max_bytes: int, at_least_one: bool) -> None:
        offset = self.start + round((self.end - self.start) * share)
        result = self.log.read(offset, max_bytes, at_least_one=at_least_one)
        holding = [written for written in self.batches if written.next_offset > offset]
        if not holding or (not at_least_one and holding[0].size > max_bytes):
            assert result.ranges is None
            return
        assert result.ranges is not None
        data = result.ranges.read()
        assert len(data) == result.size <= max(max_bytes, holding[0].size)
        assert read_header(data).base_offset == holding[0].base_offset
        assert len(whole_batches(data)) >= holding[0].size

    @rule(share=st.floats(0, 1), limit_share=st.floats(0, 1))
    def read_up_to_a_limit(self, share: float, limit_share: float) -> None:
        offset = self.start + round((self.end - self.start) * share)
        limit = self.start + round((self.end - self.start) * limit_share)
        result = self.log.read(offset, 1 << 20, at_least_one=True, limit_offset=limit)
        wanted = [written for written in self.batches if written.next_offset > offset]
        wanted = [written for written in wanted if written.next_offset <= limit]
        if result.ranges is None:
            assert not wanted
        else:
            assert 0 < result.size <= sum(written.size for written in wanted)
            assert len(whole_batches(result.ranges.read())) == result.size

    @rule(beyond=st.integers(1, 5))
    def read_outside(self, beyond: int) -> None:
        for offset in (self.end + beyond, self.start - beyond):
            with pytest.raises(OffsetOutOfRangeError):
                self.log.read(offset, 100, at_least_one=True)

    @rule(ago=st.integers(-10, 3010))
    def find_time(self, ago: int) -> None:
        wanted = next(((time, offset) for offset, time, _ in self.values() if time >= NOW - ago), None)
        found = self.log.offset_for_timestamp(NOW - ago)
        assert (None if found is None else found[:2]) == wanted

    @rule()
    def find_newest(self) -> None:
        values = self.values()
        found = self.log.offset_of_max_timestamp()
        if not values:
            assert found is None
        else:
            newest = max(time for _, time, _ in values)
            first = next(offset for offset, time, _ in values if time == newest)
            assert found is not None
            assert found[:2] == (newest, first)


LogMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, report_multiple_bugs=False
)
TestLogModel = LogMachine.TestCase
