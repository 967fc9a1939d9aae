"""Compaction against its definition on a list of records, under random use, stops and crashes."""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.log.compaction.cleaner import Cleaner, CleanerSettings
from headrace.log.compaction.last_records import BYTES_PER_KEY
from headrace.testing.faulty_filesystem import FaultyFileSystem
from tests.log.batches import NOW, open_log
from tests.log.compaction.compacted import DELETE_HORIZON, Kept, compact_config, headers_of, keyed, records_of

KEYS = [b"a", b"b", b"c", b"d", b"a longer key, of more than thirty-two bytes", b""]


class CompactionMachine(RuleBasedStateMachine):
    """`records` is what the log must contain, `latest` the last record ever appended of each key."""

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp())
        self.records: list[Kept] = []
        self.batch_of: dict[int, int] = {}
        self.horizons: dict[int, int] = {}
        self.latest: dict[bytes, Kept] = {}
        self.sequences: dict[int, int] = {}
        self.now = NOW
        self.end = 0
        self.is_open = False

    @initialize(
        segment_bytes=st.sampled_from([250, 600, 1 << 20]),
        interval=st.sampled_from([0, 200]),
        retention=st.sampled_from([0, 50, 500]),
        most_keys=st.sampled_from([2, 1000]),
        seed=st.integers(0, 1000),
    )
    def begin(self, segment_bytes: int, interval: int, retention: int, most_keys: int, seed: int) -> None:
        self.random = random.Random(seed)
        self.config = compact_config(
            segment_bytes=segment_bytes, index_interval_bytes=interval, delete_retention_ms=retention
        )
        self.most_keys = most_keys
        self.filesystem = FaultyFileSystem(seed=seed)
        self.open()

    def open(self) -> None:
        self.folder, self.log = open_log(self.path, self.config, filesystem=self.filesystem)
        memory = CleanerSettings(key_memory_bytes=self.most_keys * BYTES_PER_KEY)
        self.cleaner = Cleaner(self.folder, memory)
        self.is_open = True

    def teardown(self) -> None:
        if self.is_open:
            self.folder.close()
        shutil.rmtree(self.path)

    @rule(
        numbers=st.lists(
            st.tuples(st.integers(0, 5), st.integers(-1, 40), st.integers(-100, 100)), min_size=1, max_size=5
        ),
        compression=st.sampled_from([0, 0, 0, 2, 3]),
        producer=st.sampled_from([-1, -1, 7, 8]),
    )
    def append(self, numbers: list[tuple[int, int, int]], compression: int, producer: int) -> None:
        sequence = self.sequences.get(producer, 0) if producer >= 0 else -1
        data = keyed(
            *[(KEYS[key], None if size < 0 else b"v" * size) for key, size, _ in numbers],
            timestamps=[NOW + time for _, _, time in numbers],
            compression=compression,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            sequence=sequence,
        )
        if len(data) > self.config.segment_bytes:
            return
        base = self.log.append(data, now_ms=self.now).base_offset
        assert base == self.end
        for delta, (key, size, time) in enumerate(numbers):
            record = Kept(base + delta, NOW + time, KEYS[key], None if size < 0 else b"v" * size)
            self.records.append(record)
            self.latest[KEYS[key]] = record
            self.batch_of[record.offset] = base
        self.end += len(numbers)
        if producer >= 0:
            self.sequences[producer] = sequence + len(numbers)

    @rule(roll=st.booleans(), flush=st.booleans())
    def close_segment(self, roll: bool, flush: bool) -> None:
        if roll:
            self.log.roll(now_ms=self.now)
        if flush:
            self.log.flush()

    @rule(passed=st.integers(0, 300))
    def wait(self, passed: int) -> None:
        self.now += passed

    @rule()
    def checkpoint(self) -> None:
        self.folder.checkpoint(self.now)

    @rule()
    def clean(self) -> None:
        self.log.flush()
        part = self.cleaner.dirty_part(self.log, self.now)
        cleaned = self.cleaner.clean(self.now)
        assert cleaned == (part.dirty_bytes > 0)
        if cleaned:
            reached = self.folder.cleaned_offset(self.log)
            assert reached is not None
            assert part.first_dirty < reached <= part.end_offset
            self.expect_clean(part.first_dirty, reached)
            assert records_of(self.log) == self.records

    def expect_clean(self, first_dirty: int, end: int) -> None:
        """By definition: a record stays if no later one has its key and it is not an old tombstone."""
        # Segments are read to their ends, even if not all keys fit in memory.
        touched = next((base for base in self.log.segments.bases if base >= end), self.end)
        last = {record.key: record.offset for record in self.records if first_dirty <= record.offset < end}
        kept = []
        for record in self.records:
            horizon = self.horizons.get(self.batch_of[record.offset])
            expired = record.value is None and horizon is not None and horizon <= self.now
            superseded = record.offset < last.get(record.key, -1)
            if record.offset >= end or not (superseded or expired):
                kept.append(record)
        for record in kept:
            if record.value is None and record.offset < touched:
                self.horizons.setdefault(
                    self.batch_of[record.offset], self.now + self.config.delete_retention_ms
                )
        self.records = kept

    @rule(step=st.integers(1, 40), how=st.sampled_from(["kill", "all", "some", "none"]))
    def crash_while_cleaning(self, step: int, how: str) -> None:
        self.log.flush()
        self.folder.checkpoint(self.now)
        before = set(self.records)
        horizons = dict(self.horizons)
        self.filesystem.fail_from(step)
        self.cleaner.clean(self.now)
        self.is_open = False
        if how == "kill":
            self.filesystem = self.filesystem.kill()
        else:
            self.filesystem.power_loss(how)  # type: ignore[arg-type]
            self.filesystem = FaultyFileSystem(seed=self.random.randrange(1000))
        self.open()
        found = records_of(self.log)
        assert found == sorted(found)
        assert set(found) <= before
        # The interrupted round may have reached any segment; what it did there is right in itself.
        self.horizons = {
            header.base_offset: header.base_timestamp
            for header in headers_of(self.log)
            if header.attributes & DELETE_HORIZON
        }
        assert all(self.horizons.get(base, time) == time for base, time in horizons.items())
        self.records = found

    @rule()
    def reopen(self) -> None:
        self.folder.close()
        self.is_open = False
        self.open()

    @rule()
    def reopen_after_kill(self) -> None:
        self.is_open = False
        self.filesystem = self.filesystem.kill()
        self.open()

    @rule(max_bytes=st.sampled_from([1, 300, 1 << 20]))
    def read_all(self, max_bytes: int) -> None:
        assert records_of(self.log, max_bytes) == self.records

    @rule()
    def append_again(self) -> None:
        """The last batch of a producer is still known."""
        for producer, following in self.sequences.items():
            known = self.log.parts.producers.get(producer)
            assert known is not None
            assert known.batches[-1].last_sequence == following - 1

    @invariant()
    def no_value_is_lost(self) -> None:
        if not self.is_open:
            return
        assert self.log.end_offset == self.end
        held = {record.offset: record for record in self.records}
        for record in self.latest.values():
            assert record.value is None or held[record.offset] == record
        assert self.log.size_bytes == sum(segment.size for segment in self.log.segments)


CompactionMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, report_multiple_bugs=False
)
TestCompactionModel = CompactionMachine.TestCase
